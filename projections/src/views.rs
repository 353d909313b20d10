//! The views of one log, in a file or on a server: a handle that folds, waits and answers.

mod reads;

mod schedules;

use std::{path::Path, sync::Arc, time::Duration};

use reenact_events::{LogId, Offset, PartitionId, Recorded};
use tokio::sync::{Notify, watch};

use crate::{
    Lagging, Position, PostgresAddress, ViewError,
    sql::{
        database::Database,
        postgres::server::Server,
        sqlite::files::Files,
        store::{MayFold, Store},
        write,
    },
};

/// The views of one log. Clones share everything.
#[derive(Debug, Clone)]
pub struct Views {
    log_id: LogId,
    store: Store,
    standings: Arc<[watch::Sender<Standing>]>,
    /// How many times the rows were discarded, or others took their place.
    generation: watch::Sender<u64>,
    /// Tells that somebody waits for rows.
    wanted: Arc<Notify>,
}

/// How far a partition is folded, as readers see it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Standing {
    next: Offset,
    end: Offset,
}

impl Views {
    /// Opens the views of the log `log_id` in the database at `path`, making or migrating it as needed. Views
    /// of another log and damaged ones are discarded with a warning: following the log folds them again.
    ///
    /// # Errors
    /// When the file cannot be used, is locked, is no database of ours or has a newer schema.
    pub fn open(path: &Path, log_id: LogId, partitions: u32) -> Result<Self, ViewError> {
        let (files, nexts) = Files::open(path, log_id, partitions)?;
        Ok(Self::new(log_id, Store::Sqlite(files), nexts))
    }

    /// Opens the views of the log `log_id` on a server, making or migrating their schema as needed. Several
    /// processes may share them. What another log's views are in is refused, since somebody may use it.
    ///
    /// # Errors
    /// When the server does not answer or lets us not in, when the schema is another log's, no schema of ours or
    /// newer.
    pub async fn connect(address: &PostgresAddress, log_id: LogId, partitions: u32) -> Result<Self, ViewError> {
        let (server, nexts) = Server::open(address, log_id, partitions).await?;
        Ok(Self::new(log_id, Store::Postgres(server), nexts))
    }

    fn new(log_id: LogId, store: Store, nexts: Vec<Offset>) -> Self {
        let standing = |next| watch::Sender::new(Standing { next, end: next });
        let standings = nexts.into_iter().map(standing).collect();
        Self { log_id, store, standings, generation: watch::Sender::new(0), wanted: Arc::default() }
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
            // While the connection is ours: nobody can have discarded these rows of a file yet.
            views.know(next);
            Ok(next)
        };
        let generation = *self.generation.borrow();
        self.or_discard(generation, self.store.write(fold).await).await
    }

    /// The rows of a partition are at `position`.
    fn know(&self, position: Position) {
        if let Some(standing) = self.standing(position.partition) {
            standing.send_if_modified(|standing| {
                let before = *standing;
                standing.next = position.next_offset;
                standing.end = standing.end.max(position.next_offset);
                before != *standing
            });
        }
    }

    /// How far a partition is folded, as the database has it.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn stored_position(&self, partition: PartitionId) -> Result<Position, ViewError> {
        let generation = *self.generation.borrow();
        let read = self.store.write(move |database| write::position(database, partition)).await;
        self.or_discard(generation, read).await
    }

    /// As [`Views::stored_position`], and readers who wait are told.
    pub(crate) async fn look_up_position(&self, partition: PartitionId) -> Result<Position, ViewError> {
        let position = self.stored_position(partition).await?;
        self.know(position);
        Ok(position)
    }

    /// Whether others may fold the same rows.
    pub(crate) fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    /// The right to fold a partition; none while another process has it.
    pub(crate) async fn may_fold(&self, partition: PartitionId) -> Result<Option<MayFold>, ViewError> {
        self.store.may_fold(partition).await
    }

    /// Waits for `idle`, or shortly when somebody waits for rows of the partition.
    pub(crate) async fn pause(&self, partition: PartitionId, idle: Duration, shortly: Duration) {
        let is_waited_for = || self.standing(partition).is_some_and(|standing| standing.receiver_count() > 0);
        if is_waited_for() {
            tokio::time::sleep(shortly).await;
        } else {
            tokio::select! {
                () = tokio::time::sleep(idle) => {}
                () = self.wanted.notified() => {}
            }
        }
    }

    /// Removes all rows: deletes the file, or empties the tables that others use too. Whoever follows is told, or
    /// finds out; following again folds everything again.
    ///
    /// # Errors
    /// When the file cannot be deleted or made, or the server does not do it.
    pub async fn discard(&self) -> Result<(), ViewError> {
        let generation = *self.generation.borrow();
        self.discard_generation(generation, None).await
    }

    /// As [`Views::discard`], because of what the rows at `position` are. Where others share them, they stay when
    /// they are somewhere else by now.
    pub(crate) async fn discard_at(&self, position: Position) -> Result<(), ViewError> {
        let generation = *self.generation.borrow();
        self.discard_generation(generation, Some(position)).await
    }

    /// On a task of its own: a caller that goes away must not leave it half done.
    async fn discard_generation(&self, generation: u64, position: Option<Position>) -> Result<(), ViewError> {
        let views = self.clone();
        let task = tokio::spawn(async move { views.begin_anew(generation, position).await });
        task.await.map_err(|_| ViewError::Closed)?
    }

    /// Discards the rows unless somebody else did since `generation`: many may meet the same damage at once.
    async fn begin_anew(&self, generation: u64, position: Option<Position>) -> Result<(), ViewError> {
        let is_wanted = || *self.generation.borrow() == generation;
        let mut is_done = false;
        self.store
            .begin_anew(position, is_wanted, |nexts| {
                self.stand_at(nexts);
                is_done = true;
            })
            .await?;
        if is_done {
            self.generation.send_modify(|generation| *generation += 1);
        }
        Ok(())
    }

    /// The partitions are folded up to there; those that are not named are not at all.
    pub(crate) fn stand_at(&self, nexts: &[Offset]) {
        let nexts = nexts.iter().copied().chain(std::iter::repeat(Offset(0)));
        for (standing, next) in self.standings.iter().zip(nexts) {
            standing.send_modify(|standing| standing.next = next);
        }
    }

    /// Other rows are read from now on. Whoever follows is told, and follows again.
    pub(crate) fn are_others(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }

    /// The file that they are in, if they are in one.
    pub(crate) fn files(&self) -> Option<&Files> {
        match &self.store {
            Store::Sqlite(files) => Some(files),
            Store::Postgres(_) => None,
        }
    }

    /// Tells when the rows are discarded, or others take their place, from now on.
    pub(crate) fn discards(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Rows of a file that cannot be trusted are discarded. Those that others use stay: what one reader cannot read
    /// may be of a newer program, and is told instead.
    async fn or_discard<T>(&self, generation: u64, answer: Result<T, ViewError>) -> Result<T, ViewError> {
        if let Err(error @ (ViewError::Corrupt { .. } | ViewError::BadRow { .. })) = &answer
            && !self.store.is_shared()
        {
            tracing::warn!(%error, "the views are discarded and folded again from the log");
            self.discard_generation(generation, None).await?;
        }
        answer
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl Fn(Database<'_>) -> Result<T, ViewError> + Send + 'static,
    ) -> Result<T, ViewError> {
        let generation = *self.generation.borrow();
        self.or_discard(generation, self.store.read(work).await).await
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
        self.wanted.notify_waiters();
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
}
