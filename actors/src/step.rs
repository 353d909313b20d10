//! What a step needs from outside: the traits that `actors/agents` implements.

use std::sync::Arc;

use futures::future::BoxFuture;
use reenact_events::{
    AgentId, MediaRef, RawJson, RunId, SessionId, StepToken, Text, UserId,
    agent::{AgentSpec, GuardrailSpec, ModelSpec, ToolSpec},
    event::{Blocked, Failure, ToolCallRequest, Usage},
    session_state::StateChanges,
};

/// Whose step it is; tools are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepContext {
    /// The run.
    pub run_id: RunId,
    /// Its session.
    pub session_id: SessionId,
    /// Its owner.
    pub user_id: Option<UserId>,
    /// Names the step across its attempts.
    pub token: StepToken,
    /// Which attempt this is, from 1.
    pub attempt: u32,
}

/// One message of the conversation as a model is to see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChatMessage {
    /// The instructions.
    System(Arc<str>),
    /// What the person said, with files.
    User {
        /// The words.
        text: Text,
        /// The files.
        media: Vec<MediaRef>,
    },
    /// What the model said. Never both without text and without calls.
    Assistant {
        /// The words; `None` when it only called tools.
        text: Option<Text>,
        /// The calls; each is followed by exactly one [`ChatMessage::Tool`].
        tool_calls: Vec<ToolCallRequest>,
    },
    /// A tool's answer to the call `call_id`. Never empty.
    Tool {
        /// Which call.
        call_id: Arc<str>,
        /// Which tool.
        name: Arc<str>,
        /// What it said.
        text: Text,
        /// Files that it returned.
        media: Vec<MediaRef>,
    },
}

/// What to ask a model.
#[derive(Debug, Clone)]
pub struct ModelCall {
    /// The agent, with its tools.
    pub agent: Arc<AgentSpec>,
    /// Which of its models is asked.
    pub model: ModelSpec,
    /// The conversation, well formed.
    pub messages: Vec<ChatMessage>,
    /// The JSON Schema that the answer must fit, if it must.
    pub output_schema: Option<RawJson>,
    /// Whose it is.
    pub context: StepContext,
}

/// A model's turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelReply {
    /// What it said; may be empty.
    pub text: String,
    /// What it thought, if it told.
    pub reasoning: Option<String>,
    /// The tools it wants called, as it wrote them: names may not exist, arguments may not be JSON. Ids are
    /// made unique by whoever takes the reply.
    pub tool_calls: Vec<RequestedCall>,
    /// Tokens, `None` when the provider did not say.
    pub usage: Option<Usage>,
    /// Why it stopped, as the provider says.
    pub finish_reason: Option<String>,
    /// Milliseconds to the first byte of the answer.
    pub first_token_ms: Option<u64>,
}

/// A call in a model's turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedCall {
    /// The provider's id of the call; may be empty or repeated.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments' text.
    pub arguments: String,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepError {
    /// For people and programs.
    pub failure: Failure,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// Milliseconds that the other side asked to wait, if it did.
    pub retry_after_ms: Option<u64>,
    /// Tokens that the failed call cost, if the provider said.
    pub usage: Option<Usage>,
}

/// What to do with a tool.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// The tool.
    pub tool: Arc<ToolSpec>,
    /// Its arguments: a JSON object that fits the tool's schema.
    pub arguments: Arc<str>,
    /// Whose it is.
    pub context: StepContext,
}

/// What to ask a guardrail.
#[derive(Debug, Clone)]
pub struct GuardrailCall {
    /// Which.
    pub guardrail: GuardrailSpec,
    /// Whose it is.
    pub agent_id: AgentId,
    /// The message.
    pub input: Arc<str>,
    /// The answer, if it is asked about that.
    pub output: Option<Arc<str>>,
    /// Of which step.
    pub context: StepContext,
}

/// What a tool returned; an error is told to the model, which may act on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolReply {
    /// The result or the error.
    pub text: String,
    /// It is an error.
    pub error: bool,
    /// Files, already stored.
    pub media: Vec<MediaRef>,
    /// What it changes in the session's state.
    pub session_state: Option<StateChanges>,
}

/// What a `reconcile` tool answers about a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reconciled {
    /// It happened, with this result.
    Happened(ToolReply),
    /// It did not happen.
    DidNotHappen,
    /// The tool could not be asked or did not say.
    Unknown(Arc<str>),
}

/// Takes a model's words as they come. Calls never block.
pub trait DeltaSink: Send + Sync {
    /// Words of the answer.
    fn text(&self, delta: &str);
    /// Words of the thinking.
    fn reasoning(&self, delta: &str);
}

/// Does steps. Every call can be dropped at any await: that is how a step is cancelled.
pub trait Steps: Send + Sync {
    /// Asks a model.
    fn call_model<'a>(
        &'a self,
        call: ModelCall,
        sink: Arc<dyn DeltaSink>,
    ) -> BoxFuture<'a, Result<ModelReply, StepError>>;

    /// Checks what a model wrote as arguments, before the call is journaled: the object to call with, or
    /// the text that the model is told instead.
    ///
    /// # Errors
    /// When the text is not a JSON object that fits the tool's schema.
    fn check_arguments(&self, tool: &ToolSpec, arguments: &str) -> Result<Arc<str>, String>;

    /// Checks that a schema for answers can be used.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check_schema(&self, schema: &RawJson) -> Result<(), String>;

    /// Checks an answer against its schema: the JSON of it, without what models put round it, or what is wrong, in
    /// words for the model.
    ///
    /// # Errors
    /// When the answer is not JSON or does not fit.
    fn check_output(&self, schema: &RawJson, answer: &str) -> Result<String, String>;

    /// Asks a guardrail: why it lets nothing pass, if it does not.
    ///
    /// # Errors
    /// When it gave no answer.
    fn ask_guardrail<'a>(&'a self, call: GuardrailCall) -> BoxFuture<'a, Result<Option<Blocked>, Failure>>;

    /// Calls a tool. Whatever goes wrong is a [`ToolReply`] with `error`.
    fn call_tool<'a>(&'a self, call: ToolCall) -> BoxFuture<'a, ToolReply>;

    /// Asks a `reconcile` tool whether the call's token happened.
    fn reconcile<'a>(&'a self, call: ToolCall) -> BoxFuture<'a, Reconciled>;
}
