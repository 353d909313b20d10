//! The implementations under test, each as something that can be closed and opened again.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use futures::{StreamExt, executor::block_on, stream::BoxStream};
use reenact_embedded::{EmbeddedLog, Options};
use reenact_events::{EventLog, LogId, MemoryLog, Ownership, Timestamp, ids};
use reenact_kafka::KafkaLog;
use reenact_kafka_rig::Cluster;
use reenact_sealed::{KeyRing, SealedLog, SqliteKeys};
use tempfile::TempDir;

/// A log with its durable content.
pub(crate) trait World: Sized {
    /// With how many partitions every rule is tried.
    const PARTITIONS: &[u32] = &[1, 4];

    /// An empty log.
    fn open(partitions: u32) -> Self;

    /// The handle of the present process.
    fn log(&self) -> Arc<dyn EventLog>;

    /// The process ends and another one opens the same content.
    fn restart(&mut self);
}

/// [`MemoryLog`].
pub(crate) struct Memory(MemoryLog);

impl World for Memory {
    fn open(partitions: u32) -> Self {
        let id = LogId(ids::derived("log", &["contract"]));
        Self(MemoryLog::new(id, partitions, Arc::new(Timestamp(1_700_000_000_000))))
    }

    fn log(&self) -> Arc<dyn EventLog> {
        Arc::new(self.0.clone())
    }

    fn restart(&mut self) {
        self.0 = self.0.restart();
    }
}

/// [`EmbeddedLog`] in a directory of its own.
pub(crate) struct Embedded {
    log: Option<EmbeddedLog>,
    partitions: u32,
    directory: TempDir,
}

impl Embedded {
    fn start(&mut self) {
        let options = Options { partitions: self.partitions, ..Options::new(Arc::new(Timestamp(1_700_000_000_000))) };
        self.log = Some(EmbeddedLog::open(self.directory.path(), options).expect("opens"));
    }
}

impl World for Embedded {
    fn open(partitions: u32) -> Self {
        let mut world = Self { log: None, partitions, directory: TempDir::new().expect("has a directory") };
        world.start();
        world
    }

    fn log(&self) -> Arc<dyn EventLog> {
        Arc::new(self.log.clone().expect("is open"))
    }

    fn restart(&mut self) {
        self.log = None;
        self.start();
    }
}

/// [`SealedLog`] over [`EmbeddedLog`], with the keys in a file.
pub(crate) struct Sealed {
    inner: Embedded,
    keys: TempDir,
}

impl World for Sealed {
    fn open(partitions: u32) -> Self {
        Self { inner: Embedded::open(partitions), keys: TempDir::new().expect("has a directory") }
    }

    fn log(&self) -> Arc<dyn EventLog> {
        let log = self.inner.log();
        let keys = SqliteKeys::open(&self.keys.path().join("keys.db"), log.log_id()).expect("opens");
        Arc::new(SealedLog::new(log, KeyRing::new(Arc::new(keys), None)))
    }

    fn restart(&mut self) {
        self.inner.restart();
    }
}

/// [`KafkaLog`] on a real cluster of so many brokers; every world is a deployment of its own.
pub(crate) struct Kafka<const BROKERS: u16> {
    /// Leaves the group before the log goes.
    joined: Option<Joined>,
    options: reenact_kafka::Options,
}

struct Joined {
    _ownership: BoxStream<'static, Ownership>,
    log: KafkaLog,
}

/// The brokers of this process, by how many there are; they die with it.
fn brokers(count: u16) -> String {
    static ONE: OnceLock<(Cluster, TempDir)> = OnceLock::new();
    static THREE: OnceLock<(Cluster, TempDir)> = OnceLock::new();
    let up = || {
        let directory = TempDir::new().expect("has a directory");
        let options = reenact_kafka_rig::Options::new(directory.path()).nodes(count);
        let options = match std::env::var("REENACT_KAFKA_VERSION") {
            Ok(version) => options.version(version),
            Err(_) => options,
        };
        (Cluster::up(options).expect("Kafka comes up"), directory)
    };
    let cluster = if count == 1 { &ONE } else { &THREE };
    cluster.get_or_init(up).0.bootstrap()
}

impl<const BROKERS: u16> Kafka<BROKERS> {
    fn join(&mut self) {
        let options = self.options.clone();
        let joining = thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("has a runtime");
            let log = runtime.block_on(KafkaLog::connect(options)).expect("connects");
            let mut ownership = log.ownership();
            for news in 0..=log.partitions() {
                let told = block_on(ownership.next()).expect("has no end");
                // That it has joined is told last, when all that it owns is known.
                let is_due = match told {
                    Ownership::Joined => news == log.partitions(),
                    Ownership::Granted(_) => news < log.partitions(),
                    _ => false,
                };
                assert!(is_due, "{told:?} as number {news}");
            }
            Joined { _ownership: ownership, log }
        });
        self.joined = Some(joining.join().expect("joins"));
    }
}

impl<const BROKERS: u16> World for Kafka<BROKERS> {
    const PARTITIONS: &[u32] = &[4];

    fn open(partitions: u32) -> Self {
        static WORLDS: AtomicU32 = AtomicU32::new(0);
        let number = WORLDS.fetch_add(1, Ordering::SeqCst);
        let clock = Arc::new(Timestamp(1_700_000_000_000));
        let options = reenact_kafka::Options {
            prefix: format!("contract{number}"),
            partitions,
            ..reenact_kafka::Options::new(brokers(BROKERS), clock)
        };
        let mut world = Self { joined: None, options };
        world.join();
        world
    }

    fn log(&self) -> Arc<dyn EventLog> {
        Arc::new(self.joined.as_ref().expect("is open").log.clone())
    }

    fn restart(&mut self) {
        self.joined = None;
        self.join();
    }
}
