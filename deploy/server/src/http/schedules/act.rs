//! `POST /schedules/{schedule_id}/enable`, `…/disable` and `…/trigger`.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use reenact_events::{
    Command, CommandBody, ScheduleId,
    schedule::{ScheduleCommand, attempt_id, fire_by},
};
use reenact_projections::schedules::{ScheduleRow, ScheduleRunRow};
use serde::Serialize;
use utoipa::ToSchema;

use super::{find, runs::ScheduleRunResponse, taken};
use crate::http::{
    error::{ApiError, ErrorBody},
    fields::{Fields, PathIds, Query},
    idempotency::{self, Key},
    ids,
    scope::{Caller, caller},
    state::{App, Ready, Services},
};

/// How often a look is taken whether the process is going down, while a run is waited for.
const LOOK: Duration = Duration::from_secs(1);

/// Whether a schedule is due. Times are epoch seconds.
#[derive(Debug, Serialize, ToSchema)]
pub struct ScheduleStateResponse {
    /// Which.
    #[schema(value_type = String)]
    pub id: ScheduleId,
    /// Its name.
    pub name: String,
    /// Whether it is due at all.
    pub enabled: bool,
    /// When it is due next.
    pub next_run_at: Option<i64>,
    /// Last changed by somebody.
    pub updated_at: Option<i64>,
}

impl From<ScheduleRow> for ScheduleStateResponse {
    fn from(row: ScheduleRow) -> Self {
        let ScheduleRow { id, name, enabled, next_run_at, updated_at, .. } = row;
        Self { id, name, enabled, next_run_at, updated_at }
    }
}

/// Lets a schedule be due again, from now on.
#[utoipa::path(
    post, path = "/schedules/{schedule_id}/enable", tag = "Schedules", operation_id = "enable_schedule",
    params(
        ("schedule_id" = String, Path, description = "The schedule"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    responses(
        (status = 200, description = "How it stands", body = ScheduleStateResponse),
        (status = 404, description = "No such schedule, or it is another user's", body = ErrorBody),
    )
)]
pub async fn enable(Ready(services): Ready, path: PathIds, Query(query): Query) -> Result<Response, ApiError> {
    state(&services, &path, &query, ScheduleCommand::Enable).await
}

/// Lets a schedule not be due any more. What is under way ends; what waits for it, or to be made again, is dropped.
#[utoipa::path(
    post, path = "/schedules/{schedule_id}/disable", tag = "Schedules", operation_id = "disable_schedule",
    params(
        ("schedule_id" = String, Path, description = "The schedule"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    responses(
        (status = 200, description = "How it stands", body = ScheduleStateResponse),
        (status = 404, description = "No such schedule, or it is another user's", body = ErrorBody),
    )
)]
pub async fn disable(Ready(services): Ready, path: PathIds, Query(query): Query) -> Result<Response, ApiError> {
    state(&services, &path, &query, ScheduleCommand::Disable).await
}

async fn state(
    services: &Services,
    path: &PathIds,
    query: &Fields,
    what: fn(ScheduleId) -> ScheduleCommand,
) -> Result<Response, ApiError> {
    let caller = caller(query)?;
    let id = path.get("schedule_id", ScheduleId::parse)?;
    services.caught_up(None).await?;
    let owner = find(services, &caller.scope, &id).await?.user_id;
    let command = Command::new(ids::command(), owner, CommandBody::Schedule(what(id.clone())));
    let (_, token) = services.submit(command).await?;
    let row = taken(services, &caller.scope, &id).await?;
    Ok((token, Json(ScheduleStateResponse::from(row))).into_response())
}

/// Fires a schedule now, as its `overlap` allows, and answers when its run has ended or waits for a person.
#[utoipa::path(
    post, path = "/schedules/{schedule_id}/trigger", tag = "Schedules", operation_id = "trigger_schedule",
    params(
        ("schedule_id" = String, Path, description = "The schedule"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
        ("wait" = Option<bool>, Query, description = "False: answer as soon as it is accepted; default true"),
        ("Idempotency-Key" = Option<String>, Header, description = "One key, one fire: a repeat gets the first one"),
    ),
    responses(
        (status = 200, description = "What became of it", body = ScheduleRunResponse),
        (status = 404, description = "No such schedule, or it is another user's", body = ErrorBody),
        (status = 409, description = "It is disabled, its agent is gone, or a run is under way", body = ErrorBody),
    )
)]
pub async fn trigger(
    State(app): State<App>,
    Ready(services): Ready,
    path: PathIds,
    Query(query): Query,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let caller = caller(&query)?;
    let id = path.get("schedule_id", ScheduleId::parse)?;
    let waits = query.truth("wait", true)?;
    let key = idempotency::key(&headers, &caller)?;
    services.caught_up(None).await?;
    let owner = find(&services, &caller.scope, &id).await?.user_id;
    let command_id = key.as_ref().map_or_else(ids::command, Key::command_id);
    let attempt = attempt_id(fire_by(&id, &command_id), 1);
    let command = CommandBody::Schedule(ScheduleCommand::Trigger(id.clone()));
    let (accepted, token) = services.submit(Command::new(command_id, owner, command)).await?;
    let shown = services.caught_up(None).await;
    shown.map_err(|error| error.once_taken(&format_args!("the trigger of schedule `{id}`")))?;
    let fired = Fired { app, services, caller, id, attempt, partition: accepted.partition };
    let row = fired.settled(waits).await?;
    Ok((token, Json(ScheduleRunResponse::from(row))).into_response())
}

/// A fire that is waited for.
struct Fired {
    app: App,
    services: Arc<Services>,
    caller: Caller,
    id: ScheduleId,
    attempt: String,
    partition: reenact_events::PartitionId,
}

impl Fired {
    /// The row of the fire's first attempt, when that has ended or waits for a person.
    async fn settled(&self, waits: bool) -> Result<ScheduleRunRow, ApiError> {
        loop {
            let seen = self.services.views.position(self.partition);
            let row = self.services.views.schedule_run(&self.caller.scope, &self.id, &self.attempt).await?;
            let gone = || ApiError::not_found("Schedule not found").named("schedule_not_found");
            let row = row.ok_or_else(gone)?;
            if !waits || self.app.is_leaving() || !row.is_open() {
                return Ok(row);
            }
            // Either the schedule's partition has news, or it is time to look whether the process goes down.
            self.services.views.wait_for(self.partition, seen, LOOK).await.unwrap_or_default();
        }
    }
}
