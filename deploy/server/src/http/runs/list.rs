//! `GET /runs` and `GET /runs/{run_id}`: runs of all sessions, newest first, and one by its id alone. Ours;
//! AgentOS lists runs of one session only.

use std::time::Instant;

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use reenact_events::{AgentId, RunId, SessionId};
use reenact_projections::query::{Order, RunFilter};

use super::{
    read::{output, statuses},
    run_not_found,
};
use crate::http::{
    error::{ApiError, ErrorBody},
    fields::{PathIds, Query},
    paging::{Listed, listed, paging},
    position::After,
    scope::caller,
    shapes::RunPreview,
    state::Ready,
};

/// Runs of all sessions.
#[utoipa::path(
    get, path = "/runs", tag = "Runs", operation_id = "list_runs",
    params(
        ("agent_id" = Option<String>, Query, description = "Of this agent"),
        ("session_id" = Option<String>, Query, description = "Of this session"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
        ("status" = Option<Vec<String>>, Query, description = "With one of these statuses, in any case"),
        ("created_after" = Option<i64>, Query, description = "Accepted at or after, epoch seconds"),
        ("created_before" = Option<i64>, Query, description = "Accepted at or before, epoch seconds"),
        ("limit" = Option<u64>, Query, description = "Items a page, 1 to 1000, default 20"),
        ("page" = Option<u64>, Query, description = "Which page, from 1"),
    ),
    responses(
        (status = 200, description = "A page of runs, newest first", body = Listed<RunPreview>),
        (status = 400, description = "A word is no run status", body = ErrorBody),
        (status = 422, description = "Malformed", body = ErrorBody),
    )
)]
pub async fn all(Ready(services): Ready, Query(query): Query, After(after): After) -> Result<Response, ApiError> {
    let began = Instant::now();
    let caller = caller(&query)?;
    let paging = paging(&query)?;
    let any = i64::MIN..=i64::MAX;
    let filter = RunFilter {
        session_id: query.id("session_id", SessionId::parse)?,
        agent_id: query.id("agent_id", AgentId::parse)?.map(|agent| agent.to_string()),
        user_id: None,
        statuses: Vec::new(),
        created_after: query.number("created_after", any.clone())?,
        created_before: query.number("created_before", any)?,
        order: Order::default(),
    };
    let filter = RunFilter { statuses: statuses(&query)?, ..filter };
    let token = services.caught_up(after.as_ref()).await?;
    let page = services.views.runs(&caller.scope, &filter, paging).await?;
    Ok((token, Json(listed(page, paging, began, |row| RunPreview::of(&row)))).into_response())
}

/// One run by its id alone.
#[utoipa::path(
    get, path = "/runs/{run_id}", tag = "Runs", operation_id = "get_run",
    params(
        ("run_id" = String, Path, description = "The run"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    responses(
        (status = 200, description = "The RunOutput", body = Object),
        (status = 404, description = "No such run, or it is another user's", body = ErrorBody),
    )
)]
pub async fn one(
    Ready(services): Ready,
    path: PathIds,
    Query(query): Query,
    After(after): After,
) -> Result<Response, ApiError> {
    let caller = caller(&query)?;
    let run = path.get("run_id", RunId::parse)?;
    let token = services.caught_up(after.as_ref()).await?;
    let row = services.views.run(&caller.scope, &run).await?.ok_or_else(run_not_found)?;
    Ok((token, Json(output(&services, row).await?)).into_response())
}
