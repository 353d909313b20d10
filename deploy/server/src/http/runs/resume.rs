//! `POST /agents/{agent_id}/runs/{run_id}/resume`: a reader comes back. AgentOS's control frames say what
//! follows: `replay` for a run that has ended or waits, `catch_up` and `subscribed` for one at work.

use axum::{
    extract::State,
    http::{HeaderMap, HeaderName},
    response::{IntoResponse, Response},
};
use reenact_events::{AgentId, RunId, SessionId};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{find, run_not_found};
use crate::http::{
    error::{ApiError, ErrorBody, Fault},
    feed::Feed,
    fields::PathIds,
    form::Form,
    frames::WireFrame,
    position::After,
    scope::caller,
    state::{App, Ready},
    stream::{self, SentEvent},
};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The form that resumes a stream.
#[derive(Debug, Serialize, ToSchema)]
pub struct ResumeForm {
    /// The last `event_index` that was seen; the header `Last-Event-ID` says the same.
    pub last_event_index: Option<u64>,
    /// The run's session; a run of another one is not found.
    pub session_id: Option<String>,
    /// Who asks.
    pub user_id: Option<String>,
}

/// Resumes a run's stream after the last frame that was seen.
#[utoipa::path(
    post, path = "/agents/{agent_id}/runs/{run_id}/resume", tag = "Agents", operation_id = "resume_agent_run",
    params(
        ("agent_id" = String, Path, description = "The agent"),
        ("run_id" = String, Path, description = "The run"),
        ("Last-Event-ID" = Option<u64>, Header, description = "The last `event_index` that was seen"),
    ),
    request_body(content = ResumeForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "The frames that were missed, then those that come", content_type = "text/event-stream", body = SentEvent),
        (status = 404, description = "No such agent or run", body = ErrorBody),
        (status = 422, description = "Malformed", body = ErrorBody),
    )
)]
pub async fn resume(
    State(app): State<App>,
    Ready(services): Ready,
    path: PathIds,
    headers: HeaderMap,
    After(after): After,
    form: Form,
) -> Result<Response, ApiError> {
    let caller = caller(&form.fields)?;
    let session = form.fields.id("session_id", SessionId::parse)?;
    let floor = floor(&headers, &form)?;
    let token = services.caught_up(after.as_ref()).await?;
    let (agent, run_id) = (path.get("agent_id", AgentId::parse)?, path.get("run_id", RunId::parse)?);
    let found = find(&app, &services, &caller.scope, &agent, &run_id, session.as_ref()).await?;
    let who = found.who();
    let mut feed = Feed::of_run(&services, &caller.scope, who, floor).await?;
    if !feed.is_known() {
        services.node.live().forget(&run_id);
        return Err(run_not_found());
    }
    let first = opening(&mut feed, &run_id, floor);
    // What a run that is at work has shown may be known elsewhere first; of one that has ended all is known.
    if feed.status().is_end() && feed.last_index() < floor {
        let last = feed.last_index().unwrap_or_default();
        let msg = format!("the run has ended, and its last `event_index` is {last}");
        return Err(form.fields.fault("last_event_index", "out_of_range", msg));
    }
    Ok((token, stream::respond(app, services, caller.scope, feed, None, first)).into_response())
}

/// What the reader missed, between the control frames that announce it.
fn opening(feed: &mut Feed, run: &RunId, floor: Option<u64>) -> Vec<WireFrame> {
    let missed = feed.backlog();
    let count = missed.iter().filter(|frame| frame.index.is_some()).count();
    let control = |name, mut data: Value| {
        data["run_id"] = json!(run);
        WireFrame::control(name, data)
    };
    if !feed.goes_on() {
        let status = feed.status().as_str();
        let replay = json!({
            "status": status,
            "total_events": count,
            "last_event_index_requested": floor.map_or(json!(-1), |floor| json!(floor)),
            "message": format!("Run {status}. Replaying {count} missed events."),
        });
        return std::iter::once(control("replay", replay)).chain(missed).collect();
    }
    let mut first = Vec::with_capacity(missed.len() + 2);
    if count > 0 {
        let message = format!("Catching up on {count} missed events.");
        let data =
            json!({"status": "running", "missed_events": count, "current_event_count": count, "message": message});
        first.push(control("catch_up", data));
    }
    first.extend(missed);
    let message = "Subscribed to the run. Receiving live events.";
    let data = json!({"status": "running", "current_event_count": count, "message": message});
    first.push(control("subscribed", data));
    first
}

/// The last index that the reader has seen. `-1`, as AgentOS's clients send it, is none.
fn floor(headers: &HeaderMap, form: &Form) -> Result<Option<u64>, ApiError> {
    if form.fields.text("last_event_index") == Some("-1") {
        return Ok(None);
    }
    if let Some(index) = form.fields.number("last_event_index", 0..=u64::MAX)? {
        return Ok(Some(index));
    }
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let index = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    index.map(Some).ok_or_else(|| {
        let msg = "Input should be an `event_index` as it came with a frame";
        ApiError::malformed(Fault::new("header", "Last-Event-ID", "int_parsing", msg))
    })
}
