//! One broker for all tests of a process: starting one costs more than most of them take.

use std::{
    fs::{self, File},
    path::Path,
    sync::OnceLock,
};

use reenact_kafka_rig::{Cluster, Options};

/// Kept for the whole process: its broker ends with it. The lock keeps another run of the same tests away.
struct Broker {
    cluster: Cluster,
    _lock: File,
}

/// Where clients find the broker, which is brought up for the first who asks, in a folder of this name below `scratch`
/// (`CARGO_TARGET_TMPDIR`, which only tests know).
///
/// # Panics
/// When there is no broker to be had: then there is nothing to test.
pub fn shared(scratch: &str, name: &str) -> String {
    static BROKER: OnceLock<Broker> = OnceLock::new();
    BROKER.get_or_init(|| begin(&Path::new(scratch).join(name))).cluster.bootstrap()
}

fn begin(folder: &Path) -> Broker {
    fs::create_dir_all(folder).expect("the build output is writable");
    let lock = File::create(folder.join("lock")).expect("the build output is writable");
    lock.lock().expect("it can be locked");
    let dir = folder.join("cluster");
    // What the last run has left: its broker ended with it.
    if dir.is_dir() {
        fs::remove_dir_all(&dir).expect("the build output is writable");
    }
    Broker { cluster: Cluster::up(Options::new(dir)).expect("a broker"), _lock: lock }
}
