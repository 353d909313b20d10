//! `POST /schedules`, `PATCH /schedules/{schedule_id}` and `DELETE /schedules/{schedule_id}`.

use std::sync::Arc;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use chrono::DateTime;
use reenact_events::{
    Command, CommandBody, ScheduleId, Timestamp,
    schedule::{CatchUp, Overlap, ScheduleChange, ScheduleCommand, ScheduleSpec, When},
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{ScheduleResponse, find, taken};
use crate::http::{
    error::{ApiError, ErrorBody},
    fields::{PathIds, Query},
    ids,
    json_body::JsonBody,
    scope::caller,
    state::Ready,
};

/// A schedule that is to be made. It is due by `cron_expr`, once by `at`, or, with neither, when it is triggered.
#[derive(Debug, Serialize, ToSchema)]
pub struct ScheduleCreate {
    /// Its name, unique among the owner's.
    #[schema(min_length = 1, max_length = 255, pattern = "^[A-Za-z0-9][A-Za-z0-9 ._-]*$")]
    pub name: String,
    /// Five fields of cron.
    #[schema(max_length = 128)]
    pub cron_expr: Option<String>,
    /// Once: a moment as RFC 3339, or epoch seconds.
    #[schema(value_type = Option<String>)]
    pub at: Option<Value>,
    /// Only when it is triggered.
    pub on_demand: Option<bool>,
    /// `/agents/{agent_id}/runs`.
    #[schema(max_length = 512)]
    pub endpoint: String,
    /// `POST`.
    pub method: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// What is sent: `message`, and `session_id`, `session_state`, `metadata`, `output_schema` as for a run.
    #[schema(value_type = Option<Object>)]
    pub payload: Option<Value>,
    /// An IANA zone; default `UTC`.
    pub timezone: Option<String>,
    /// Seconds that a run may take; default 3600.
    #[schema(minimum = 1, maximum = 86400)]
    pub timeout_seconds: Option<u32>,
    /// How often a failed run is made again; default 0.
    #[schema(minimum = 0, maximum = 10)]
    pub max_retries: Option<u32>,
    /// Seconds until then; default 60.
    #[schema(minimum = 1, maximum = 3600)]
    pub retry_delay_seconds: Option<u32>,
    /// With a run under way: `skip` (default), `queue`, `allow` or `cancel_previous`.
    pub overlap: Option<String>,
    /// After an absence: `none`, `last` (default) or `all`.
    pub catch_up: Option<String>,
    /// Seconds that a fire is late, at most; default 0.
    #[schema(minimum = 0, maximum = 3600)]
    pub jitter_seconds: Option<u32>,
}

/// What is to be changed of a schedule; what is absent stays.
#[derive(Debug, Serialize, ToSchema)]
pub struct ScheduleUpdate {
    /// Its name, unique among the owner's.
    #[schema(min_length = 1, max_length = 255, pattern = "^[A-Za-z0-9][A-Za-z0-9 ._-]*$")]
    pub name: Option<String>,
    /// Five fields of cron.
    #[schema(max_length = 128)]
    pub cron_expr: Option<String>,
    /// Once: a moment as RFC 3339, or epoch seconds.
    #[schema(value_type = Option<String>)]
    pub at: Option<Value>,
    /// Only when it is triggered.
    pub on_demand: Option<bool>,
    /// `/agents/{agent_id}/runs`.
    #[schema(max_length = 512)]
    pub endpoint: Option<String>,
    /// `POST`.
    pub method: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// What is sent.
    #[schema(value_type = Option<Object>)]
    pub payload: Option<Value>,
    /// An IANA zone.
    pub timezone: Option<String>,
    /// Seconds that a run may take.
    #[schema(minimum = 1, maximum = 86400)]
    pub timeout_seconds: Option<u32>,
    /// How often a failed run is made again.
    #[schema(minimum = 0, maximum = 10)]
    pub max_retries: Option<u32>,
    /// Seconds until then.
    #[schema(minimum = 1, maximum = 3600)]
    pub retry_delay_seconds: Option<u32>,
    /// With a run under way: `skip`, `queue`, `allow` or `cancel_previous`.
    pub overlap: Option<String>,
    /// After an absence: `none`, `last` or `all`.
    pub catch_up: Option<String>,
    /// Seconds that a fire is late, at most.
    #[schema(minimum = 0, maximum = 3600)]
    pub jitter_seconds: Option<u32>,
}

/// What a change may name.
const FIELDS: [&str; 15] = [
    "name",
    "cron_expr",
    "at",
    "on_demand",
    "endpoint",
    "method",
    "description",
    "payload",
    "timezone",
    "timeout_seconds",
    "max_retries",
    "retry_delay_seconds",
    "overlap",
    "catch_up",
    "jitter_seconds",
];

/// Makes a schedule.
#[utoipa::path(
    post, path = "/schedules", tag = "Schedules", operation_id = "create_schedule",
    params(("user_id" = Option<String>, Query, description = "Whose it is")),
    request_body = ScheduleCreate,
    responses(
        (status = 201, description = "The schedule", body = ScheduleResponse),
        (status = 409, description = "The name is taken", body = ErrorBody),
        (status = 422, description = "Malformed: `detail` names the field, for example a zone that there is not", body = ErrorBody),
    )
)]
pub async fn create(Ready(services): Ready, Query(query): Query, body: JsonBody) -> Result<Response, ApiError> {
    let caller = caller(&query)?;
    let (name, endpoint) = (body.required("name")?, body.required("endpoint")?);
    let spec = read(&body)?.over(ScheduleSpec::of(&name, &endpoint));
    let id = ids::command();
    let schedule = ScheduleId::of_command(&id, caller.user_id.as_ref());
    let body = CommandBody::Schedule(ScheduleCommand::Create(Box::new(spec)));
    let (_, token) = services.submit(Command::new(id, caller.user_id, body)).await?;
    let row = taken(&services, &caller.scope, &schedule).await?;
    Ok((StatusCode::CREATED, token, Json(ScheduleResponse::from(row))).into_response())
}

