//! Models and tools of a world: slow, wrong, failing and panicking as the seed says.

use std::sync::Arc;

use futures::future::BoxFuture;
use reenact_actors::step::{
    ChatMessage, DeltaSink, GuardrailCall, ModelCall, ModelReply, Reconciled, RequestedCall, StepError, Steps,
    ToolCall, ToolReply,
};
use reenact_events::{
    AgentId, RawJson,
    agent::{AgentSpec, Effect, Guarded, GuardrailSpec, Limits, ModelSpec, QueueSpec, ToolKind, ToolSpec},
    event::{Blocked, Failure, Usage},
    hold::{HoldSpec, InputField, Needs, OnExpiry},
    session_state::StateChanges,
};

use crate::{faults::Dice, ledger::Ledger};

/// The tools of every world's agent, one per effect.
pub(crate) const TOOLS: [(&str, Effect); 4] = [
    ("look", Effect::ReadOnly),
    ("store", Effect::Idempotent),
    ("order", Effect::Reconcile),
    ("refund", Effect::AtMostOnce),
];

/// The tools whose calls wait for somebody: with what becomes of a call that nobody decides about.
pub(crate) fn held_tools() -> [(&'static str, Effect, HoldSpec); 3] {
    let field = InputField { name: "who".to_owned(), field_type: "str".to_owned(), description: None };
    let hold = |needs, expires_in_s, on_expiry| HoldSpec { needs, expires_in_s, on_expiry };
    let filled = hold(Needs::Input { fields: vec![field] }, Some(20), OnExpiry::Reject);
    [
        ("pay", Effect::AtMostOnce, hold(Needs::Confirmation, None, OnExpiry::Reject)),
        ("write", Effect::Idempotent, filled),
        ("sign", Effect::AtMostOnce, hold(Needs::Execution, Some(60), OnExpiry::Cancel)),
    ]
}

/// How models fail: so that the next one is asked, so that less is sent, and so that the run ends.
pub(crate) const FAILURES: [&str; 4] = ["rate_limited", "context_overflow", "context_overflow", "simulated"];

pub(crate) fn agent() -> Arc<AgentSpec> {
    let tool = |(name, effect): (&str, Effect)| ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        parameters: RawJson::parse("{}").expect("json"),
        effect,
        timeout_s: 30,
        kind: ToolKind::Builtin,
        hold: None,
    };
    let held = held_tools().map(|(name, effect, hold)| ToolSpec { hold: Some(hold), ..tool((name, effect)) });
    Arc::new(AgentSpec {
        id: AgentId::trusted("simulated"),
        name: "Simulated".to_owned(),
        description: None,
        instructions: Some("Be brief.".to_owned()),
        model: model("first", 2),
        fallbacks: vec![model("second", 0), model("third", 1)],
        tools: TOOLS.map(tool).into_iter().chain(held).collect(),
        history_runs: 2,
        limits: Limits { tool_calls: 8, turns: 5, timeout_s: 3_600 },
        queue: QueueSpec::default(),
        output_schema: None,
        session_state: None,
        add_session_state_to_context: false,
        guardrails: vec![guardrail("first", Guarded::Input), guardrail("last", Guarded::Output)],
    })
}

fn model(id: &str, retries: u32) -> ModelSpec {
    ModelSpec {
        provider: "simulated".to_owned(),
        id: id.to_owned(),
        base_url: None,
        api_key_env: None,
        api_key_file: None,
        temperature_milli: None,
        max_tokens: None,
        timeout_s: 60,
        retries,
    }
}

pub(crate) struct SimulatedSteps {
    pub(crate) dice: Dice,
    pub(crate) ledger: Ledger,
    pub(crate) panic_per_mille: u64,
}

impl SimulatedSteps {
    async fn work(&self) {
        tokio::time::sleep(self.dice.pause(200)).await;
        assert!(!self.dice.hits(self.panic_per_mille), "simulated panic of an effect");
    }

    fn calls(&self, context: &str) -> Vec<RequestedCall> {
        (0..1 + self.dice.below(3))
            .map(|number| {
                let name = match self.dice.below(14) {
                    0 => "no_such_tool",
                    12 | 13 => self.dice.pick(&held_tools()).0,
                    other => TOOLS[usize::try_from(other).expect("small") % TOOLS.len()].0,
                };
                let arguments = if self.dice.hits(100) { "{broken" } else { "{}" };
                let id = if self.dice.hits(300) { String::new() } else { format!("{context}-{number}") };
                RequestedCall { id, name: name.to_owned(), arguments: arguments.to_owned() }
            })
            .collect()
    }

    fn error(&self) -> StepError {
        let retryable = self.dice.hits(800);
        let retry_after_ms = self.dice.hits(300).then(|| self.dice.below(3_000));
        StepError {
            failure: Failure {
                kind: (*self.dice.pick(&FAILURES)).into(),
                message: "simulated failure".into(),
                status: None,
            },
            retryable,
            retry_after_ms,
            usage: None,
        }
    }
}

