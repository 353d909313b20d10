//! `POST …/continue` of a run that failed: it is queued again, and goes on from its last completed step.
//!
//! A run that was cancelled is not continued by this, as in AgentOS: whoever stopped it meant that. It can be queued
//! again by `/queue/jobs/{id}/requeue`.

use std::sync::Arc;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use reenact_events::{Command, CommandBody, RunId};

use super::{Found, read};
use crate::http::{
    error::ApiError,
    feed::Feed,
    ids,
    scope::Caller,
    shapes::Ticket,
    state::{App, Services},
    stream,
};

/// Lets a failed run go on, and shows it as the caller wishes.
///
/// # Errors
/// When it is refused, or cannot be shown.
pub(super) async fn go_on(
    app: App,
    services: Arc<Services>,
    caller: Caller,
    found: Found,
    (stream, background): (bool, bool),
) -> Result<Response, ApiError> {
    let who = found.who();
    let (run_id, session_id): (RunId, _) = (found.row.run_id, found.row.session_id);
    // The error is known to whoever asks: the stream begins after it.
    let mut seen = Feed::of_run(&services, &caller.scope, who, None).await?;
    seen.backlog();
    let body = CommandBody::RequeueRun { session_id: Some(session_id.clone()), run_id: run_id.clone(), asked: 0 };
    let (_, token) = services.submit(Command::new(ids::command(), caller.user_id.clone(), body)).await?;
    if background && !stream {
        let ticket = Ticket { run_id, session_id, status: "PENDING" };
        return Ok((StatusCode::ACCEPTED, token, Json(ticket)).into_response());
    }
    let mut feed = seen.going_on();
    if stream {
        return Ok((token, stream::respond(app, services, caller.scope, feed, None, Vec::new())).into_response());
    }
    read::settled(&app, &services, &caller.scope, &mut feed).await?;
    read::ended(&services, &caller.scope, &feed, token).await
}
