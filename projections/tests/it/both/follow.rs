//! Following a real log: nothing is skipped, nothing waits, nothing is folded twice.

use std::{sync::Arc, time::Duration};

use reenact_events::{
    Batch, BatchId, CommitOutcome, EventLog, Lease, LogId, MemoryLog, NewEvent, NodeId, Offset, PartitionId, Timestamp,
};
use reenact_projections::{MemoryViews, Position, Progress, ViewError, Views, query::Scope};

use super::Ground;
use crate::{
    generator,
    history::{History, LOG, run},
};

const P: PartitionId = PartitionId(0);
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn memory_log() -> Arc<MemoryLog> {
    Arc::new(MemoryLog::new(LOG, 1, Arc::new(Still)))
}

struct Still;

impl reenact_events::Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }
}

pub(crate) async fn claim(log: &MemoryLog) -> Lease {
    log.claim(P, NodeId::trusted("n")).await.expect("claims")
}

/// Commits the events, a few a batch, and returns the last one's offset.
pub(crate) async fn commit(log: &MemoryLog, lease: &Lease, events: &[NewEvent]) -> Offset {
    let mut last = lease.claim_offset();
    for (number, events) in events.chunks(3).enumerate() {
        let id = reenact_events::ids::derived("batch", &[&last.to_string(), &number.to_string()]);
        let batch = Batch::new(BatchId(id), events.to_vec());
        match log.commit(lease, &batch).await {
            CommitOutcome::Committed(committed) => last = committed.offsets.last().copied().unwrap_or(last),
            other => panic!("{other:?}"),
        }
    }
    last
}

pub(crate) fn events(history: &History) -> Vec<NewEvent> {
    history.partition(0).iter().map(|recorded| recorded.event.clone()).collect()
}

fn follow(views: &Views, log: &Arc<MemoryLog>) -> tokio::task::JoinHandle<ViewError> {
    let (views, log) = (views.clone(), log.clone());
    tokio::spawn(async move { views.follow(log, P, |_| {}).await })
}

/// What the log's events come to, folded in memory.
pub(crate) fn expected(log: &MemoryLog) -> MemoryViews {
    let mut views = MemoryViews::new();
    views.apply(Position::start(P), &log.recorded(P)).expect("folds");
    views
}

#[tokio::test]
async fn what_is_committed_is_read_after_waiting_for_it() {
    let ground = Ground::new();
    let views = ground.views(1).await;
    let log = memory_log();
    let lease = claim(&log).await;
    let mut history = History::new(1);
    history.create("s", None);
    let first = commit(&log, &lease, &events(&history)).await;
    let follower = follow(&views, &log);
    views.wait_for(P, first, PATIENCE).await.expect("catches up");
    let known = events(&history).len();
    for number in 0..20 {
        history.queue("s", &format!("run-{number}"), number, None, "hello");
        let new = events(&history).split_off(known + usize::try_from(number).expect("small"));
        let offset = commit(&log, &lease, &new).await;
        views.wait_for(P, offset, PATIENCE).await.expect("follows");
        let row = views.run(&Scope::Anyone, &run(&format!("run-{number}"))).await.expect("reads");
        assert!(row.is_some());
        assert!(views.position(P) > offset);
    }
    assert_eq!(views.dump().await.expect("dumps"), expected(&log).dump());
    follower.abort();
}

#[tokio::test]
async fn a_wait_in_vain_says_how_far_the_view_is() {
    let ground = Ground::new();
    let views = ground.views(1).await;
    let error = views.wait_for(P, Offset(u64::MAX), Duration::from_millis(1)).await.expect_err("lags");
    assert_eq!((error.position, error.wanted), (Offset(0), Offset(u64::MAX)));
    let error = views.wait_for(PartitionId(9), Offset(0), PATIENCE).await.expect_err("has no such partition");
    assert_eq!(error.partition, PartitionId(9));
}

