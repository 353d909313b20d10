//! The state that a session's runs share, as the fold has it.

use std::{collections::BTreeSet, sync::Arc};

use reenact_actors::states::{Fact, States};
use reenact_events::{
    AgentId, ChainHash, Event, LogId, Offset, PartitionId, RawJson, RunId, SessionId, StepToken, StreamKey, Term, Text,
    Timestamp,
    agent::Effect,
    event::{
        RunQueued, RunStarted, SessionCreated, SessionDeleted, SessionUpdated, StepCall, StepCompleted, StepRequested,
        StepResult,
    },
    session_state::{SessionValues, StateChanges, values_of},
};
use reenact_snapshots::{MemoryStore, Position};

struct Folded {
    states: States,
    next: u64,
}

impl Folded {
    fn new() -> Self {
        Self { states: States::new(Arc::new(MemoryStore::default())), next: 0 }
    }

    /// Takes events as one batch.
    fn take(&mut self, events: &[Event]) {
        let key = StreamKey::session(&session());
        let facts: Vec<_> = (self.next..).zip(events).map(|(seq, event)| fact(&key, seq, event)).collect();
        self.next += events.len() as u64;
        let position = Position {
            log_id: LogId(uuid::Uuid::nil()),
            partition: PartitionId(0),
            next_offset: Offset(self.next),
            term: Term(0),
            chain: ChainHash::default(),
        };
        self.states.apply(&facts, position).expect("folds");
    }

    fn values(&self) -> SessionValues {
        self.states.session_values(&session()).expect("readable")
    }
}

fn fact<'a>(key: &'a StreamKey, seq: u64, event: &'a Event) -> Fact<'a> {
    Fact { key, seq, at: Timestamp(0), cause: None, event }
}

fn session() -> SessionId {
    SessionId::trusted("s")
}

fn json(text: &str) -> RawJson {
    RawJson::parse(text).expect("is JSON")
}

fn values(text: &str) -> SessionValues {
    values_of(&json(text))
}

fn created(state: Option<&str>) -> Event {
    SessionCreated {
        forked_from_session_id: None,
        session_id: session(),
        user_id: None,
        agent_id: None,
        name: None,
        state: state.map(json),
        metadata: None,
    }
    .into()
}

fn queued(run: &str, run_index: u64, session_state: Option<StateChanges>) -> Event {
    RunQueued {
        fork: None,
        scheduled_by: None,
        run_id: RunId::trusted(run),
        session_id: session(),
        user_id: None,
        run_index,
        agent_id: AgentId::trusted("a"),
        agent_version: "v".into(),
        input: "go".into(),
        media: Vec::new(),
        metadata: None,
        stream: false,
        background: true,
        output_schema: None,
        session_state: session_state.map(Box::new),
    }
    .into()
}

/// A run that calls one tool, which changes the state.
fn calls(run: &str, changes: StateChanges) -> [Event; 3] {
    let run_id = RunId::trusted(run);
    let call =
        StepCall::Tool { call_id: "c".into(), name: "t".into(), arguments: "{}".into(), effect: Effect::ReadOnly };
    let requested = StepRequested {
        run_id: run_id.clone(),
        step: 0,
        attempt: 1,
        token: StepToken::of_step(&run_id, 0),
        not_after: Timestamp(9),
        call,
        model: None,
    };
    let result = StepResult::Tool { content: Text::inline("x"), error: false, media: Vec::new() };
    let completed = StepCompleted {
        run_id: run_id.clone(),
        step: 0,
        attempt: 1,
        result,
        duration_ms: 1,
        unfit: None,
        session_state: Some(Box::new(changes)),
    };
    [RunStarted { run_id }.into(), requested.into(), completed.into()]
}

fn set(text: &str) -> StateChanges {
    StateChanges { set: values(text), ..StateChanges::default() }
}

#[test]
fn a09_runs_side_by_side_keep_each_others_keys_in_one_batch_or_in_many() {
    for batch in [1, 3, 100] {
        let mut folded = Folded::new();
        let mut events = vec![created(Some(r#"{"0":"old"}"#))];
        events.extend((0..20).map(|number| queued(&format!("r{number}"), number, None)));
        events.extend((0..20).flat_map(|n| calls(&format!("r{n}"), set(&format!(r#"{{"{n}":{n}}}"#)))));
        events.chunks(batch).for_each(|events| folded.take(events));
        let keys: BTreeSet<_> = folded.values().into_values().map(|value| value.as_str().to_owned()).collect();
        assert_eq!(keys, (0..20).map(|number| number.to_string()).collect(), "batches of {batch}");
    }
}

#[test]
fn what_a_run_brings_is_set_and_defaults_fill_what_is_missing() {
    let mut folded = Folded::new();
    let brings = StateChanges { default: values(r#"{"a":0,"b":0}"#), ..set(r#"{"c":3}"#) };
    folded.take(&[created(Some(r#"{"a":1}"#)), queued("r", 0, Some(brings))]);
    assert_eq!(folded.values(), values(r#"{"a":1,"b":0,"c":3}"#));
    folded.take(&calls("r", StateChanges { delete: ["a".to_owned()].into(), ..StateChanges::default() }));
    assert_eq!(folded.values(), values(r#"{"b":0,"c":3}"#));
}

#[test]
fn an_update_replaces_the_whole_and_a_deletion_leaves_nothing() {
    let mut folded = Folded::new();
    folded.take(&[created(Some(r#"{"a":1}"#)), queued("r", 0, None)]);
    let update = |state: Option<&str>| -> Event {
        SessionUpdated { session_id: session(), name: None, state: state.map(json), metadata: None, summary: None }
            .into()
    };
    folded.take(&[update(None)]);
    assert_eq!(folded.values(), values(r#"{"a":1}"#));
    folded.take(&[update(Some(r#"{"b":2}"#))]);
    assert_eq!(folded.values(), values(r#"{"b":2}"#));
    folded.take(&[SessionDeleted { session_id: session(), reason: None }.into()]);
    folded.take(&calls("r", set(r#"{"late":1}"#)));
    assert_eq!(folded.values(), SessionValues::new());
}
