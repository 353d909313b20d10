//! Metrics: what is counted when, whose it is, and that it does not depend on how often or how it was folded.

use reenact_events::{
    Timestamp,
    event::{CancellationStage, Failure, RunCancelled, RunFailed, RunRequeued, SessionDeleted},
};
use reenact_projections::{
    MemoryViews, Position, Views,
    metrics::{MetricsFilter, MetricsRow, by_day},
    query::Scope,
};

use super::Ground;
use crate::history::{History, agent, model_answered, model_requested, run, session, usage, user};

const MIDNIGHT: i64 = 1_700_006_400_000;

/// Alice's 3 runs, bob's 5 and one of nobody's; the last two of bob's are accepted before midnight and end after it.
fn nine() -> History {
    let mut history = History::new(1);
    history.now = Timestamp(MIDNIGHT - 600_000);
    history.register("s", &agent("support"));
    for (owner, runs) in [(Some("alice"), 3), (Some("bob"), 5), (None, 1)] {
        let name = owner.unwrap_or("nobody");
        history.create(name, owner);
        for index in 0..runs {
            history.queue(name, &format!("{name}-{index}"), index, owner, "hello");
        }
    }
    history.now = Timestamp(MIDNIGHT - 300_000);
    for (name, index) in [("alice", 0), ("alice", 1), ("alice", 2), ("bob", 0), ("bob", 1), ("bob", 2), ("nobody", 0)] {
        answered(&mut history, name, index);
    }
    history.now = Timestamp(MIDNIGHT + 1_000);
    answered(&mut history, "bob", 3);
    answered(&mut history, "bob", 4);
    history
}

fn answered(history: &mut History, name: &str, index: u64) {
    let run_name = format!("{name}-{index}");
    let at = session(name);
    history.start(name, &run_name);
    history.push(&at, model_requested(&run_name, 0, 1, 0));
    history.push(&at, model_answered(&run_name, 0, 1, "hi", Vec::new(), Some(usage(10, 2))));
    history.complete(name, &run_name, "hi");
}

async fn views(history: &History, ground: &Ground) -> Views {
    let views = ground.views(1).await;
    history.fold_into(&views).await;
    views
}

async fn rows(views: &Views, scope: Scope, filter: MetricsFilter) -> Vec<MetricsRow> {
    views.metrics(&scope, &filter).await.expect("reads")
}

#[tokio::test]
async fn a17_a_run_counts_once_for_its_user_on_the_day_of_its_acceptance() {
    let ground = Ground::new();
    let history = nine();
    let views = views(&history, &ground).await;
    let all = rows(&views, Scope::Anyone, MetricsFilter::default()).await;
    let told: Vec<_> = all.iter().map(|row| (row.user_id.clone(), row.date.as_str(), row.agent_runs_count)).collect();
    let day = "2023-11-14";
    assert_eq!(told, [(None, day, 1), (Some(user("alice")), day, 3), (Some(user("bob")), day, 5)]);
    let theirs = rows(&views, Scope::User(user("alice")), MetricsFilter::default()).await;
    assert_eq!(theirs.iter().map(|row| row.agent_runs_count).collect::<Vec<_>>(), [3], "nobody's are not hers");
    let days = by_day(all);
    assert_eq!(days.len(), 1);
    assert_eq!((days[0].agent_runs_count, days[0].users_count, days[0].agent_sessions_count), (9, 2, 3));
    assert_eq!(days[0].token_metrics.total_tokens, Some(108));
    assert_eq!(days[0].status_metrics.get("COMPLETED"), Some(&9));
    assert_eq!((days[0].model_metrics.len(), days[0].model_metrics[0].count), (1, 9));
}

