//! The file is only a view: deleted, torn or of another log, it comes back the same.

use reenact_events::{
    LogId, RawJson, Text,
    event::{RunQueued, SessionUpdated},
};
use reenact_projections::{Position, ViewError, Views, digest};

use crate::{
    generator,
    history::{History, LOG, queued, session, tool_answered, tool_requested},
};

const SEEDS: u64 = 25;

#[tokio::test]
async fn sql_and_memory_hold_the_same_rows() {
    for seed in 0..SEEDS {
        let folder = tempfile::tempdir().expect("folder");
        let history = generator::history(seed, 2, 150);
        let views = Views::open(&folder.path().join("views.db"), LOG, 2).expect("opens");
        history.fold_into(&views).await;
        let (sql, memory) = (views.dump().await.expect("dumps"), history.memory().dump());
        assert_eq!(sql, memory, "seed {seed}");
        assert_eq!(digest(&sql).expect("digests"), digest(&memory).expect("digests"), "seed {seed}");
    }
}

#[tokio::test]
async fn a_run_at_work_reads_the_same_from_sql_and_memory() {
    for seed in 0..SEEDS {
        let folder = tempfile::tempdir().expect("folder");
        let history = generator::history(seed, 1, 60);
        let views = Views::open(&folder.path().join("views.db"), LOG, 1).expect("opens");
        history.fold_into(&views).await;
        let memory = history.memory();
        for row in memory.dump().runs {
            let sql = views.run(&reenact_projections::query::Scope::Anyone, &row.run_id).await.expect("reads");
            assert_eq!(sql, memory.run(&row.run_id).expect("folds"), "seed {seed}");
        }
    }
}

/// JSON that a parser refuses to read back: too deep by a little or a lot, and a number that no double holds.
#[tokio::test]
async fn no_json_of_a_caller_makes_a_row_unreadable() {
    let nested = |levels: usize| format!("{}{}", r#"{"a":"#.repeat(levels) + "1", "}".repeat(levels));
    for json in [nested(99), nested(101), nested(126), nested(5000), r#"{"n":1e999}"#.to_owned()] {
        let folder = tempfile::tempdir().expect("folder");
        let mut history = History::new(1);
        let (at, raw) = (session("s"), RawJson::parse(&json).expect("is JSON"));
        history.create("s", None);
        let (state, metadata, summary) = (Some(raw.clone()), Some(raw.clone()), Some(raw.clone()));
        history.push(&at, SessionUpdated { session_id: at.clone(), name: None, state, metadata, summary });
        let metadata = Some(raw);
        history.push(&at, RunQueued { metadata, ..queued("s", "r", 0, None, Text::inline("hello")) });
        history.start("s", "r");
        history.push(&at, tool_requested("r", 0, 1, "c", Text::inline(&json)));
        history.push(&at, tool_answered("r", 0, 1, Text::inline("done")));
        history.complete("s", "r", "done");
        let views = Views::open(&folder.path().join("views.db"), LOG, 1).expect("opens");
        history.fold_into(&views).await;
        assert_eq!(views.dump().await.expect("reads"), history.memory().dump());
    }
}

#[tokio::test]
async fn deleting_the_file_at_any_point_between_runs_changes_no_row() {
    for seed in 0..SEEDS {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("views.db");
        let history = generator::history(seed, 1, 100);
        let all = history.partition(0);
        let cut = usize::try_from(seed).expect("small") * all.len() / usize::try_from(SEEDS).expect("small");
        let views = Views::open(&path, LOG, 1).expect("opens");
        views.apply(Position::start(reenact_events::PartitionId(0)), all[..cut].to_vec()).await.expect("folds");
        drop(views);
        // What SQLite keeps beside the file may stay behind, or be the only thing that is lost.
        let lost: &[&str] = if seed % 2 == 0 { &["views.db"] } else { &["views.db", "views.db-wal", "views.db-shm"] };
        for name in lost {
            std::fs::remove_file(folder.path().join(name)).ok();
        }
        let views = Views::open(&path, LOG, 1).expect("opens");
        history.fold_into(&views).await;
        assert_eq!(views.dump().await.expect("dumps"), history.memory().dump(), "seed {seed}");
    }
}

#[tokio::test]
async fn deleting_the_file_under_a_running_process_changes_no_row() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("views.db");
    let history = generator::history(3, 1, 200);
    let half = history.partition(0).len() / 2;
    let start = Position::start(reenact_events::PartitionId(0));
    let views = Views::open(&path, LOG, 1).expect("opens");
    views.apply(start, history.partition(0)[..half].to_vec()).await.expect("folds");
    for name in ["views.db", "views.db-wal", "views.db-shm"] {
        std::fs::remove_file(folder.path().join(name)).ok();
    }
    history.fold_into(&views).await;
    assert_eq!(views.dump().await.expect("dumps"), history.memory().dump());
    drop(views);
    let views = Views::open(&path, LOG, 1).expect("opens");
    history.fold_into(&views).await;
    assert_eq!(views.dump().await.expect("dumps"), history.memory().dump());
}

