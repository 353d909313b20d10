//! A directory that cannot be used is refused with the reason, and is left as it was.

use std::fs;

use reenact_embedded::{EmbeddedLog, OpenError, Options, Reader};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::{claim, filled, open, open_error, options, replay};

fn directory() -> TempDir {
    TempDir::new().expect("has a directory")
}

#[test]
fn a_directory_in_use_is_refused_with_the_holder() {
    let directory = directory();
    let log = open(directory.path());
    let error = open_error(directory.path());
    assert!(matches!(error, OpenError::InUse { holder: Some(holder), .. } if holder == std::process::id()));
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    claim(&log);
    drop(log);
    open(directory.path());
}

#[test]
fn another_programs_file_is_refused_and_left_alone() {
    let directory = directory();
    let file = directory.path().join("log.db");
    fs::write(&file, "a letter to my aunt, which is longer than the header of a database is, so that it is read whole")
        .expect("writes");
    let before = fs::read(&file).expect("reads");
    assert!(matches!(open_error(directory.path()), OpenError::Foreign { .. }));
    assert!(matches!(Reader::open(directory.path()).err(), Some(OpenError::Foreign { .. })));
    assert_eq!(fs::read(&file).expect("reads"), before);
}

#[test]
fn another_programs_database_is_refused_and_left_alone() {
    for (application, table) in [(0, true), (7, false), (7, true)] {
        let directory = directory();
        let file = directory.path().join("log.db");
        let other = Connection::open(&file).expect("opens");
        other.pragma_update(None, "application_id", application).expect("sets");
        if table {
            other.execute_batch("CREATE TABLE letters (text)").expect("creates");
        }
        drop(other);
        let before = fs::read(&file).expect("reads");
        let error = open_error(directory.path());
        assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
        assert_eq!(fs::read(&file).expect("reads"), before);
    }
}

#[test]
fn a_newer_format_is_refused() {
    let directory = directory();
    filled(directory.path(), 1);
    let database = Connection::open(directory.path().join("log.db")).expect("opens");
    database.pragma_update(None, "user_version", 99).expect("sets");
    drop(database);
    let error = open_error(directory.path());
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error}");
    assert!(matches!(Reader::open(directory.path()).err(), Some(OpenError::Newer { .. })));
}

#[test]
fn the_number_of_partitions_is_for_life() {
    let directory = directory();
    filled(directory.path(), 1);
    let opened = EmbeddedLog::open(directory.path(), Options { partitions: 2, ..options() });
    let error = opened.err().expect("does not open");
    assert!(matches!(error, OpenError::Partitions { stored: 1, wanted: 2 }), "{error}");
    for partitions in [0, u32::MAX] {
        let opened = EmbeddedLog::open(directory.path(), Options { partitions, ..options() });
        assert!(matches!(opened.err(), Some(OpenError::PartitionsOutOfRange { .. })));
    }
}

#[test]
fn a_file_where_the_directory_should_be_is_an_error() {
    let directory = directory();
    let file = directory.path().join("file");
    fs::write(&file, "x").expect("writes");
    assert!(matches!(open_error(&file), OpenError::Io { .. }));
    assert!(matches!(open_error(&file.join("below")), OpenError::Io { .. }));
}

#[test]
fn a_log_whose_creation_was_cut_short_is_created() {
    let directory = directory();
    // The database is switched to its journal mode before its tables are made, all of them at once.
    let database = Connection::open(directory.path().join("log.db")).expect("opens");
    database.pragma_update(None, "journal_mode", "WAL").expect("sets");
    drop(database);
    assert_eq!(replay(&open(directory.path())).expect("replays").len(), 1);
}

#[test]
fn a_lock_left_by_a_dead_process_does_not_matter() {
    let directory = directory();
    fs::write(directory.path().join("LOCK"), "999999\n").expect("writes");
    open(directory.path());
}
