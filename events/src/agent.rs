//! What an agent is: the part of an agent file that a run depends on.
//!
//! A run pins the specification it was accepted with. The specification is an event
//! (`component.registered`) in the session's stream, written when the partition has not seen that version
//! yet, so that a replay needs no file of today.

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    AgentId, RawJson, UserId,
    hold::{HoldSpec, Needs},
    ids,
};

/// An agent as declared, complete with defaults. Secrets stand in it only as references (`env:NAME`, a path).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// Its id, `^[a-z0-9][a-z0-9-_]*$`.
    pub id: AgentId,
    /// What people call it.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The system message.
    pub instructions: Option<String>,
    /// The model it thinks with.
    pub model: ModelSpec,
    /// The models that are asked once those before them have failed, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<ModelSpec>,
    /// The tools it may call, in declared order.
    pub tools: Vec<ToolSpec>,
    /// How many finished runs of the session the model sees.
    pub history_runs: u32,
    /// What bounds a run.
    pub limits: Limits,
    /// How its runs wait.
    #[serde(default, skip_serializing_if = "QueueSpec::is_usual")]
    pub queue: QueueSpec,
    /// Who is asked about what comes in and what goes out, in declared order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guardrails: Vec<GuardrailSpec>,
    /// Keys that a session's state has from its first run with this agent on, a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_state: Option<RawJson>,
    /// The model is shown the session's state after the instructions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub add_session_state_to_context: bool,
    /// The JSON Schema that its answers must fit, if they must.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<RawJson>,
}

impl AgentSpec {
    /// Names this very content: equal specifications have equal versions.
    #[must_use]
    pub fn version(&self) -> Arc<str> {
        let json = serde_json::to_string(self).unwrap_or_default();
        ids::derived("agent", &[&json]).to_string().into()
    }

    /// The same of one that a user has changed: no other user's run depends on what was registered for this one.
    #[must_use]
    pub fn version_of(&self, user: Option<&UserId>) -> Arc<str> {
        format!("{}{}", own_versions(user), self.version()).into()
    }

    /// All its models, in the order in which they are asked.
    pub fn models(&self) -> impl Iterator<Item = &ModelSpec> {
        std::iter::once(&self.model).chain(&self.fallbacks)
    }

    /// The model at a place among [`AgentSpec::models`].
    #[must_use]
    pub fn model_at(&self, place: u32) -> Option<&ModelSpec> {
        self.models().nth(place as usize)
    }

    /// The guardrail of this name.
    #[must_use]
    pub fn guardrail(&self, name: &str) -> Option<&GuardrailSpec> {
        self.guardrails.iter().find(|guardrail| guardrail.name == name)
    }

    /// The agent as its models see it, see [`ToolSpec::for_model`].
    #[must_use]
    pub fn for_model(self: &Arc<Self>) -> Arc<Self> {
        let tools: Vec<_> = self.tools.iter().map(ToolSpec::for_model).collect();
        if tools.iter().all(|tool| matches!(tool, Cow::Borrowed(_))) {
            return self.clone();
        }
        let tools = tools.into_iter().map(Cow::into_owned).collect();
        Arc::new(Self { tools, ..Self::clone(self) })
    }

    /// The tool of this name; names are compared exactly.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

/// What the versions of a user's own agents begin with. Users are not named in it.
#[must_use]
pub fn own_versions(user: Option<&UserId>) -> String {
    let parts: Vec<&str> = user.iter().map(|user| user.as_str()).collect();
    format!("{}:", ids::derived("own agents", &parts))
}

/// Which model, where, and how to ask it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSpec {
    /// `openai` (any server that speaks chat completions), `anthropic`, `gemini` or `demo` (built in, no network).
    pub provider: String,
    /// The model's id at the provider.
    pub id: String,
    /// Where the provider is, if not at its usual place.
    pub base_url: Option<String>,
    /// The environment variable that holds the key.
    pub api_key_env: Option<String>,
    /// The file that holds the key; it is read at each call, so that a key can be changed while the server runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_file: Option<String>,
    /// Sampling temperature in thousandths (700 = 0.7), if set.
    pub temperature_milli: Option<u32>,
    /// At most this many tokens in an answer, if set.
    pub max_tokens: Option<u32>,
    /// Seconds that one call may take without a byte arriving.
    pub timeout_s: u32,
    /// How many times a call that failed for a passing reason is made again.
    pub retries: u32,
}

