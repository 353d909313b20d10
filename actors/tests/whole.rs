//! How a run that has ended is stored.

use std::sync::Arc;

use reenact_actors::states::{Fact, States};
use reenact_events::{
    AgentId, ChainHash, Event, LogId, Offset, PartitionId, RunId, SessionId, StreamKey, Term, Text, Timestamp,
    event::{CancellationStage, RunCancelled, RunQueued},
};
use reenact_snapshots::{MemoryStore, Position, StateStore};

fn apply(states: &States, seq: u64, event: &Event) {
    let key = StreamKey::session(&SessionId::trusted("s"));
    let position = Position {
        log_id: LogId(uuid::Uuid::from_u128(1)),
        partition: PartitionId(0),
        next_offset: Offset(seq + 1),
        term: Term(0),
        chain: ChainHash::default(),
    };
    states.apply(&[Fact { key: &key, seq, at: Timestamp(5), cause: None, event }], position).expect("applies");
}

/// How many entries a run is stored in after its end, its session and its place aside.
fn entries_of_ended(input: &str) -> usize {
    let (session_id, run_id) = (SessionId::trusted("s"), RunId::trusted("r"));
    let store = Arc::new(MemoryStore::default());
    let states = States::new(store.clone());
    let queued = RunQueued {
        fork: None,
        scheduled_by: None,
        run_id: run_id.clone(),
        session_id: session_id.clone(),
        user_id: None,
        run_index: 0,
        agent_id: AgentId::trusted("a"),
        agent_version: "v".into(),
        input: Text::inline(input),
        media: Vec::new(),
        metadata: None,
        stream: false,
        background: false,
        output_schema: None,
        session_state: None,
    };
    apply(&states, 0, &queued.into());
    let cancelled =
        RunCancelled { run_id: run_id.clone(), stage: CancellationStage::Pending, partial: None, reason: None };
    apply(&states, 1, &cancelled.into());
    let kept = states.run(&run_id).expect("reads").expect("is there");
    let read = States::new(store.clone()).run(&run_id).expect("reads").expect("is there");
    assert_eq!(read, kept, "it reads as it was folded");
    assert_eq!(States::new(store.clone()).next_seq(&StreamKey::session(&session_id)).expect("reads"), 2);
    store.scan(&[], &[], usize::MAX).expect("reads").len() - 2
}

#[test]
fn a_small_run_that_has_ended_is_in_its_sessions_entry() {
    assert_eq!(entries_of_ended("hello"), 0);
}

#[test]
fn a_large_run_stays_in_parts() {
    assert_eq!(entries_of_ended(&"x".repeat(5_000)), 2);
}
