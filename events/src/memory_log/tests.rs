//! What is the memory log's own: faults and processes. The contract is tested in `tests/contract`.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use futures::{FutureExt, StreamExt};
use uuid::Uuid;

use super::*;
use crate::{NewEvent, Predecessor, RunId, SessionId, StreamKey, Timestamp, event::RunStarted};

const PARTITION: PartitionId = PartitionId(0);

fn log() -> MemoryLog {
    MemoryLog::new(LogId(Uuid::from_u128(7)), 1, Arc::new(Timestamp(1)))
}

fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("nothing to wait for")
}

fn claim(log: &MemoryLog) -> Lease {
    now(log.claim(PARTITION, NodeId::trusted("n"))).expect("claims")
}

fn batch(number: u64) -> Batch {
    let key = StreamKey::session(&SessionId::trusted("s"));
    let event = RunStarted { run_id: RunId::trusted("r") }.into();
    let event = NewEvent::new(key, number, Timestamp(1), None, None, &event).expect("encodes");
    let id = BatchId(Uuid::from_u128(number.into()));
    Batch::new(id, vec![event])
}

fn written(log: &MemoryLog) -> usize {
    log.recorded(PARTITION).len() - 1
}

#[test]
fn an_unknown_outcome_is_resolved_to_what_happened() {
    for (fault, there) in [(Fault::UnknownApplied, true), (Fault::UnknownLost, false)] {
        let log = log();
        let lease = claim(&log);
        log.inject(fault);
        assert!(matches!(now(log.commit(&lease, &batch(0))), CommitOutcome::Unknown { .. }));
        assert_eq!(now(log.resolve(&lease, batch(0).id)).expect("resolves").is_some(), there, "{fault:?}");
        assert_eq!(written(&log), usize::from(there), "{fault:?}");
    }
}

#[test]
fn a_late_batch_arrives_when_nobody_resolves_it() {
    let log = log();
    let lease = claim(&log);
    log.inject(Fault::UnknownLate { operations: 2 });
    now(log.commit(&lease, &batch(0)));
    now(log.bounds(PARTITION)).expect("reads");
    assert_eq!(written(&log), 0);
    now(log.bounds(PARTITION)).expect("reads");
    assert_eq!(written(&log), 1);
    assert!(now(log.resolve(&lease, batch(0).id)).expect("resolves").is_some());
}

#[test]
fn a_late_batch_never_arrives_after_resolve_or_a_claim() {
    for settle in [true, false] {
        let log = log();
        let mut lease = claim(&log);
        log.inject(Fault::UnknownLate { operations: 3 });
        now(log.commit(&lease, &batch(0)));
        if settle {
            assert_eq!(now(log.resolve(&lease, batch(0).id)).expect("resolves"), None);
        } else {
            lease = claim(&log);
        }
        for _ in 0..5 {
            now(log.bounds(PARTITION)).expect("reads");
        }
        assert!(log.recorded(PARTITION).iter().all(|recorded| recorded.batch != batch(0).id));
        assert!(matches!(now(log.commit(&lease, &batch(0))), CommitOutcome::Committed(_)));
    }
}

#[test]
fn an_injected_fence_voids_the_lease_for_good() {
    let log = log();
    let lease = claim(&log);
    let mut commands = log.commands(&lease);
    assert!(commands.next().now_or_never().is_none());
    log.inject(Fault::Fenced);
    assert!(matches!(now(log.commit(&lease, &batch(0))), CommitOutcome::Fenced));
    assert!(matches!(now(log.commit(&lease, &batch(0))), CommitOutcome::Fenced));
    assert!(matches!(now(commands.next()), Some(Err(LogError::Fenced { .. }))));
    let lease = claim(&log);
    assert!(matches!(now(log.commit(&lease, &batch(0))), CommitOutcome::Committed(_)));
}

#[test]
fn refusals_write_nothing() {
    let log = log();
    let lease = claim(&log);
    log.inject(Fault::Resend);
    log.inject(Fault::Rejected);
    assert!(matches!(now(log.commit(&lease, &batch(0))), CommitOutcome::Resend { .. }));
    assert!(matches!(now(log.commit(&lease, &batch(0))), CommitOutcome::Rejected { .. }));
    assert_eq!(written(&log), 0);
}

/// Crashes every commit, and counts how often it was told.
struct Crashes(Fault, AtomicU32);

impl Faults for Crashes {
    fn on_commit(&self, _: PartitionId, _: &Batch) -> Option<Fault> {
        Some(self.0)
    }

