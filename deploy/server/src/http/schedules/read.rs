//! `GET /schedules` and `GET /schedules/{schedule_id}`.

use std::time::Instant;

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use reenact_events::ScheduleId;
use reenact_projections::{query::Paging, schedules::ScheduleFilter};

use super::{ScheduleResponse, find};
use crate::http::{
    error::{ApiError, ErrorBody},
    fields::{Fields, PathIds, Query},
    paging::{LIMIT_MAX, Listed, listed, paging},
    position::After,
    scope::caller,
    state::Ready,
};

const LIMIT_DEFAULT: u64 = 100;

/// Which page of a list of schedules, or of what became of one.
pub(super) fn page_of(query: &Fields) -> Result<Paging, ApiError> {
    let limit = query.number("limit", 1..=LIMIT_MAX)?.unwrap_or(LIMIT_DEFAULT);
    Ok(Paging { limit, ..paging(query)? })
}

/// The schedules, newest first.
#[utoipa::path(
    get, path = "/schedules", tag = "Schedules", operation_id = "list_schedules",
    params(
        ("enabled" = Option<bool>, Query, description = "Those that are due at all, or those that are not"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
        ("limit" = Option<u64>, Query, description = "Items a page, 1 to 1000, default 100"),
        ("page" = Option<u64>, Query, description = "Which page, from 1"),
    ),
    responses((status = 200, description = "A page of schedules", body = Listed<ScheduleResponse>))
)]
pub async fn list(Ready(services): Ready, Query(query): Query, After(after): After) -> Result<Response, ApiError> {
    let began = Instant::now();
    let caller = caller(&query)?;
    let paging = page_of(&query)?;
    let enabled = match query.text("enabled") {
        None => None,
        Some(_) => Some(query.truth("enabled", true)?),
    };
    let filter = ScheduleFilter { enabled, user_id: None };
    let token = services.caught_up(after.as_ref()).await?;
    let page = services.views.schedules(&caller.scope, &filter, paging).await?;
    Ok((token, Json(listed(page, paging, began, ScheduleResponse::from))).into_response())
}

/// One schedule.
#[utoipa::path(
    get, path = "/schedules/{schedule_id}", tag = "Schedules", operation_id = "get_schedule",
    params(
        ("schedule_id" = String, Path, description = "The schedule"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    responses(
        (status = 200, description = "The schedule", body = ScheduleResponse),
        (status = 404, description = "No such schedule, or it is another user's", body = ErrorBody),
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
    let token = services.caught_up(after.as_ref()).await?;
    let row = find(&services, &caller.scope, &id).await?;
    Ok((token, Json(ScheduleResponse::from(row))).into_response())
}
