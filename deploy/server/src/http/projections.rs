//! `/projections`: the generations of the views that this node serves.

use std::time::Duration;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use reenact_projections::{
    GenerationError,
    rebuild::{Behind, Filling, Stage, Standing},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    error::{ApiError, ErrorBody},
    fields::{PathIds, Query},
    state::{Ready, Services},
};

/// The largest number that a generation may have.
pub const GENERATION_MAX: u32 = 1_000_000_000;
/// How long a swap may be asked to wait.
pub const WAIT_S_MAX: u64 = 600;
/// How long it waits unasked.
const WAIT_S: u64 = 10;

/// The generations of this node's views.
#[derive(Debug, Serialize, ToSchema)]
pub struct Generations {
    /// By number.
    pub generations: Vec<Generation>,
}

/// A generation of the views.
#[derive(Debug, Serialize, ToSchema)]
pub struct Generation {
    /// Its number.
    pub generation: u32,
    /// Whether it is the one that is read.
    pub live: bool,
    /// How many offsets of the log it lacks; it is current at 0.
    pub lag: u64,
    /// The same by partition.
    pub partitions: Vec<PartitionLag>,
    /// How its rebuild goes, if this node works on it.
    pub rebuild: Option<RebuildState>,
}

/// What a generation lacks of a partition.
#[derive(Debug, Serialize, ToSchema)]
pub struct PartitionLag {
    /// Which.
    pub partition: u32,
    /// The first offset that is not in the rows.
    pub position: u64,
    /// The first offset behind the log's last event.
    pub end: u64,
    /// How many offsets are missing.
    pub lag: u64,
}

/// How a rebuild goes.
#[derive(Debug, Serialize, ToSchema)]
pub struct RebuildState {
    /// `filling`, `indexing`, `following` (it can be swapped to) or `failed`.
    pub stage: &'static str,
    /// Why it failed.
    pub reason: Option<String>,
    /// Events folded since it began, or was gone on with.
    pub events: u64,
    /// Of them in a second.
    pub events_per_s: f64,
    /// How many offsets of the log it lacks.
    pub lag: u64,
    /// Seconds until it has caught up at this pace, if that can be told.
    pub left_s: Option<f64>,
}

impl From<&Standing> for Generation {
    fn from(standing: &Standing) -> Self {
        Self {
            generation: standing.number,
            live: standing.live,
            lag: standing.lag(),
            partitions: standing.partitions.iter().map(PartitionLag::from).collect(),
            rebuild: standing.filling.as_ref().map(RebuildState::from),
        }
    }
}

impl From<&Behind> for PartitionLag {
    fn from(behind: &Behind) -> Self {
        Self { partition: behind.partition.0, position: behind.position.0, end: behind.end.0, lag: behind.lag() }
    }
}

impl From<&Filling> for RebuildState {
    fn from(filling: &Filling) -> Self {
        let (stage, reason) = match &filling.stage {
            Stage::Filling => ("filling", None),
            Stage::Indexing => ("indexing", None),
            Stage::Following => ("following", None),
            Stage::Failed(reason) => ("failed", Some(reason.clone())),
        };
        Self {
            stage,
            reason,
            events: filling.events,
            events_per_s: filling.events_per_s(),
            lag: filling.lag(),
            left_s: filling.left().map(|left| left.as_secs_f64()),
        }
    }
}

impl From<GenerationError> for ApiError {
    fn from(error: GenerationError) -> Self {
        let text = error.to_string();
        match error {
            GenerationError::Unknown { .. } => Self::not_found(text).named("generation_not_found"),
            GenerationError::Live { .. } => Self::conflict(text).named("generation_live"),
            GenerationError::Busy { .. } => Self::conflict(text).named("rebuild_running"),
            GenerationError::Behind { .. } => Self::conflict(text).named("generation_behind"),
            GenerationError::Stopped { .. } => Self::conflict(text).named("rebuild_stopped"),
            GenerationError::Views(error) => error.into(),
            other => Self::internal("the generations of the views cannot be used", &other),
        }
    }
}

/// The generations of this node's views, and how far each has come.
#[utoipa::path(
    get, path = "/projections", tag = "Projections", operation_id = "list_projections",
    responses(
        (status = 200, description = "By number", body = Generations),
        (status = 503, description = "Not ready, or the log does not answer", body = ErrorBody),
    )
)]
pub async fn list(Ready(services): Ready) -> Result<Json<Generations>, ApiError> {
    Ok(Json(Generations { generations: generations(&services).await? }))
}

async fn generations(services: &Services) -> Result<Vec<Generation>, ApiError> {
    Ok(services.rebuilds.list().await?.iter().map(Generation::from).collect())
}

/// Folds another generation from the log, beside the one that is read; or goes on with one that is there.
#[utoipa::path(
    post, path = "/projections/rebuild", tag = "Projections", operation_id = "rebuild_projections",
    params(("generation" = Option<u32>, Query, description = "Go on with this one, in place of a new one")),
    responses(
        (status = 202, description = "It has begun; the list tells how it goes", body = RebuildBegun),
        (status = 404, description = "There is no such generation", body = ErrorBody),
        (status = 409, description = "Another one is being rebuilt, or this one is read", body = ErrorBody),
    )
)]
pub async fn rebuild(Ready(services): Ready, Query(query): Query) -> Result<Response, ApiError> {
    let number = query.number("generation", 1..=GENERATION_MAX)?;
    let generation = services.rebuilds.begin(number).await?;
    Ok((StatusCode::ACCEPTED, Json(RebuildBegun { generation })).into_response())
}

/// A rebuild has begun.
#[derive(Debug, Serialize, ToSchema)]
pub struct RebuildBegun {
    /// Of this generation.
    pub generation: u32,
}

/// Has readers go on with another generation once it has caught up; the one before is kept.
#[utoipa::path(
    post, path = "/projections/{generation}/swap", tag = "Projections", operation_id = "swap_projections",
    params(
        ("generation" = u32, Path, description = "Which is read from now on"),
        ("wait_s" = Option<u64>, Query, description = "How long it may take to catch up, 10 unless said"),
    ),
    responses(
        (status = 200, description = "It is read now", body = Generations),
        (status = 404, description = "There is no such generation", body = ErrorBody),
        (status = 409, description = "It is too far behind, is read already, or another one is being rebuilt", body = ErrorBody),
    )
)]
pub async fn swap(Ready(services): Ready, ids: PathIds, Query(query): Query) -> Result<Json<Generations>, ApiError> {
    let wait = query.number("wait_s", 0..=WAIT_S_MAX)?.unwrap_or(WAIT_S);
    services.rebuilds.swap(number(&ids)?, Duration::from_secs(wait)).await?;
    Ok(Json(Generations { generations: generations(&services).await? }))
}

/// Removes a generation that is not read; its rebuild ends.
#[utoipa::path(
    delete, path = "/projections/{generation}", tag = "Projections", operation_id = "drop_projections",
    params(("generation" = u32, Path, description = "Which")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "There is no such generation", body = ErrorBody),
        (status = 409, description = "It is read", body = ErrorBody),
    )
)]
pub async fn remove(Ready(services): Ready, ids: PathIds) -> Result<StatusCode, ApiError> {
    services.rebuilds.remove(number(&ids)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn number(ids: &PathIds) -> Result<u32, ApiError> {
    let number = ids.number("generation", 1..=GENERATION_MAX.into())?;
    Ok(u32::try_from(number).unwrap_or(GENERATION_MAX))
}
