//! Rows that are not what the log gives are named: table, row and column.

use std::path::Path;

use reenact_events::{PartitionId, invariants::Broken};
use reenact_projections::{
    Decoded, Loader,
    audit::{Difference, Snapshot, Value, Walk, WalkError, compare},
};

use crate::{
    generator,
    history::{History, LOG},
};

fn folded(history: &History, path: &Path) {
    let mut loader = Loader::open(path, LOG, history.partitions).expect("opens");
    for events in history.recorded.values() {
        loader.fold(&Decoded::read(events).expect("reads").expect("has events")).expect("folds");
    }
    loader.close_alone().expect("closes");
}

/// The first difference of each table that differs, after `tampering` with one of two equal folds.
fn differences(tampering: &str) -> Vec<Difference> {
    let folder = tempfile::tempdir().expect("folder");
    let (found, expected) = (folder.path().join("found.db"), folder.path().join("expected.db"));
    let history = generator::history(11, 2, 300);
    folded(&history, &found);
    folded(&history, &expected);
    rusqlite::Connection::open(&found).and_then(|rows| rows.execute_batch(tampering)).expect("is SQL");
    let (found, expected) = (Snapshot::open(&found, 2).expect("opens"), Snapshot::open(&expected, 2).expect("opens"));
    let reports = compare(&found, &expected, |_| {}).expect("compares");
    assert!(reports.iter().any(|report| report.table == "runs" && report.expected_rows > 20), "{reports:?}");
    reports.into_iter().filter_map(|report| report.first).collect()
}

#[test]
fn equal_folds_have_no_difference() {
    assert_eq!(differences(""), []);
}

#[test]
fn the_first_column_that_differs_is_named_with_both_values() {
    let found =
        differences("UPDATE runs SET status = 'BROKEN', updated_at = 7 WHERE rowid = (SELECT max(rowid) FROM runs)");
    let [difference] = &found[..] else { panic!("{found:?}") };
    assert_eq!((difference.table.as_str(), difference.column.as_deref()), ("runs", Some("status")));
    assert_eq!(difference.found, Some(Value::Text("BROKEN".to_owned())));
    assert!(difference.key.starts_with("run_id="), "{difference:?}");
    let found =
        differences("UPDATE run_events SET data = data || ' ' WHERE rowid = (SELECT max(rowid) FROM run_events)");
    let [difference] = &found[..] else { panic!("{found:?}") };
    assert_eq!((difference.table.as_str(), difference.column.as_deref()), ("run_events", Some("data")));
    assert!(difference.key.contains("run_id=") && difference.key.contains(" seq="), "{difference:?}");
}

#[test]
fn a_row_that_is_missing_or_too_many_is_named() {
    let found = differences("DELETE FROM runs WHERE rowid = (SELECT max(rowid) FROM runs)");
    let [missing] = &found[..] else { panic!("{found:?}") };
    assert_eq!((missing.table.as_str(), &missing.column, &missing.found), ("runs", &None, &None));
    let found = differences("INSERT INTO components VALUES ('ghost', 'v', '{}')");
    let [ghost] = &found[..] else { panic!("{found:?}") };
    assert_eq!((ghost.key.as_str(), &ghost.expected), ("agent_id=ghost version=v", &None));
}

#[test]
fn differences_of_several_tables_are_all_found() {
    let found = differences(
        "DELETE FROM sessions WHERE rowid = (SELECT max(rowid) FROM sessions); UPDATE metrics SET users_count = 99",
    );
    let tables: Vec<_> = found.iter().map(|difference| difference.table.as_str()).collect();
    assert_eq!(tables, ["metrics", "sessions"]);
}

#[test]
fn one_flipped_bit_of_a_record_breaks_the_walk_at_its_offset() {
    let mut history = History::new(1);
    history.create("s", None);
    for number in 0..10 {
        let run = format!("run-{number}");
        history.queue("s", &run, number, None, "hello");
        history.start("s", &run);
        history.complete("s", &run, "done");
    }
    let partition = PartitionId(0);
    let events = &history.recorded[&partition];
    let walk = |events: &[reenact_events::Recorded]| {
        let mut walk = Walk::of(LOG, partition);
        events.iter().try_for_each(|event| walk.see(event))
    };
    assert_eq!(walk(events), Ok(()));
    for place in [0, events.len() / 2, events.len() - 1] {
        let mut tampered = events.clone();
        let data = tampered[place].event.data.replacen(':', ": ", 1);
        tampered[place].event.data = data.into();
        let WalkError::Broken { broken: Broken { name, offset, .. }, .. } = walk(&tampered).expect_err("is broken")
        else {
            panic!("the chain breaks")
        };
        assert_eq!((name, offset), ("E4", events[place].offset));
    }
}
