//! `cargo xtask simulate`: the simulation, told by its environment which seeds to run.

use clap::Args;

use crate::{place::Place, task::Task};

/// Which seeds to run.
#[derive(Debug, Args)]
pub(crate) struct Seeds {
    /// How many.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    from: u64,
    /// Just this one, with all that it tells: how a failure is reproduced.
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
}

impl Seeds {
    /// The first `seeds` of all.
    pub(crate) fn first(seeds: u64) -> Self {
        Self { seeds, from: 0, seed: None }
    }

    /// The simulation over these seeds.
    pub(crate) fn task(&self, place: &Place) -> Task {
        let task = place.cargo(&["test", "--workspace", "--test", "simulation"]);
        let task = match self.seed {
            Some(seed) => task.env("REENACT_SEED", seed.to_string()),
            None => task.env("REENACT_SEEDS", self.seeds.to_string()).env("REENACT_SEED_FROM", self.from.to_string()),
        };
        task.args(&["--", "--nocapture"])
    }
}
