//! Reading beside the owner, or without one.

use futures::{StreamExt, executor::block_on};
use reenact_embedded::{Durability, EmbeddedLog, OpenError, Options, Reader};
use reenact_events::{EventLog, LogError, Offset, PartitionId};
use tempfile::TempDir;

use crate::support::{PARTITION, batch, claim, commit, filled, open, options, replay};

fn all(reader: &Reader) -> Vec<reenact_events::Recorded> {
    let mut events = Vec::new();
    loop {
        let from = events.last().map_or(Offset(0), |last: &reenact_events::Recorded| last.offset.next());
        let block = reader.read(PARTITION, from).expect("reads");
        if block.is_empty() {
            return events;
        }
        events.extend(block);
    }
}

#[test]
fn a_reader_sees_a_running_log_and_a_stopped_one() {
    let directory = TempDir::new().expect("has a directory");
    assert!(matches!(Reader::open(directory.path()).err(), Some(OpenError::Missing { .. })));
    filled(directory.path(), 700);
    let log = open(directory.path());
    let reader = Reader::open(directory.path()).expect("opens");
    assert_eq!((reader.log_id(), reader.partitions()), (log.log_id(), 1));
    let events = replay(&log).expect("replays");
    assert_eq!(all(&reader), events);

    let lease = claim(&log);
    commit(&log, &lease, &batch(700, "new"));
    let newer = reader.read(PARTITION, events[events.len() - 1].offset.next()).expect("reads");
    assert_eq!(newer.len(), 2, "a claim and an event");
    assert_eq!(Ok(reader.bounds(PARTITION).expect("reads")), block_on(log.bounds(PARTITION)).map_err(|_| ()));
    assert!(matches!(reader.bounds(PartitionId(1)), Err(LogError::Unavailable { .. })));
    drop(log);
    drop(reader);
    let stopped = Reader::open(directory.path()).expect("opens");
    assert_eq!(all(&stopped).len(), events.len() + 2);
    // Reading leaves nothing behind that an owner would stumble over.
    drop(stopped);
    open(directory.path());
}

#[test]
fn a_stream_ends_with_an_error_when_the_log_is_closed() {
    let directory = TempDir::new().expect("has a directory");
    let log = open(directory.path());
    let lease = claim(&log);
    let mut waiting = log.tail(PARTITION, lease.claim_offset().next());
    let mut reading = log.tail(PARTITION, Offset(0));
    let mut commands = log.commands(&lease);
    drop(log);
    for ended in [block_on(waiting.next()), block_on(reading.next())] {
        assert!(matches!(ended, Some(Err(LogError::Unavailable { .. }))), "{ended:?}");
    }
    assert!(matches!(block_on(commands.next()), Some(Err(LogError::Unavailable { .. }))));
    assert!(block_on(waiting.next()).is_none());
}

#[test]
fn a_relaxed_log_keeps_what_was_committed_too() {
    let directory = TempDir::new().expect("has a directory");
    let relaxed = || Options { durability: Durability::Relaxed, ..options() };
    let log = EmbeddedLog::open(directory.path(), relaxed()).expect("opens");
    let lease = claim(&log);
    commit(&log, &lease, &batch(0, "x"));
    drop(log);
    let log = EmbeddedLog::open(directory.path(), relaxed()).expect("opens");
    assert_eq!(replay(&log).expect("replays").len(), 3);
}
