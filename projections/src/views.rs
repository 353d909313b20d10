//! The views of one log in SQLite: a handle that folds, waits and answers.

use std::{path::Path, sync::Arc, time::Duration};

use reenact_events::{LogId, Offset, PartitionId, Recorded, RunId, SessionId, event::RunStatus};
use rusqlite::Connection;
use tokio::sync::watch;

use crate::{
    Dump, Lagging, Position, ViewError,
    metrics::{MetricsFilter, MetricsRow},
    query::{
        ApprovalFilter, ApprovalRow, Page, Paging, RunEventRow, RunFilter, RunRow, Scope, SessionFilter, SessionRow,
        StatusCount,
    },
    sql::{
        approvals,
        connections::{Closed, Connections},
        database::Database,
        metrics, read,
        schema::{self, Content},
        write,
    },
};

/// Connections that read side by side.
const READERS: usize = 4;

/// The views of one log. Clones share everything.
#[derive(Debug, Clone)]
pub struct Views {
    log_id: LogId,
    pub(crate) writer: Connections,
    pub(crate) readers: Connections,
    standings: Arc<[watch::Sender<Standing>]>,
    /// How many times the rows were discarded, or others took their place.
    generation: watch::Sender<u64>,
}

/// How far a partition is folded, as readers see it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Standing {
    next: Offset,
    end: Offset,
}

/// A file that is ready to be written and read.
pub(crate) struct Opened {
    writer: Connection,
    readers: Vec<Connection>,
    nexts: Vec<Offset>,
}

impl Views {
    /// Opens the views of the log `log_id` in the database at `path`, making or migrating it as needed. Views
    /// of another log and damaged ones are discarded with a warning: following the log folds them again.
    ///
    /// # Errors
    /// When the file cannot be used, is locked, is no database of ours or has a newer schema.
    pub fn open(path: &Path, log_id: LogId, partitions: u32) -> Result<Self, ViewError> {
        let opened = open_or_begin_anew(path, log_id, partitions)?;
        let path: Arc<Path> = path.into();
        let standing = |next| watch::Sender::new(Standing { next, end: next });
        Ok(Self {
            log_id,
            writer: Connections::new(path.clone(), vec![opened.writer]),
            readers: Connections::new(path, opened.readers),
            standings: opened.nexts.into_iter().map(standing).collect(),
            generation: watch::Sender::new(0),
        })
    }

    /// The log that the views are of.
    #[must_use]
    pub fn log_id(&self) -> LogId {
        self.log_id
    }

    /// How many partitions the log has.
    #[must_use]
    pub fn partitions(&self) -> u32 {
        u32::try_from(self.standings.len()).unwrap_or(u32::MAX)
    }

    fn standing(&self, partition: PartitionId) -> Option<&watch::Sender<Standing>> {
        self.standings.get(usize::try_from(partition.0).unwrap_or(usize::MAX))
    }

    /// The log's next event will at least be at `end`.
    pub(crate) fn know_end(&self, partition: PartitionId, end: Offset) {
        if let Some(standing) = self.standing(partition) {
            standing.send_modify(|standing| standing.end = end);
        }
    }

