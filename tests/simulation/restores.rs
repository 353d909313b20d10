//! What a partition begins with when its store is gone, or the beginning of its log is.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use futures::{
    StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use reenact_actors::{
    Settings, Shared, Tools,
    keys::SHAPES,
    partition::{RestoreError, Restored, restore},
};
use reenact_events::{
    Answer, Batch, BatchId, ChainHash, CommandRecord, CommitOutcome, Committed, EventLog, Forward, Lease, LogError,
    LogId, MemoryLog, NodeId, Offset, Owner, PartitionId, Recorded,
    event::{Loss, LossOf},
};
use reenact_snapshots::{
    ExportableStore, MemoryStore, Position, Shelf, StateStore,
    codec::fingerprint,
    snapshot::{Header, MemoryShelf, Origin, pieces},
};

use crate::{
    faults::Dice,
    ledger::{Ledger, MemoryBlobs},
    steps::SimulatedSteps,
    world::VirtualClock,
};

const PARTITION: PartitionId = PartitionId(0);

/// A log whose events before an offset were removed.
struct CutLog {
    inner: MemoryLog,
    low: AtomicU64,
}

impl EventLog for CutLog {
    fn partitions(&self) -> u32 {
        self.inner.partitions()
    }

    fn log_id(&self) -> LogId {
        self.inner.log_id()
    }

    fn claim(&self, partition: PartitionId, node: NodeId) -> BoxFuture<'_, Result<Lease, LogError>> {
        self.inner.claim(partition, node)
    }

    fn replay(&self, lease: &Lease, from: Offset) -> BoxStream<'static, Result<Recorded, LogError>> {
        let low = Offset(self.low.load(Ordering::SeqCst));
        if from < low {
            let error = LogError::OutOfRange { partition: lease.partition, wanted: from, low };
            return stream::iter([Err(error)]).boxed();
        }
        self.inner.replay(lease, from)
    }

    fn commit<'a>(&'a self, lease: &'a Lease, batch: &'a Batch) -> BoxFuture<'a, CommitOutcome> {
        self.inner.commit(lease, batch)
    }

    fn resolve<'a>(&'a self, lease: &'a Lease, batch: BatchId) -> BoxFuture<'a, Result<Option<Committed>, LogError>> {
        self.inner.resolve(lease, batch)
    }

    fn tail(&self, partition: PartitionId, from: Offset) -> BoxStream<'static, Result<Recorded, LogError>> {
        self.inner.tail(partition, from)
    }

    fn bounds(&self, partition: PartitionId) -> BoxFuture<'_, Result<(Offset, Offset), LogError>> {
        self.inner.bounds(partition)
    }

    fn last_event(&self, partition: PartitionId) -> BoxFuture<'_, Result<Option<Offset>, LogError>> {
        self.inner.last_event(partition)
    }

    fn commands(&self, lease: &Lease) -> BoxStream<'static, Result<CommandRecord, LogError>> {
        self.inner.commands(lease)
    }

    fn publish(&self, commands: Vec<Forward>) -> BoxFuture<'_, Result<(), LogError>> {
        self.inner.publish(commands)
    }

    fn answers(&self) -> BoxStream<'static, Result<Answer, LogError>> {
        self.inner.answers()
    }

    fn owners(&self) -> BoxFuture<'_, Result<Vec<Owner>, LogError>> {
        self.inner.owners()
    }
}

struct Scene {
    clock: Arc<VirtualClock>,
    log: Arc<CutLog>,
    shelf: Arc<MemoryShelf>,
}

impl Scene {
    fn new() -> Self {
        let clock = Arc::new(VirtualClock::default());
        let inner = MemoryLog::new(LogId(uuid::Uuid::from_u128(1)), 1, clock.clone());
        Self { clock, log: Arc::new(CutLog { inner, low: AtomicU64::new(0) }), shelf: Arc::default() }
    }

    /// Events that change no state: claims.
    async fn events(&self, count: u64) {
        for _ in 0..count {
            self.log.claim(PARTITION, NodeId::trusted("other")).await.expect("claims");
        }
    }

    async fn restore(&self, store: &Arc<MemoryStore>, with_shelf: bool) -> Result<Restored, RestoreError> {
        let store = store.clone();
        let ledger = Ledger::new(self.log.inner.clone());
        let tools = Tools {
            log: self.log.clone(),
            open_store: Arc::new(move |_| Ok(Arc::new(ExportableStore::new(store.clone())))),
            forget_store: Arc::new(|_| Ok(())),
            shelf: with_shelf.then(|| self.shelf.clone() as Arc<dyn Shelf>),
            blobs: Arc::new(MemoryBlobs::default()),
            steps: Arc::new(SimulatedSteps { dice: Dice::new(0), ledger, panic_per_mille: 0 }),
            agents: Arc::default(),
            live_bus: None,
            clock: self.clock.clone(),
        };
        restore(&Shared::new(tools, Settings::of(NodeId::trusted("node"))), PARTITION)
            .await
            .map_err(|failure| failure.error)
    }

