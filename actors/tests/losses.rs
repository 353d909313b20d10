//! What a loss that was accepted does to the runs of a partition.

use std::sync::Arc;

use reenact_actors::{
    run::{Context, RunCommand, decide},
    states::{Fact, States},
};
use reenact_events::{
    AgentId, ChainHash, Event, LogId, NodeId, Offset, PartitionId, RunEvent, RunId, SessionId, StreamKey, Term, Text,
    Timestamp,
    agent::{AgentSpec, Limits, ModelSpec, QueueSpec},
    event::{Loss, LossOf, PartitionClaimed, RunCompleted, RunPaused, RunQueued, RunStarted, RunStatus},
};
use reenact_snapshots::{MemoryStore, Position};

fn run(name: &str) -> RunId {
    RunId::trusted(name)
}

/// Each run in a session of its own, so that they do not wait for each other.
fn key(name: &str) -> StreamKey {
    StreamKey::session(&SessionId::trusted(name))
}

fn queued(name: &str) -> Event {
    let queued = RunQueued {
        fork: None,
        scheduled_by: None,
        run_id: run(name),
        session_id: SessionId::trusted(name),
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
    queued.into()
}

fn started(name: &str) -> Event {
    RunStarted { run_id: run(name) }.into()
}

fn claim(losses: u32) -> Event {
    let loss = |of| Loss { of, from: Offset(1), until: Offset(9), reason: "it is gone".into(), runs: Vec::new() };
    let claimed =
        PartitionClaimed::new(NodeId::trusted("n"), LogId(uuid::Uuid::from_u128(1)), uuid::Uuid::from_u128(2));
    let accepts = if losses > 0 { vec![loss(LossOf::Events)] } else { vec![loss(LossOf::Commands)] };
    claimed.after(losses.saturating_sub(1), accepts).into()
}

/// All at once, and each with a store that was opened anew: what is folded together sees what was folded before.
fn folded(facts: &[(&str, Event)], together: bool) -> States {
    let store = Arc::new(MemoryStore::new());
    let (log_id, partition) = (LogId(uuid::Uuid::from_u128(1)), PartitionId(0));
    let at = |next: usize| Position {
        log_id,
        partition,
        next_offset: Offset(next as u64),
        term: Term(0),
        chain: ChainHash::default(),
    };
    let keys: Vec<_> = facts.iter().map(|(stream, _)| key(stream)).collect();
    let facts: Vec<_> = facts
        .iter()
        .zip(&keys)
        .enumerate()
        .map(|(seq, ((stream, event), session))| {
            let (key, seq) = (if *stream == "p" { &StreamKey::partition(partition) } else { session }, seq as u64);
            (key.clone(), seq, event)
        })
        .collect();
    let facts: Vec<_> =
        facts.iter().map(|(key, seq, event)| Fact { key, seq: *seq, at: Timestamp(5), cause: None, event }).collect();
    if together {
        States::new(store.clone()).apply(&facts, at(facts.len())).expect("applies");
    } else {
        for (place, fact) in facts.chunks(1).enumerate() {
            States::new(store.clone()).apply(fact, at(place + 1)).expect("applies");
        }
    }
    States::new(store)
}

fn agent() -> AgentSpec {
    AgentSpec {
        id: AgentId::trusted("a"),
        name: "a".to_owned(),
        description: None,
        instructions: None,
        model: ModelSpec {
            provider: "demo".to_owned(),
            id: "demo".to_owned(),
            base_url: None,
            api_key_env: None,
            api_key_file: None,
            temperature_milli: None,
            max_tokens: None,
            timeout_s: 1,
            retries: 0,
        },
        fallbacks: Vec::new(),
        tools: Vec::new(),
        history_runs: 0,
        limits: Limits { tool_calls: 1, turns: 1, timeout_s: 1 },
        queue: QueueSpec::default(),
        output_schema: None,
        session_state: None,
        add_session_state_to_context: false,
        guardrails: Vec::new(),
    }
}

#[test]
fn a_run_that_is_open_when_a_loss_is_accepted_can_only_end() {
    for together in [true, false] {
        let facts = [
            ("waits", queued("waits")),
            ("works", queued("works")),
            ("works", started("works")),
            ("paused", queued("paused")),
            ("paused", started("paused")),
            ("paused", RunPaused { run_id: run("paused"), reason: "doubt".into() }.into()),
            ("done", queued("done")),
            ("done", started("done")),
            ("done", RunCompleted { run_id: run("done"), content: Text::inline("x"), json: false }.into()),
            ("p", claim(1)),
            ("later", queued("later")),
            ("p", claim(1)),
        ];
        let states = folded(&facts, together);
        let of = |name: &str| states.run(&run(name)).expect("reads").expect("is there");
        assert_eq!(States::losses_in(&*Arc::new(MemoryStore::new())).expect("reads"), 0);
        for name in ["done", "later"] {
            assert!(!of(name).progress.history_lost, "`{name}` has ended before, or began after");
        }
        let context = Context { now: Timestamp(9), agent: Arc::new(agent()) };
        for name in ["waits", "works", "paused"] {
            let state = of(name);
            assert!(state.progress.history_lost, "`{name}` {together}");
            for command in [
                RunCommand::Begin,
                RunCommand::Recover { owed: Vec::new() },
                RunCommand::Cancel { reason: None, partial: None },
                RunCommand::Resolve { decisions: Vec::new(), by: None, has_slot: true },
            ] {
                let events = decide(&state, command, &context).expect("decides");
                let Some(RunEvent::Failed(failed)) = events.last() else { panic!("{events:?}") };
                assert_eq!(&*failed.error.kind, "history_lost");
                // One that waits must not be counted among those that wait for ever.
                assert_eq!(events.len() == 2, state.progress.status == RunStatus::Pending);
            }
        }
    }
}

#[test]
fn commands_that_are_lost_touch_no_run() {
    let states = folded(&[("works", queued("works")), ("p", claim(0))], true);
    let state = states.run(&run("works")).expect("reads").expect("is there");
    assert!(!state.progress.history_lost);
}
