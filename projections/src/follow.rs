//! Following the log: what is ready is folded together, and nothing waits for more to come.

use std::{convert::Infallible, sync::Arc, time::Duration};

use futures::StreamExt;
use reenact_events::{EventLog, LogError, Offset, PartitionId, Recorded};
use tokio::time::Instant;

use crate::{Position, Progress, ViewError, Views, sql::store::MayFold};

/// The most events folded in one transaction.
const BATCH_EVENTS_MAX: usize = 500;
/// How often what another process folded is looked up here, and how often while somebody waits for it.
const LOOK_UP_EVERY: Duration = Duration::from_millis(250);
const LOOK_UP_SHORTLY: Duration = Duration::from_millis(10);
/// How often rows that others share are looked after while nothing happens.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// How old what is known of the log's end may be.
const END_KNOWN_FOR: Duration = Duration::from_secs(1);

impl Views {
    /// Folds a partition from where the rows stand, then follows it for ever; returns only to say what stopped
    /// it. Following again begins where the rows stand; rows that cannot be trusted were discarded by then, so
    /// it folds them anew. Where several processes share the rows, one of them folds and the others see what it did;
    /// when it goes, another goes on from there. `on_progress` is called on this task, before the first event and after each
    /// transaction.
    pub async fn follow(
        &self,
        log: Arc<dyn EventLog>,
        partition: PartitionId,
        on_progress: impl Fn(Progress) + Send + Sync,
    ) -> ViewError {
        loop {
            let Err(error) = self.fold_in_turn(&*log, partition, &on_progress).await;
            if !matches!(error, ViewError::Overtaken { .. }) {
                return error;
            }
            tracing::debug!(%partition, %error, "the views go on from where the other one is");
        }
    }

    /// Waits for the right to fold, then does so for ever.
    async fn fold_in_turn(
        &self,
        log: &dyn EventLog,
        partition: PartitionId,
        on_progress: &(impl Fn(Progress) + Send + Sync),
    ) -> Result<Infallible, ViewError> {
        self.check_log(log, partition)?;
        let _turn = self.wait_for_turn(log, partition, on_progress).await?;
        let mut position = self.look_up_position(partition).await?;
        let Err(error) = self.fold_for_ever(log, &mut position, on_progress).await;
        if !matches!(error, ViewError::Diverged { .. }) {
            return Err(error);
        }
        tracing::warn!(%partition, %error, "the views are discarded and folded again from the log");
        self.discard_at(position).await?;
        Err(error)
    }

    /// Until then another process folds, and what it did is looked up here, so that whoever waits for it on this node
    /// is told.
    async fn wait_for_turn(
        &self,
        log: &dyn EventLog,
        partition: PartitionId,
        on_progress: &(impl Fn(Progress) + Send + Sync),
    ) -> Result<MayFold, ViewError> {
        let mut watcher: Option<Follower> = None;
        loop {
            if let Some(turn) = self.may_fold(partition).await? {
                return Ok(turn);
            }
            let position = self.look_up_position(partition).await?;
            let watcher = match &mut watcher {
                Some(watcher) => watcher,
                None => watcher.insert(Follower::begin(self, position, log.bounds(partition).await?.1)),
            };
            watcher.position = position;
            watcher.look_ahead(self, log).await?;
            on_progress(watcher.progress());
            self.pause(partition, LOOK_UP_EVERY, LOOK_UP_SHORTLY).await;
        }
    }