#[tokio::test]
async fn views_of_another_log_are_folded_anew() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("views.db");
    let views = Views::open(&path, LogId(uuid::Uuid::from_u128(1)), 1).expect("opens");
    generator::history(1, 1, 50).fold_into(&views).await;
    drop(views);
    let history = generator::history(2, 1, 50);
    let views = Views::open(&path, LOG, 1).expect("opens");
    history.fold_into(&views).await;
    assert_eq!(views.dump().await.expect("dumps"), history.memory().dump());
}

#[tokio::test]
async fn a_torn_file_is_folded_anew() {
    for (at, bytes) in [(0, 16), (100, 4000), (5000, 9000)] {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("views.db");
        let history = generator::history(5, 1, 100);
        let views = Views::open(&path, LOG, 1).expect("opens");
        history.fold_into(&views).await;
        drop(views);
        let mut content = std::fs::read(&path).expect("reads");
        content.iter_mut().skip(at).take(bytes).for_each(|byte| *byte = 0xa5);
        std::fs::write(&path, content).expect("writes");
        let views = Views::open(&path, LOG, 1).expect("opens");
        history.fold_into(&views).await;
        assert_eq!(views.dump().await.expect("dumps"), history.memory().dump(), "torn at {at}");
    }
}

#[tokio::test]
async fn damage_that_only_a_read_meets_is_folded_anew() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("views.db");
    let history = generator::history(5, 1, 600);
    let views = Views::open(&path, LOG, 1).expect("opens");
    history.fold_into(&views).await;
    drop(views);
    let mut content = std::fs::read(&path).expect("reads");
    let half = content.len() / 2;
    content.iter_mut().skip(half).for_each(|byte| *byte = 0xa5);
    std::fs::write(&path, content).expect("writes");
    let views = Views::open(&path, LOG, 1).expect("opens");
    let error = views.dump().await.expect_err("is damaged");
    assert!(matches!(error, ViewError::Corrupt { .. }), "{error}");
    history.fold_into(&views).await;
    assert_eq!(views.dump().await.expect("dumps"), history.memory().dump());
}

#[tokio::test]
async fn only_one_of_two_workers_moves_a_position() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("views.db");
    let history = generator::history(9, 1, 30);
    let start = Position::start(reenact_events::PartitionId(0));
    let (one, other) = (Views::open(&path, LOG, 1).expect("opens"), Views::open(&path, LOG, 1).expect("opens"));
    let batch = history.partition(0).to_vec();
    one.apply(start, batch.clone()).await.expect("folds");
    let error = other.apply(start, batch[..3].to_vec()).await.expect_err("overtaken");
    assert!(matches!(error, ViewError::Overtaken { .. }), "{error}");
    assert_eq!(other.dump().await.expect("dumps"), history.memory().dump());
    let mut memory = history.memory();
    let error = memory.apply(start, &batch).expect_err("overtaken");
    assert!(matches!(error, ViewError::Overtaken { .. }), "{error}");
}

#[tokio::test]
async fn a_batch_that_breaks_the_chain_changes_nothing() {
    let folder = tempfile::tempdir().expect("folder");
    let history = generator::history(9, 1, 30);
    let start = Position::start(reenact_events::PartitionId(0));
    let views = Views::open(&folder.path().join("views.db"), LOG, 1).expect("opens");
    let mut batch = history.partition(0).to_vec();
    batch.remove(2);
    let error = views.apply(start, batch).await.expect_err("diverges");
    assert!(matches!(error, ViewError::Diverged { .. }), "{error}");
    assert_eq!(views.dump().await.expect("dumps"), reenact_projections::Dump::default());
    assert_eq!(views.stored_position(start.partition).await.expect("reads"), start);
}
