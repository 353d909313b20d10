//! `POST /sessions`.

use axum::{http::StatusCode, response::Response};
use reenact_events::{AgentId, Command, CommandBody, SessionId, UserId};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{detail, session_type};
use crate::http::{
    error::{ApiError, ErrorBody},
    fields::Query,
    ids,
    json_body::JsonBody,
    scope::{caller, caller_of},
    shapes::SessionDetail,
    state::Ready,
};

/// A session that is to be made.
#[derive(Debug, Serialize, ToSchema)]
pub struct CreateSession {
    /// Its id; a new one when absent.
    pub session_id: Option<String>,
    /// Its name.
    pub session_name: Option<String>,
    /// Its state.
    #[schema(value_type = Option<Object>)]
    pub session_state: Option<Value>,
    /// For the caller's own use.
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Value>,
    /// Its owner.
    pub user_id: Option<String>,
    /// The agent that it is for.
    pub agent_id: Option<String>,
}

/// Makes a session.
#[utoipa::path(
    post, path = "/sessions", tag = "Sessions", operation_id = "create_session",
    params(("type" = Option<String>, Query, description = "`agent`; the others are not in this version")),
    request_body = CreateSession,
    responses(
        (status = 201, description = "The session", body = SessionDetail),
        (status = 400, description = "Not a session of an agent", body = ErrorBody),
        (status = 404, description = "No such agent", body = ErrorBody),
        (status = 409, description = "The id is taken", body = ErrorBody),
        (status = 422, description = "Malformed", body = ErrorBody),
    )
)]
pub async fn create(Ready(services): Ready, Query(query): Query, body: JsonBody) -> Result<Response, ApiError> {
    if !matches!(session_type(&query)?, None | Some("agent")) {
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "this version has sessions of agents only: use type=agent"));
    }
    let caller = match body.id("user_id", UserId::parse)? {
        Some(user) => caller_of(Some(user))?,
        None => caller(&query)?,
    };
    let session_id = body.id("session_id", SessionId::parse)?.unwrap_or_else(ids::session);
    let body = CommandBody::CreateSession {
        session_id: session_id.clone(),
        agent_id: body.id("agent_id", AgentId::parse)?,
        name: body.text("session_name")?,
        state: body.object("session_state")?,
        metadata: body.object("metadata")?,
    };
    let (_, token) = services.submit(Command::new(ids::command(), caller.user_id, body)).await?;
    let shown = async {
        services.caught_up(None).await?;
        detail(&services, &caller.scope, &session_id, None, StatusCode::CREATED, token).await
    };
    shown.await.map_err(|error| error.once_taken(&format_args!("session `{session_id}`")))
}
