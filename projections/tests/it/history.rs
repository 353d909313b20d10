//! A log written by hand: events with the places and hashes that a log gives them.

use std::{collections::BTreeMap, sync::Arc};

use reenact_events::{
    AgentId, BatchId, ChainHash, Event, LogId, NewEvent, Offset, PartitionId, RawJson, Recorded, RunId, SessionId,
    StepToken, StreamKey, Term, Text, Timestamp, UserId,
    agent::{AgentSpec, Effect, Limits, ModelSpec, QueueSpec},
    event::{
        ComponentRegistered, RunCompleted, RunQueued, RunStarted, SessionCreated, StepCall, StepCompleted,
        StepRequested, StepResult, ToolCallRequest, Usage,
    },
};
use reenact_projections::{MemoryViews, Position, Views};

pub(crate) const LOG: LogId = LogId(uuid::Uuid::from_u128(7));

pub(crate) fn session(name: &str) -> SessionId {
    SessionId::trusted(name)
}

pub(crate) fn run(name: &str) -> RunId {
    RunId::trusted(name)
}

pub(crate) fn user(name: &str) -> UserId {
    UserId::trusted(name)
}

/// An agent with instructions and a model.
pub(crate) fn agent(id: &str) -> AgentSpec {
    AgentSpec {
        id: AgentId::trusted(id),
        name: format!("The {id}"),
        description: None,
        instructions: Some("Be brief.".to_owned()),
        model: ModelSpec {
            provider: "demo".to_owned(),
            id: "demo-1".to_owned(),
            base_url: None,
            api_key_env: None,
            api_key_file: None,
            temperature_milli: None,
            max_tokens: None,
            timeout_s: 60,
            retries: 2,
        },
        fallbacks: Vec::new(),
        tools: Vec::new(),
        history_runs: 3,
        limits: Limits { tool_calls: 50, turns: 50, timeout_s: 3600 },
        queue: QueueSpec::default(),
        output_schema: None,
        session_state: None,
        add_session_state_to_context: false,
        guardrails: Vec::new(),
    }
}

/// Writes a log's partitions.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) partitions: u32,
    pub(crate) recorded: BTreeMap<PartitionId, Vec<Recorded>>,
    sequences: BTreeMap<StreamKey, u64>,
    /// What the next event's time is; every event takes a second.
    pub(crate) now: Timestamp,
}

impl History {
    pub(crate) fn new(partitions: u32) -> Self {
        let recorded = (0..partitions).map(|partition| (PartitionId(partition), Vec::new())).collect();
        Self { partitions, recorded, sequences: BTreeMap::new(), now: Timestamp(1_700_000_000_000) }
    }

    /// Appends to the stream of a session; offsets burn one after every third event.
    pub(crate) fn push(&mut self, session: &SessionId, event: impl Into<Event>) {
        let key = StreamKey::session(session);
        let partition = key.partition_of(self.partitions);
        let list = self.recorded.get_mut(&partition).expect("known");
        let seq = self.sequences.entry(key.clone()).or_default();
        let event = NewEvent::new(key, *seq, self.now, None, None, &event.into()).expect("encodes");
        *seq += 1;
        self.now = self.now.plus_ms(1000);
        let (last, chain) = list.last().map_or((None, ChainHash::default()), |last| (Some(last.offset), last.chain));
        let burnt = u64::from(list.len().is_multiple_of(3));
        let offset = last.map_or(Offset(1), |last| Offset(last.0 + 1 + burnt));
        let term = Term(0);
        let chain = chain.link(&event, term);
        list.push(Recorded { partition, offset, term, batch: BatchId::default(), chain, event, stored: None });
    }

    pub(crate) fn create(&mut self, name: &str, owner: Option<&str>) {
        self.push(
            &session(name),
            SessionCreated {
                forked_from_session_id: None,
                session_id: session(name),
                user_id: owner.map(user),
                agent_id: Some(AgentId::trusted("support")),
                name: None,
                state: None,
                metadata: None,
            },
        );
    }

    pub(crate) fn register(&mut self, name: &str, spec: &AgentSpec) {
        self.push(&session(name), ComponentRegistered { version: spec.version(), spec: spec.clone(), own: false });
    }

    pub(crate) fn queue(&mut self, session_name: &str, run_name: &str, index: u64, owner: Option<&str>, input: &str) {
        self.push(&session(session_name), queued(session_name, run_name, index, owner, Text::inline(input)));
    }

    pub(crate) fn start(&mut self, session_name: &str, run_name: &str) {
        self.push(&session(session_name), RunStarted { run_id: run(run_name) });
    }

