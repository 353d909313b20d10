//! The steps of runs, a row for each: what was called, how often, how long it took, what it cost and how it ended.

use reenact_events::{
    RunEvent, RunId, Timestamp,
    event::{Resolution, StepCall, StepFailed, StepRequested, StepResult, Usage},
    hold::Verdict,
};

use super::{Rows, usage::Tokens};
use crate::{ViewError, query::StepRow};

/// Which step of which run the event is about, if it is about one.
#[must_use]
pub fn step_of(event: &RunEvent) -> Option<u32> {
    match event {
        RunEvent::StepRequested(event) => Some(event.step),
        RunEvent::StepCompleted(event) => Some(event.step),
        RunEvent::StepFailed(event) => Some(event.step),
        RunEvent::StepInDoubt(event) => Some(event.step),
        RunEvent::StepResolved(event) => Some(event.step),
        RunEvent::StepHeld(event) => Some(event.step),
        RunEvent::StepAnswered(event) => Some(event.step),
        RunEvent::StepExpired(event) => Some(event.step),
        RunEvent::StepTakenOver(event) => Some(event.step),
        _ => None,
    }
}

/// Folds one event of a run that has a row.
pub(super) fn apply(rows: &mut dyn Rows, at: Timestamp, event: &RunEvent) -> Result<(), ViewError> {
    let run = event.run_id();
    match event {
        RunEvent::StepRequested(requested) => request(rows, at, requested),
        RunEvent::StepHeld(held) => begin(rows, at, run, held.step, &held.call, "held"),
        RunEvent::StepTakenOver(taken) => {
            begin(rows, at, run, taken.step, &taken.call, "completed")?;
            settle(rows, at, run, taken.step, "completed")
        }
        RunEvent::StepCompleted(completed) => change(rows, run, completed.step, |row| {
            if let StepResult::Model { usage: Some(usage), .. } = &completed.result {
                row.cost(*usage);
            }
            row.duration_ms = Some(row.duration_ms.unwrap_or_default().saturating_add(completed.duration_ms));
            row.settle(at, "completed");
        }),
        RunEvent::StepFailed(failed) => fail(rows, at, failed),
        RunEvent::StepInDoubt(doubt) => change(rows, run, doubt.step, |row| {
            "in_doubt".clone_into(&mut row.status);
            row.error = Some(doubt.reason.to_string());
        }),
        RunEvent::StepResolved(resolved) => match resolved.resolution {
            // The next attempt tells.
            Resolution::Retry => Ok(()),
            Resolution::Completed { .. } => settle(rows, at, run, resolved.step, "completed"),
            Resolution::Skip => settle(rows, at, run, resolved.step, "skipped"),
            Resolution::Fail => settle(rows, at, run, resolved.step, "failed"),
        },
        RunEvent::StepAnswered(answered) => match answered.verdict {
            Verdict::Confirmed { .. } => {
                change(rows, run, answered.step, |row| "confirmed".clone_into(&mut row.status))
            }
            Verdict::Rejected { .. } => settle(rows, at, run, answered.step, "rejected"),
            Verdict::Result { .. } => settle(rows, at, run, answered.step, "completed"),
            Verdict::Fail => settle(rows, at, run, answered.step, "failed"),
        },
        RunEvent::StepExpired(expired) => settle(rows, at, run, expired.step, "expired"),
        _ => Ok(()),
    }
}

fn request(rows: &mut dyn Rows, at: Timestamp, event: &StepRequested) -> Result<(), ViewError> {
    if rows.step(&event.run_id, event.step)?.is_none() {
        begin(rows, at, &event.run_id, event.step, &event.call, "requested")?;
    }
    change(rows, &event.run_id, event.step, |row| {
        row.attempts = row.attempts.max(event.attempt);
        if let Some(model) = &event.model {
            row.name = Some(model.id.to_string());
        }
        "requested".clone_into(&mut row.status);
        (row.completed_at, row.error) = (None, None);
    })
}

fn fail(rows: &mut dyn Rows, at: Timestamp, event: &StepFailed) -> Result<(), ViewError> {
    change(rows, &event.run_id, event.step, |row| {
        if let Some(usage) = event.usage {
            row.cost(usage);
        }
        match event.retry_at {
            Some(_) => "waiting".clone_into(&mut row.status),
            None => row.settle(at, "failed"),
        }
        row.error = Some(event.error.message.to_string());
    })
}

fn begin(
    rows: &mut dyn Rows,
    at: Timestamp,
    run: &RunId,
    step: u32,
    call: &StepCall,
    status: &str,
) -> Result<(), ViewError> {
    let Some(run) = rows.run(run)? else { return Ok(()) };
    let (kind, name) = match call {
        StepCall::Model { .. } => ("model", None),
        StepCall::Tool { name, .. } => ("tool", Some(name.to_string())),
        StepCall::Guardrail { name, .. } => ("guardrail", Some(name.to_string())),
    };
    let row = StepRow {
        run_id: run.run_id.clone(),
        step,
        session_id: run.session_id.clone(),
        user_id: run.user_id.clone(),
        kind: kind.to_owned(),
        name,
        status: status.to_owned(),
        attempts: 0,
        requested_at: at.seconds(),
        completed_at: None,
        duration_ms: None,
        tokens: Tokens::default(),
        error: None,
    };
    rows.put_step(row)
}

fn settle(rows: &mut dyn Rows, at: Timestamp, run: &RunId, step: u32, status: &str) -> Result<(), ViewError> {
    change(rows, run, step, |row| row.settle(at, status))
}

fn change(rows: &mut dyn Rows, run: &RunId, step: u32, what: impl FnOnce(&mut StepRow)) -> Result<(), ViewError> {
    let Some(mut row) = rows.step(run, step)? else { return Ok(()) };
    what(&mut row);
    rows.put_step(row)
}

impl StepRow {
    fn cost(&mut self, usage: Usage) {
        self.tokens = self.tokens.plus(usage.into());
    }

    fn settle(&mut self, at: Timestamp, status: &str) {
        status.clone_into(&mut self.status);
        (self.completed_at, self.error) = (Some(at.seconds()), None);
    }
}
