//! Schedules and what became of their due times. An attempt is a row, as AgentOS has it; so is a fire that waits, and a
//! due time that brought no run.

use std::sync::Arc;

use reenact_events::{
    RunId, ScheduleEvent, ScheduleId, SessionId, Timestamp,
    event::{AttemptReported, AttemptStarted, ScheduleCreated, ScheduleFired, ScheduleSkipped},
    schedule::{AttemptStatus, CatchUp, Overlap, ScheduleSpec, When, attempt_id, fire_at, word},
};

use super::Rows;
use crate::{
    ViewError,
    schedules::{QUEUED, RUNNING, SKIPPED, ScheduleRow, ScheduleRunRow},
};

/// What every schedule calls, as AgentOS names it.
const TARGET_TYPE: &str = "agent";

/// Folds one event.
pub(super) fn apply(rows: &mut dyn Rows, at: Timestamp, event: &ScheduleEvent) -> Result<(), ViewError> {
    let id = event.schedule_id();
    match event {
        ScheduleEvent::Created(created) => rows.put_schedule(ScheduleRow::created(created, at)),
        ScheduleEvent::Deleted(_) => rows.delete_schedule(id),
        ScheduleEvent::Updated(updated) => change(rows, id, |row| {
            row.specify(&updated.spec);
            row.next_run_at = updated.next_run_at.map(Timestamp::seconds);
            row.updated_at = Some(at.seconds());
        }),
        ScheduleEvent::Enabled(enabled) => change(rows, id, |row| {
            (row.enabled, row.disabled_reason) = (true, None);
            row.next_run_at = enabled.next_run_at.map(Timestamp::seconds);
            row.updated_at = Some(at.seconds());
        }),
        ScheduleEvent::Disabled(disabled) => change(rows, id, |row| {
            (row.enabled, row.next_run_at) = (false, None);
            row.disabled_reason = disabled.reason.as_ref().map(ToString::to_string);
            row.updated_at = Some(at.seconds());
        }),
        ScheduleEvent::Fired(fired) => apply_fired(rows, at, fired),
        ScheduleEvent::Skipped(skipped) => apply_skipped(rows, at, skipped),
        ScheduleEvent::AttemptStarted(started) => apply_started(rows, at, started),
        ScheduleEvent::AttemptReported(reported) => apply_reported(rows, at, reported),
    }
}

fn change(rows: &mut dyn Rows, id: &ScheduleId, change: impl FnOnce(&mut ScheduleRow)) -> Result<(), ViewError> {
    match rows.schedule(id)? {
        Some(mut row) => {
            change(&mut row);
            rows.put_schedule(row)
        }
        None => Ok(()),
    }
}

fn apply_fired(rows: &mut dyn Rows, at: Timestamp, fired: &ScheduleFired) -> Result<(), ViewError> {
    if !fired.triggered {
        change(rows, &fired.schedule_id, |row| row.next_run_at = fired.next_run_at.map(Timestamp::seconds))?;
    }
    if !fired.waits {
        return Ok(());
    }
    let place =
        Place { schedule: &fired.schedule_id, attempt_id: attempt_id(fired.fire_id, 1), due: fired.due, attempt: 1 };
    put(rows, place, at, |row| QUEUED.clone_into(&mut row.status))
}

fn apply_skipped(rows: &mut dyn Rows, at: Timestamp, skipped: &ScheduleSkipped) -> Result<(), ViewError> {
    let id = &skipped.schedule_id;
    change(rows, id, |row| row.next_run_at = skipped.next_run_at.map(Timestamp::seconds))?;
    let place =
        Place { schedule: id, attempt_id: attempt_id(fire_at(id, skipped.due), 1), due: skipped.due, attempt: 1 };
    put(rows, place, at, |row| {
        SKIPPED.clone_into(&mut row.status);
        row.completed_at = Some(at.seconds());
        row.error = Some(match skipped.until {
            Some(_) => format!("{}; so it was with every due time since, up to `until`", skipped.reason.told()),
            None => skipped.reason.told().to_owned(),
        });
        row.until = skipped.until.map(Timestamp::seconds);
    })
}

