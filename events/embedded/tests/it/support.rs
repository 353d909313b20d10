//! Short ways to open, fill and read a log.

use std::{path::Path, sync::Arc};

use futures::{TryStreamExt, executor::block_on};
use reenact_embedded::{EmbeddedLog, OpenError, Options};
use reenact_events::{
    Batch, BatchId, CommitOutcome, EventLog, Lease, LogError, NewEvent, NodeId, Offset, PartitionId, Recorded,
    SessionId, StreamKey, Timestamp, event::SessionUpdated, ids,
};

pub(crate) const PARTITION: PartitionId = PartitionId(0);

pub(crate) fn options() -> Options {
    Options::new(Arc::new(Timestamp(1_700_000_000_000)))
}

pub(crate) fn open(directory: &Path) -> EmbeddedLog {
    EmbeddedLog::open(directory, options()).expect("opens")
}

pub(crate) fn open_error(directory: &Path) -> OpenError {
    EmbeddedLog::open(directory, options()).err().expect("does not open")
}

pub(crate) fn claim(log: &EmbeddedLog) -> Lease {
    block_on(log.claim(PARTITION, NodeId::trusted("n"))).expect("claims")
}

/// A batch of one event, the how-many-eth of its stream.
pub(crate) fn batch(seq: u64, text: &str) -> Batch {
    let session_id = SessionId::trusted("s");
    let key = StreamKey::session(&session_id);
    let event = SessionUpdated { session_id, name: Some(text.to_owned()), state: None, metadata: None, summary: None };
    let event = NewEvent::new(key, seq, Timestamp(5), None, None, &event.into()).expect("encodes");
    let id = BatchId(ids::derived("batch", &[&seq.to_string()]));
    Batch::new(id, vec![event])
}

pub(crate) fn commit(log: &EmbeddedLog, lease: &Lease, batch: &Batch) {
    let outcome = block_on(log.commit(lease, batch));
    assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
}

/// A log with so many events `text-N`, closed again.
pub(crate) fn filled(directory: &Path, events: u64) {
    let log = open(directory);
    let lease = claim(&log);
    for seq in 0..events {
        commit(&log, &lease, &batch(seq, &format!("text-{seq:04}")));
    }
}

/// Claims and replays.
pub(crate) fn replay(log: &EmbeddedLog) -> Result<Vec<Recorded>, LogError> {
    let lease = block_on(log.claim(PARTITION, NodeId::trusted("n")))?;
    block_on(log.replay(&lease, Offset(0)).try_collect())
}