    async fn fold_for_ever(
        &self,
        log: &dyn EventLog,
        position: &mut Position,
        on_progress: &(impl Fn(Progress) + Send + Sync),
    ) -> Result<Infallible, ViewError> {
        let partition = position.partition;
        let mut discards = self.discards();
        let (_, end) = log.bounds(partition).await?;
        if position.next_offset > end {
            return Err(ViewError::Diverged { partition, offset: end });
        }
        let mut follower = Follower::begin(self, *position, end);
        on_progress(follower.progress());
        let mut chunks = log.tail(partition, position.next_offset).ready_chunks(BATCH_EVENTS_MAX);
        loop {
            let chunk = tokio::select! {
                biased;
                _ = discards.changed() => return Err(ViewError::Discarded { partition }),
                chunk = chunks.next() => chunk.ok_or(ViewError::LogEnded { partition })?,
                () = tokio::time::sleep(CHECK_EVERY), if self.is_shared() => {
                    follower.check(self).await?;
                    continue;
                }
            };
            let (batch, stopped) = split(chunk);
            if !batch.is_empty() {
                follower.fold(self, batch).await?;
                *position = follower.position;
                follower.look_ahead(self, log).await?;
                on_progress(follower.progress());
            }
            if let Some(error) = stopped {
                return Err(error.into());
            }
        }
    }

    fn check_log(&self, log: &dyn EventLog, partition: PartitionId) -> Result<(), ViewError> {
        if log.log_id() != self.log_id() {
            return Err(ViewError::OtherLog { expected: self.log_id(), found: log.log_id() });
        }
        if partition.0 >= self.partitions() {
            return Err(ViewError::NoSuchPartition { partition, partitions: self.partitions() });
        }
        Ok(())
    }
}

/// What came before the first error, and the error.
fn split(chunk: Vec<Result<Recorded, LogError>>) -> (Vec<Recorded>, Option<LogError>) {
    let mut batch = Vec::with_capacity(chunk.len());
    for item in chunk {
        match item {
            Ok(recorded) => batch.push(recorded),
            Err(error) => return (batch, Some(error)),
        }
    }
    (batch, None)
}

struct Follower {
    position: Position,
    end: Offset,
    events: u64,
    begun: Instant,
    end_asked: Instant,
}

impl Follower {
    fn begin(views: &Views, position: Position, end: Offset) -> Self {
        views.know_end(position.partition, end);
        let now = Instant::now();
        Self { position, end, events: 0, begun: now, end_asked: now }
    }

    /// Asks the log for its end now and then, so that the lag is true while the views are behind.
    async fn look_ahead(&mut self, views: &Views, log: &dyn EventLog) -> Result<(), ViewError> {
        if self.end_asked.elapsed() >= END_KNOWN_FOR {
            (_, self.end) = log.bounds(self.position.partition).await?;
            self.end_asked = Instant::now();
            views.know_end(self.position.partition, self.end);
        }
        Ok(())
    }

    /// While nothing happens: whether the database is there, and the rows where they were left. Others may have put
    /// them elsewhere, or other tables in their place.
    async fn check(&self, views: &Views) -> Result<(), ViewError> {
        let Position { partition, next_offset, .. } = self.position;
        if views.look_up_position(partition).await? == self.position {
            return Ok(());
        }
        Err(ViewError::Overtaken { partition, expected: next_offset })
    }

    async fn fold(&mut self, views: &Views, batch: Vec<Recorded>) -> Result<(), ViewError> {
        let count = batch.len() as u64;
        let folded = views.apply(self.position, batch).await;
        self.position = folded.map_err(|error| self.blame(error))?;
        self.end = self.end.max(self.position.next_offset);
        self.events += count;
        Ok(())
    }

    /// Where the rows were found to be of another history, they are wrong; where the log breaks with itself,
    /// the log is, and folding again would not help.
    fn blame(&self, error: ViewError) -> ViewError {
        match error {
            ViewError::Diverged { partition, offset } if self.events > 0 || self.position.next_offset == Offset(0) => {
                let reason = "its hash does not follow from the event before".into();
                ViewError::Log(LogError::Damaged { partition, offset, reason })
            }
            error => error,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    fn progress(&self) -> Progress {
        let seconds = self.begun.elapsed().as_secs_f64();
        Progress {
            partition: self.position.partition,
            position: self.position.next_offset,
            end: self.end,
            events: self.events,
            events_per_s: if seconds > 0.0 { self.events as f64 / seconds } else { 0.0 },
        }
    }
}