fn apply_started(rows: &mut dyn Rows, at: Timestamp, started: &AttemptStarted) -> Result<(), ViewError> {
    let AttemptStarted { schedule_id, fire_id, due, attempt, run_id, session_id, until: _ } = started;
    let place =
        Place { schedule: schedule_id, attempt_id: attempt_id(*fire_id, *attempt), due: *due, attempt: *attempt };
    put(rows, place, at, |row| {
        RUNNING.clone_into(&mut row.status);
        row.triggered_at = Some(at.seconds());
        (row.run_id, row.session_id) = (Some(RunId::clone(run_id)), Some(SessionId::clone(session_id)));
    })
}

fn apply_reported(rows: &mut dyn Rows, at: Timestamp, reported: &AttemptReported) -> Result<(), ViewError> {
    let attempt = attempt_id(reported.fire_id, reported.attempt);
    let Some(mut row) = rows.schedule_run(&attempt)? else { return Ok(()) };
    reported.status.as_str().clone_into(&mut row.status);
    row.completed_at = (reported.status != AttemptStatus::Paused).then(|| at.seconds());
    row.error = reported.error.as_ref().map(ToString::to_string);
    rows.put_schedule_run(row)
}

/// Which attempt a row is about.
struct Place<'a> {
    schedule: &'a ScheduleId,
    attempt_id: String,
    due: Timestamp,
    attempt: u32,
}

/// Writes a row of a schedule that there is.
fn put(
    rows: &mut dyn Rows,
    place: Place<'_>,
    at: Timestamp,
    change: impl FnOnce(&mut ScheduleRunRow),
) -> Result<(), ViewError> {
    let Some(schedule) = rows.schedule(place.schedule)? else { return Ok(()) };
    let known = rows.schedule_run(&place.attempt_id)?;
    let mut row = known.unwrap_or_else(|| ScheduleRunRow {
        id: format!("sr_{:020}_{}", place.due.0.max(0).saturating_mul(1_000_000), place.attempt_id),
        attempt_id: place.attempt_id.clone(),
        schedule_id: place.schedule.clone(),
        user_id: schedule.user_id.clone(),
        attempt: place.attempt,
        due_at: place.due.seconds(),
        until: None,
        triggered_at: None,
        completed_at: None,
        status: String::new(),
        run_id: None,
        session_id: None,
        error: None,
        input: schedule.payload.clone(),
        created_at: at.seconds(),
    });
    change(&mut row);
    rows.put_schedule_run(row)
}

impl ScheduleRow {
    fn created(created: &ScheduleCreated, at: Timestamp) -> Self {
        let mut row = Self {
            id: created.schedule_id.clone(),
            user_id: created.user_id.clone(),
            name: String::new(),
            description: None,
            method: String::new(),
            endpoint: String::new(),
            payload: None,
            cron_expr: String::new(),
            timezone: String::new(),
            timeout_seconds: 0,
            max_retries: 0,
            retry_delay_seconds: 0,
            enabled: true,
            next_run_at: created.next_run_at.map(Timestamp::seconds),
            target_type: None,
            target_id: None,
            disabled_reason: None,
            created_at: at.seconds(),
            updated_at: None,
            at: None,
            overlap: String::new(),
            catch_up: String::new(),
            jitter_seconds: 0,
        };
        row.specify(&created.spec);
        row
    }

    fn specify(&mut self, spec: &ScheduleSpec) {
        let text = |text: &Arc<str>| text.to_string();
        (self.name, self.description) = (text(&spec.name), spec.description.as_ref().map(text));
        (self.method, self.endpoint) = (text(&spec.method), text(&spec.endpoint));
        self.payload = spec.payload.as_ref().map(super::json::foreign);
        (self.cron_expr, self.at) = match &spec.when {
            When::OnDemand => (String::new(), None),
            When::Cron(fields) => (text(fields), None),
            When::At(at) => (String::new(), Some(at.seconds())),
        };
        self.timezone = text(&spec.timezone);
        (self.timeout_seconds, self.max_retries) = (spec.timeout_s, spec.max_retries);
        (self.retry_delay_seconds, self.jitter_seconds) = (spec.retry_delay_s, spec.jitter_s);
        self.overlap = word(&Overlap::WORDS, &spec.overlap).to_owned();
        self.catch_up = word(&CatchUp::WORDS, &spec.catch_up).to_owned();
        let agent = spec.endpoint.strip_prefix("/agents/").and_then(|rest| rest.strip_suffix("/runs"));
        (self.target_type, self.target_id) = (agent.map(|_| TARGET_TYPE.to_owned()), agent.map(str::to_owned));
    }
}
