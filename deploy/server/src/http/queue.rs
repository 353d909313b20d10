//! `/queue/*`: runs as AgentOS's queue tells of them. A job is a run, under the run's id and with the words of the
//! queue; there is no second table that could say something else.

use std::{collections::BTreeMap, time::Instant};

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use reenact_events::{Command, CommandBody, RunId, SessionId, event::RunStatus};
use reenact_projections::query::{RunFilter, RunRow};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{
    error::{ApiError, ErrorBody},
    fields::{Fields, PathIds, Query},
    ids,
    paging::{Listed, listed, order, paging},
    position::After,
    scope::caller,
    shapes::input_of,
    state::{App, Ready},
};

/// What the queue calls where a run is.
pub(super) const WORDS: [(&str, RunStatus); 7] = [
    ("queued", RunStatus::Pending),
    ("running", RunStatus::Running),
    ("paused", RunStatus::Paused),
    ("completed", RunStatus::Completed),
    ("failed", RunStatus::Error),
    ("cancelled", RunStatus::Cancelled),
    ("regenerated", RunStatus::Regenerated),
];

fn word(status: RunStatus) -> &'static str {
    WORDS.iter().find(|(_, of)| *of == status).map_or("", |(word, _)| *word)
}

/// How full the queue is.
#[derive(Debug, Serialize, ToSchema)]
pub struct QueueStats {
    /// Runs by where they are; a word that no run has is absent.
    pub counts: BTreeMap<&'static str, u64>,
    /// Seconds since the run that has waited longest was accepted.
    pub oldest_queued_age_seconds: Option<i64>,
    /// Ours: runs that have a slot on the node that answers. A run whose provider asked for patience is running and
    /// has none.
    pub slots_taken: usize,
}

/// A run as a job of the queue. Times are epoch seconds.
#[derive(Debug, Serialize, ToSchema)]
pub struct QueueJob {
    /// The run's id.
    pub id: String,
    /// `agent`.
    pub component_type: String,
    /// The agent.
    pub component_id: String,
    /// The run's session.
    pub session_id: String,
    /// Always `run`.
    pub job_type: &'static str,
    /// Whose it is.
    pub user_id: Option<String>,
    /// `input`: the message.
    pub payload: Value,
    /// `queued`, `running`, `paused`, `completed`, `failed` or `cancelled`.
    pub status: &'static str,
    /// 0 while it waits for its turn, else 1: a run goes on from its last step and is never begun again, also when it is queued again.
    pub attempt: u32,
    /// Always 1.
    pub max_attempts: u32,
    /// Why it failed.
    pub error: Option<String>,
    /// When it was accepted.
    pub created_at: i64,
    /// When it last changed.
    pub updated_at: Option<i64>,
    /// When it ended.
    pub completed_at: Option<i64>,
}

impl QueueJob {
    fn of(row: &RunRow) -> Self {
        let failed = row.status == RunStatus::Error;
        Self {
            id: row.run_id.to_string(),
            component_type: row.run_type.clone(),
            component_id: row.agent_id.clone().unwrap_or_default(),
            session_id: row.session_id.to_string(),
            job_type: "run",
            user_id: row.user_id.as_ref().map(ToString::to_string),
            payload: json!({"input": input_of(&row.run_data)}),
            status: word(row.status),
            attempt: u32::from(row.status != RunStatus::Pending),
            max_attempts: 1,
            error: row.run_data["content"].as_str().filter(|_| failed).map(str::to_owned),
            created_at: row.created_at,
            updated_at: row.updated_at,
            completed_at: row.updated_at.filter(|_| row.status.is_end()),
        }
    }
}

/// How full the queue is.
#[utoipa::path(
    get, path = "/queue/stats", tag = "Queue", operation_id = "get_queue_stats",
    params(("user_id" = Option<String>, Query, description = "Who asks")),
    responses((status = 200, description = "Counts of what is queued, running and so on", body = QueueStats))
)]
pub async fn stats(
    State(app): State<App>,
    Ready(services): Ready,
    Query(query): Query,
    After(after): After,
) -> Result<Response, ApiError> {
    let caller = caller(&query)?;
    let token = services.caught_up(after.as_ref()).await?;
    let counts = services.views.runs_by_status(&caller.scope).await?;
    let queued = counts.iter().find(|count| count.status == RunStatus::Pending);
    let now = app.now().0 / 1_000;
    let stats = QueueStats {
        oldest_queued_age_seconds: queued.map(|queued| (now - queued.oldest_created_at).max(0)),
        counts: counts.iter().map(|count| (word(count.status), count.runs)).collect(),
        slots_taken: services.node.load().0,
    };
    Ok((token, Json(stats)).into_response())
}

