//! Does the steps of runs: the one place that picks between providers and kinds of tools.

use std::{fmt, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use reenact_actors::step::{
    DeltaSink, GuardrailCall, ModelCall, ModelReply, Reconciled, StepError, Steps, ToolCall, ToolReply,
};
use reenact_events::{
    Blobs, Clock, RawJson,
    agent::{ToolKind, ToolSpec},
    event::{Blocked, Failure},
};
use reqwest::Client;

use crate::{
    arguments::Schemas,
    environment::Environment,
    guardrail, http,
    model::{Models, demo},
    output,
    tool::{builtin, http::HttpTools, http_request::Endpoint},
};

/// The HTTP client could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("failed to set up the HTTP client for models and tools")]
pub struct SetupError(#[from] reqwest::Error);

/// Calls models and tools. It holds no state of a run: a step needs only what it is given.
pub struct AgentSteps {
    blobs: Arc<dyn Blobs>,
    clock: Arc<dyn Clock>,
    environment: Environment,
    models: Client,
    tools: Client,
    schemas: Schemas,
}

impl AgentSteps {
    /// Steps that keep files in `blobs` and read keys from this process's environment.
    ///
    /// # Errors
    /// When TLS cannot be set up on this machine.
    pub fn new(blobs: Arc<dyn Blobs>, clock: Arc<dyn Clock>) -> Result<Self, SetupError> {
        Self::with_environment(blobs, clock, Environment::of_process())
    }

    /// As [`AgentSteps::new`], with keys from elsewhere.
    ///
    /// # Errors
    /// When TLS cannot be set up on this machine.
    pub fn with_environment(
        blobs: Arc<dyn Blobs>,
        clock: Arc<dyn Clock>,
        environment: Environment,
    ) -> Result<Self, SetupError> {
        let (models, tools) = (http::model_client()?, http::tool_client()?);
        Ok(Self { blobs, clock, environment, models, tools, schemas: Schemas::default() })
    }

    fn http_tools(&self) -> HttpTools<'_> {
        HttpTools { client: &self.tools, environment: &self.environment, blobs: &*self.blobs }
    }

    async fn ask(&self, call: &ModelCall, sink: &dyn DeltaSink) -> Result<ModelReply, StepError> {
        if call.model.provider == "demo" {
            return demo::call(&*self.blobs, call, sink).await;
        }
        let (client, environment, blobs) = (&self.models, &self.environment, &*self.blobs);
        Models { client, environment, blobs, now: self.clock.now() }.call(call, sink).await
    }
}

impl fmt::Debug for AgentSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentSteps").finish_non_exhaustive()
    }
}

impl Steps for AgentSteps {
    fn call_model<'a>(
        &'a self,
        call: ModelCall,
        sink: Arc<dyn DeltaSink>,
    ) -> BoxFuture<'a, Result<ModelReply, StepError>> {
        async move { self.ask(&call, &*sink).await }.boxed()
    }

    fn check_arguments(&self, tool: &ToolSpec, arguments: &str) -> Result<Arc<str>, String> {
        self.schemas.check(tool, arguments)
    }

    fn check_schema(&self, schema: &RawJson) -> Result<(), String> {
        self.schemas.check_schema(schema)
    }

    fn check_output(&self, schema: &RawJson, answer: &str) -> Result<String, String> {
        output::check(&self.schemas, schema, answer)
    }

    fn ask_guardrail<'a>(&'a self, call: GuardrailCall) -> BoxFuture<'a, Result<Option<Blocked>, Failure>> {
        guardrail::ask(self.http_tools(), call).boxed()
    }

    fn call_tool<'a>(&'a self, call: ToolCall) -> BoxFuture<'a, ToolReply> {
        async move {
            match &call.tool.kind {
                ToolKind::Http { method, url, headers } => {
                    self.http_tools().call(&call, Endpoint { method, url, headers }).await
                }
                ToolKind::Builtin => builtin::call(&call, self.clock.now()).await,
                ToolKind::External => {
                    let text = format!("`{}` is called elsewhere and cannot be called from here", call.tool.name);
                    ToolReply { text, error: true, media: Vec::new(), session_state: None }
                }
            }
        }
        .boxed()
    }

    fn reconcile<'a>(&'a self, call: ToolCall) -> BoxFuture<'a, Reconciled> {
        async move {
            match &call.tool.kind {
                ToolKind::Http { method, url, headers } => {
                    self.http_tools().reconcile(&call, Endpoint { method, url, headers }).await
                }
                ToolKind::Builtin => Reconciled::Unknown("a built-in tool keeps no record of its calls".into()),
                ToolKind::External => Reconciled::Unknown("the tool is called elsewhere".into()),
            }
        }
        .boxed()
    }
}
