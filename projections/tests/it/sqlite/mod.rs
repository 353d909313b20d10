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
#[path = "../both/rebuild.rs"]
mod rebuild;
#[path = "../both/refold.rs"]
mod refold;
#[path = "../both/scope.rs"]
mod scope;

use std::sync::Arc;

use reenact_events::LogId;
use reenact_projections::{Files, Generations, Views};
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

    /// The live views, and where others are.
    pub(crate) async fn generations(&self) -> (Arc<dyn Generations>, Views) {
        let files = Files::open(self.0.path(), LOG, 1).expect("opens");
        let views = Views::open(&files.file(files.live().expect("live")), LOG, 1).expect("opens");
        (Arc::new(files), views)
    }

    pub(crate) async fn views_of(&self, log: LogId, partitions: u32) -> Views {
        Views::open(&self.0.path().join("views.db"), log, partitions).expect("opens")
    }
}
