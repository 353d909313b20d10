//! `POST /agents/{agent_id}/sessions/{session_id}/fork`: a session that has the completed runs of another one.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use reenact_events::{AgentId, Command, CommandBody, RawJson, SessionId};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::find;
use crate::http::{
    error::{ApiError, ErrorBody},
    fields::{PathIds, Query},
    ids,
    runs::session_not_found,
    scope::caller,
    state::{App, Ready},
};

/// A session that was made as a copy.
#[derive(Debug, Serialize, ToSchema)]
pub struct ForkedSession {
    /// The new one.
    #[schema(value_type = String)]
    pub session_id: SessionId,
    /// The other one.
    #[schema(value_type = String)]
    pub forked_from_session_id: SessionId,
}

/// Makes a session that has the completed runs of another one, its state, name, metadata and summary.
#[utoipa::path(
    post, path = "/agents/{agent_id}/sessions/{session_id}/fork", tag = "Agents", operation_id = "fork_agent_session",
    params(
        ("agent_id" = String, Path, description = "The agent"),
        ("session_id" = String, Path, description = "The session to copy"),
        ("user_id" = Option<String>, Query, description = "Who asks, and whose the copy is; else its owner is the same"),
    ),
    responses(
        (status = 200, description = "The copy", body = ForkedSession),
        (status = 400, description = "The session has no completed run, or more than are copied", body = ErrorBody),
        (status = 404, description = "No such agent, or it has no such session", body = ErrorBody),
    )
)]
pub async fn fork(
    State(app): State<App>,
    Ready(services): Ready,
    path: PathIds,
    Query(query): Query,
) -> Result<Response, ApiError> {
    let agent = app.agent(&path.get("agent_id", AgentId::parse)?)?;
    let caller = caller(&query)?;
    let source = path.get("session_id", SessionId::parse)?;
    services.caught_up(None).await?;
    let row = find(&services, &caller.scope, &source, Some("agent")).await?;
    if row.agent_id.as_deref().is_some_and(|of| of != agent.id.as_str()) {
        return Err(session_not_found());
    }
    let body = CommandBody::ForkSession {
        session_id: source.clone(),
        name: row.session_data["session_name"].as_str().map(str::to_owned),
        metadata: object(row.metadata.as_ref())?,
        summary: object(row.summary.as_ref())?,
    };
    let (accepted, token) = services.submit(Command::new(ids::command(), caller.user_id, body)).await?;
    let unnamed = || ApiError::internal("the copy of a session has no name", &source);
    let session_id = accepted.session_id.ok_or_else(unnamed)?;
    let forked = ForkedSession { session_id, forked_from_session_id: source };
    Ok((token, Json(forked)).into_response())
}

/// What a row holds; one that JSON cannot hold stands there as its text, and is read back from it.
fn object(value: Option<&Value>) -> Result<Option<RawJson>, ApiError> {
    let raw = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => RawJson::parse(text),
        Some(value) => RawJson::of(value),
    };
    raw.map(Some).map_err(|error| ApiError::internal("a session's field cannot be copied", &error))
}