/// Changes a schedule.
#[utoipa::path(
    patch, path = "/schedules/{schedule_id}", tag = "Schedules", operation_id = "update_schedule",
    params(
        ("schedule_id" = String, Path, description = "The schedule"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    request_body = ScheduleUpdate,
    responses(
        (status = 200, description = "The schedule", body = ScheduleResponse),
        (status = 404, description = "No such schedule, or it is another user's", body = ErrorBody),
        (status = 409, description = "The name is taken", body = ErrorBody),
        (status = 422, description = "Malformed, or a field that is not to be changed", body = ErrorBody),
    )
)]
pub async fn update(
    Ready(services): Ready,
    path: PathIds,
    Query(query): Query,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let caller = caller(&query)?;
    let id = path.get("schedule_id", ScheduleId::parse)?;
    if let Some(other) = body.names().find(|name| !FIELDS.contains(name)) {
        let msg = format!("`{other}` is not to be changed: there are {}", FIELDS.join(", "));
        return Err(body.fault(other, "extra_forbidden", msg));
    }
    let change = read(&body)?;
    services.caught_up(None).await?;
    let owner = find(&services, &caller.scope, &id).await?.user_id;
    let body = CommandBody::Schedule(ScheduleCommand::Update(id.clone(), Box::new(change)));
    let (_, token) = services.submit(Command::new(ids::command(), owner, body)).await?;
    let row = taken(&services, &caller.scope, &id).await?;
    Ok((token, Json(ScheduleResponse::from(row))).into_response())
}

/// Removes a schedule with what is told of its due times; its runs stay.
#[utoipa::path(
    delete, path = "/schedules/{schedule_id}", tag = "Schedules", operation_id = "delete_schedule",
    params(
        ("schedule_id" = String, Path, description = "The schedule"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    responses(
        (status = 204, description = "It is not there any more"),
        (status = 404, description = "No such schedule, or it is another user's", body = ErrorBody),
    )
)]
pub async fn delete(Ready(services): Ready, path: PathIds, Query(query): Query) -> Result<Response, ApiError> {
    let caller = caller(&query)?;
    let id = path.get("schedule_id", ScheduleId::parse)?;
    services.caught_up(None).await?;
    let owner = find(&services, &caller.scope, &id).await?.user_id;
    let body = CommandBody::Schedule(ScheduleCommand::Delete(id));
    let (_, token) = services.submit(Command::new(ids::command(), owner, body)).await?;
    Ok((StatusCode::NO_CONTENT, token).into_response())
}

/// The fields of a body.
fn read(body: &JsonBody) -> Result<ScheduleChange, ApiError> {
    let text = |name: &str| Ok::<_, ApiError>(body.text(name)?.map(Arc::from));
    let number = |name: &str| body.number::<u32>(name);
    let (cron_expr, at) = (body.text("cron_expr")?, moment(body)?);
    let when = When::of(cron_expr.as_deref(), at, body.truth("on_demand")?.unwrap_or(false));
    Ok(ScheduleChange {
        name: text("name")?,
        description: text("description")?,
        endpoint: text("endpoint")?,
        method: text("method")?,
        payload: body.object("payload")?,
        when: when.map_err(|reason| body.fault("cron_expr", "value_error", reason))?,
        timezone: text("timezone")?,
        timeout_s: number("timeout_seconds")?,
        max_retries: number("max_retries")?,
        retry_delay_s: number("retry_delay_seconds")?,
        overlap: choice(body, "overlap", &Overlap::WORDS)?,
        catch_up: choice(body, "catch_up", &CatchUp::WORDS)?,
        jitter_s: number("jitter_seconds")?,
    })
}

fn choice<T: Copy>(body: &JsonBody, name: &str, words: &[(&'static str, T)]) -> Result<Option<T>, ApiError> {
    let Some(said) = body.text(name)? else { return Ok(None) };
    let known = words.iter().find(|(word, _)| *word == said).map(|(_, choice)| *choice);
    let unknown = || {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        body.fault(name, "enum", format!("Input should be one of {}", words.join(", ")))
    };
    known.ok_or_else(unknown).map(Some)
}

fn moment(body: &JsonBody) -> Result<Option<Timestamp>, ApiError> {
    let wrong = || body.fault("at", "datetime_parsing", "Input should be a moment as RFC 3339, or epoch seconds");
    match body.value("at") {
        None => Ok(None),
        Some(Value::String(text)) => {
            let moment = DateTime::parse_from_rfc3339(&text).map_err(|_| wrong())?;
            Ok(Some(Timestamp(moment.timestamp_millis())))
        }
        Some(Value::Number(seconds)) => {
            let ms = seconds.as_i64().and_then(|seconds| seconds.checked_mul(1_000));
            ms.map(Timestamp).ok_or_else(wrong).map(Some)
        }
        Some(_) => Err(wrong()),
    }
}
