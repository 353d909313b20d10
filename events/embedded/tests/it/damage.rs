//! Damage is found and named, wherever it is; nothing panics and nothing wrong is served.

use std::{fs, path::Path};

use futures::{StreamExt, executor::block_on};
use reenact_embedded::{EmbeddedLog, OpenError, Reader};
use reenact_events::{EventLog, LogError, NodeId, Offset};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::{PARTITION, filled, open, open_error, options, replay};

const EVENTS: u64 = 200;

fn filled_directory() -> TempDir {
    let directory = TempDir::new().expect("has a directory");
    filled(directory.path(), EVENTS);
    directory
}

/// Exchanges a text in the file for another one of the same length.
fn exchange(directory: &Path, text: &str, other: &str) {
    let file = directory.join("log.db");
    let mut bytes = fs::read(&file).expect("reads");
    let at = bytes.windows(text.len()).position(|window| window == text.as_bytes()).expect("holds the text");
    bytes[at..at + other.len()].copy_from_slice(other.as_bytes());
    fs::write(&file, bytes).expect("writes");
}

#[test]
fn a_changed_event_at_the_end_is_found_at_opening() {
    let directory = filled_directory();
    exchange(directory.path(), "text-0199", "test-0199");
    let error = open_error(directory.path());
    assert!(matches!(error, OpenError::Corrupt { .. }) && error.to_string().contains("checksum"), "{error}");
}

#[test]
fn a_changed_event_further_back_is_found_where_it_is_read() {
    let directory = filled_directory();
    exchange(directory.path(), "text-0050", "test-0050");
    let log = open(directory.path());
    // The claim takes offsets 0 and 1, and each batch two.
    let place = Offset(2 + 50 * 2);
    let damaged = |error: &LogError| matches!(error, LogError::Damaged { offset, .. } if *offset == place);
    let error = replay(&log).expect_err("is damaged");
    assert!(damaged(&error), "{error}");
    let mut tail = log.tail(PARTITION, place);
    assert!(block_on(tail.next()).is_some_and(|item| item.is_err_and(|error| damaged(&error))));
    let reader = Reader::open(directory.path()).expect("opens");
    let before = reader.read(PARTITION, Offset(0)).expect("reads what comes before");
    assert_eq!(before.len(), 51);
    let last = before[before.len() - 1].offset;
    assert!(reader.read(PARTITION, last.next()).is_err_and(|error| damaged(&error)));
}

fn execute(directory: &Path, sql: &str) {
    let changed = Connection::open(directory.join("log.db")).expect("opens").execute(sql, []).expect("executes");
    assert_eq!(changed, 1);
}

#[test]
fn a_removed_event_breaks_the_chain_at_the_end() {
    for (event, text) in [("max(position)", "not the one that was last"), ("max(position) - 20", "chain")] {
        let directory = filled_directory();
        execute(directory.path(), &format!("DELETE FROM events WHERE position = (SELECT {event} FROM events)"));
        let error = open_error(directory.path());
        assert!(matches!(error, OpenError::Corrupt { .. }) && error.to_string().contains(text), "{error}");
    }
}

#[test]
fn a_cursor_that_was_moved_is_found_at_opening() {
    let directory = filled_directory();
    execute(directory.path(), "UPDATE partitions SET cursor = cursor + 1");
    assert!(matches!(open_error(directory.path()), OpenError::Corrupt { .. }));
}

#[test]
fn a_missing_table_is_damage() {
    let directory = filled_directory();
    let database = Connection::open(directory.path().join("log.db")).expect("opens");
    database.execute_batch("DROP TABLE commands").expect("drops");
    drop(database);
    assert!(matches!(open_error(directory.path()), OpenError::Corrupt { .. }));
}

#[test]
fn a_database_that_is_gone_is_not_replaced_while_its_last_events_are_there() {
    let directory = filled_directory();
    fs::remove_file(directory.path().join("log.db")).expect("removes");
    fs::write(directory.path().join("log.db-wal"), "events").expect("writes");
    assert!(matches!(open_error(directory.path()), OpenError::Corrupt { .. }));
}

#[test]
fn damage_that_only_a_claim_meets_is_told_as_damage_at_every_try() {
    let directory = filled_directory();
    let file = directory.path().join("log.db");
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'empty_batches'";
    let page: u32 = Connection::open(&file).expect("opens").query_row(sql, [], |row| row.get(0)).expect("is there");
    let mut bytes = fs::read(&file).expect("reads");
    bytes[(page as usize - 1) * 4096..][..4096].fill(0xff);
    fs::write(&file, bytes).expect("writes");
    let log = open(directory.path());
    for _ in 0..2 {
        let claimed = block_on(log.claim(PARTITION, NodeId::trusted("node")));
        assert!(matches!(claimed, Err(LogError::Damaged { partition: PARTITION, .. })), "{claimed:?}");
    }
}

/// Opens the log in a copy of the file with `change` made to it, and claims and reads all of it.
fn read_changed(bytes: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Result<usize, String> {
    let directory = TempDir::new().expect("has a directory");
    let mut bytes = bytes.to_vec();
    change(&mut bytes);
    fs::write(directory.path().join("log.db"), bytes).expect("writes");
    let log = EmbeddedLog::open(directory.path(), options()).map_err(|error| error.to_string())?;
    replay(&log).map(|events| events.len()).map_err(|error| error.to_string())
}

#[test]
fn no_page_can_be_lost_unnoticed() {
    const PAGE: usize = 4096;
    let directory = filled_directory();
    let bytes = fs::read(directory.path().join("log.db")).expect("reads");
    let whole = read_changed(&bytes, |_| ()).expect("is whole");
    let mut noticed = 0;
    for page in 0..bytes.len() / PAGE {
        for filler in [0, 0xff] {
            let read = read_changed(&bytes, |bytes| bytes[page * PAGE..][..PAGE].fill(filler));
            // A page without events may be lost without a loss.
            assert!(read.is_err() || read == Ok(whole), "page {page}: {read:?}");
            noticed += usize::from(read.is_err());
        }
    }
    assert!(noticed >= bytes.len() / PAGE, "{noticed} of {}", bytes.len() / PAGE * 2);
    for length in [1, 99, 100, PAGE, bytes.len() / 2, bytes.len() - 1] {
        let read = read_changed(&bytes, |bytes| bytes.truncate(length));
        assert!(read.is_err(), "cut to {length}: {read:?}");
    }
}