    /// Puts a snapshot of the store on the shelf, whose header says `position`.
    async fn snapshot(&self, store: &Arc<MemoryStore>, position: Position) {
        let origin =
            Origin { log_id: self.log.log_id(), partition: PARTITION, partitions: 1, fingerprint: fingerprint(SHAPES) };
        let export = Arc::new(ExportableStore::new(store.clone())).export().expect("reads").expect("not empty");
        let header = Header::new(&origin, position);
        let name = format!("{}/{}", origin.folder(), header.name());
        self.shelf.put(&name, pieces(export, &header).expect("begins")).await.expect("puts");
    }

    /// A store that has seen everything, and where it stands.
    async fn restored_store(&self) -> (Arc<MemoryStore>, Position) {
        let store = Arc::new(MemoryStore::new());
        self.restore(&store, false).await.expect("restores");
        let position = store.position().expect("reads").expect("it stands for something");
        (store, position)
    }
}

fn on_virtual_time(rule: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(rule);
}

#[test]
fn a_snapshot_stands_in_for_a_beginning_that_was_removed() {
    on_virtual_time(async {
        let scene = Scene::new();
        scene.events(5).await;
        let (older, _) = scene.restored_store().await;
        scene.events(5).await;
        let (store, position) = scene.restored_store().await;
        scene.snapshot(&store, position).await;
        scene.events(5).await;
        scene.log.low.store(position.next_offset.0, Ordering::SeqCst);

        let error = scene.restore(&Arc::default(), false).await.err().expect("the beginning is gone");
        assert!(matches!(error, RestoreError::Log(LogError::OutOfRange { .. })), "{error}");
        let error = scene.restore(&older.clone(), false).await.err().expect("what comes next is gone");
        assert!(matches!(error, RestoreError::Log(LogError::OutOfRange { .. })), "{error}");
        // Both tries have claimed too.
        let restored = scene.restore(&Arc::default(), true).await.expect("from the snapshot");
        assert_eq!(restored.folded, 5 + 2 + 1);
        let restored = scene.restore(&older, true).await.expect("from the snapshot, near as the store is");
        assert_eq!(restored.folded, 5 + 3 + 1);
    });
}

/// What a claim accepts that goes on without everything behind an offset.
fn loss(until: Offset) -> Vec<Loss> {
    vec![Loss { of: LossOf::Events, from: Offset(0), until, reason: "it is gone".into(), runs: Vec::new() }]
}

/// A state that has seen what the log does not have proves that acknowledged events are lost.
#[test]
fn a_state_that_has_seen_more_than_the_log_is_refused_until_that_is_accepted() {
    on_virtual_time(async {
        let scene = Scene::new();
        scene.events(5).await;
        let (older, position) = scene.restored_store().await;
        scene.snapshot(&older, position).await;
        scene.events(5).await;
        let (newer, later) = scene.restored_store().await;
        scene.snapshot(&newer, later).await;
        scene.log.inner.forget(PARTITION, position.next_offset).expect("there is such a partition");

        // First it ends before, then claims of those that were refused stand in the place of what was lost.
        for _ in 0..10 {
            for (store, with_shelf) in [(Arc::default(), true), (older.clone(), true), (newer.clone(), false)] {
                let error = scene.restore(&store, with_shelf).await.err().expect("it is refused").to_string();
                assert!(error.contains("acknowledged events are lost"), "{error}");
            }
        }
        scene.log.inner.accept(PARTITION, NodeId::trusted("accept"), loss(later.next_offset)).expect("claims");
        let refused = 3 * 10;
        let restored = scene.restore(&Arc::default(), true).await.expect("from the older snapshot");
        assert_eq!(restored.folded, refused + 1 + 1);
        let restored = scene.restore(&newer, false).await.expect("from the beginning");
        assert_eq!(restored.folded, 5 + 1 + refused + 1 + 1 + 1);
        // What is lost after that is another loss.
        let (store, position) = scene.restored_store().await;
        scene.log.inner.forget(PARTITION, Offset(position.next_offset.0 - 2)).expect("there is such a partition");
        let error = scene.restore(&store, false).await.err().expect("it is refused").to_string();
        assert!(error.contains("acknowledged events are lost"), "{error}");
    });
}

#[test]
fn snapshots_that_are_not_whole_are_passed_over_for_an_older_one_whatever_they_say() {
    on_virtual_time(async {
        let scene = Scene::new();
        scene.events(5).await;
        let (store, position) = scene.restored_store().await;
        scene.snapshot(&store, position).await;
        scene.events(5).await;
        let (store, later) = scene.restored_store().await;
        let never = Offset(later.next_offset.0 + 1_000);
        for position in [Position { chain: ChainHash::default(), ..later }, Position { next_offset: never, ..later }] {
            scene.snapshot(&store, position).await;
        }
        for (name, bytes) in scene.shelf.objects().iter_mut() {
            let last = bytes.len() - 1;
            bytes[last] ^= u8::from(!name.ends_with(&format!("{:020}.snap", position.next_offset.0)));
        }
        let restored = scene.restore(&Arc::default(), true).await.expect("from the oldest");
        assert_eq!(restored.folded, 5 + 1 + 1);
        let restored = scene.restore(&store, true).await.expect("from its own store, which is near");
        assert_eq!(restored.folded, 1 + 1);
    });
}
