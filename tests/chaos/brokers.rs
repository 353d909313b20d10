//! The brokers, which all tests share: those that break none side by side, the others one after the other.

use std::{
    fs::{self, File},
    path::Path,
};

use reenact_kafka_rig::{Cluster, Health, Options};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Kept for the whole process: its brokers end with it. The lock keeps another run of these tests away.
struct Brokers {
    cluster: Cluster,
    is_whole: bool,
    _lock: File,
}

static BROKERS: RwLock<Option<Brokers>> = RwLock::const_new(None);

/// The cluster of three, whole, for tests that disturb no broker: several at once.
pub(crate) struct Turn(RwLockReadGuard<'static, Option<Brokers>>);

/// The cluster of three, whole at first, for one test that may break it.
pub(crate) struct Alone(RwLockWriteGuard<'static, Option<Brokers>>);

impl Turn {
    /// Waits until nobody may break the cluster, and mends what a test before has left broken.
    pub(crate) async fn take() -> Self {
        let brokers = BROKERS.read().await;
        if brokers.as_ref().is_some_and(|brokers| brokers.is_whole) {
            return Self(brokers);
        }
        drop(brokers);
        let mut alone = Alone::take().await;
        alone.brokers().is_whole = true;
        Self(alone.0.downgrade())
    }

    pub(crate) fn bootstrap(&self) -> String {
        self.0.as_ref().expect("it was brought up").cluster.bootstrap()
    }
}

impl Alone {
    /// Waits until nobody else uses the cluster, and mends what the test before has left broken.
    pub(crate) async fn take() -> Self {
        let mut brokers = BROKERS.write().await;
        tokio::task::block_in_place(|| mend(brokers.get_or_insert_with(begin)));
        Self(brokers)
    }

    /// Does something to the cluster that takes its time.
    pub(crate) fn with<T>(&mut self, work: impl FnOnce(&mut Cluster) -> T) -> T {
        tokio::task::block_in_place(|| work(&mut self.brokers().cluster))
    }

    pub(crate) fn bootstrap(&mut self) -> String {
        self.brokers().cluster.bootstrap()
    }

    fn brokers(&mut self) -> &mut Brokers {
        self.0.as_mut().expect("it was brought up")
    }
}

fn begin() -> Brokers {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chaos");
    fs::create_dir_all(&folder).expect("the build output is writable");
    let lock = File::create(folder.join("lock")).expect("the build output is writable");
    lock.lock().expect("it can be locked");
    let dir = folder.join("cluster");
    // What the last run has left: its brokers ended with it.
    if dir.is_dir() {
        fs::remove_dir_all(&dir).expect("the build output is writable");
    }
    let cluster = Cluster::up(Options::new(dir).nodes(3)).expect("three brokers");
    Brokers { cluster, is_whole: false, _lock: lock }
}

fn mend(brokers: &mut Brokers) {
    let Brokers { cluster, is_whole, .. } = brokers;
    *is_whole = false;
    for node in cluster.status() {
        match node.health {
            Health::Paused => cluster.resume(node.id).expect("it is there"),
            Health::Down => cluster.start(node.id).expect("it starts again"),
            Health::Starting | Health::Serving => {}
        }
    }
}