    /// Folds a batch, all of it or nothing, and returns the position behind it. [`Views::follow`] does this
    /// with what the log says.
    ///
    /// # Errors
    /// [`ViewError::Overtaken`] when the rows are not at `expected`; [`ViewError::Diverged`] and
    /// [`ViewError::Unreadable`] when the batch cannot follow there; else the database's.
    pub async fn apply(&self, expected: Position, batch: Vec<Recorded>) -> Result<Position, ViewError> {
        let views = self.clone();
        let fold = move |database: Database<'_>| {
            let next = write::fold_batch(database, expected, &batch)?;
            // While the connection is ours: nobody can have discarded these rows yet.
            if let Some(standing) = views.standing(expected.partition) {
                standing.send_modify(|standing| {
                    standing.next = next.next_offset;
                    standing.end = standing.end.max(next.next_offset);
                });
            }
            Ok(next)
        };
        self.with(&self.writer, fold).await
    }

    /// How far a partition is folded, as the database has it.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn stored_position(&self, partition: PartitionId) -> Result<Position, ViewError> {
        self.with(&self.writer, move |database| write::position(database, partition)).await
    }

    /// Deletes the file and begins an empty one in its place. Whoever follows is told; following again folds
    /// everything again.
    ///
    /// # Errors
    /// When the file cannot be deleted or made.
    pub async fn discard(&self) -> Result<(), ViewError> {
        let generation = *self.generation.borrow();
        self.discard_generation(generation).await
    }

    /// On a task of its own: a caller that goes away must not leave it half done.
    async fn discard_generation(&self, generation: u64) -> Result<(), ViewError> {
        let views = self.clone();
        let task = tokio::spawn(async move { views.begin_anew(generation).await });
        task.await.map_err(|_| ViewError::Closed)?
    }

    /// Discards the rows unless somebody else did since `generation`: many may meet the same damage at once.
    async fn begin_anew(&self, generation: u64) -> Result<(), ViewError> {
        let writer = self.writer.close().await?;
        let readers = self.readers.close().await?;
        if *self.generation.borrow() != generation {
            return Ok(());
        }
        let (path, log_id, partitions) = (self.writer.path(), self.log_id, self.partitions());
        let file = path.clone();
        let opened = tokio::task::spawn_blocking(move || {
            schema::discard(&file)?;
            open_or_begin_anew(&file, log_id, partitions)
        });
        let opened = opened.await.map_err(|_| ViewError::Closed)??;
        self.take_over((writer, readers), path, opened);
        Ok(())
    }

    /// Opens a file with these views beside the one that is read.
    pub(crate) fn open_beside(&self, path: &Path) -> Result<Opened, ViewError> {
        let other = || ViewError::Unusable { path: path.to_owned(), reason: "it is of another log".into() };
        open(path, self.log_id, self.partitions())?.ok_or_else(other)
    }

    /// Reads and writes the file that was opened from now on. Whoever follows is told, and follows again.
    pub(crate) fn take_over(&self, (writer, readers): (Closed, Closed), path: Arc<Path>, opened: Opened) {
        for (standing, next) in self.standings.iter().zip(&opened.nexts) {
            standing.send_modify(|standing| standing.next = *next);
        }
        self.writer.put(writer, path.clone(), vec![opened.writer]);
        self.readers.put(readers, path, opened.readers);
        self.generation.send_modify(|generation| *generation += 1);
    }

    /// Tells when the rows are discarded, or others take their place, from now on.
    pub(crate) fn discards(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Does `work` with a connection of `connections`; rows that cannot be trusted are discarded.
    async fn with<T: Send + 'static>(
        &self,
        connections: &Connections,
        work: impl FnOnce(Database<'_>) -> Result<T, ViewError> + Send + 'static,
    ) -> Result<T, ViewError> {
        let generation = *self.generation.borrow();
        let answer = connections.with(work).await;
        if let Err(error @ (ViewError::Corrupt { .. } | ViewError::BadRow { .. })) = &answer {
            tracing::warn!(%error, "the views are discarded and folded again from the log");
            self.discard_generation(generation).await?;
        }
        answer
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(Database<'_>) -> Result<T, ViewError> + Send + 'static,
    ) -> Result<T, ViewError> {
        self.with(&self.readers, work).await
    }

    /// Waits until the event at `wanted` is visible to reads.
    ///
    /// # Errors
    /// [`Lagging`] when it is not within `timeout`.
    pub async fn wait_for(&self, partition: PartitionId, wanted: Offset, timeout: Duration) -> Result<(), Lagging> {
        let Some(standing) = self.standing(partition) else {
            return Err(Lagging { partition, wanted, position: Offset(0), waited: Duration::ZERO });
        };
        let mut standing = standing.subscribe();
        match tokio::time::timeout(timeout, standing.wait_for(|standing| standing.next > wanted)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => {
                Err(Lagging { partition, wanted, position: self.position(partition), waited: timeout })
            }
        }
    }

    /// The first offset of the partition that reads do not see yet.
    #[must_use]
    pub fn position(&self, partition: PartitionId) -> Offset {
        self.standing(partition).map_or(Offset(0), |standing| standing.borrow().next)
    }

    /// How many offsets the views are behind what was last known of the partition's end. Offsets have gaps,
    /// so a small number may stay when everything is folded.
    #[must_use]
    pub fn lag(&self, partition: PartitionId) -> u64 {
        let standing = self.standing(partition).map(|standing| *standing.borrow()).unwrap_or_default();
        standing.end.0.saturating_sub(standing.next.0)
    }

    /// A page of sessions.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn sessions(
        &self,
        scope: &Scope,
        filter: &SessionFilter,
        paging: Paging,
    ) -> Result<Page<SessionRow>, ViewError> {
        let (scope, filter) = (scope.clone(), filter.clone());
        self.read(move |database| read::sessions(database, &scope, &filter, paging)).await
    }

    /// How many sessions the filter names.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn count_sessions(&self, scope: &Scope, filter: &SessionFilter) -> Result<u64, ViewError> {
        let (scope, filter) = (scope.clone(), filter.clone());
        self.read(move |database| read::count_sessions(database, &scope, &filter)).await
    }

    /// One session; another user's is as if it did not exist.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn session(&self, scope: &Scope, session: &SessionId) -> Result<Option<SessionRow>, ViewError> {
        let (scope, session) = (scope.clone(), session.clone());
        self.read(move |database| read::session(database, &scope, &session)).await
    }

    /// A page of runs, newest first. Runs that have not ended have the short `run_data`.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn runs(&self, scope: &Scope, filter: &RunFilter, paging: Paging) -> Result<Page<RunRow>, ViewError> {
        let (scope, filter) = (scope.clone(), filter.clone());
        self.read(move |database| read::runs(database, &scope, &filter, paging)).await
    }

    /// How many runs have each status that any has, at one moment.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn runs_by_status(&self, scope: &Scope) -> Result<Vec<StatusCount>, ViewError> {
        let scope = scope.clone();
        self.read(move |database| read::runs_by_status(database, &scope)).await
    }

    /// How many runs the filter names.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn count_runs(&self, scope: &Scope, filter: &RunFilter) -> Result<u64, ViewError> {
        let (scope, filter) = (scope.clone(), filter.clone());
        self.read(move |database| read::count_runs(database, &scope, &filter)).await
    }

    /// All runs of a session in the order they were started, each with all that is known of it.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn session_runs(
        &self,
        scope: &Scope,
        session: &SessionId,
        filter: &RunFilter,
    ) -> Result<Vec<RunRow>, ViewError> {
        let scope = scope.clone();
        let filter = RunFilter { session_id: Some(session.clone()), ..filter.clone() };
        self.read(move |database| read::session_runs(database, &scope, &filter)).await
    }

    /// One run with all that is known of it, also while it is at work; another user's is as if it did not exist.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn run(&self, scope: &Scope, run: &RunId) -> Result<Option<RunRow>, ViewError> {
        let (scope, run) = (scope.clone(), run.clone());
        self.read(move |database| read::run(database, &scope, &run)).await
    }

    /// The events of a run in order, those after `after_seq` if it is given; empty when there is no such run.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn run_events(
        &self,
        scope: &Scope,
        run: &RunId,
        after_seq: Option<u64>,
    ) -> Result<Vec<RunEventRow>, ViewError> {
        let (scope, run) = (scope.clone(), run.clone());
        self.read(move |database| read::run_events(database, &scope, &run, after_seq)).await
    }

    /// Where a run is; another user's is as if it did not exist.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn run_status(&self, scope: &Scope, run: &RunId) -> Result<Option<RunStatus>, ViewError> {
        let (scope, run) = (scope.clone(), run.clone());
        self.read(move |database| read::run_status(database, &scope, &run)).await
    }

    /// The metrics of users and days, by day and user; a user's are theirs alone.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn metrics(&self, scope: &Scope, filter: &MetricsFilter) -> Result<Vec<MetricsRow>, ViewError> {
        let (scope, filter) = (scope.clone(), filter.clone());
        self.read(move |database| metrics::list(database, &scope, &filter)).await
    }

    /// A page of what waits, or waited, for somebody, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn approvals(
        &self,
        scope: &Scope,
        filter: &ApprovalFilter,
        paging: Paging,
    ) -> Result<Page<ApprovalRow>, ViewError> {
        let (scope, filter) = (scope.clone(), filter.clone());
        self.read(move |database| approvals::page(database, &scope, &filter, paging)).await
    }

    /// How many waits for somebody the filter names.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn count_approvals(&self, scope: &Scope, filter: &ApprovalFilter) -> Result<u64, ViewError> {
        let (scope, filter) = (scope.clone(), filter.clone());
        self.read(move |database| approvals::count(database, &scope, &filter)).await
    }

    /// One wait for somebody; one in another user's run is as if it did not exist.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn approval(&self, scope: &Scope, id: &str) -> Result<Option<ApprovalRow>, ViewError> {
        let (scope, id) = (scope.clone(), id.to_owned());
        self.read(move |database| approvals::one(database, &scope, &id)).await
    }

    /// All rows, to compare with another fold of the same log.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn dump(&self) -> Result<Dump, ViewError> {
        self.read(read::dump).await
    }
}