#[tokio::test]
async fn a17_what_was_used_stays_used_when_its_session_is_deleted() {
    let ground = Ground::new();
    let mut history = nine();
    let views = views(&history, &ground).await;
    let before = rows(&views, Scope::Anyone, MetricsFilter::default()).await;
    history.push(&session("bob"), SessionDeleted { session_id: session("bob"), reason: None });
    history.fold_into(&views).await;
    assert_eq!(rows(&views, Scope::Anyone, MetricsFilter::default()).await, before);
}

#[tokio::test]
async fn rows_of_one_day_are_found_among_others() {
    let ground = Ground::new();
    let mut history = nine();
    history.queue("bob", "later", 5, Some("bob"), "hello");
    let views = views(&history, &ground).await;
    let day = |text: &str| Some(text.parse().expect("a day"));
    let first = MetricsFilter { to: day("2023-11-14"), ..MetricsFilter::default() };
    let later = MetricsFilter { from: day("2023-11-15"), user_id: Some(user("bob")), ..MetricsFilter::default() };
    assert_eq!(rows(&views, Scope::Anyone, first).await.len(), 3);
    let later = rows(&views, Scope::Anyone, later).await;
    assert_eq!(later.iter().map(|row| row.agent_runs_count).collect::<Vec<_>>(), [1]);
    assert_eq!(later[0].status_metrics.get("PENDING"), Some(&1));
}

#[tokio::test]
async fn failed_and_cancelled_runs_have_counts_of_their_own_and_a_requeued_one_pays_once() {
    let ground = Ground::new();
    let mut history = nine();
    let at = session("alice");
    history.queue("alice", "f", 3, Some("alice"), "hello");
    history.start("alice", "f");
    history.push(&at, model_requested("f", 0, 1, 0));
    history.push(&at, model_answered("f", 0, 1, "hi", Vec::new(), Some(usage(5, 5))));
    let error = Failure { kind: "timeout".into(), message: "too late".into(), status: None };
    history.push(&at, RunFailed { run_id: run("f"), error, error_id: None });
    history.queue("alice", "c", 4, Some("alice"), "hello");
    let (stage, partial, reason) = (CancellationStage::Pending, None, None);
    history.push(&at, RunCancelled { run_id: run("c"), stage, partial, reason });
    let views = views(&history, &ground).await;
    let alices = async || rows(&views, Scope::User(user("alice")), MetricsFilter::default()).await.remove(1);
    let row = alices().await;
    let count = |row: &MetricsRow, status: &str| row.status_metrics.get(status).copied();
    assert_eq!((count(&row, "ERROR"), count(&row, "CANCELLED"), count(&row, "COMPLETED")), (Some(1), Some(1), None));
    assert_eq!(row.token_metrics.total_tokens, Some(10));
    history.push(&at, RunRequeued { run_id: run("f"), by: None });
    history.start("alice", "f");
    history.push(&at, model_requested("f", 1, 1, 1));
    history.push(&at, model_answered("f", 1, 1, "hi", Vec::new(), None));
    history.complete("alice", "f", "hi");
    history.fold_into(&views).await;
    let row = alices().await;
    assert_eq!((count(&row, "ERROR"), count(&row, "COMPLETED"), count(&row, "PENDING")), (None, Some(1), None));
    assert_eq!(row.token_metrics.total_tokens, Some(10), "what it used before was counted, the rest is unknown");
    assert_eq!((row.model_metrics[0].calls, row.model_metrics[0].calls_without_usage), (2, 1));
}

#[test]
fn the_order_of_partitions_does_not_show() {
    let mut history = History::new(2);
    for index in 0..6 {
        let name = format!("s{index}");
        history.create(&name, Some("alice"));
        history.whole_run(&name, &format!("r{index}"), 0, Some("alice"));
    }
    let mut backwards = MemoryViews::new();
    for (partition, batch) in history.recorded.iter().rev() {
        backwards.apply(Position::start(*partition), batch).expect("folds");
    }
    assert!(history.recorded.values().all(|batch| !batch.is_empty()), "both partitions have events");
    assert_eq!(backwards.dump().metrics, history.memory().dump().metrics);
}
