//! In a file.

#[path = "../both/approvals.rs"]
mod approvals;
mod damage;
#[path = "../both/follow.rs"]
mod follow;
mod growth;
#[path = "../both/metrics.rs"]
mod metrics;
mod opening;
#[path = "../both/pages.rs"]
mod pages;
#[path = "../both/refold.rs"]
mod refold;
#[path = "../both/scope.rs"]
mod scope;

use reenact_events::LogId;
use reenact_projections::Views;
use tempfile::TempDir;

use crate::history::LOG;

/// A file that is not there yet.
pub(crate) struct Ground(TempDir);

impl Ground {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("folder"))
    }

    /// The views in it, opened once more each time.
    pub(crate) async fn views(&self, partitions: u32) -> Views {
        self.views_of(LOG, partitions).await
    }

    pub(crate) async fn views_of(&self, log: LogId, partitions: u32) -> Views {
        Views::open(&self.0.path().join("views.db"), log, partitions).expect("opens")
    }
}
