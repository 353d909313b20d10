//! The brokers, which all tests share one after the other.

use std::{
    fs::{self, File},
    path::Path,
};

use reenact_kafka_rig::{Cluster, Health, Options};
use tokio::sync::{Mutex, MutexGuard};

/// Kept for the whole process: its brokers end with it. The lock keeps another run of these tests away.
pub(crate) struct Brokers {
    pub(crate) cluster: Cluster,
    _lock: File,
}

static BROKERS: Mutex<Option<Brokers>> = Mutex::const_new(None);

/// The cluster of three, whole, for one test.
pub(crate) struct Turn(MutexGuard<'static, Option<Brokers>>);

impl Turn {
    /// Waits for its turn, and mends what the test before has left broken.
    pub(crate) async fn take() -> Self {
        let mut brokers = BROKERS.lock().await;
        tokio::task::block_in_place(|| mend(&mut brokers.get_or_insert_with(begin).cluster));
        Self(brokers)
    }

    /// Does something to the cluster that takes its time.
    pub(crate) fn with<T>(&mut self, work: impl FnOnce(&mut Cluster) -> T) -> T {
        let brokers = self.0.as_mut().expect("it was brought up");
        tokio::task::block_in_place(|| work(&mut brokers.cluster))
    }

    pub(crate) fn bootstrap(&self) -> String {
        self.0.as_ref().expect("it was brought up").cluster.bootstrap()
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
    Brokers { cluster, _lock: lock }
}

fn mend(cluster: &mut Cluster) {
    for node in cluster.status() {
        match node.health {
            Health::Paused => cluster.resume(node.id).expect("it is there"),
            Health::Down => cluster.start(node.id).expect("it starts again"),
            Health::Starting | Health::Serving => {}
        }
    }
}
