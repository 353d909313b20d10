//! The rows are only a view: folded again, they are the same.

use reenact_events::{
    RawJson, Text,
    event::{RunQueued, SessionUpdated},
};
use reenact_projections::{Position, ViewError, digest};

use super::Ground;
use crate::{
    generator,
    history::{History, queued, session, tool_answered, tool_requested},
};

const SEEDS: u64 = 25;

#[tokio::test]
async fn sql_and_memory_hold_the_same_rows() {
    for seed in 0..SEEDS {
        let ground = Ground::new();
        let history = generator::history(seed, 2, 150);
        let views = ground.views(2).await;
        history.fold_into(&views).await;
        let (sql, memory) = (views.dump().await.expect("dumps"), history.memory().dump());
        assert_eq!(sql, memory, "seed {seed}");
        assert_eq!(digest(&sql).expect("digests"), digest(&memory).expect("digests"), "seed {seed}");
    }
}

#[tokio::test]
async fn a_run_at_work_reads_the_same_from_sql_and_memory() {
    for seed in 0..SEEDS {
        let ground = Ground::new();
        let history = generator::history(seed, 1, 60);
        let views = ground.views(1).await;
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
        let ground = Ground::new();
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
        let views = ground.views(1).await;
        history.fold_into(&views).await;
        assert_eq!(views.dump().await.expect("reads"), history.memory().dump());
    }
}

#[tokio::test]
async fn only_one_of_two_workers_moves_a_position() {
    let ground = Ground::new();
    let history = generator::history(9, 1, 30);
    let start = Position::start(reenact_events::PartitionId(0));
    let (one, other) = (ground.views(1).await, ground.views(1).await);
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
    let ground = Ground::new();
    let history = generator::history(9, 1, 30);
    let start = Position::start(reenact_events::PartitionId(0));
    let views = ground.views(1).await;
    let mut batch = history.partition(0).to_vec();
    batch.remove(2);
    let error = views.apply(start, batch).await.expect_err("diverges");
    assert!(matches!(error, ViewError::Diverged { .. }), "{error}");
    assert_eq!(views.dump().await.expect("dumps"), reenact_projections::Dump::default());
    assert_eq!(views.stored_position(start.partition).await.expect("reads"), start);
}
