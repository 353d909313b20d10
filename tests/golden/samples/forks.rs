//! Payloads of runs that go on from another one.

use reenact_events::{
    AgentId, RunId, SessionId, Text,
    agent::{Effect, Guarded},
    event::{Fork, RunQueued, RunRegenerated, Said, StepCall, StepResult, StepTakenOver},
};

use super::{Named, blob, media, run, session};

fn fork() -> Fork {
    Fork {
        run_id: RunId::trusted("run-a"),
        message_index: 5,
        steps: 3,
        said: vec![Said { step: 1, text: "and back?".into() }, Said { step: 3, text: Text::Blob(blob()) }],
        history_before: 2,
        regenerates: true,
        session_id: None,
    }
}

fn queued(fork: Fork) -> RunQueued {
    RunQueued {
        run_id: run(),
        session_id: session(),
        user_id: None,
        run_index: 4,
        agent_id: AgentId::trusted("travel"),
        agent_version: "v".into(),
        scheduled_by: None,
        input: "Where to?".into(),
        media: Vec::new(),
        metadata: None,
        output_schema: None,
        session_state: None,
        fork: Some(Box::new(fork)),
        stream: true,
        background: false,
    }
}

pub(super) fn forks() -> Vec<Named> {
    let least = Fork { message_index: 1, steps: 0, said: Vec::new(), regenerates: false, ..fork() };
    let copied = Fork { session_id: Some(SessionId::trusted("session-a")), ..least.clone() };
    let taken = |call, result| StepTakenOver { run_id: run(), step: 2, call, result, unfit: None };
    let model = StepResult::Model {
        text: "To Rome.".into(),
        reasoning: None,
        tool_calls: Vec::new(),
        usage: None,
        finish_reason: None,
        first_token_ms: None,
    };
    let tool = StepCall::Tool {
        call_id: "call_1".into(),
        name: "book".into(),
        arguments: r#"{"city":"Rome"}"#.into(),
        effect: Effect::AtMostOnce,
    };
    let booked = StepResult::Tool { content: "booked".into(), error: false, media: media() };
    let guardrail = StepCall::Guardrail { name: "words".into(), on: Guarded::Input };
    vec![
        ("forked", queued(fork()).into()),
        ("forked_least", queued(least).into()),
        ("copied", queued(copied).into()),
        (
            "unfit",
            StepTakenOver { unfit: Some("it is empty".into()), ..taken(StepCall::Model { turn: 1 }, model) }.into(),
        ),
        ("tool", taken(tool, booked).into()),
        ("guardrail", taken(guardrail, StepResult::Guardrail { blocked: None }).into()),
        ("regenerated", RunRegenerated { run_id: run(), by: RunId::trusted("run-b") }.into()),
    ]
}
