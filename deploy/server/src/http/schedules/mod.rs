//! `/schedules`: runs that come by themselves, in the words of AgentOS's scheduler.
//!
//! A schedule belongs to whoever it was made for, and so do its runs. Whoever asks without a name may see and change all
//! of them, in their owners' names.

pub mod act;
pub mod change;
pub mod preview;
pub mod read;
pub mod runs;

use reenact_actors::schedule::{Unfit, calendar::zone};
use reenact_events::{ScheduleId, UserId};
use reenact_projections::{query::Scope, schedules::ScheduleRow};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    error::{ApiError, Fault},
    state::Services,
};

/// A schedule. Times are epoch seconds.
#[derive(Debug, Serialize, ToSchema)]
pub struct ScheduleResponse {
    /// Which.
    #[schema(value_type = String)]
    pub id: ScheduleId,
    /// Its owner, and that of its runs.
    #[schema(value_type = Option<String>)]
    pub user_id: Option<UserId>,
    /// Its name, unique among the owner's.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// `POST`.
    pub method: String,
    /// What it calls.
    pub endpoint: String,
    /// What it sends.
    #[schema(value_type = Option<Object>)]
    pub payload: Option<Value>,
    /// When it is due; empty when it is so once, or never by itself.
    pub cron_expr: String,
    /// The zone that this is read in.
    pub timezone: String,
    /// Seconds that a run may take.
    pub timeout_seconds: u32,
    /// How often a failed run is made again.
    pub max_retries: u32,
    /// Seconds until then.
    pub retry_delay_seconds: u32,
    /// Whether it is due at all.
    pub enabled: bool,
    /// When it is due next.
    pub next_run_at: Option<i64>,
    /// Always null: nothing here manages schedules but their owners.
    pub managed_by: Option<String>,
    /// `agent`.
    pub target_type: Option<String>,
    /// The agent.
    pub target_id: Option<String>,
    /// Why it is not due any more, if nobody asked for it.
    pub disabled_reason: Option<String>,
    /// Made.
    pub created_at: i64,
    /// Last changed by somebody.
    pub updated_at: Option<i64>,
    /// Ours: when it is due, if once.
    pub at: Option<i64>,
    /// Ours: with a run under way.
    pub overlap: String,
    /// Ours: after an absence.
    pub catch_up: String,
    /// Ours: seconds that a fire is late, at most.
    pub jitter_seconds: u32,
}

impl From<ScheduleRow> for ScheduleResponse {
    fn from(row: ScheduleRow) -> Self {
        Self {
            id: row.id,
            user_id: row.user_id,
            name: row.name,
            description: row.description,
            method: row.method,
            endpoint: row.endpoint,
            payload: row.payload,
            cron_expr: row.cron_expr,
            timezone: row.timezone,
            timeout_seconds: row.timeout_seconds,
            max_retries: row.max_retries,
            retry_delay_seconds: row.retry_delay_seconds,
            enabled: row.enabled,
            next_run_at: row.next_run_at,
            managed_by: None,
            target_type: row.target_type,
            target_id: row.target_id,
            disabled_reason: row.disabled_reason,
            created_at: row.created_at,
            updated_at: row.updated_at,
            at: row.at,
            overlap: row.overlap,
            catch_up: row.catch_up,
            jitter_seconds: row.jitter_seconds,
        }
    }
}

/// A schedule that the caller may see.
async fn find(services: &Services, scope: &Scope, id: &ScheduleId) -> Result<ScheduleRow, ApiError> {
    let row = services.views.schedule(scope, id).await?;
    row.ok_or_else(|| ApiError::not_found("Schedule not found").named("schedule_not_found"))
}

/// A schedule after a change that was taken.
async fn taken(services: &Services, scope: &Scope, id: &ScheduleId) -> Result<ScheduleRow, ApiError> {
    let shown = async {
        services.caught_up(None).await?;
        find(services, scope, id).await
    };
    shown.await.map_err(|error| error.once_taken(&format_args!("what was asked of schedule `{id}`")))
}

/// The fault of a field of the body.
fn unfit(unfit: &Unfit) -> ApiError {
    ApiError::malformed(Fault::new("body", &unfit.field, "value_error", unfit.to_string()))
}

/// The zone that a stored schedule is read in.
fn zone_of(row: &ScheduleRow) -> Result<chrono_tz::Tz, ApiError> {
    zone(&row.timezone).map_err(|error| unfit(&error))
}
