//! A run as it stands in lists of a session, made from its stored `RunOutput`.

use reenact_events::{RunId, SessionId};
use reenact_projections::query::RunRow;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::iso_seconds;

const PREVIEW_CHARS: usize = 280;

/// A run that was accepted and goes on by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Ticket {
    /// The run.
    #[schema(value_type = String)]
    pub run_id: RunId,
    /// Its session.
    #[schema(value_type = String)]
    pub session_id: SessionId,
    /// `PENDING` for a run that was accepted now; where the run is, for a repeat.
    pub status: &'static str,
}

/// Where a run comes from that another one was before, under AgentOS's names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ForkedFrom {
    /// The run that it goes on from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from_run_id: Option<String>,
    /// After how many of that one's messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from_message_index: Option<u64>,
    /// The session that it was copied from with the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from_session_id: Option<String>,
    /// The run whose answer it gives anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regenerated_from: Option<String>,
}

impl ForkedFrom {
    fn of(run_data: &Value) -> Self {
        let id = |field: &str| run_data[field].as_str().map(str::to_owned);
        Self {
            forked_from_run_id: id("forked_from_run_id"),
            forked_from_message_index: run_data["forked_from_message_index"].as_u64(),
            forked_from_session_id: id("forked_from_session_id"),
            regenerated_from: id("regenerated_from"),
        }
    }
}

/// A run of a session.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RunSchema {
    /// Which.
    pub run_id: String,
    /// The run that started it, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// Where it comes from, if another one was before it.
    #[serde(flatten)]
    pub forked_from: ForkedFrom,
    /// Who answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Whose it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// Where it is.
    pub status: &'static str,
    /// How far it had come when it was cancelled.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Option<String>)]
    pub cancellation_stage: Value,
    /// The message.
    pub run_input: String,
    /// The answer.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Option<String>)]
    pub content: Value,
    /// `text` or `json`.
    pub run_response_format: &'static str,
    /// What the model thought.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Option<String>)]
    pub reasoning_content: Value,
    /// Tokens and times.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Option<Object>)]
    pub metrics: Value,
    /// The caller's own.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Value,
    /// The conversation.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub messages: Value,
    /// The tool calls.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub tools: Value,
    /// The session's state at the end of the run.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Option<Object>)]
    pub session_state: Value,
    /// When it was accepted, ISO 8601.
    pub created_at: String,
    /// The files that came with the message: `{images, videos, audios, files}`.
    #[schema(value_type = Object)]
    pub input_media: Value,
}

impl RunSchema {
    /// Shows a run.
    #[must_use]
    pub fn of(mut row: RunRow) -> Self {
        let run_input = input_of(&row.run_data);
        let input_media = media_of(&row.run_data);
        let forked_from = ForkedFrom::of(&row.run_data);
        let text = matches!(row.run_data["content_type"].as_str(), None | Some("str"));
        let mut take = |field: &str| row.run_data.get_mut(field).map(Value::take).unwrap_or_default();
        Self {
            run_id: row.run_id.to_string(),
            parent_run_id: row.parent_run_id.as_ref().map(ToString::to_string),
            forked_from,
            agent_id: row.agent_id.clone(),
            user_id: row.user_id.as_ref().map(ToString::to_string),
            status: row.status.as_str(),
            cancellation_stage: take("cancellation_stage"),
            run_input,
            content: take("content"),
            run_response_format: if text { "text" } else { "json" },
            reasoning_content: take("reasoning_content"),
            metrics: take("metrics"),
            metadata: take("metadata"),
            messages: take("messages"),
            tools: take("tools"),
            session_state: take("session_state"),
            created_at: iso_seconds(row.created_at),
            input_media,
        }
    }
}

/// A run in a short list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RunPreview {
    /// Which.
    pub run_id: String,
    /// Its session: ours, AgentOS lists runs of one session only.
    pub session_id: String,
    /// The run that started it, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// Where it comes from, if another one was before it.
    #[serde(flatten)]
    pub forked_from: ForkedFrom,
    /// Who answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Whose it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// Where it is.
    pub status: &'static str,
    /// The beginning of the message.
    pub run_input: String,
    /// The beginning of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_preview: Option<String>,
    /// When it was accepted, ISO 8601.
    pub created_at: String,
}

impl RunPreview {
    /// Shows a run.
    #[must_use]
    pub fn of(row: &RunRow) -> Self {
        Self {
            run_id: row.run_id.to_string(),
            session_id: row.session_id.to_string(),
            parent_run_id: row.parent_run_id.as_ref().map(ToString::to_string),
            forked_from: ForkedFrom::of(&row.run_data),
            agent_id: row.agent_id.clone(),
            user_id: row.user_id.as_ref().map(ToString::to_string),
            status: row.status.as_str(),
            run_input: cut(&input_of(&row.run_data)),
            content_preview: match &row.run_data["content"] {
                Value::Null => None,
                Value::String(text) => Some(cut(text)),
                other => Some(cut(&other.to_string())),
            },
            created_at: iso_seconds(row.created_at),
        }
    }
}

fn cut(text: &str) -> String {
    text.chars().take(PREVIEW_CHARS).collect()
}

pub(crate) fn input_of(run_data: &Value) -> String {
    match &run_data["input"]["input_content"] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        // Lists do not read texts that are kept apart.
        other => match other["bytes"].as_u64() {
            Some(bytes) => format!("({bytes} bytes)"),
            None => other.to_string(),
        },
    }
}

fn media_of(run_data: &Value) -> Value {
    let of = |kind: &str| match &run_data["input"][kind] {
        Value::Array(items) => json!(items),
        _ => json!([]),
    };
    json!({"images": of("images"), "videos": of("videos"), "audios": of("audios"), "files": of("files")})
}