    pub(crate) fn complete(&mut self, session_name: &str, run_name: &str, content: &str) {
        let content = Text::inline(content);
        self.push(&session(session_name), RunCompleted { run_id: run(run_name), content, json: false });
    }

    /// A run from its acceptance to its end, without steps.
    pub(crate) fn whole_run(&mut self, session_name: &str, run_name: &str, index: u64, owner: Option<&str>) {
        self.queue(session_name, run_name, index, owner, "hello");
        self.start(session_name, run_name);
        self.complete(session_name, run_name, "hi");
    }

    pub(crate) fn partition(&self, partition: u32) -> &[Recorded] {
        self.recorded.get(&PartitionId(partition)).expect("known")
    }

    pub(crate) fn memory(&self) -> MemoryViews {
        let mut views = MemoryViews::new();
        for (partition, batch) in &self.recorded {
            views.apply(Position::start(*partition), batch).expect("folds");
        }
        views
    }

    /// Folds what the views have not got yet, a few events a transaction.
    pub(crate) async fn fold_into(&self, views: &Views) {
        for (partition, recorded) in &self.recorded {
            let mut position = views.stored_position(*partition).await.expect("reads");
            let rest: Vec<_> = recorded.iter().filter(|event| event.offset >= position.next_offset).collect();
            for batch in rest.chunks(7) {
                let batch = batch.iter().map(|event| (*event).clone()).collect();
                position = views.apply(position, batch).await.expect("folds");
            }
        }
    }
}

pub(crate) fn queued(session_name: &str, run_name: &str, index: u64, owner: Option<&str>, input: Text) -> RunQueued {
    RunQueued {
        fork: None,
        scheduled_by: None,
        run_id: run(run_name),
        session_id: session(session_name),
        user_id: owner.map(user),
        run_index: index,
        agent_id: AgentId::trusted("support"),
        agent_version: agent("support").version(),
        input,
        media: Vec::new(),
        metadata: None,
        stream: false,
        background: false,
        output_schema: None,
        session_state: None,
    }
}

pub(crate) fn model_requested(run_name: &str, step: u32, attempt: u32, turn: u32) -> StepRequested {
    step_requested(run_name, step, attempt, StepCall::Model { turn })
}

/// The name of a step that is held, and its call.
pub(crate) fn held_call(run_name: &str, step: u32) -> (StepToken, StepCall) {
    let (call_id, name) = (format!("held-{step}").into(), "pay".into());
    let call = StepCall::Tool { call_id, name, arguments: Text::inline("{}"), effect: Effect::AtMostOnce };
    (StepToken::of_step(&run(run_name), step), call)
}

pub(crate) fn tool_requested(run_name: &str, step: u32, attempt: u32, call_id: &str, arguments: Text) -> StepRequested {
    let call = StepCall::Tool { call_id: call_id.into(), name: "refund".into(), arguments, effect: Effect::AtMostOnce };
    step_requested(run_name, step, attempt, call)
}

fn step_requested(run_name: &str, step: u32, attempt: u32, call: StepCall) -> StepRequested {
    let token = StepToken::of_step(&run(run_name), step);
    StepRequested { run_id: run(run_name), step, attempt, token, not_after: Timestamp(0), call, model: None }
}

pub(crate) fn usage(input_tokens: u64, output_tokens: u64) -> Usage {
    Usage { input_tokens, output_tokens, ..Usage::default() }
}

pub(crate) fn model_answered(
    run_name: &str,
    step: u32,
    attempt: u32,
    text: &str,
    calls: Vec<ToolCallRequest>,
    usage: Option<Usage>,
) -> StepCompleted {
    let result = StepResult::Model {
        text: Text::inline(text),
        reasoning: None,
        tool_calls: calls,
        usage,
        finish_reason: None,
        first_token_ms: Some(120),
    };
    StepCompleted { run_id: run(run_name), step, attempt, result, duration_ms: 900, unfit: None, session_state: None }
}

pub(crate) fn tool_answered(run_name: &str, step: u32, attempt: u32, content: Text) -> StepCompleted {
    let result = StepResult::Tool { content, error: false, media: Vec::new() };
    StepCompleted { run_id: run(run_name), step, attempt, result, duration_ms: 40, unfit: None, session_state: None }
}

pub(crate) fn call(id: &str, arguments: Text) -> ToolCallRequest {
    ToolCallRequest { id: id.into(), name: "refund".into(), arguments, refusal: None }
}

pub(crate) fn raw(value: &serde_json::Value) -> RawJson {
    RawJson::of(value).expect("is JSON")
}

pub(crate) fn shared_text(text: &str) -> Arc<str> {
    text.into()
}
