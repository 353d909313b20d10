//! An agent, its steps, and the scripted servers that they reach.

use std::sync::{Arc, Mutex};

use reenact_actors::step::{
    ChatMessage, DeltaSink, ModelCall, ModelReply, StepContext, StepError, Steps, ToolCall, ToolReply,
};
use reenact_agents::{AgentSteps, DirBlobs, Environment, demo_agent};
use reenact_events::{
    Blobs, Clock, RawJson, RunId, SessionId, StepToken, Timestamp, UserId,
    agent::{AgentSpec, Effect, ModelSpec, ToolKind, ToolSpec},
};

use crate::stub::{LedgerStub, ModelStub};

/// Sun, 06 Nov 1994 08:49:37 GMT.
pub(crate) const NOW: Timestamp = Timestamp(784_111_777_000);
pub(crate) const KEY: &str = "sk-very-secret";

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        NOW
    }
}

/// What a watcher of a stream sees.
#[derive(Default)]
pub(crate) struct Watcher {
    pub(crate) text: Mutex<Vec<String>>,
    pub(crate) reasoning: Mutex<Vec<String>>,
}

impl DeltaSink for Watcher {
    fn text(&self, delta: &str) {
        self.text.lock().unwrap().push(delta.to_owned());
    }

    fn reasoning(&self, delta: &str) {
        self.reasoning.lock().unwrap().push(delta.to_owned());
    }
}

pub(crate) struct World {
    pub(crate) steps: AgentSteps,
    pub(crate) blobs: Arc<DirBlobs>,
    pub(crate) model: ModelStub,
    pub(crate) ledger: LedgerStub,
    _dir: tempfile::TempDir,
}

impl World {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Arc::new(DirBlobs::open(dir.path()).unwrap());
        let environment =
            Environment::of(&[("THE_KEY", KEY), ("TOOL_KEY", "Bearer tool-secret"), ("BAD_KEY", "two\nlines")]);
        let steps = AgentSteps::with_environment(blobs.clone(), Arc::new(Fixed), environment).unwrap();
        Self { steps, blobs, model: ModelStub::start().await, ledger: LedgerStub::start().await, _dir: dir }
    }

    /// An agent on the scripted model.
    pub(crate) fn agent(&self) -> AgentSpec {
        AgentSpec { model: model_at(&self.model.base_url()), ..demo_agent() }
    }

    /// An agent on the scripted model, which speaks another provider's protocol.
    pub(crate) fn agent_of(&self, provider: &str) -> AgentSpec {
        let mut agent = self.agent();
        agent.model.provider = provider.into();
        agent
    }

    /// Asks the scripted model.
    pub(crate) async fn ask(&self) -> Result<ModelReply, StepError> {
        self.ask_as(self.agent(), vec![user("hi")]).await
    }

    pub(crate) async fn ask_as(&self, agent: AgentSpec, messages: Vec<ChatMessage>) -> Result<ModelReply, StepError> {
        self.watch(agent, messages, Arc::default()).await
    }

    /// Asks for an answer that fits a schema.
    pub(crate) async fn ask_for(
        &self,
        agent: AgentSpec,
        messages: Vec<ChatMessage>,
        output_schema: Option<RawJson>,
    ) -> Result<ModelReply, StepError> {
        let model = agent.model.clone();
        let call = ModelCall { agent: agent.into(), model, messages, output_schema, context: context() };
        self.steps.call_model(call, Arc::<Watcher>::default()).await
    }

    pub(crate) async fn watch(
        &self,
        agent: AgentSpec,
        messages: Vec<ChatMessage>,
        watcher: Arc<Watcher>,
    ) -> Result<ModelReply, StepError> {
        let model = agent.model.clone();
        let call = ModelCall { agent: agent.into(), model, messages, output_schema: None, context: context() };
        self.steps.call_model(call, watcher).await
    }

    /// A tool on the ledger.
    pub(crate) fn tool(&self, method: &str, headers: &[(&str, &str)]) -> ToolSpec {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        ToolSpec {
            name: "refund".into(),
            description: String::new(),
            parameters: RawJson::parse(r#"{"type": "object"}"#).unwrap(),
            effect: Effect::Reconcile,
            timeout_s: 1,
            kind: ToolKind::Http { method: method.into(), url: self.ledger.url("/refunds"), headers },
            hold: None,
        }
    }

    pub(crate) async fn call(&self, tool: ToolSpec, arguments: &str) -> ToolReply {
        self.steps.call_tool(tool_call(tool, arguments)).await
    }

    pub(crate) async fn put(&self, bytes: &[u8]) -> reenact_events::BlobRef {
        self.blobs.put(bytes.into(), None).await.unwrap()
    }
}

pub(crate) fn model_at(base_url: &str) -> ModelSpec {
    ModelSpec {
        provider: "openai".into(),
        id: "a-model".into(),
        base_url: Some(base_url.into()),
        api_key_env: Some("THE_KEY".into()),
        api_key_file: None,
        temperature_milli: None,
        max_tokens: None,
        timeout_s: 5,
        retries: 2,
    }
}

pub(crate) fn user(text: &str) -> ChatMessage {
    ChatMessage::User { text: text.into(), media: vec![] }
}

pub(crate) fn context() -> StepContext {
    let run_id = RunId::trusted("run-1");
    StepContext {
        token: StepToken::of_step(&run_id, 3),
        run_id,
        session_id: SessionId::trusted("Zoë’s session"),
        user_id: Some(UserId::trusted("alice")),
        attempt: 1,
    }
}

pub(crate) fn tool_call(tool: ToolSpec, arguments: &str) -> ToolCall {
    ToolCall { tool: tool.into(), arguments: arguments.into(), context: context() }
}
