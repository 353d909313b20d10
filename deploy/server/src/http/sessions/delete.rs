//! `DELETE /sessions/{session_id}` and `DELETE /sessions`. Deleting what is not there is harmless.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use reenact_events::{Command, CommandBody, SessionId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::{
    error::{ApiError, ErrorBody, Fault},
    fields::{PathIds, Query},
    ids,
    json_body::JsonBody,
    position::Token,
    scope::{Caller, caller},
    state::{Ready, Services},
};

/// The most sessions that one request may delete.
const BULK_MAX: usize = 1_000;

/// Sessions that are to be deleted.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeleteSessions {
    /// Which.
    #[schema(min_items = 1, max_items = 1000)]
    pub session_ids: Vec<String>,
    /// Of which types, one for each.
    #[schema(min_items = 1, max_items = 1000)]
    pub session_types: Vec<String>,
}

/// Deletes a session with its runs; those at work are stopped.
#[utoipa::path(
    delete, path = "/sessions/{session_id}", tag = "Sessions", operation_id = "delete_session",
    params(
        ("session_id" = String, Path, description = "The session"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    responses((status = 204, description = "It is not there any more"))
)]
pub async fn one(Ready(services): Ready, path: PathIds, Query(query): Query) -> Result<Response, ApiError> {
    let caller = caller(&query)?;
    let session = path.get("session_id", SessionId::parse)?;
    let token = delete(&services, &caller, session).await?;
    Ok((StatusCode::NO_CONTENT, token).into_response())
}

/// Deletes several sessions.
#[utoipa::path(
    delete, path = "/sessions", tag = "Sessions", operation_id = "delete_sessions",
    params(("user_id" = Option<String>, Query, description = "Who asks")),
    request_body = DeleteSessions,
    responses(
        (status = 204, description = "They are not there any more"),
        (status = 400, description = "The lists differ in length", body = ErrorBody),
        (status = 422, description = "Malformed", body = ErrorBody),
    )
)]
pub async fn many(Ready(services): Ready, Query(query): Query, body: JsonBody) -> Result<Response, ApiError> {
    let caller = caller(&query)?;
    let (ids, types) = (body.texts("session_ids")?, body.texts("session_types")?);
    if ids.len() != types.len() {
        let text = "`session_ids` and `session_types` must have the same length";
        return Err(ApiError::new(StatusCode::BAD_REQUEST, text));
    }
    let fault = |name, msg: String| ApiError::malformed(Fault::new("body", name, "value_error", msg));
    if ids.is_empty() || ids.len() > BULK_MAX {
        return Err(fault("session_ids", format!("Input should have 1 to {BULK_MAX} items")));
    }
    if let Some(other) = types.iter().find(|kind| !["agent", "team", "workflow"].contains(&kind.as_str())) {
        return Err(fault("session_types", format!("`{other}` is no session type")));
    }
    let sessions = ids.iter().map(|id| SessionId::parse(id)).collect::<Result<Vec<_>, _>>();
    let sessions = sessions.map_err(|error| fault("session_ids", format!("an id cannot be used: {error}")))?;
    let mut token = services.caught_up(None).await?;
    for session in sessions {
        token = delete(&services, &caller, session).await?;
    }
    Ok((StatusCode::NO_CONTENT, token).into_response())
}

async fn delete(services: &Services, caller: &Caller, session_id: SessionId) -> Result<Token, ApiError> {
    let body = CommandBody::DeleteSession { session_id, runs: None, reason: None };
    match services.submit(Command::new(ids::command(), caller.user_id.clone(), body)).await {
        Ok((_, token)) => Ok(token),
        Err(error) if error.status == StatusCode::NOT_FOUND => services.caught_up(None).await,
        Err(error) => Err(error),
    }
}
