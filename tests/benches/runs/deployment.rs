//! The real parts, put together as the server does it.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use reenact_actors::{NodeHandle, OpenStore, Settings, Tools, admission::Bounds, keys::SHAPES};
use reenact_agents::DirBlobs;
use reenact_embedded::{EmbeddedLog, Options};
use reenact_events::{Clock, EventLog, LogId, NodeId, PartitionId, Timestamp};
use reenact_projections::Views;
use reenact_snapshots::{ExportableStore, SledStore, codec};
use tokio::task::JoinHandle;

use crate::{
    counted::{CountedLog, CountedStore, Counts},
    steps::InstantSteps,
};

pub(crate) const PARTITION: PartitionId = PartitionId(0);
/// How often a start looks whether everything is restored.
const POLL: Duration = Duration::from_millis(1);
/// The views may be behind for so long.
const LAG_MAX: Duration = Duration::from_secs(300);

/// A clock that goes on from a fixed moment.
pub(crate) struct BenchClock(Instant);

impl BenchClock {
    pub(crate) fn start() -> Arc<Self> {
        Arc::new(Self(Instant::now()))
    }
}

impl Clock for BenchClock {
    fn now(&self) -> Timestamp {
        let elapsed = i64::try_from(self.0.elapsed().as_millis()).expect("is short");
        Timestamp(1_700_000_000_000 + elapsed)
    }
}

/// A node with its views.
pub(crate) struct Deployment {
    pub(crate) node: NodeHandle,
    pub(crate) counts: Arc<Counts>,
    views: Views,
    follow: JoinHandle<()>,
}

impl Deployment {
    /// Opens what is in a folder, and waits until all of it is restored.
    pub(crate) async fn open(folder: &Path, idle_ms: u64) -> Self {
        Self::bound(folder, idle_ms, Bounds::default(), InstantSteps::default()).await
    }

    /// The same with bounds, and with models that wait for something.
    pub(crate) async fn bound(folder: &Path, idle_ms: u64, bounds: Bounds, steps: InstantSteps) -> Self {
        let counts = Arc::<Counts>::default();
        let clock = BenchClock::start();
        let log = Arc::new(CountedLog { log: open_log(folder), counts: counts.clone() });
        let blobs = DirBlobs::open(&folder.join("blobs")).expect("a folder for blobs");
        let views = Views::open(&folder.join("views.db"), log.log_id(), log.partitions()).expect("views");
        let follow = tokio::spawn(follow(views.clone(), log.clone()));
        let open_store = stores(folder, log.log_id(), counts.clone());
        let tools = Tools {
            log,
            open_store,
            forget_store: Arc::new(|_| Ok(())),
            shelf: None,
            blobs: Arc::new(blobs),
            steps: Arc::new(steps),
            agents: Arc::default(),
            live_bus: None,
            clock,
        };
        let settings = Settings { bounds, idle_ms, ..Settings::of(bench()) };
        let node = NodeHandle::start(tools, settings).await.expect("a node");
        while !node.readiness().is_settled() {
            tokio::time::sleep(POLL).await;
        }
        let deployment = Self { node, counts, views, follow };
        deployment.views_catch_up().await;
        deployment
    }

    /// Waits until the views show everything that was committed.
    pub(crate) async fn views_catch_up(&self) {
        self.views.wait_for(PARTITION, self.counts.last(), LAG_MAX).await.expect("the views keep up");
    }

    pub(crate) async fn close(self) {
        self.node.shutdown(Duration::ZERO).await;
        self.follow.abort();
        // It ends with an error because it was stopped.
        self.follow.await.unwrap_or_default();
    }
}

pub(crate) fn bench() -> NodeId {
    NodeId::trusted("bench")
}

/// The log of a deployment's folder, fully durable.
pub(crate) fn open_log(folder: &Path) -> EmbeddedLog {
    EmbeddedLog::open(&folder.join("log"), Options::new(BenchClock::start())).expect("a log")
}

/// The state store of a deployment's folder. Opening it reads and checks all of it.
pub(crate) fn open_state(folder: &Path, log_id: LogId) -> SledStore {
    let shapes = codec::fingerprint(SHAPES);
    SledStore::open(&folder.join("state"), log_id, PARTITION, shapes).expect("a state store").0
}

fn stores(folder: &Path, log_id: LogId, counts: Arc<Counts>) -> OpenStore {
    let folder = folder.to_owned();
    Arc::new(move |_| {
        let store = CountedStore { store: open_state(&folder, log_id), counts: counts.clone() };
        Ok(Arc::new(ExportableStore::new(Arc::new(store))))
    })
}

async fn follow<L: EventLog + 'static>(views: Views, log: Arc<L>) {
    let error = views.follow(log, PARTITION, |_| {}).await;
    panic!("the views stopped: {error}");
}
