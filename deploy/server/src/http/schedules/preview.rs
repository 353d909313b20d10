//! `GET /schedules/{schedule_id}/preview`: when a schedule is due next, and what becomes of it when clocks are changed.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use reenact_actors::schedule::calendar::{Calendar, Passage};
use reenact_events::{ScheduleId, Timestamp};
use reenact_projections::schedules::ScheduleRow;
use serde::Serialize;
use utoipa::ToSchema;

use super::{find, unfit, zone_of};
use crate::http::{
    error::{ApiError, ErrorBody},
    fields::{PathIds, Query},
    position::After,
    scope::caller,
    state::Ready,
};

/// How many due times are shown.
const COUNT: (u64, u64) = (5, 100);

/// When a schedule is due next.
#[derive(Debug, Serialize, ToSchema)]
pub struct SchedulePreview {
    /// Which.
    #[schema(value_type = String)]
    pub id: ScheduleId,
    /// The zone that its fields are read in.
    pub timezone: String,
    /// In order.
    pub fires: Vec<PreviewedFire>,
}

/// A due time to come.
#[derive(Debug, Serialize, ToSchema)]
pub struct PreviewedFire {
    /// Epoch seconds.
    pub due_at: i64,
    /// The same as a clock in the zone shows it, with its offset.
    pub local: String,
    /// What the change of clocks has to do with it, if anything.
    pub note: Option<&'static str>,
}

/// When a schedule is due next.
#[utoipa::path(
    get, path = "/schedules/{schedule_id}/preview", tag = "Schedules", operation_id = "preview_schedule",
    params(
        ("schedule_id" = String, Path, description = "The schedule"),
        ("count" = Option<u64>, Query, description = "How many due times, 1 to 100, default 5", minimum = 1, maximum = 100),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    responses(
        (status = 200, description = "The next due times; none for a schedule that is disabled", body = SchedulePreview),
        (status = 404, description = "No such schedule, or it is another user's", body = ErrorBody),
    )
)]
pub async fn preview(
    Ready(services): Ready,
    path: PathIds,
    Query(query): Query,
    After(after): After,
) -> Result<Response, ApiError> {
    let caller = caller(&query)?;
    let id = path.get("schedule_id", ScheduleId::parse)?;
    let count = query.number("count", 1..=COUNT.1)?.unwrap_or(COUNT.0);
    let token = services.caught_up(after.as_ref()).await?;
    let row = find(&services, &caller.scope, &id).await?;
    let fires = fires(&row, usize::try_from(count).unwrap_or(usize::MAX))?;
    Ok((token, Json(SchedulePreview { id, timezone: row.timezone, fires })).into_response())
}

fn fires(row: &ScheduleRow, count: usize) -> Result<Vec<PreviewedFire>, ApiError> {
    let zone = zone_of(row)?;
    let Some(next) = row.next_run_at.filter(|_| row.enabled) else { return Ok(Vec::new()) };
    let next = Timestamp(next.saturating_mul(1_000));
    let shown = |due: Timestamp, passage: Passage| PreviewedFire {
        due_at: due.seconds(),
        local: zone_local(zone, due),
        note: note(passage),
    };
    if row.cron_expr.is_empty() {
        return Ok(vec![shown(next, Passage::Plain)]);
    }
    let calendar = Calendar::parse(&row.cron_expr, zone).map_err(|error| unfit(&error))?;
    let dues = std::iter::successors(Some(next), |due| calendar.after(*due));
    Ok(dues.take(count).map(|due| shown(due, calendar.passage(due))).collect())
}

fn zone_local(zone: chrono_tz::Tz, due: Timestamp) -> String {
    let moment = chrono::DateTime::from_timestamp_millis(due.0).unwrap_or_default();
    moment.with_timezone(&zone).to_rfc3339()
}

fn note(passage: Passage) -> Option<&'static str> {
    match passage {
        Passage::Plain => None,
        Passage::First => Some("this local time comes twice: it is due the first time"),
        Passage::Second => Some("this local time comes twice, and it is due both times: its fields name every hour"),
        Passage::Shifted => {
            Some("the local time that its fields name does not come on this day: it is shifted forward")
        }
    }
}
