//! `PATCH /sessions/{session_id}` and `POST /sessions/{session_id}/rename`.

use axum::{http::StatusCode, response::Response};
use reenact_events::{Command, CommandBody, SessionId};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{detail, find, session_type};
use crate::http::{
    error::{ApiError, ErrorBody},
    fields::{Fields, PathIds, Query},
    ids,
    json_body::JsonBody,
    scope::caller,
    shapes::SessionDetail,
    state::{Ready, Services},
};

/// What is to be replaced; what is absent stays.
#[derive(Debug, Serialize, ToSchema)]
pub struct UpdateSession {
    /// The name.
    pub session_name: Option<String>,
    /// The state, whole.
    #[schema(value_type = Option<Object>)]
    pub session_state: Option<Value>,
    /// The caller's own, whole.
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Value>,
    /// The summary, whole.
    #[schema(value_type = Option<Object>)]
    pub summary: Option<Value>,
}

/// A session's new name.
#[derive(Debug, Serialize, ToSchema)]
pub struct RenameSession {
    /// The name.
    pub session_name: String,
}

/// Replaces fields of a session.
#[utoipa::path(
    patch, path = "/sessions/{session_id}", tag = "Sessions", operation_id = "update_session",
    params(
        ("session_id" = String, Path, description = "The session"),
        ("type" = Option<String>, Query, description = "A session of another type is not found"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    request_body = UpdateSession,
    responses(
        (status = 200, description = "The session", body = SessionDetail),
        (status = 404, description = "No such session, or it is another user's", body = ErrorBody),
        (status = 422, description = "Malformed", body = ErrorBody),
    )
)]
pub async fn update(
    Ready(services): Ready,
    path: PathIds,
    Query(query): Query,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let session_id = path.get("session_id", SessionId::parse)?;
    let change = CommandBody::UpdateSession {
        session_id: session_id.clone(),
        name: body.text("session_name")?,
        state: body.object("session_state")?,
        metadata: body.object("metadata")?,
        summary: body.object("summary")?,
    };
    submit(&services, &query, session_id, change).await
}

/// Renames a session.
#[utoipa::path(
    post, path = "/sessions/{session_id}/rename", tag = "Sessions", operation_id = "rename_session",
    params(
        ("session_id" = String, Path, description = "The session"),
        ("type" = Option<String>, Query, description = "A session of another type is not found"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    request_body = RenameSession,
    responses(
        (status = 200, description = "The session", body = SessionDetail),
        (status = 404, description = "No such session, or it is another user's", body = ErrorBody),
        (status = 422, description = "Malformed", body = ErrorBody),
    )
)]
pub async fn rename(
    Ready(services): Ready,
    path: PathIds,
    Query(query): Query,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let session_id = path.get("session_id", SessionId::parse)?;
    let name = Some(body.required("session_name")?);
    let (state, metadata, summary) = (None, None, None);
    let change = CommandBody::UpdateSession { session_id: session_id.clone(), name, state, metadata, summary };
    submit(&services, &query, session_id, change).await
}

async fn submit(
    services: &Services,
    query: &Fields,
    session_id: SessionId,
    change: CommandBody,
) -> Result<Response, ApiError> {
    let caller = caller(query)?;
    let kind = session_type(query)?;
    services.caught_up(None).await?;
    find(services, &caller.scope, &session_id, kind).await?;
    let command = Command::new(ids::command(), caller.user_id, change);
    let (_, token) = services.submit(command).await?;
    services.caught_up(None).await?;
    detail(services, &caller.scope, &session_id, kind, StatusCode::OK, token).await
}
