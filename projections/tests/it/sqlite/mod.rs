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
#[path = "../both/retention.rs"]
mod retention;
#[path = "../both/scope.rs"]
mod scope;
#[path = "../both/steps.rs"]
mod steps;

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

    /// What the database says to somebody who is no program of ours: a line for each row, columns between bars.
    pub(crate) fn sql(&self, query: &str) -> String {
        let connection = rusqlite::Connection::open(self.0.path().join("views.db")).expect("opens");
        let mut statement = connection.prepare(query).expect("is SQL");
        let columns = statement.column_count();
        let line = |row: &rusqlite::Row<'_>| {
            let column = |column| row.get::<_, Option<String>>(column).map(Option::unwrap_or_default);
            Ok((0..columns).map(column).collect::<Result<Vec<_>, _>>()?.join("|"))
        };
        let lines = statement.query_map([], line).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        lines.expect("reads").join("\n")
    }

    pub(crate) async fn views_of(&self, log: LogId, partitions: u32) -> Views {
        Views::open(&self.0.path().join("views.db"), log, partitions).expect("opens")
    }
}
