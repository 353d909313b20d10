//! What can go wrong with a view, one variant per answer that a caller can give.

use std::{sync::Arc, time::Duration};

use reenact_events::{LogError, LogId, Offset, PartitionId};

/// Why a view could not be opened, written or read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ViewError {
    /// The disk has no room. The view is as it was before the write.
    #[error("the disk that holds `{database}` is full: make room, nothing is lost and the views go on where they are")]
    DiskFull {
        /// The database.
        database: Arc<str>,
    },
    /// The file holds something else than was written. It is only a view: discard and fold again.
    #[error("the views in `{database}` are damaged ({reason}): they are discarded and folded again from the log")]
    Corrupt {
        /// The database.
        database: Arc<str>,
        /// What SQLite or a reader said.
        reason: Arc<str>,
    },
    /// A row holds something that was not written by this program. As [`ViewError::Corrupt`].
    #[error("the row {row} cannot be read ({reason}): rows of a file are discarded and folded again from the log")]
    BadRow {
        /// Which.
        row: Arc<str>,
        /// What the reader said.
        reason: Arc<str>,
    },
    /// A newer version of this program wrote the file.
    #[error(
        "the views in `{database}` have schema {found}, this program knows up to {known}: \
         run the newer program, or {remedy} to have them folded again"
    )]
    NewerSchema {
        /// The database.
        database: Arc<str>,
        /// What it has.
        found: i64,
        /// What is known here.
        known: i64,
        /// What makes room for views of this version.
        remedy: &'static str,
    },
    /// The file is a database of something else; it is not touched.
    #[error("`{database}` holds something that is not reenact's views: give another place, or move it away")]
    Foreign {
        /// The database.
        database: Arc<str>,
    },
    /// Another process holds the file.
    #[error("the views in `{database}` are locked by another process: stop it, then try again")]
    Locked {
        /// The database.
        database: Arc<str>,
    },
    /// The file or its folder cannot be used at all.
    #[error("the views in `{database}` cannot be used: {reason}")]
    Unusable {
        /// The database.
        database: Arc<str>,
        /// What the system said.
        reason: Arc<str>,
    },
    /// The database server does not answer, or not now. Nothing is lost: whoever follows asks again.
    #[error(
        "the database `{database}` does not answer ({reason}): nothing is lost; see that it runs and takes connections like this one"
    )]
    Unavailable {
        /// The database.
        database: Arc<str>,
        /// What it, or the network, said.
        reason: Arc<str>,
    },
    /// The database server is there and lets us not in.
    #[error("`{database}` lets us not in: {reason}; check its user, its password and the name of the database")]
    Refused {
        /// The database.
        database: Arc<str>,
        /// What it said.
        reason: Arc<str>,
    },
    /// The tables in a shared database are another log's. They may be in use, so they are not touched.
    #[error(
        "`{database}` holds the views of log {found}, this is log {expected}: give this deployment another schema, or \
         drop that one if nobody uses it any more"
    )]
    OfAnotherLog {
        /// The database and the schema.
        database: Arc<str>,
        /// Ours.
        expected: LogId,
        /// Whose they are, with the number of its partitions.
        found: Arc<str>,
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
