//! `GET /schedules/{schedule_id}/runs` and `GET /schedules/{schedule_id}/runs/{run_id}`.

use std::time::Instant;

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use reenact_events::{RunId, ScheduleId, SessionId, UserId};
use reenact_projections::schedules::ScheduleRunRow;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{find, read::page_of};
use crate::http::{
    error::{ApiError, ErrorBody},
    fields::{PathIds, Query},
    paging::{Listed, listed},
    position::After,
    scope::caller,
    state::Ready,
};

/// What became of a due time: an attempt, a fire that waits, or why there was none. Times are epoch seconds.
#[derive(Debug, Serialize, ToSchema)]
pub struct ScheduleRunResponse {
    /// Which.
    pub id: String,
    /// Of which schedule.
    #[schema(value_type = String)]
    pub schedule_id: ScheduleId,
    /// Whose.
    #[schema(value_type = Option<String>)]
    pub user_id: Option<UserId>,
    /// From 1.
    pub attempt: u32,
    /// When its run was asked for.
    pub triggered_at: Option<i64>,
    /// When it ended.
    pub completed_at: Option<i64>,
    /// `running`, `success`, `paused`, `failed`, `cancelled`, or ours: `queued`, `skipped`.
    pub status: String,
    /// Always null: no request is made for a run.
    pub status_code: Option<u16>,
    /// Its run.
    #[schema(value_type = Option<String>)]
    pub run_id: Option<RunId>,
    /// The run's session.
    #[schema(value_type = Option<String>)]
    pub session_id: Option<SessionId>,
    /// Why, if not well.
    pub error: Option<String>,
    /// What was sent.
    #[schema(value_type = Option<Object>)]
    pub input: Option<Value>,
    /// Always null: the run has its answer.
    #[schema(value_type = Option<Object>)]
    pub output: Option<Value>,
    /// Always null: the run says what it waits for.
    #[schema(value_type = Option<Vec<Object>>)]
    pub requirements: Option<Value>,
    /// Made.
    pub created_at: i64,
    /// Ours: the due time; the moment itself when it was triggered.
    pub due_at: i64,
    /// Ours: the last of several due times that brought no run.
    pub until: Option<i64>,
}

impl From<ScheduleRunRow> for ScheduleRunResponse {
    fn from(row: ScheduleRunRow) -> Self {
        Self {
            id: row.id,
            schedule_id: row.schedule_id,
            user_id: row.user_id,
            attempt: row.attempt,
            triggered_at: row.triggered_at,
            completed_at: row.completed_at,
            status: row.status,
            status_code: None,
            run_id: row.run_id,
            session_id: row.session_id,
            error: row.error,
            input: row.input,
            output: None,
            requirements: None,
            created_at: row.created_at,
            due_at: row.due_at,
            until: row.until,
        }
    }
}

/// What became of a schedule's due times, newest first.
#[utoipa::path(
    get, path = "/schedules/{schedule_id}/runs", tag = "Schedules", operation_id = "list_schedule_runs",
    params(
        ("schedule_id" = String, Path, description = "The schedule"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
        ("limit" = Option<u64>, Query, description = "Items a page, 1 to 1000, default 100"),
        ("page" = Option<u64>, Query, description = "Which page, from 1"),
    ),
    responses(
        (status = 200, description = "A page of them", body = Listed<ScheduleRunResponse>),
        (status = 404, description = "No such schedule, or it is another user's", body = ErrorBody),
    )
)]
pub async fn list(
    Ready(services): Ready,
    path: PathIds,
    Query(query): Query,
    After(after): After,
) -> Result<Response, ApiError> {
    let began = Instant::now();
    let caller = caller(&query)?;
    let paging = page_of(&query)?;
    let id = path.get("schedule_id", ScheduleId::parse)?;
    let token = services.caught_up(after.as_ref()).await?;
    find(&services, &caller.scope, &id).await?;
    let page = services.views.schedule_runs(&caller.scope, &id, paging).await?;
    Ok((token, Json(listed(page, paging, began, ScheduleRunResponse::from))).into_response())
}

/// What became of one.
#[utoipa::path(
    get, path = "/schedules/{schedule_id}/runs/{run_id}", tag = "Schedules", operation_id = "get_schedule_run",
    params(
        ("schedule_id" = String, Path, description = "The schedule"),
        ("run_id" = String, Path, description = "The `id` that the list gives it"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    responses(
        (status = 200, description = "What became of it", body = ScheduleRunResponse),
        (status = 404, description = "No such schedule or due time, or it is another user's", body = ErrorBody),
    )
)]
pub async fn one(
    Ready(services): Ready,
    path: PathIds,
    Query(query): Query,
    After(after): After,
) -> Result<Response, ApiError> {
    let caller = caller(&query)?;
    let id = path.get("schedule_id", ScheduleId::parse)?;
    let wanted = path.get("run_id", RunId::parse)?;
    let token = services.caught_up(after.as_ref()).await?;
    find(&services, &caller.scope, &id).await?;
    let attempt = wanted.as_str().rsplit('_').next().unwrap_or_default();
    let row = services.views.schedule_run(&caller.scope, &id, attempt).await?;
    let none = || ApiError::not_found("Schedule run not found").named("schedule_run_not_found");
    let row = row.filter(|row| row.id == wanted.as_str()).ok_or_else(none)?;
    Ok((token, Json(ScheduleRunResponse::from(row))).into_response())
}
