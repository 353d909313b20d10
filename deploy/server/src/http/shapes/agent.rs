//! An agent as it is listed and as it is shown alone.

use reenact_events::{
    RawJson,
    agent::{AgentSpec, ToolSpec},
    hold::Needs,
};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

/// A model as AgentOS names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ModelResponse {
    /// What it is called.
    pub name: String,
    /// Its id at the provider.
    pub model: String,
    /// The provider.
    pub provider: String,
}

/// An agent in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct AgentSummary {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where its runs are stored.
    pub db_id: &'static str,
    /// The model that it thinks with: `{id, provider}` in lists of a configuration.
    #[schema(value_type = Object)]
    pub model: Value,
    /// Always false here.
    pub sandboxed: bool,
}

/// An agent, whole.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct AgentResponse {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Where its runs are stored.
    pub db_id: &'static str,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The model that it thinks with.
    pub model: ModelResponse,
    /// Its tools: `{tools: [{name, description, parameters, effect, …}], tool_call_limit}`.
    #[schema(value_type = Object)]
    pub tools: Value,
    /// What it sees of its session: `{add_history_to_context, num_history_runs}`.
    #[schema(value_type = Object)]
    pub sessions: Value,
    /// Its instructions: `{instructions}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object)]
    pub system_message: Option<Value>,
    /// How it answers: `{stream, stream_events}`.
    #[schema(value_type = Object)]
    pub streaming: Value,
    /// The JSON Schema that its answers must fit, if they must: ours, AgentOS does not show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object)]
    pub output_schema: Option<Value>,
    /// What bounds a run, and the version that runs pin: ours, AgentOS has no such fields.
    #[schema(value_type = Object)]
    pub metadata: Value,
    /// Always false here.
    pub is_factory: bool,
    /// Always false here.
    pub is_component: bool,
    /// Always false here.
    pub filesystem: bool,
    /// Always false here.
    pub sandboxed: bool,
}

/// What the one database is called.
pub(crate) const DATABASE: &str = "reenact";

impl From<&AgentSpec> for AgentSummary {
    fn from(agent: &AgentSpec) -> Self {
        Self {
            id: agent.id.to_string(),
            name: agent.name.clone(),
            description: agent.description.clone(),
            db_id: DATABASE,
            model: json!({"id": agent.model.id, "provider": agent.model.provider}),
            sandboxed: false,
        }
    }
}

impl From<&AgentSpec> for AgentResponse {
    fn from(agent: &AgentSpec) -> Self {
        let tools: Vec<_> = agent.tools.iter().map(tool).collect();
        let history = json!({"add_history_to_context": agent.history_runs > 0, "num_history_runs": agent.history_runs});
        Self {
            id: agent.id.to_string(),
            name: agent.name.clone(),
            db_id: DATABASE,
            description: agent.description.clone(),
            model: ModelResponse {
                name: agent.model.id.clone(),
                model: agent.model.id.clone(),
                provider: agent.model.provider.clone(),
            },
            tools: json!({"tools": tools, "tool_call_limit": agent.limits.tool_calls}),
            sessions: history,
            system_message: agent.instructions.as_ref().map(|text| json!({"instructions": text})),
            streaming: json!({"stream": true, "stream_events": true}),
            metadata: json!({
                "version": &*agent.version(),
                "turn_limit": agent.limits.turns,
                "timeout_s": agent.limits.timeout_s,
            }),
            output_schema: agent.output_schema.as_ref().map(RawJson::value),
            is_factory: false,
            is_component: false,
            filesystem: false,
            sandboxed: false,
        }
    }
}

fn tool(tool: &ToolSpec) -> Value {
    let needs = tool.hold.as_ref().map(|hold| &hold.needs);
    json!({
        "requires_confirmation": needs == Some(&Needs::Confirmation),
        "requires_user_input": matches!(needs, Some(Needs::Input { .. })),
        "external_execution": needs == Some(&Needs::Execution),

        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters.value(),
        "effect": tool.effect,
        "timeout_s": tool.timeout_s,
    })
}
