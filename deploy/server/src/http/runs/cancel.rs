//! `POST /agents/{agent_id}/runs/{run_id}/cancel`.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use reenact_events::{AgentId, Command, CommandBody, RunId, SessionId};

use super::find;
use crate::http::{
    error::{ApiError, ErrorBody},
    fields::{PathIds, Query},
    ids,
    scope::caller,
    shapes::Ticket,
    state::{App, Ready},
};

/// Stops a run. Harmless when it has ended: the answer says how.
#[utoipa::path(
    post, path = "/agents/{agent_id}/runs/{run_id}/cancel", tag = "Agents", operation_id = "cancel_agent_run",
    params(
        ("agent_id" = String, Path, description = "The agent"),
        ("run_id" = String, Path, description = "The run"),
        ("session_id" = Option<String>, Query, description = "Its session; a run of another one is not found"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    responses(
        (status = 200, description = "The request is durable; `status` is where the run is now", body = Ticket),
        (status = 404, description = "No such agent or run", body = ErrorBody),
    )
)]
pub async fn cancel(
    State(app): State<App>,
    Ready(services): Ready,
    path: PathIds,
    Query(query): Query,
) -> Result<Response, ApiError> {
    let caller = caller(&query)?;
    let session = query.id("session_id", SessionId::parse)?;
    let (agent, run_id) = (path.get("agent_id", AgentId::parse)?, path.get("run_id", RunId::parse)?);
    services.caught_up(None).await?;
    let row = find(&app, &services, &caller.scope, &agent, &run_id, session.as_ref()).await?.row;
    let session_id = row.session_id;
    let (session, run) = (Some(session_id.clone()), run_id.clone());
    let body = CommandBody::CancelRun { session_id: session, run_id: run, reason: None, asked: 0 };
    let (accepted, token) = services.submit(Command::new(ids::command(), caller.user_id, body)).await?;
    let status = accepted.status.unwrap_or(row.status).as_str();
    Ok((token, Json(Ticket { run_id, session_id, status })).into_response())
}
