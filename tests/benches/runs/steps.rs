//! A model and a tool that answer at once, and the agent that has them.

use std::sync::Arc;

use futures::future::BoxFuture;
use reenact_actors::step::{
    ChatMessage, DeltaSink, GuardrailCall, ModelCall, ModelReply, Reconciled, RequestedCall, StepError, Steps,
    ToolCall, ToolReply,
};
use reenact_events::{
    AgentId, RawJson,
    agent::{AgentSpec, Effect, Limits, ModelSpec, QueueSpec, ToolKind, ToolSpec},
    event::{Blocked, Failure, Usage},
};
use tokio::sync::Semaphore;

/// A message that is answered at once.
pub(crate) const ASK: &str = "When does my order A-1042 arrive? It should have been here two days ago.";
/// A message whose answer needs the tool: three steps.
pub(crate) const LOOK_UP: &str = "Look up when my order A-1042 arrives. It should have been here two days ago.";
/// A message that is never answered.
pub(crate) const HOLD: &str = "Hold the line.";

const TOOL: &str = "find_order";

/// The agent of every run here.
pub(crate) fn agent() -> Arc<AgentSpec> {
    let tool = ToolSpec {
        name: TOOL.to_owned(),
        description: "Finds an order by its number.".to_owned(),
        parameters: RawJson::parse(r#"{"type": "object", "properties": {"order": {"type": "string"}}}"#).expect("json"),
        effect: Effect::Idempotent,
        timeout_s: 30,
        kind: ToolKind::Builtin,
        hold: None,
    };
    Arc::new(AgentSpec {
        id: AgentId::trusted("orders"),
        name: "Orders".to_owned(),
        description: None,
        instructions: Some("Be brief.".to_owned()),
        model: ModelSpec {
            provider: "instant".to_owned(),
            id: "m".to_owned(),
            base_url: None,
            api_key_env: None,
            api_key_file: None,
            temperature_milli: None,
            max_tokens: None,
            timeout_s: 60,
            retries: 2,
        },
        fallbacks: Vec::new(),
        tools: vec![tool],
        history_runs: 3,
        limits: Limits { tool_calls: 8, turns: 5, timeout_s: 3_600 },
        queue: QueueSpec::default(),
        output_schema: None,
        session_state: None,
        add_session_state_to_context: false,
        guardrails: Vec::new(),
    })
}

/// Nothing takes time here but what is waited for.
#[derive(Default)]
pub(crate) struct InstantSteps {
    /// Each call of a model takes one of these, and waits until there is one; `None` if none is needed.
    pub(crate) permits: Option<Arc<Semaphore>>,
}

impl Steps for InstantSteps {
    fn call_model<'a>(
        &'a self,
        call: ModelCall,
        _: Arc<dyn DeltaSink>,
    ) -> BoxFuture<'a, Result<ModelReply, StepError>> {
        let asked = match call.messages.last() {
            Some(ChatMessage::User { text, .. }) => text.as_inline().unwrap_or_default(),
            _ => "",
        };
        if asked == HOLD {
            return Box::pin(std::future::pending());
        }
        let order = r#"{"order": "A-1042"}"#.to_owned();
        let call = RequestedCall { id: "call_1".to_owned(), name: TOOL.to_owned(), arguments: order };
        let reply = ModelReply {
            text: "It has left the depot in Rotterdam and arrives on Thursday before noon. ".repeat(2),
            reasoning: None,
            tool_calls: if asked == LOOK_UP { vec![call] } else { Vec::new() },
            usage: Some(Usage { input_tokens: 1_200, output_tokens: 64, ..Usage::default() }),
            finish_reason: Some("stop".to_owned()),
            first_token_ms: Some(180),
        };
        Box::pin(async move {
            if let Some(permits) = &self.permits {
                permits.acquire().await.expect("it stays open").forget();
            }
            Ok(reply)
        })
    }

    fn check_arguments(&self, _: &ToolSpec, arguments: &str) -> Result<Arc<str>, String> {
        Ok(arguments.into())
    }

    fn check_schema(&self, _: &RawJson) -> Result<(), String> {
        Ok(())
    }

    fn check_output(&self, _: &RawJson, answer: &str) -> Result<String, String> {
        Ok(answer.to_owned())
    }

    fn ask_guardrail<'a>(&'a self, _: GuardrailCall) -> BoxFuture<'a, Result<Option<Blocked>, Failure>> {
        Box::pin(async { Ok(None) })
    }

    fn call_tool<'a>(&'a self, _: ToolCall) -> BoxFuture<'a, ToolReply> {
        let text = r#"{"order": "A-1042", "state": "on its way", "depot": "Rotterdam", "due": "Thursday"}"#;
        Box::pin(std::future::ready(ToolReply {
            text: text.to_owned(),
            error: false,
            media: Vec::new(),
            session_state: None,
        }))
    }

    fn reconcile<'a>(&'a self, _: ToolCall) -> BoxFuture<'a, Reconciled> {
        Box::pin(std::future::ready(Reconciled::DidNotHappen))
    }
}
