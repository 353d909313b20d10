//! The implementations under test, each as something that can be closed and opened again.

use std::sync::Arc;

use reenact_events::{EventLog, LogId, MemoryLog, Timestamp, ids};

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
