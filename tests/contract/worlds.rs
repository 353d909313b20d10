//! The implementations under test, each as something that can be closed and opened again.

use std::sync::Arc;

use reenact_embedded::{EmbeddedLog, Options};
use reenact_events::{EventLog, LogId, MemoryLog, Timestamp, ids};
use tempfile::TempDir;

/// A log with its durable content.
pub(crate) trait World: Sized {
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