/// What may be assumed of a tool whose call has no recorded outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing: called again.
    ReadOnly,
    /// Happens once per token: called again with the same token.
    Idempotent,
    /// Can be asked whether the token happened.
    Reconcile,
    /// May have happened, cannot be asked: in doubt, a person decides. What a tool that declares nothing is.
    AtMostOnce,
}

/// A tool as declared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// What the model calls it.
    pub name: String,
    /// What the model is told about it.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: RawJson,
    /// What recovery may do.
    pub effect: Effect,
    /// Seconds that a call may take.
    pub timeout_s: u32,
    /// How it is done.
    pub kind: ToolKind,
    /// That its calls wait for somebody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldSpec>,
}

impl ToolSpec {
    /// The tool as a model sees it: without the arguments that a person fills in.
    #[must_use]
    pub fn for_model(&self) -> Cow<'_, Self> {
        let Some(HoldSpec { needs: Needs::Input { fields }, .. }) = &self.hold else { return Cow::Borrowed(self) };
        let is_asked = |name: &str| fields.iter().any(|field| field.name == name);
        let mut schema = self.parameters.value();
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.retain(|name, _| !is_asked(name));
        }
        if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|name| !name.as_str().is_some_and(is_asked));
        }
        // A tree that was read from JSON can be written as JSON.
        let parameters = RawJson::of(&schema).unwrap_or_else(|_| self.parameters.clone());
        Cow::Owned(Self { parameters, ..self.clone() })
    }
}

/// How a tool is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// An HTTP request.
    Http {
        /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
        method: String,
        /// Where.
        url: String,
        /// Sent as they are; a value `env:NAME` is read from the environment at call time.
        headers: Vec<(String, String)>,
    },
    /// Part of this program: `calculator`, `current_time` or `sleep`.
    Builtin,
    /// Not by this program: its calls are held until somebody says what came of them.
    External,
}

/// Somebody who is asked whether a message, or an answer, may pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardrailSpec {
    /// What it is called; unique among the agent's.
    pub name: String,
    /// About what it is asked.
    pub on: Guarded,
    /// Where it is; it is sent a `POST`.
    pub url: String,
    /// Sent as they are; a value `env:NAME` is read from the environment at call time.
    pub headers: Vec<(String, String)>,
    /// Seconds that a call may take.
    pub timeout_s: u32,
    /// How many times it is asked again when it gives no answer.
    pub retries: u32,
}

/// What a guardrail is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guarded {
    /// The message, before any model sees it.
    Input,
    /// The answer, before it is the run's.
    Output,
}

impl Guarded {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
        }
    }
}

/// What bounds a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Tool calls in one run; further ones are answered with an error.
    pub tool_calls: u32,
    /// Model calls in one run; reaching it ends the run with ERROR.
    pub turns: u32,
    /// Seconds from start to end.
    pub timeout_s: u32,
}

/// How an agent's runs wait for their turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueSpec {
    /// From 0 to 100; runs of a higher one come first.
    pub priority: u32,
    /// While one of its runs is paused, no later run of that session begins.
    pub paused_holds_session: bool,
    /// What a message does whose session has a run that works or waits.
    #[serde(skip_serializing_if = "WhenBusy::is_usual")]
    pub when_busy: WhenBusy,
}

/// See [`QueueSpec::when_busy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenBusy {
    /// Its run waits for those before it.
    #[default]
    Queue,
    /// It is refused.
    Reject,
    /// It cancels the run at work first.
    Interrupt,
    /// Its run works beside the others.
    Parallel,
}

impl WhenBusy {
    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for QueueSpec {
    fn default() -> Self {
        Self { priority: 50, paused_holds_session: false, when_busy: WhenBusy::Queue }
    }
}

impl QueueSpec {
    /// Whether it is what an agent has that says nothing: then it is not stored, so that the agents of before keep
    /// their versions.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}
