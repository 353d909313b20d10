//! What the events of a schedule carry. All schedules of one owner are one stream, so that their names can be unique.
//!
//! An event says when the schedule is due next, so that whoever folds it needs no calendar.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    RunId, ScheduleId, SessionId, Timestamp, UserId,
    schedule::{AttemptStatus, ScheduleSpec},
};

/// See [`ScheduleEvent::Created`](super::ScheduleEvent::Created).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleCreated {
    /// Which.
    pub schedule_id: ScheduleId,
    /// Its owner for good, and that of its runs.
    pub user_id: Option<UserId>,
    /// What it does.
    pub spec: ScheduleSpec,
    /// When it is due first.
    pub next_run_at: Option<Timestamp>,
}

/// See [`ScheduleEvent::Updated`](super::ScheduleEvent::Updated).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleUpdated {
    /// Which.
    pub schedule_id: ScheduleId,
    /// What it does from here on, whole.
    pub spec: ScheduleSpec,
    /// When it is due next.
    pub next_run_at: Option<Timestamp>,
}

/// See [`ScheduleEvent::Enabled`](super::ScheduleEvent::Enabled).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleEnabled {
    /// Which.
    pub schedule_id: ScheduleId,
    /// When it is due next.
    pub next_run_at: Option<Timestamp>,
}

/// See [`ScheduleEvent::Disabled`](super::ScheduleEvent::Disabled).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleDisabled {
    /// Which.
    pub schedule_id: ScheduleId,
    /// Why, if nobody asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
}

/// See [`ScheduleEvent::Deleted`](super::ScheduleEvent::Deleted).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleDeleted {
    /// Which.
    pub schedule_id: ScheduleId,
}

/// See [`ScheduleEvent::Fired`](super::ScheduleEvent::Fired).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleFired {
    /// Which.
    pub schedule_id: ScheduleId,
    /// Names the fire; follows from schedule and due time, or from the command that triggered it.
    pub fire_id: Uuid,
    /// The due time; the moment itself when it was triggered.
    pub due: Timestamp,
    /// Somebody triggered it: it was not due.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub triggered: bool,
    /// It begins when what is under way has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    /// Fires whose runs are stopped for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<Uuid>,
    /// When the schedule is due next.
    pub next_run_at: Option<Timestamp>,
}

/// Why a due time brings no run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// A run was under way.
    Overlap,
    /// Nobody was there at that time, and it is not made up for.
    Missed,
    /// As many fires as may be are under way or wait.
    TooMany,
}

impl SkipReason {
    /// For people.
    #[must_use]
    pub fn told(self) -> &'static str {
        match self {
            Self::Overlap => "a run of the schedule was under way",
            Self::Missed => "nothing served the schedule at that time, and it is not made up for",
            Self::TooMany => "as many fires of the schedule as may be were under way or waited",
        }
    }
}

/// See [`ScheduleEvent::Skipped`](super::ScheduleEvent::Skipped).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleSkipped {
    /// Which.
    pub schedule_id: ScheduleId,
    /// The due time, or the first of several.
    pub due: Timestamp,
    /// The last of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Why.
    pub reason: SkipReason,
    /// When the schedule is due next.
    pub next_run_at: Option<Timestamp>,
}

/// See [`ScheduleEvent::AttemptStarted`](super::ScheduleEvent::AttemptStarted).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptStarted {
    /// Of which schedule.
    pub schedule_id: ScheduleId,
    /// Of which fire.
    pub fire_id: Uuid,
    /// The fire's due time.
    pub due: Timestamp,
    /// From 1.
    pub attempt: u32,
    /// The run that it asks for.
    pub run_id: RunId,
    /// In which session.
    pub session_id: SessionId,
    /// When it has taken too long.
    pub until: Timestamp,
}

/// See [`ScheduleEvent::AttemptReported`](super::ScheduleEvent::AttemptReported).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptReported {
    /// Of which schedule.
    pub schedule_id: ScheduleId,
    /// Of which fire.
    pub fire_id: Uuid,
    /// Which attempt of it.
    pub attempt: u32,
    /// How it stands.
    pub status: AttemptStatus,
    /// Why, if not well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Arc<str>>,
    /// When the next attempt is due, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
}

impl super::ScheduleEvent {
    /// The schedule that the event is about.
    #[must_use]
    pub fn schedule_id(&self) -> &ScheduleId {
        match self {
            Self::Created(event) => &event.schedule_id,
            Self::Updated(event) => &event.schedule_id,
            Self::Enabled(event) => &event.schedule_id,
            Self::Disabled(event) => &event.schedule_id,
            Self::Deleted(event) => &event.schedule_id,
            Self::Fired(event) => &event.schedule_id,
            Self::Skipped(event) => &event.schedule_id,
            Self::AttemptStarted(event) => &event.schedule_id,
            Self::AttemptReported(event) => &event.schedule_id,
        }
    }
}