#[tokio::test]
async fn stopping_and_following_again_at_any_point_folds_every_event_once() {
    for seed in 0..20 {
        let ground = Ground::new();
        let log = memory_log();
        let lease = claim(&log).await;
        let last = commit(&log, &lease, &events(&generator::history(seed, 1, 120))).await;
        let mut stop_at = 1 + seed;
        loop {
            let views = ground.views(1).await;
            let follower = follow(&views, &log);
            if stop_at > last.0 {
                views.wait_for(P, last, PATIENCE).await.expect("catches up");
                assert_eq!(views.dump().await.expect("dumps"), expected(&log).dump(), "seed {seed}");
                follower.abort();
                break;
            }
            views.wait_for(P, Offset(stop_at), PATIENCE).await.expect("catches up");
            follower.abort();
            stop_at = views.position(P).0 + 40;
        }
    }
}

#[tokio::test]
async fn of_two_followers_each_event_is_folded_by_one_and_seen_by_both() {
    let ground = Ground::new();
    let log = memory_log();
    let lease = claim(&log).await;
    let all = events(&generator::history(4, 1, 120));
    let (one, other) = (ground.views(1).await, ground.views(1).await);
    let followers = [follow(&one, &log), follow(&other, &log)];
    for chunk in all.chunks(3) {
        commit(&log, &lease, chunk).await;
        tokio::task::yield_now().await;
    }
    let last = log.recorded(P).last().expect("has events").offset;
    for views in [&one, &other] {
        views.wait_for(P, last, PATIENCE).await.expect("sees it");
        assert_eq!(views.dump().await.expect("dumps"), expected(&log).dump());
    }
    followers.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn views_that_are_ahead_of_a_restored_log_are_folded_anew() {
    let ground = Ground::new();
    let views = ground.views(1).await;
    generator::history(1, 1, 120).fold_into(&views).await;
    let log = memory_log();
    let lease = claim(&log).await;
    let last = commit(&log, &lease, &events(&generator::history(2, 1, 10))).await;
    let error = follow(&views, &log).await.expect("ends");
    assert!(matches!(error, ViewError::Diverged { .. }), "{error}");
    let follower = follow(&views, &log);
    views.wait_for(P, last, PATIENCE).await.expect("catches up");
    assert_eq!(views.dump().await.expect("dumps"), expected(&log).dump());
    follower.abort();
}

#[tokio::test]
async fn views_of_another_past_are_folded_anew() {
    let ground = Ground::new();
    let views = ground.views(1).await;
    generator::history(1, 1, 10).fold_into(&views).await;
    let log = memory_log();
    let lease = claim(&log).await;
    let last = commit(&log, &lease, &events(&generator::history(2, 1, 120))).await;
    let error = follow(&views, &log).await.expect("ends");
    assert!(matches!(error, ViewError::Diverged { .. }), "{error}");
    let follower = follow(&views, &log);
    views.wait_for(P, last, PATIENCE).await.expect("catches up");
    assert_eq!(views.dump().await.expect("dumps"), expected(&log).dump());
    follower.abort();
}

#[tokio::test]
async fn another_log_is_not_followed() {
    let ground = Ground::new();
    let views = ground.views_of(LogId(uuid::Uuid::from_u128(1)), 1).await;
    let error = follow(&views, &memory_log()).await.expect("ends");
    assert!(matches!(error, ViewError::OtherLog { .. }), "{error}");
}

#[tokio::test]
async fn progress_counts_every_event() {
    let ground = Ground::new();
    let views = ground.views(1).await;
    let log = memory_log();
    let lease = claim(&log).await;
    let last = commit(&log, &lease, &events(&generator::history(6, 1, 400))).await;
    let (counted, mut seen) = tokio::sync::watch::channel(0);
    let follower = {
        let (views, log) = (views.clone(), log.clone());
        tokio::spawn(async move {
            let count = |progress: Progress| counted.send_modify(|events| *events = progress.events);
            views.follow(log, P, count).await
        })
    };
    views.wait_for(P, last, PATIENCE).await.expect("catches up");
    let all = log.recorded(P).len() as u64;
    let told = tokio::time::timeout(PATIENCE, seen.wait_for(|count| *count == all)).await;
    assert!(told.is_ok_and(|told| told.is_ok()));
    assert!(views.lag(P) <= 1, "{}", views.lag(P));
    follower.abort();
}
