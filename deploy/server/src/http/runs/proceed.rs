//! `POST /agents/{agent_id}/runs/{run_id}/continue`: decides about calls that a paused run waits for somebody with.
//! Several can be decided at once or one after another, in any order; when all are, the run goes on. What the form
//! can say is in [`decisions`]. A run that failed goes on without any, see `again`.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use reenact_events::{AgentId, Command, CommandBody, RunId, SessionId, command::Decision, event::RunStatus};
use reenact_projections::expand;
use serde::Serialize;
use utoipa::ToSchema;

use super::{again, decisions, find, fork, read, start::Wish};
use crate::http::{
    error::{ApiError, ErrorBody},
    feed::Feed,
    fields::PathIds,
    form::Form,
    ids,
    position::Token,
    scope::{Caller, caller},
    shapes::Ticket,
    state::{App, Ready, Services},
    stream::{self, SentEvent},
};

/// The form that lets a paused run go on.
#[derive(Debug, Serialize, ToSchema)]
pub struct ContinueForm {
    /// A JSON list of the tool calls from `RunPaused`, decided as each needs: `confirmed` true or false (with
    /// `confirmation_note`, or changed `tool_args`), values in `user_input_schema`, or `result`. Calls of which it says
    /// nothing go on waiting. Nothing for a run that failed, which goes on from its last completed step.
    pub tools: Option<String>,
    /// The same as AgentOS's requirements: a JSON list from `requirements` of `RunPaused`. One of the two is needed
    /// for a paused run.
    pub requirements: Option<String>,
    /// What is said then. A run that ended is gone on from with another one, which has the same messages so far.
    pub input: Option<String>,
    /// After which message to go on: `end` (default), `last_user`, or how many of the run's `messages` are kept.
    #[schema(pattern = "^(end|last_user|[0-9]{1,10})?$")]
    pub continue_from: Option<String>,
    /// Go on with another run from a run in any state, which stays what it is; default false.
    pub fork: Option<bool>,
    /// Answer anew, with another run; default false.
    pub regenerate: Option<bool>,
    /// With `regenerate`: the other answer stands in place of the first, which is history no more; default true.
    pub replace_original: Option<bool>,
    /// With `regenerate`: the same as `input`.
    pub additional_instructions: Option<String>,
    /// Ours, in place of `continue_from`: before which step of the run, from 0.
    pub from_step: Option<u32>,
    /// Ours: the other run asks this model of the agent's provider.
    pub model: Option<String>,
    /// Ours: the other run has these instructions in place of the agent's.
    pub instructions: Option<String>,
    /// The run's session; a run of another one is not found.
    pub session_id: Option<String>,
    /// Who decides.
    pub user_id: Option<String>,
    /// Show what follows as server-sent events; default true.
    pub stream: Option<bool>,
    /// Do not wait; default false.
    pub background: Option<bool>,
}

/// Decides about calls that a paused run waits for somebody with, queues one that failed again, or goes on from a
/// message of one that ended with another run.
#[utoipa::path(
    post, path = "/agents/{agent_id}/runs/{run_id}/continue", tag = "Agents", operation_id = "continue_agent_run",
    params(
        ("agent_id" = String, Path, description = "The agent"),
        ("run_id" = String, Path, description = "The run"),
    ),
    request_body(content = ContinueForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "`stream=true`: the events that follow; `stream=false`: the RunOutput when the run has ended or waits again", content((SentEvent = "text/event-stream"), (Object = "application/json"))),
        (status = 202, description = "`background=true`, `stream=false`: decided and durable", body = Ticket),
        (status = 404, description = "No such agent or run", body = ErrorBody),
        (status = 409, description = "The run does not wait for this decision, or not any more, or is none to go on from", body = ErrorBody),
        (status = 422, description = "Malformed, not what the call waits for, or no place to go on from", body = ErrorBody),
    )
)]
pub async fn proceed(
    State(app): State<App>,
    Ready(services): Ready,
    path: PathIds,
    form: Form,
) -> Result<Response, ApiError> {
    let fields = &form.fields;
    let caller = caller(fields)?;
    let asked = fork::Asked::read(fields)?;
    let session = fields.id("session_id", SessionId::parse)?;
    let (stream, background) = (fields.truth("stream", true)?, fields.truth("background", false)?);
    services.caught_up(None).await?;
    let (agent, run_id) = (path.get("agent_id", AgentId::parse)?, path.get("run_id", RunId::parse)?);
    let mut found = find(&app, &services, &caller.scope, &agent, &run_id, session.as_ref()).await?;
    if asked.applies(fields, found.row.status)? {
        return fork::go_on(app, services, caller, found, asked, Wish { stream, background }).await;
    }
    let said = |name| fields.text(name).is_some_and(|list| !matches!(list, "" | "[]"));
    if found.row.status == RunStatus::Error && !said("tools") && !said("requirements") {
        return again::go_on(app, services, caller, found, (stream, background)).await;
    }
    if found.row.run_data["requirements"].is_null() {
        return Err(not_waiting(found.row.status));
    }
    expand(&mut found.row.run_data, &*services.blobs).await?;
    let decisions = decisions::read(fields, &found.row, &*services.blobs).await?;
    let session_id = found.row.session_id.clone();
    let who = found.who();
    // What was shown before the decision is known to whoever decides: the stream begins after it.
    let mut seen = Feed::of_run(&services, &caller.scope, who.clone(), None).await?;
    seen.backlog();
    let (token, status) = decide(&services, &caller, &session_id, &run_id, decisions).await?;
    if background && !stream {
        let ticket = Ticket { run_id, session_id, status: status.as_str() };
        return Ok((axum::http::StatusCode::ACCEPTED, token, axum::Json(ticket)).into_response());
    }
    let (mut feed, first) = if status == RunStatus::Paused {
        // Others are still to be decided about: show what was decided, the run goes on waiting.
        services.caught_up(None).await?;
        let mut feed = Feed::of_run(&services, &caller.scope, who, seen.last_index()).await?;
        let first = feed.backlog();
        (feed, first)
    } else {
        (seen.going_on(), Vec::new())
    };
    if stream {
        return Ok((token, stream::respond(app, services, caller.scope, feed, None, first)).into_response());
    }
    read::settled(&app, &services, &caller.scope, &mut feed).await?;
    read::ended(&services, &caller.scope, &feed, token).await
}

fn not_waiting(status: RunStatus) -> ApiError {
    let status = status.as_str();
    let text = format!(
        "the run is {status}: a PAUSED run is continued by deciding about the tool calls that it waits with, and one \
         that ended with ERROR without `tools`; `fork=true` goes on from its messages with another run, and leaves it as \
         it is"
    );
    ApiError::conflict(text).named("not_paused")
}

async fn decide(
    services: &Arc<Services>,
    caller: &Caller,
    session_id: &SessionId,
    run_id: &RunId,
    decisions: Vec<Decision>,
) -> Result<(Token, RunStatus), ApiError> {
    let (session_id, run_id) = (Some(session_id.clone()), run_id.clone());
    let body = CommandBody::ContinueRun { session_id, run_id, decisions, decided_by: None, asked: 0 };
    let (accepted, token) = services.submit(Command::new(ids::command(), caller.user_id.clone(), body)).await?;
    Ok((token, accepted.status.unwrap_or(RunStatus::Running)))
}
