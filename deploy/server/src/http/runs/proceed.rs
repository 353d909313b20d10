//! `POST /agents/{agent_id}/runs/{run_id}/continue`: decides about the calls that a paused run is in doubt
//! of. In this version this is the only reason for which a run pauses. A run that failed goes on, see `again`.
//!
//! | a call of the form's `tools` | decision |
//! |---|---|
//! | has `result` | it happened, with this result |
//! | `confirmed: true` | it did not happen: do it |
//! | `confirmed: false` | tell the model that it was not done |

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use reenact_events::{
    AgentId, Command, CommandBody, RunId, SessionId, Text,
    command::Decision,
    event::{Resolution, RunStatus},
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{again, find, identity, read};
use crate::http::{
    error::{ApiError, ErrorBody},
    feed::Feed,
    fields::{Fields, PathIds},
    form::Form,
    ids,
    position::Token,
    scope::{Caller, caller},
    shapes::Ticket,
    state::{App, Ready, Services},
    stream,
};

/// The form that lets a paused run go on.
#[derive(Debug, Serialize, ToSchema)]
pub struct ContinueForm {
    /// A JSON list of the tool calls from `RunPaused`, each with `result`, or `confirmed` true or false; nothing for a
    /// run that failed, which goes on from its last completed step.
    pub tools: Option<String>,
    /// The run's session; a run of another one is not found.
    pub session_id: Option<String>,
    /// Who decides.
    pub user_id: Option<String>,
    /// Show what follows as server-sent events; default true.
    pub stream: Option<bool>,
    /// Do not wait; default false.
    pub background: Option<bool>,
}

/// Decides about the calls that a paused run is in doubt of.
#[utoipa::path(
    post, path = "/agents/{agent_id}/runs/{run_id}/continue", tag = "Agents", operation_id = "continue_agent_run",
    params(
        ("agent_id" = String, Path, description = "The agent"),
        ("run_id" = String, Path, description = "The run"),
    ),
    request_body(content = ContinueForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "`stream=true`: the events that follow; `stream=false`: the RunOutput when the run has ended or waits again", content_type = "text/event-stream", body = String),
        (status = 202, description = "`background=true`, `stream=false`: decided and durable", body = Ticket),
        (status = 404, description = "No such agent or run", body = ErrorBody),
        (status = 409, description = "The run does not wait for this decision", body = ErrorBody),
        (status = 422, description = "Malformed", body = ErrorBody),
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
    again::refuse_what_is_not_here(fields)?;
    let session = fields.id("session_id", SessionId::parse)?;
    let (stream, background) = (fields.truth("stream", true)?, fields.truth("background", false)?);
    services.caught_up(None).await?;
    let (agent, run_id) = (path.get("agent_id", AgentId::parse)?, path.get("run_id", RunId::parse)?);
    let found = find(&app, &services, &caller.scope, &agent, &run_id, session.as_ref()).await?;
    let decides = fields.text("tools").is_some_and(|tools| !matches!(tools, "" | "[]"));
    if found.row.status == RunStatus::Error && !decides {
        return again::go_on(app, services, caller, found, (stream, background)).await;
    }
    if found.row.status != RunStatus::Paused {
        return Err(not_waiting(found.row.status));
    }
    let decisions = decisions(&services, fields).await?;
    let session_id = found.row.session_id.clone();
    let who = identity(&found.agent, &session_id, &run_id);
    // What was shown before the decision is known to whoever decides: the stream begins after it.
    let mut seen = Feed::of_run(&services, &caller.scope, who.clone(), None).await?;
    seen.backlog();
    let (token, status) = decide(&services, &caller, &session_id, &run_id, decisions).await?;
    if background && !stream {
        let ticket = Ticket { run_id, session_id, status: status.as_str() };
        return Ok((axum::http::StatusCode::ACCEPTED, token, axum::Json(ticket)).into_response());
    }
    let (mut feed, first) = if status == RunStatus::Paused {
        // Other calls are still in doubt: show what was decided, the run goes on waiting.
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
    read::settled(&app, &mut feed, &run_id).await?;
    read::ended(&services, &caller.scope, &feed, token).await
}

fn not_waiting(status: RunStatus) -> ApiError {
    let status = status.as_str();
    let text = format!(
        "the run is {status}: in this version a PAUSED run can be continued, by deciding about the tool calls that it \
         is in doubt of, and one that ended with ERROR, without `tools`; to go on with the conversation, start another \
         run in the session"
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
    let body = CommandBody::ContinueRun { session_id, run_id, decisions, asked: 0 };
    let (accepted, token) = services.submit(Command::new(ids::command(), caller.user_id.clone(), body)).await?;
    Ok((token, accepted.status.unwrap_or(RunStatus::Running)))
}

/// Reads the decisions of the form.
async fn decisions(services: &Services, fields: &Fields) -> Result<Vec<Decision>, ApiError> {
    fields.required("tools")?;
    let fault = |msg: &str| fields.fault("tools", "tools_invalid", format!("`tools` {msg}"));
    let calls = match fields.json("tools")? {
        Some((Value::Array(calls), _)) if !calls.is_empty() => calls,
        _ => return Err(fault("should be a JSON list with the tool calls of `RunPaused`, at least one")),
    };
    let mut decisions = Vec::with_capacity(calls.len());
    for call in calls {
        let id = call["tool_call_id"].as_str().ok_or_else(|| fault("has a call without `tool_call_id`"))?;
        let resolution = match (&call["result"], &call["confirmed"]) {
            (Value::String(text), _) => Resolution::Completed { value: Text::keep(text, &*services.blobs).await? },
            (Value::Null, Value::Bool(true)) => Resolution::Retry,
            (Value::Null, Value::Bool(false)) => Resolution::Skip,
            _ => return Err(fault("needs, for each call, a `result` text, or `confirmed` true or false")),
        };
        decisions.push(Decision { tool_call_id: id.into(), resolution });
    }
    Ok(decisions)
}
