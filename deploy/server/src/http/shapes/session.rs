//! A session as it is listed and as it is shown alone.

use reenact_events::event::RunStatus;
use reenact_projections::query::{RunRow, SessionRow};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::iso_seconds;

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SessionSchema {
    /// Which.
    pub session_id: String,
    /// Its name; the beginning of the first message when nobody gave one.
    pub session_name: String,
    /// Its state.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Option<Object>)]
    pub session_state: Value,
    /// Created, ISO 8601.
    pub created_at: String,
    /// Last changed, ISO 8601.
    pub updated_at: String,
    /// `agent`.
    pub session_type: String,
    /// Its owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The agent that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Its summary.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Option<Object>)]
    pub session_summary: Value,
    /// Tokens and times of all its runs.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Option<Object>)]
    pub metrics: Value,
    /// Tokens of all its runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// The caller's own.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Value,
}

impl SessionSchema {
    /// Shows a session.
    #[must_use]
    pub fn of(mut row: SessionRow) -> Self {
        let name = row.session_data["session_name"].as_str().map(str::to_owned);
        let mut take = |field: &str| row.session_data.get_mut(field).map(Value::take).unwrap_or_default();
        let (session_state, metrics) = (take("session_state"), take("session_metrics"));
        Self {
            session_id: row.session_id.to_string(),
            session_name: name.or(row.first_message).unwrap_or_default(),
            session_state,
            created_at: iso_seconds(row.created_at),
            updated_at: iso_seconds(row.updated_at.unwrap_or(row.created_at)),
            session_type: row.session_type,
            user_id: row.user_id.as_ref().map(ToString::to_string),
            agent_id: row.agent_id,
            session_summary: row.summary.unwrap_or_default(),
            total_tokens: metrics["total_tokens"].as_u64(),
            metrics,
            metadata: row.metadata.unwrap_or_default(),
        }
    }
}

/// A session, whole.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SessionDetail {
    /// The session as in lists.
    #[serde(flatten)]
    pub session: SessionSchema,
    /// The session's id once more, as AgentOS has it.
    pub agent_session_id: String,
    /// What was said in its finished runs.
    #[schema(value_type = Vec<Object>)]
    pub chat_history: Vec<Value>,
}

impl SessionDetail {
    /// Shows a session with what was said in it.
    #[must_use]
    pub fn of(row: SessionRow, chat_history: Vec<Value>) -> Self {
        let session = SessionSchema::of(row);
        Self { agent_session_id: session.session_id.clone(), session, chat_history }
    }
}

/// What was said in finished runs, without instructions and without what a run was reminded of.
#[must_use]
pub fn chat_history(runs: Vec<RunRow>) -> Vec<Value> {
    let finished = runs.into_iter().filter(|run| run.status == RunStatus::Completed && run.parent_run_id.is_none());
    let messages = finished.flat_map(|mut run| match run.run_data.get_mut("messages").map(Value::take) {
        Some(Value::Array(messages)) => messages,
        _ => Vec::new(),
    });
    messages.filter(|message| message["role"] != "system" && message["from_history"] != true).collect()
}
