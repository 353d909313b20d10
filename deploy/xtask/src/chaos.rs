//! `cargo xtask chaos`: the rolling storm over real nodes and brokers, for longer than CI has time for.

use clap::Args;

use crate::place::Place;

/// Which storm.
#[derive(Debug, Args)]
pub(crate) struct Storm {
    /// How long, in minutes; a round takes about two.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Repeats the moments and choices of a storm that printed this.
    #[arg(long)]
    seed: Option<u64>,
}

impl Storm {
    /// Builds the product, then lets the storm loose on it.
    pub(crate) fn run(&self, place: &Place) -> anyhow::Result<()> {
        place.cargo(&["build", "--workspace", "--bins", "--tests", "--test", "chaos"]).run()?;
        let storm = place.cargo(&["test", "--workspace", "--test", "chaos", "rolling_storm", "--", "--nocapture"]);
        let storm = storm.env("REENACT_BIN", place.product()).env("REENACT_STORM_MINUTES", self.minutes.to_string());
        let storm = match self.seed {
            Some(seed) => storm.env("REENACT_SEED", seed.to_string()),
            None => storm,
        };
        storm.run()
    }
}
