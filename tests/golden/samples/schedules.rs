//! Events of schedules.

use reenact_events::{
    Event, RunId, ScheduleId, SessionId, Timestamp,
    event::{
        AttemptReported, AttemptStarted, RunQueued, ScheduleCreated, ScheduleDeleted, ScheduleDisabled,
        ScheduleEnabled, ScheduleFired, ScheduleSkipped, ScheduleUpdated, SkipReason,
    },
    schedule::{AttemptStatus, CatchUp, Overlap, ScheduleSpec, ScheduledBy, When},
};
use uuid::Uuid;

use super::{Named, json, user};

fn id() -> ScheduleId {
    ScheduleId::trusted("7d8f1c52-6a9e-5f6e-8a58-1f5f0b7c7a53")
}

fn fire() -> Uuid {
    Uuid::from_u128(17)
}

fn full() -> ScheduleSpec {
    ScheduleSpec {
        description: Some("The news of the night".into()),
        payload: json(r#"{"message":"What happened?","session_id":"news"}"#),
        when: When::Cron("30 2 * * 1-5".into()),
        timezone: "Europe/Berlin".into(),
        timeout_s: 600,
        max_retries: 2,
        retry_delay_s: 30,
        overlap: Overlap::CancelPrevious,
        catch_up: CatchUp::All,
        jitter_s: 90,
        ..ScheduleSpec::of("nightly", "/agents/travel/runs")
    }
}

pub(super) fn schedules() -> Vec<Named> {
    let (schedule_id, next_run_at) = (id(), Some(Timestamp(1_796_000_000_000)));
    let least = ScheduleSpec::of("by hand", "/agents/travel/runs");
    let once = ScheduleSpec { when: When::At(Timestamp(1_796_000_000_000)), ..least.clone() };
    let created = |spec, user_id, next_run_at| -> Event {
        ScheduleCreated { schedule_id: id(), user_id, spec, next_run_at }.into()
    };
    let fired = ScheduleFired {
        schedule_id: schedule_id.clone(),
        fire_id: fire(),
        due: Timestamp(1_795_900_000_000),
        triggered: false,
        waits: false,
        replaces: Vec::new(),
        next_run_at,
    };
    let skipped = ScheduleSkipped {
        schedule_id: schedule_id.clone(),
        due: Timestamp(1_795_800_000_000),
        until: Some(Timestamp(1_795_850_000_000)),
        reason: SkipReason::Missed,
        next_run_at,
    };
    let skipped_for = |reason| ScheduleSkipped { until: None, reason, next_run_at: None, ..skipped.clone() };
    vec![
        ("full", created(full(), user(), next_run_at)),
        ("least", created(least, None, None)),
        ("once", created(once, None, next_run_at)),
        ("full", ScheduleUpdated { schedule_id: id(), spec: full(), next_run_at }.into()),
        ("next", ScheduleEnabled { schedule_id: id(), next_run_at }.into()),
        ("asked", ScheduleDisabled { schedule_id: id(), reason: None }.into()),
        ("gone", ScheduleDisabled { schedule_id: id(), reason: Some("there is no agent any more".into()) }.into()),
        ("plain", ScheduleDeleted { schedule_id: id() }.into()),
        ("due", fired.clone().into()),
        ("triggered", ScheduleFired { triggered: true, waits: true, ..fired.clone() }.into()),
        ("replaces", ScheduleFired { replaces: vec![Uuid::from_u128(16)], next_run_at: None, ..fired }.into()),
        ("missed", skipped.clone().into()),
        ("overlap", skipped_for(SkipReason::Overlap).into()),
        ("too_many", skipped_for(SkipReason::TooMany).into()),
    ]
    .into_iter()
    .chain(attempts())
    .collect()
}

fn attempts() -> Vec<Named> {
    let started = AttemptStarted {
        schedule_id: id(),
        fire_id: fire(),
        due: Timestamp(1_795_900_000_000),
        attempt: 1,
        run_id: RunId::trusted("run"),
        session_id: SessionId::trusted("news"),
        until: Timestamp(1_795_900_600_000),
    };
    let reported = |status, error: Option<&str>, retry_at| -> Event {
        let error = error.map(Into::into);
        AttemptReported { schedule_id: id(), fire_id: fire(), attempt: 1, status, error, retry_at }.into()
    };
    vec![
        ("plain", started.into()),
        ("success", reported(AttemptStatus::Success, None, None)),
        ("failed", reported(AttemptStatus::Failed, Some("the model is gone"), Some(Timestamp(1_795_900_090_000)))),
        ("paused", reported(AttemptStatus::Paused, Some("a call waits"), None)),
        ("cancelled", reported(AttemptStatus::Cancelled, None, None)),
    ]
}

/// The run that a schedule asked for.
pub(super) fn scheduled(least: RunQueued) -> Named {
    let by = ScheduledBy { schedule_id: id(), owner: user(), fire_id: fire(), attempt: 1 };
    ("scheduled", RunQueued { scheduled_by: Some(Box::new(by)), ..least }.into())
}
