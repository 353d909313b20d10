//! `reenact log`: what is done to a log itself.

mod accept_loss;
mod evidence;
mod survey;
mod target;

use clap::Subcommand;

/// What is done to a log itself.
#[derive(Debug, Subcommand)]
pub(super) enum Log {
    /// Show what a partition has lost; with `--yes`, accept it, so that the partition is served again.
    AcceptLoss(accept_loss::AcceptLoss),
}

impl Log {
    pub(super) async fn execute(self, json: bool) -> anyhow::Result<()> {
        match self {
            Self::AcceptLoss(command) => command.execute(json).await,
        }
    }
}
