//! The log by itself: every event of a partition from its first one on.

use std::collections::{BTreeMap, BTreeSet};

use reenact_events::{
    BlobRef, ChainHash, Event, LogId, Offset, PartitionId, Recorded, RunEvent, SessionEvent, StreamKey,
    event::PartitionEvent,
    invariants::{Broken, Watch},
};

/// What must not be in a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WalkError {
    /// Something that must always hold does not.
    #[error("partition {partition}: {broken}")]
    Broken {
        /// Where.
        partition: PartitionId,
        /// What, and at which offset.
        broken: Broken,
    },
    /// A claim was written for another log.
    #[error("partition {partition}, offset {offset}: the claim is of log {found} and not of {expected}")]
    OtherLog {
        /// Where.
        partition: PartitionId,
        /// At which offset.
        offset: Offset,
        /// What it says.
        found: LogId,
        /// What the log says.
        expected: LogId,
    },
}

/// Watches a partition. What it remembers grows with the runs and the streams of the log.
#[derive(Debug)]
pub struct Walk {
    partition: PartitionId,
    log_id: LogId,
    watch: Watch,
    blobs: BTreeMap<StreamKey, BTreeSet<BlobRef>>,
    events: u64,
    last: Option<(Offset, ChainHash)>,
}

impl Walk {
    /// Before the first event of a partition.
    #[must_use]
    pub fn of(log_id: LogId, partition: PartitionId) -> Self {
        Self { partition, log_id, watch: Watch::default(), blobs: BTreeMap::new(), events: 0, last: None }
    }

    /// Takes the next event. After an error there is nothing more to be learnt of the partition.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn see(&mut self, recorded: &Recorded) -> Result<(), WalkError> {
        let partition = self.partition;
        self.watch.see(recorded).map_err(|broken| WalkError::Broken { partition, broken })?;
        self.events += 1;
        self.last = Some((recorded.offset, recorded.chain));
        if recorded.event.subject.is_some() && !recorded.event.data.contains("sha256") {
            // An event of a run that names no blob need not be read twice.
            return Ok(());
        }
        match recorded.decode() {
            Ok(Event::Run(run)) => self.keep(&recorded.event.key, &run),
            Ok(Event::Session(SessionEvent::Deleted(_))) => drop(self.blobs.remove(&recorded.event.key)),
            Ok(Event::Partition(PartitionEvent::Claimed(claim))) if claim.log_id != self.log_id => {
                let (found, expected) = (claim.log_id, self.log_id);
                return Err(WalkError::OtherLog { partition, offset: recorded.offset, found, expected });
            }
            _ => {}
        }
        Ok(())
    }

    fn keep(&mut self, stream: &StreamKey, run: &RunEvent) {
        let blobs = run.blobs();
        if !blobs.is_empty() {
            self.blobs.entry(stream.clone()).or_default().extend(blobs.into_iter().cloned());
        }
    }

    /// How many events were seen.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The last event's offset, and the chain with it.
    #[must_use]
    pub fn last(&self) -> Option<(Offset, ChainHash)> {
        self.last
    }

    /// The blobs that sessions which were not deleted refer to.
    pub fn blobs(&self) -> impl Iterator<Item = &BlobRef> {
        self.blobs.values().flatten()
    }
}
