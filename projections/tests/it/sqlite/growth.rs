//! A12: the thousandth run of a session writes as much as the tenth.

use std::path::Path;

use reenact_events::{PartitionId, Text};
use reenact_projections::Views;

use crate::history::{
    History, LOG, agent, call, model_answered, model_requested, session, tool_answered, tool_requested, usage,
};

/// A run with two model calls and a tool, 2 KB of words.
fn talk(history: &mut History, number: u64) {
    let (at, name) = (session("s"), reenact_events::ids::derived("run", &[&number.to_string()]).to_string());
    let words = "word ".repeat(400);
    history.queue("s", &name, number, Some("alice"), &words);
    history.start("s", &name);
    history.push(&at, model_requested(&name, 0, 1, 0));
    let calls = vec![call("c1", Text::inline(r#"{"order":17}"#))];
    history.push(&at, model_answered(&name, 0, 1, "", calls, Some(usage(10, 4))));
    history.push(&at, tool_requested(&name, 1, 1, "c1", Text::inline(r#"{"order":17}"#)));
    history.push(&at, tool_answered(&name, 1, 1, Text::inline("refunded")));
    history.push(&at, model_requested(&name, 2, 1, 1));
    history.push(&at, model_answered(&name, 2, 1, "Done.", Vec::new(), Some(usage(20, 2))));
    history.complete("s", &name, "Done.");
}

/// Moves everything out of the write-ahead log, so that what is in it afterwards is what was written since.
fn empty_wal(path: &Path) {
    let connection = rusqlite::Connection::open(path).expect("opens");
    let done: i64 = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).expect("checkpoints");
    assert_eq!(done, 0);
}

/// The median of the bytes that a run writes, of many from the run `from` on, each event in a transaction of
/// its own.
async fn bytes_of_a_run(from: u64) -> u64 {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("views.db");
    let views = Views::open(&path, LOG, 1).expect("opens");
    let mut history = History::new(1);
    history.create("s", Some("alice"));
    history.register("s", &agent("support"));
    (0..from).for_each(|number| talk(&mut history, number));
    history.fold_into(&views).await;
    let mut bytes = Vec::new();
    for number in from..from + 31 {
        let folded = history.partition(0).len();
        talk(&mut history, number);
        let mut written = 0;
        for event in &history.partition(0)[folded..] {
            empty_wal(&path);
            let position = views.stored_position(PartitionId(0)).await.expect("reads");
            views.apply(position, vec![event.clone()]).await.expect("folds");
            written += std::fs::metadata(folder.path().join("views.db-wal")).expect("is there").len();
        }
        bytes.push(written);
    }
    bytes.sort_unstable();
    bytes[bytes.len() / 2]
}

/// Whole pages are written, and trees grow a level now and then: hence not exactly the same.
#[tokio::test]
async fn a12_a_late_run_writes_as_much_as_an_early_one() {
    let (early, late) = (bytes_of_a_run(10).await, bytes_of_a_run(500).await);
    assert!(late * 100 <= early * 108, "{late} bytes against {early}");
}