/// Every tool call has exactly one result right after it, and nothing is empty.
pub(crate) fn assert_well_formed(messages: &[ChatMessage]) {
    let mut owed: Vec<Arc<str>> = Vec::new();
    for message in messages {
        match message {
            ChatMessage::Tool { call_id, text, .. } => {
                let first = owed.first().cloned().unwrap_or_else(|| panic!("result of {call_id} without its call"));
                assert_eq!(first, *call_id, "results follow their calls in order");
                assert!(text.bytes() > 0, "an empty result");
                owed.remove(0);
            }
            other => {
                assert!(owed.is_empty(), "calls without a result: {owed:?}");
                if let ChatMessage::Assistant { text, tool_calls } = other {
                    assert!(text.is_some() || !tool_calls.is_empty(), "an empty turn");
                    owed = tool_calls.iter().map(|call| call.id.clone()).collect();
                }
            }
        }
    }
    assert!(owed.is_empty(), "calls without a result: {owed:?}");
}

fn guardrail(name: &str, on: Guarded) -> GuardrailSpec {
    let (name, url) = (name.to_owned(), String::new());
    GuardrailSpec { name, on, url, headers: Vec::new(), timeout_s: 10, retries: 1 }
}

impl SimulatedSteps {
    /// Few keys, so that the runs of a session meet at them.
    fn changes(&self, call: &ToolCall) -> Option<StateChanges> {
        let key = || format!("key {}", self.dice.below(4));
        let value = RawJson::of(&call.context.token.to_string()).expect("json");
        match self.dice.below(4) {
            0 => Some(StateChanges { set: [(key(), value)].into(), ..StateChanges::default() }),
            1 => Some(StateChanges { delete: [key()].into(), ..StateChanges::default() }),
            _ => None,
        }
    }
}

impl Steps for SimulatedSteps {
    fn call_model<'a>(
        &'a self,
        call: ModelCall,
        sink: Arc<dyn DeltaSink>,
    ) -> BoxFuture<'a, Result<ModelReply, StepError>> {
        Box::pin(async move {
            self.ledger.called(call.context.token, call.context.attempt, None);
            assert_well_formed(&call.messages);
            assert!(
                matches!(call.messages.first(), Some(ChatMessage::System(_))),
                "the instructions are never trimmed"
            );
            let asks = |message: &ChatMessage| matches!(message, ChatMessage::User { .. });
            assert!(call.messages.iter().any(asks), "the message is never trimmed");
            sink.text("so ");
            self.work().await;
            sink.text("be it");
            if self.dice.hits(100) {
                return Err(self.error());
            }
            let turns = call.messages.iter().rev().take_while(|m| !matches!(m, ChatMessage::User { .. })).count();
            let wants_tools = turns < 6 && self.dice.hits(600);
            let tool_calls = if wants_tools { self.calls(&call.context.token.to_string()) } else { Vec::new() };
            let text = if self.dice.hits(100) { String::new() } else { "so be it".to_owned() };
            let usage = self.dice.hits(800).then(|| Usage { input_tokens: 7, output_tokens: 3, ..Usage::default() });
            Ok(ModelReply { text, reasoning: None, tool_calls, usage, finish_reason: None, first_token_ms: None })
        })
    }

    fn check_arguments(&self, _: &ToolSpec, arguments: &str) -> Result<Arc<str>, String> {
        if RawJson::parse(arguments).is_ok() { Ok(arguments.into()) } else { Err("not an object".to_owned()) }
    }

    fn check_schema(&self, _: &RawJson) -> Result<(), String> {
        Ok(())
    }

    /// No answer of this model is JSON, but then none fits when it is empty.
    fn check_output(&self, _: &RawJson, answer: &str) -> Result<String, String> {
        if answer.is_empty() || self.dice.hits(200) { Err("it does not fit".to_owned()) } else { Ok(answer.to_owned()) }
    }

    fn ask_guardrail<'a>(&'a self, call: GuardrailCall) -> BoxFuture<'a, Result<Option<Blocked>, Failure>> {
        Box::pin(async move {
            self.ledger.called(call.context.token, call.context.attempt, None);
            assert_eq!(call.output.is_some(), call.guardrail.on == Guarded::Output);
            self.work().await;
            if self.dice.hits(100) {
                return Err(Failure { kind: "simulated".into(), message: "silence".into(), status: None });
            }
            let blocked = || Blocked { reason: "simulated".into(), trigger: "off_topic".into() };
            Ok(self.dice.hits(30).then(blocked))
        })
    }

    fn call_tool<'a>(&'a self, call: ToolCall) -> BoxFuture<'a, ToolReply> {
        Box::pin(async move {
            self.ledger.called(call.context.token, call.context.attempt, Some(call.tool.effect));
            self.work().await;
            let text = if self.dice.hits(200) { String::new() } else { format!("did {}", call.tool.name) };
            ToolReply { text, error: self.dice.hits(100), media: Vec::new(), session_state: self.changes(&call) }
        })
    }

    fn reconcile<'a>(&'a self, call: ToolCall) -> BoxFuture<'a, Reconciled> {
        Box::pin(async move {
            self.work().await;
            if self.dice.hits(100) {
                return Reconciled::Unknown("simulated silence".into());
            }
            if self.ledger.happened(call.context.token) {
                Reconciled::Happened(ToolReply {
                    text: "it happened".to_owned(),
                    error: false,
                    media: Vec::new(),
                    session_state: None,
                })
            } else {
                Reconciled::DidNotHappen
            }
        })
    }
}
