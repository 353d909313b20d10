//! What a deletion leaves behind.

use std::sync::Arc;

use reenact_actors::states::{Fact, States};
use reenact_events::{
    AgentId, ChainHash, Event, LogId, Offset, PartitionId, RunId, SessionId, StreamKey, Term, Text, Timestamp,
    event::{RunQueued, SessionCreated, SessionDeleted},
};
use reenact_snapshots::{MemoryStore, Position};

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

#[test]
fn a_run_whose_session_was_deleted_is_gone_and_remembered() {
    let (session_id, run_id) = (SessionId::trusted("s"), RunId::trusted("r"));
    let states = States::new(Arc::new(MemoryStore::default()));
    let created = SessionCreated {
        forked_from_session_id: None,
        session_id: session_id.clone(),
        user_id: None,
        agent_id: None,
        name: None,
        state: None,
        metadata: None,
    };
    apply(&states, 0, &created.into());
    let queued = RunQueued {
        fork: None,
        scheduled_by: None,
        run_id: run_id.clone(),
        session_id: session_id.clone(),
        user_id: None,
        run_index: 0,
        agent_id: AgentId::trusted("a"),
        agent_version: "v".into(),
        input: Text::inline("hello"),
        media: Vec::new(),
        metadata: None,
        stream: false,
        background: false,
        output_schema: None,
        session_state: None,
    };
    apply(&states, 1, &queued.into());
    assert!(states.run(&run_id).expect("reads").is_some());
    assert!(!states.was_deleted(&run_id).expect("reads"));
    apply(&states, 2, &SessionDeleted { session_id, reason: None }.into());
    assert!(states.run(&run_id).expect("reads").is_none());
    assert!(states.was_deleted(&run_id).expect("reads"), "a repeat of its command must not start it again");
}
