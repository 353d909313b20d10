//! Reading runs of an agent: one, or all of a session.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use reenact_events::{AgentId, RunId, SessionId, event::RunStatus};
use reenact_projections::{
    expand,
    query::{RunFilter, RunRow, Scope},
};
use serde_json::Value;

use super::{find, run_not_found, session_not_found};
use crate::http::{
    error::{ApiError, ErrorBody},
    feed::Feed,
    fields::{Fields, PathIds, Query},
    position::{After, Token},
    scope::caller,
    state::{App, Ready, Services},
};

/// One run of an agent.
#[utoipa::path(
    get, path = "/agents/{agent_id}/runs/{run_id}", tag = "Agents", operation_id = "get_agent_run",
    params(
        ("agent_id" = String, Path, description = "The agent"),
        ("run_id" = String, Path, description = "The run"),
        ("session_id" = Option<String>, Query, description = "Its session; a run of another one is not found"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    responses(
        (status = 200, description = "The RunOutput", body = Object),
        (status = 404, description = "No such agent or run", body = ErrorBody),
    )
)]
pub async fn one(
    State(app): State<App>,
    Ready(services): Ready,
    path: PathIds,
    Query(query): Query,
    After(after): After,
) -> Result<Response, ApiError> {
    let caller = caller(&query)?;
    let session = query.id("session_id", SessionId::parse)?;
    let token = services.caught_up(after.as_ref()).await?;
    let (agent, run) = (path.get("agent_id", AgentId::parse)?, path.get("run_id", RunId::parse)?);
    let found = find(&app, &services, &caller.scope, &agent, &run, session.as_ref()).await?;
    Ok((token, Json(output(&services, found.row).await?)).into_response())
}

/// The runs of an agent in a session.
#[utoipa::path(
    get, path = "/agents/{agent_id}/runs", tag = "Agents", operation_id = "list_agent_runs",
    params(
        ("agent_id" = String, Path, description = "The agent"),
        ("session_id" = String, Query, description = "The session"),
        ("status" = Option<String>, Query, description = "Only runs with this status, in any case"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    responses(
        (status = 200, description = "RunOutputs in the order they were started", body = Vec<Object>),
        (status = 400, description = "A word is no run status", body = ErrorBody),
        (status = 404, description = "No such agent or session", body = ErrorBody),
    )
)]
pub async fn of_session(
    State(app): State<App>,
    Ready(services): Ready,
    path: PathIds,
    Query(query): Query,
    After(after): After,
) -> Result<Response, ApiError> {
    let agent = app.agent(&path.get("agent_id", AgentId::parse)?)?;
    let caller = caller(&query)?;
    query.required("session_id")?;
    let session = query.id("session_id", SessionId::parse)?.ok_or_else(session_not_found)?;
    let statuses = statuses(&query)?;
    let token = services.caught_up(after.as_ref()).await?;
    if services.views.session(&caller.scope, &session).await?.is_none() {
        return Err(session_not_found());
    }
    let filter = RunFilter { agent_id: Some(agent.id.to_string()), ..RunFilter::default() };
    let Some(statuses) = statuses else { return Ok((token, Json(Vec::<Value>::new())).into_response()) };
    let filter = RunFilter { statuses, ..filter };
    let mut outputs = Vec::new();
    for row in services.views.session_runs(&caller.scope, &session, &filter).await? {
        outputs.push(output(&services, row).await?);
    }
    Ok((token, Json(outputs)).into_response())
}

/// Where a run may be.
pub(in crate::http) const STATUSES: [RunStatus; 6] = [
    RunStatus::Pending,
    RunStatus::Running,
    RunStatus::Paused,
    RunStatus::Completed,
    RunStatus::Error,
    RunStatus::Cancelled,
];

/// The statuses that a query asks for: empty is any, `None` is one that no run here ever has.
///
/// # Errors
/// 400 when a word is no status.
pub fn statuses(query: &Fields) -> Result<Option<Vec<RunStatus>>, ApiError> {
    let (mut statuses, mut asked) = (Vec::new(), false);
    for word in query.all("status").filter(|word| !word.is_empty()) {
        asked = true;
        match STATUSES.iter().find(|status| status.as_str().eq_ignore_ascii_case(word)) {
            Some(status) => statuses.push(*status),
            None if word.eq_ignore_ascii_case("REGENERATED") => {}
            None => {
                let known: Vec<_> = STATUSES.iter().map(|status| status.as_str()).collect();
                return Err(ApiError::new(
                    axum::http::StatusCode::BAD_REQUEST,
                    format!("`{word}` is no run status; there are {}", known.join(", ")),
                ));
            }
        }
    }
    Ok((!asked || !statuses.is_empty()).then_some(statuses))
}

/// A run's RunOutput with its large texts.
///
/// # Errors
/// When a text cannot be read.
pub async fn output(services: &Services, mut row: RunRow) -> Result<Value, ApiError> {
    expand(&mut row.run_data, &*services.blobs).await?;
    Ok(row.run_data)
}

/// Waits until a run has ended or waits. A feed that was cut off, as when another node takes the run over, is taken up
/// again: only a run that goes on no more is an answer.
///
/// # Errors
/// 503 when the process goes down first; the run goes on after its restart. When the views cannot be read.
pub async fn settled(app: &App, services: &Services, scope: &Scope, feed: &mut Feed) -> Result<(), ApiError> {
    let gone = app.gone();
    loop {
        tokio::select! {
            biased;
            _ = feed.settled() => {}
            () = gone.cancelled() => {
                let run = feed.run_id();
                let text =
                    format!("the server is shutting down; the run goes on after its restart: read `/runs/{run}`");
                return Err(ApiError::unavailable(text, 5).named("shutting_down"));
            }
        }
        // Of a run that was deleted nothing more comes.
        if !feed.goes_on() || !feed.is_known() {
            return Ok(());
        }
        services.caught_up(None).await?;
        *feed = feed.again(services, scope).await?;
    }
}

/// The answer about a run that has ended or waits, as `feed` has brought it.
///
/// # Errors
/// When the views do not have it in time.
pub async fn ended(services: &Services, scope: &Scope, feed: &Feed, token: Token) -> Result<Response, ApiError> {
    feed.visible(services, scope).await?;
    // It may have been deleted while it ran.
    let row = services.views.run(scope, feed.run_id()).await?.ok_or_else(run_not_found)?;
    Ok((token, Json(output(services, row).await?)).into_response())
}
