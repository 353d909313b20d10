//! `reenact audit`: what an auditor asks of a deployment, running or stopped. It reads the log itself and changes
//! nothing of the deployment, so it needs no right but to read.

mod anchor;
mod as_of;
mod cut;
mod export;
mod findings;
mod parquet;
mod tables;
mod verify;

use anyhow::Context;
use clap::Subcommand;

/// Prove the rows equal to the log, build them as of a moment, sign and export the log's chain.
#[derive(Debug, Subcommand)]
pub(super) enum Audit {
    /// Check the log, the stored texts and files, and that the rows are what the log gives. The exit status is 1 when
    /// anything differs.
    Verify(verify::Verify),
    /// Build the rows as they were at a moment, in a file or a folder of their own.
    AsOf(as_of::AsOf),
    /// Sign what the log's chain is now, to be kept elsewhere; or make the key for it.
    Anchor(anchor::Anchoring),
    /// Write the events with their chain as JSON lines, for somebody else to verify.
    Export(export::Export),
}

impl Audit {
    pub(super) async fn execute(self, json: bool) -> anyhow::Result<()> {
        // Reading blocks, so it has a thread of its own.
        let work = tokio::task::spawn_blocking(move || match self {
            Self::Verify(verify) => verify.execute(json),
            Self::AsOf(as_of) => as_of.execute(json),
            Self::Anchor(anchoring) => anchoring.execute(json),
            Self::Export(export) => export.execute(json),
        });
        work.await.context("the work was stopped")?
    }
}