    fn crashed(&self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_crash_answers_nobody_and_keeps_what_was_durable() {
    for (fault, durable) in [(Fault::CrashBefore, 0), (Fault::CrashAfter, 1)] {
        let log = log();
        let lease = claim(&log);
        let mut tail = log.tail(PARTITION, lease.claim_offset().next());
        let crashes = Arc::new(Crashes(fault, AtomicU32::new(0)));
        log.set_faults(crashes.clone());
        assert!(log.commit(&lease, &batch(0)).now_or_never().is_none());
        assert_eq!(crashes.1.load(Ordering::Relaxed), 1);
        assert!(tail.next().now_or_never().is_none(), "the process is dead");
        assert!(log.bounds(PARTITION).now_or_never().is_none(), "the process is dead");

        log.set_faults(Arc::new(NoFaults));
        let log = log.restart();
        assert_eq!(written(&log), durable);
        assert_eq!(claim(&log).predecessor, Predecessor::Dead);
    }
}

#[test]
fn a_claim_knows_whether_the_one_before_may_still_act() {
    let log = log();
    assert_eq!(claim(&log).predecessor, Predecessor::Dead, "nobody was before");
    assert_eq!(claim(&log).predecessor, Predecessor::MaybeAlive, "its own older lease");
    let second = log.second_process();
    assert_eq!(claim(&second).predecessor, Predecessor::MaybeAlive, "another process");
    let third = log.restart();
    assert_eq!(claim(&third).predecessor, Predecessor::MaybeAlive, "the second process is alive");
    second.crash();
    claim(&third);
    let fourth = third.restart();
    assert_eq!(claim(&fourth).predecessor, Predecessor::Dead);
}

/// Delays each operation until the test opens the gate, and is unreachable on demand.
struct Gate(futures::channel::mpsc::UnboundedSender<futures::channel::oneshot::Sender<()>>);

impl Faults for Gate {
    fn delay(&self, operation: Operation) -> Option<BoxFuture<'static, ()>> {
        let Operation::Answer(_) = operation else { return None };
        let (open, opened) = futures::channel::oneshot::channel();
        self.0.unbounded_send(open).expect("the test listens");
        Some(opened.map(drop).boxed())
    }

    fn unavailable(&self, operation: Operation) -> Option<Arc<str>> {
        matches!(operation, Operation::Publish).then(|| "down".into())
    }
}

#[test]
fn the_answer_takes_its_time_and_the_batch_is_durable_before_it() {
    let log = log();
    let lease = claim(&log);
    let (sender, mut gates) = futures::channel::mpsc::unbounded();
    log.set_faults(Arc::new(Gate(sender)));
    let sent = batch(0);
    let mut commit = log.commit(&lease, &sent);
    assert!((&mut commit).now_or_never().is_none());
    assert_eq!(written(&log), 1);
    now(gates.next()).expect("asked").send(()).expect("waits");
    assert!(matches!(now(commit), CommitOutcome::Committed(_)));
    assert!(matches!(now(log.publish(Vec::new())), Err(LogError::Unavailable { .. })));
}

#[test]
fn a_process_owns_only_what_was_granted_to_it() {
    let log = log();
    log.share();
    let (one, other) = (log.second_process(), log.second_process());
    let mut news = one.ownership();
    assert!(matches!(now(news.next()), Some(Ownership::Joined)));
    assert!(matches!(now(one.claim(PARTITION, NodeId::trusted("n"))), Err(LogError::Fenced { .. })));
    one.grant(PARTITION);
    assert!(matches!(now(news.next()), Some(Ownership::Granted(PARTITION))));
    let lease = claim(&one);
    other.grant(PARTITION);
    assert!(matches!(now(one.commit(&lease, &batch(0))), CommitOutcome::Fenced), "before anybody claims");
    assert!(news.next().now_or_never().is_none(), "nobody told it");
    let successor = claim(&other);
    assert!(matches!(now(other.commit(&successor, &batch(0))), CommitOutcome::Committed(_)));
}

#[test]
fn a_withdrawn_partition_is_let_go_when_its_mark_is_dropped() {
    let log = log();
    log.share();
    log.grant(PARTITION);
    let mut news = log.ownership();
    let mut released = log.withdraw(PARTITION);
    let seen: Vec<_> = (0..3).map(|_| now(news.next()).expect("has no end")).collect();
    assert!((&mut released).now_or_never().is_none());
    assert!(matches!(seen[..], [Ownership::Granted(_), Ownership::Joined, Ownership::Withdrawn { .. }]), "{seen:?}");
    drop(seen);
    now(released);
}

#[test]
fn dropping_the_stream_lets_go_of_everything() {
    let log = log();
    log.share();
    let news = log.ownership();
    log.grant(PARTITION);
    drop(news);
    assert!(matches!(now(log.claim(PARTITION, NodeId::trusted("n"))), Err(LogError::Fenced { .. })));
}

#[test]
fn a_frozen_process_is_answered_when_it_thaws() {
    let log = log();
    log.share();
    log.grant(PARTITION);
    let lease = claim(&log);
    log.freeze();
    let batch = batch(0);
    let mut commit = log.commit(&lease, &batch);
    assert!((&mut commit).now_or_never().is_none());
    let other = log.second_process();
    other.grant(PARTITION);
    log.thaw();
    assert!(matches!(now(commit), CommitOutcome::Fenced), "its partition went elsewhere meanwhile");
}
