//! The rows of schedules, and of what became of their due times. Times are epoch seconds.

use reenact_events::{RunId, ScheduleId, SessionId, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a row of `schedule_runs` stands, beside what an attempt can come to.
pub(crate) const QUEUED: &str = "queued";
pub(crate) const RUNNING: &str = "running";
pub(crate) const SKIPPED: &str = "skipped";

/// Which schedules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScheduleFilter {
    /// Those that are due at all, or those that are not.
    pub enabled: Option<bool>,
    /// Exactly this owner.
    pub user_id: Option<UserId>,
}

/// A row of `schedules`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScheduleRow {
    /// Which.
    pub id: ScheduleId,
    /// Its owner.
    pub user_id: Option<UserId>,
    /// Its name, unique among the owner's.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// How it calls.
    pub method: String,
    /// What it calls.
    pub endpoint: String,
    /// What it sends.
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
    /// The kind of what it calls.
    pub target_type: Option<String>,
    /// The id of what it calls.
    pub target_id: Option<String>,
    /// Why it is not due any more, if nobody asked for it.
    pub disabled_reason: Option<String>,
    /// Made.
    pub created_at: i64,
    /// Last changed by somebody.
    pub updated_at: Option<i64>,
    /// When it is due, if once.
    pub at: Option<i64>,
    /// With a run under way: `skip`, `queue`, `allow` or `cancel_previous`.
    pub overlap: String,
    /// After an absence: `none`, `last` or `all`.
    pub catch_up: String,
    /// Seconds that a fire is late, at most.
    pub jitter_seconds: u32,
}

/// A row of `schedule_runs`: an attempt, a fire that waits, or a due time that brought no run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScheduleRunRow {
    /// Which; begins with the due time, so that they sort by it.
    pub id: String,
    /// Names the attempt; follows from its fire.
    pub attempt_id: String,
    /// Of which schedule.
    pub schedule_id: ScheduleId,
    /// Whose.
    pub user_id: Option<UserId>,
    /// From 1.
    pub attempt: u32,
    /// The due time; the moment itself when it was triggered.
    pub due_at: i64,
    /// The last of several due times that brought no run.
    pub until: Option<i64>,
    /// When its run was asked for.
    pub triggered_at: Option<i64>,
    /// When it ended.
    pub completed_at: Option<i64>,
    /// `queued`, `running`, `success`, `paused`, `failed`, `cancelled` or `skipped`.
    pub status: String,
    /// Its run.
    pub run_id: Option<RunId>,
    /// The run's session.
    pub session_id: Option<SessionId>,
    /// Why, if not well.
    pub error: Option<String>,
    /// What was sent.
    pub input: Option<Value>,
    /// Made.
    pub created_at: i64,
}

impl ScheduleRunRow {
    /// Whether it goes on by itself.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.status.as_str(), QUEUED | RUNNING)
    }
}