fn open_or_begin_anew(path: &Path, log_id: LogId, partitions: u32) -> Result<Opened, ViewError> {
    let reason = match open(path, log_id, partitions) {
        Ok(Some(opened)) => return Ok(opened),
        Ok(None) => "they are of another log".into(),
        Err(ViewError::Corrupt { reason, .. } | ViewError::BadRow { reason, .. }) => reason,
        Err(error) => return Err(error),
    };
    tracing::warn!(path = %path.display(), %reason, "the views are discarded and folded again from the log");
    schema::discard(path)?;
    let unusable = || ViewError::Unusable { path: path.to_owned(), reason: "a new file is not as it was made".into() };
    open(path, log_id, partitions)?.ok_or_else(unusable)
}

fn open(path: &Path, log_id: LogId, partitions: u32) -> Result<Option<Opened>, ViewError> {
    let writer = schema::connect(path)?;
    let database = Database { connection: &writer, path };
    if schema::prepare(database, log_id, partitions)? == Content::OfAnotherLog {
        return Ok(None);
    }
    let next = |partition| write::position(database, partition).map(|position| position.next_offset);
    let nexts = (0..partitions).map(PartitionId).map(next).collect::<Result<_, _>>()?;
    let readers = (0..READERS).map(|_| schema::connect(path)).collect::<Result<_, _>>()?;
    Ok(Some(Opened { writer, readers, nexts }))
}
