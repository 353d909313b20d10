//! What can go wrong with a view, one variant per answer that a caller can give.

use std::{path::PathBuf, sync::Arc, time::Duration};

use reenact_events::{LogError, LogId, Offset, PartitionId};

/// Why a view could not be opened, written or read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ViewError {
    /// The disk has no room. The view is as it was before the write.
    #[error("the disk that holds `{path}` is full: make room, nothing is lost and the views go on where they are")]
    DiskFull {
        /// The database.
        path: PathBuf,
    },
    /// The file holds something else than was written. It is only a view: discard and fold again.
    #[error("the views in `{path}` are damaged ({reason}): they are discarded and folded again from the log")]
    Corrupt {
        /// The database.
        path: PathBuf,
        /// What SQLite or a reader said.
        reason: Arc<str>,
    },
    /// A row holds something that was not written by this program. As [`ViewError::Corrupt`].
    #[error("the row {row} cannot be read ({reason}): the views are discarded and folded again from the log")]
    BadRow {
        /// Which.
        row: Arc<str>,
        /// What the reader said.
        reason: Arc<str>,
    },
    /// A newer version of this program wrote the file.
    #[error(
        "the views in `{path}` have schema {found}, this program knows up to {known}: \
         run the newer program, or delete the file and its `-wal` and `-shm` to have it folded again"
    )]
    NewerSchema {
        /// The database.
        path: PathBuf,
        /// What it has.
        found: i64,
        /// What is known here.
        known: i64,
    },
    /// The file is a database of something else; it is not touched.
    #[error("`{path}` is a database that is not reenact's views: give another path, or move it away")]
    Foreign {
        /// The database.
        path: PathBuf,
    },
    /// Another process holds the file.
    #[error("the views in `{path}` are locked by another process: stop it, then try again")]
    Locked {
        /// The database.
        path: PathBuf,
    },
    /// The file or its folder cannot be used at all.
    #[error("the views in `{path}` cannot be used: {reason}")]
    Unusable {
        /// The database.
        path: PathBuf,
        /// What the system said.
        reason: Arc<str>,
    },
    /// The SQLite that was linked has a known way to lose committed pages.
    #[error("SQLite {found} can lose committed pages, at least 3.51.3 is needed: rebuild the program")]
    OldSqlite {
        /// What was linked.
        found: &'static str,
    },
    /// Somebody else moved the position: their rows stand, ours were rolled back.
    #[error("the view of partition {partition} is not at offset {expected} any more: another worker folds it")]
    Overtaken {
        /// Which partition.
        partition: PartitionId,
        /// Where this worker thought it was.
        expected: Offset,
    },
    /// The next event does not continue what the view was folded from.
    #[error("the event at offset {offset} of partition {partition} does not continue what was folded before it")]
    Diverged {
        /// Which partition.
        partition: PartitionId,
        /// The event.
        offset: Offset,
    },
    /// An event cannot be read. Never skipped.
    #[error("the event at offset {offset} of partition {partition} cannot be folded: {reason}")]
    Unreadable {
        /// Which partition.
        partition: PartitionId,
        /// The event.
        offset: Offset,
        /// What the reader said.
        reason: Arc<str>,
    },
    /// The view belongs to another log.
    #[error("these are the views of log {expected}, not of log {found}: open them anew for that log")]
    OtherLog {
        /// The view's.
        expected: LogId,
        /// What was given.
        found: LogId,
    },
    /// The view has no such partition.
    #[error("there is no partition {partition}: the log has {partitions}")]
    NoSuchPartition {
        /// What was asked for.
        partition: PartitionId,
        /// How many there are.
        partitions: u32,
    },
    /// The log could not be read.
    #[error("the views cannot follow the log: {0}")]
    Log(#[from] LogError),
    /// The log's stream ended, which it promises not to do.
    #[error("the log stopped sending events of partition {partition}: follow it again")]
    LogEnded {
        /// Which partition.
        partition: PartitionId,
    },
    /// The rows were discarded, or others took their place, while the partition was followed.
    #[error("the views of partition {partition} are others now: follow it again to have them folded")]
    Discarded {
        /// Which partition.
        partition: PartitionId,
    },
    /// The runtime is going down.
    #[error("the views are closed")]
    Closed,
}

/// A read waited for a write in vain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the view of partition {partition} is at offset {position} and did not reach offset {wanted} within {waited:?}: \
     try again"
)]
pub struct Lagging {
    /// Which partition.
    pub partition: PartitionId,
    /// The event that should be visible.
    pub wanted: Offset,
    /// The first offset that is not visible yet.
    pub position: Offset,
    /// How long the read waited.
    pub waited: Duration,
}