/// The jobs of the queue.
#[utoipa::path(
    get, path = "/queue/jobs", tag = "Queue", operation_id = "list_queue_jobs",
    params(
        ("status" = Option<Vec<String>>, Query, description = "With one of these: queued, running, paused, completed, failed, cancelled"),
        ("session_id" = Option<String>, Query, description = "Of this session"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
        ("limit" = Option<u64>, Query, description = "Items a page, 1 to 1000, default 20"),
        ("page" = Option<u64>, Query, description = "Which page, from 1"),
        ("sort_by" = Option<String>, Query, description = "`created_at`"),
        ("sort_order" = Option<String>, Query, description = "`asc` or `desc`, default `desc`"),
    ),
    responses(
        (status = 200, description = "A page of jobs", body = Listed<QueueJob>),
        (status = 422, description = "Malformed", body = ErrorBody),
    )
)]
pub async fn list(Ready(services): Ready, Query(query): Query, After(after): After) -> Result<Response, ApiError> {
    let began = Instant::now();
    let caller = caller(&query)?;
    let paging = paging(&query)?;
    query.one_of("sort_by", &[("created_at", ())])?;
    let filter = RunFilter {
        session_id: query.id("session_id", SessionId::parse)?,
        statuses: statuses(&query)?,
        order: order(&query)?,
        ..RunFilter::default()
    };
    let token = services.caught_up(after.as_ref()).await?;
    let page = services.views.runs(&caller.scope, &filter, paging).await?;
    Ok((token, Json(listed(page, paging, began, |row| QueueJob::of(&row)))).into_response())
}

/// One job of the queue.
#[utoipa::path(
    get, path = "/queue/jobs/{job_id}", tag = "Queue", operation_id = "get_queue_job",
    params(
        ("job_id" = String, Path, description = "The run's id"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    responses(
        (status = 200, description = "The job", body = QueueJob),
        (status = 404, description = "No such job, or it is another user's", body = ErrorBody),
    )
)]
pub async fn one(
    Ready(services): Ready,
    path: PathIds,
    Query(query): Query,
    After(after): After,
) -> Result<Response, ApiError> {
    let caller = caller(&query)?;
    let run = path.get("job_id", RunId::parse)?;
    let token = services.caught_up(after.as_ref()).await?;
    let row = services.views.run(&caller.scope, &run).await?.ok_or_else(|| ApiError::not_found("Job not found"))?;
    Ok((token, Json(QueueJob::of(&row))).into_response())
}

/// Lets a run that has failed or was cancelled wait for its turn once more.
#[utoipa::path(
    post, path = "/queue/jobs/{job_id}/requeue", tag = "Queue", operation_id = "requeue_job",
    description = "The run goes on from its last completed step: what its tools did is not done again.",
    params(
        ("job_id" = String, Path, description = "The run's id"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
        ("clear_cancellation" = Option<bool>, Query, description = "Means nothing here: a cancellation ends with the run that it stopped"),
        ("force" = Option<bool>, Query, description = "Means nothing here: an attempt that is dead is known to be"),
    ),
    responses(
        (status = 200, description = "The job, queued", body = QueueJob),
        (status = 400, description = "The run has neither failed nor was it cancelled", body = ErrorBody),
        (status = 404, description = "No such job, or it is another user's", body = ErrorBody),
        (status = 429, description = "The queue is full; `Retry-After` says when to ask again", body = ErrorBody),
    )
)]
pub async fn requeue(Ready(services): Ready, path: PathIds, Query(query): Query) -> Result<Response, ApiError> {
    let caller = caller(&query)?;
    for flag in ["clear_cancellation", "force"] {
        query.truth(flag, false)?;
    }
    let run_id = path.get("job_id", RunId::parse)?;
    services.caught_up(None).await?;
    let not_found = || ApiError::not_found("Job not found");
    let row = services.views.run(&caller.scope, &run_id).await?.ok_or_else(not_found)?;
    let body = CommandBody::RequeueRun { session_id: Some(row.session_id), run_id: run_id.clone(), asked: 0 };
    let (_, token) = services.submit(Command::new(ids::command(), caller.user_id.clone(), body)).await?;
    services.caught_up(None).await?;
    let row = services.views.run(&caller.scope, &run_id).await?.ok_or_else(not_found)?;
    Ok((token, Json(QueueJob::of(&row))).into_response())
}

fn statuses(query: &Fields) -> Result<Vec<RunStatus>, ApiError> {
    let mut statuses = Vec::new();
    for asked in query.all("status").filter(|word| !word.is_empty()) {
        let Some((_, status)) = WORDS.iter().find(|(word, _)| *word == asked) else {
            let known = WORDS.map(|(word, _)| format!("`{word}`")).join(", ");
            return Err(query.fault("status", "enum", format!("`{asked}` is no status of a job; there are {known}")));
        };
        statuses.push(*status);
    }
    Ok(statuses)
}
