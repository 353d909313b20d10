//! A log and a state store that count what goes through them.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use futures::{FutureExt, future::BoxFuture, stream::BoxStream};
use reenact_events::{
    Answer, Batch, BatchId, CommandRecord, CommitOutcome, Committed, EventLog, Forward, Lease, LogError, LogId, NodeId,
    Offset, Owner, PartitionId, Recorded,
};
use reenact_snapshots::{Change, Position, StateStore, StoreError};
use tokio::sync::watch;

/// What went through.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    commits: AtomicU64,
    event_bytes: AtomicU64,
    state_bytes: AtomicU64,
    last: AtomicU64,
    /// When a run's end was durable.
    ended: Mutex<Option<Instant>>,
    /// Seconds from there to when the next run's start was, and how many there were.
    claims: watch::Sender<Vec<f64>>,
}

/// The counts at a moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    /// Batches committed: with one partition at most one is on its way, so each is a transaction of its own.
    pub(crate) commits: f64,
    /// Payloads of events.
    pub(crate) event_bytes: f64,
    /// Keys and values that the state store was given.
    pub(crate) state_bytes: f64,
}

impl Counts {
    pub(crate) fn seen(&self) -> Seen {
        let number = |counter: &AtomicU64| counter.load(Ordering::SeqCst) as f64;
        Seen {
            commits: number(&self.commits),
            event_bytes: number(&self.event_bytes),
            state_bytes: number(&self.state_bytes),
        }
    }

    /// The offset of the last event of this process.
    pub(crate) fn last(&self) -> Offset {
        Offset(self.last.load(Ordering::SeqCst))
    }
}

impl Counts {
    /// Waits until so many runs have begun behind the end of another; the seconds of each. Where one slot is all there
    /// is, that is what it takes to claim a run.
    pub(crate) async fn claims(&self, count: usize) -> Vec<f64> {
        let mut claims = self.claims.subscribe();
        claims.wait_for(|claims| claims.len() >= count).await.expect("it is counted").clone()
    }

    fn committed(&self, batch: &Batch) {
        let holds = |kind: &str| batch.events.iter().any(|event| &*event.kind == kind);
        let mut ended = self.ended.lock().expect("nobody panics here");
        if holds("dev.reenact.run.started.v1")
            && let Some(ended) = ended.take()
        {
            self.claims.send_modify(|claims| claims.push(ended.elapsed().as_secs_f64()));
        }
        if holds("dev.reenact.run.completed.v1") {
            *ended = Some(Instant::now());
        }
    }
}

impl Seen {
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            commits: self.commits - earlier.commits,
            event_bytes: self.event_bytes - earlier.event_bytes,
            state_bytes: self.state_bytes - earlier.state_bytes,
        }
    }
}

fn add(counter: &AtomicU64, bytes: usize) {
    counter.fetch_add(bytes as u64, Ordering::SeqCst);
}

/// A log, counted.
pub(crate) struct CountedLog<L> {
    pub(crate) log: L,
    pub(crate) counts: Arc<Counts>,
}

impl<L: EventLog> EventLog for CountedLog<L> {
    fn partitions(&self) -> u32 {
        self.log.partitions()
    }

    fn log_id(&self) -> LogId {
        self.log.log_id()
    }

    fn claim(&self, partition: PartitionId, node: NodeId) -> BoxFuture<'_, Result<Lease, LogError>> {
        async move {
            let lease = self.log.claim(partition, node).await?;
            self.counts.last.store(lease.claim_offset().0, Ordering::SeqCst);
            Ok(lease)
        }
        .boxed()
    }

    fn replay(&self, lease: &Lease, from: Offset) -> BoxStream<'static, Result<Recorded, LogError>> {
        self.log.replay(lease, from)
    }

    fn commit<'a>(&'a self, lease: &'a Lease, batch: &'a Batch) -> BoxFuture<'a, CommitOutcome> {
        async move {
            let outcome = self.log.commit(lease, batch).await;
            if let CommitOutcome::Committed(committed) = &outcome {
                self.counts.committed(batch);
                add(&self.counts.commits, 1);
                add(&self.counts.event_bytes, batch.events.iter().map(|event| event.data.len()).sum());
                if let Some(last) = committed.offsets.last() {
                    self.counts.last.store(last.0, Ordering::SeqCst);
                }
            }
            outcome
        }
        .boxed()
    }

    fn resolve<'a>(&'a self, lease: &'a Lease, batch: BatchId) -> BoxFuture<'a, Result<Option<Committed>, LogError>> {
        self.log.resolve(lease, batch)
    }

    fn tail(&self, partition: PartitionId, from: Offset) -> BoxStream<'static, Result<Recorded, LogError>> {
        self.log.tail(partition, from)
    }

    fn bounds(&self, partition: PartitionId) -> BoxFuture<'_, Result<(Offset, Offset), LogError>> {
        self.log.bounds(partition)
    }

    fn last_event(&self, partition: PartitionId) -> BoxFuture<'_, Result<Option<Offset>, LogError>> {
        self.log.last_event(partition)
    }

    fn commands(&self, lease: &Lease) -> BoxStream<'static, Result<CommandRecord, LogError>> {
        self.log.commands(lease)
    }

    fn publish(&self, commands: Vec<Forward>) -> BoxFuture<'_, Result<(), LogError>> {
        self.log.publish(commands)
    }

    fn answers(&self) -> BoxStream<'static, Result<Answer, LogError>> {
        self.log.answers()
    }

    fn owners(&self) -> BoxFuture<'_, Result<Vec<Owner>, LogError>> {
        self.log.owners()
    }
}

/// A state store, counted.
pub(crate) struct CountedStore<S> {
    pub(crate) store: S,
    pub(crate) counts: Arc<Counts>,
}

impl<S: StateStore> StateStore for CountedStore<S> {
    fn position(&self) -> Result<Option<Position>, StoreError> {
        self.store.position()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(key)
    }

    fn scan(&self, prefix: &[u8], from: &[u8], limit: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError> {
        self.store.scan(prefix, from, limit)
    }

    fn scan_back(&self, prefix: &[u8], limit: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError> {
        self.store.scan_back(prefix, limit)
    }

    fn apply(&self, changes: Vec<Change>, position: Position) -> Result<(), StoreError> {
        let bytes = |change: &Change| match change {
            Change::Put(key, value) => key.len() + value.len(),
            Change::Delete(key) => key.len(),
        };
        add(&self.counts.state_bytes, changes.iter().map(bytes).sum());
        self.store.apply(changes, position)
    }

    fn load(&self, entries: Vec<(Vec<u8>, Vec<u8>)>) -> Result<(), StoreError> {
        self.store.load(entries)
    }

    fn clear(&self) -> Result<(), StoreError> {
        self.store.clear()
    }

    fn rewrite(&self) -> Result<(), StoreError> {
        self.store.rewrite()
    }
}
