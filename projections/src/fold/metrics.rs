//! What an event changes in the metrics of a user and day.

use reenact_events::{Timestamp, agent::AgentSpec, event::RunStatus};

use super::{Rows, run::RunView, usage::ModelUsage};
use crate::{
    ViewError,
    metrics::{MetricsRow, day_of},
    query::{RunRow, SessionRow},
};

/// A session was made.
pub(super) fn session_made(rows: &mut dyn Rows, session: &SessionRow, at: Timestamp) -> Result<(), ViewError> {
    let date = day_of(session.created_at);
    let row = rows.metrics(session.user_id.as_ref(), &date)?;
    let mut row = row.unwrap_or_else(|| MetricsRow::new(session.user_id.clone(), date, at));
    row.agent_sessions_count += 1;
    row.touch(at);
    rows.put_metrics(row)
}

/// A run was accepted.
pub(super) fn run_accepted(rows: &mut dyn Rows, run: &RunRow, at: Timestamp) -> Result<(), ViewError> {
    change(rows, run, at, |row, agent| row.run_accepted(agent, run.status))
}

/// A run was at `from` and is where its row says.
pub(super) fn run_moved(rows: &mut dyn Rows, run: &RunRow, from: RunStatus, at: Timestamp) -> Result<(), ViewError> {
    if run.status == from {
        return Ok(());
    }
    change(rows, run, at, |row, _| row.run_moved(from, run.status))
}

/// A run ended: what it used since it was accepted, or queued again, counts.
pub(super) fn run_used(
    rows: &mut dyn Rows,
    run: &RunRow,
    view: &RunView,
    spec: Option<&AgentSpec>,
    at: Timestamp,
) -> Result<(), ViewError> {
    let used = ModelUsage::of(view).since(&view.counted);
    let own = spec.map(|spec| &spec.model);
    change(rows, run, at, |row, agent| {
        for (model, calls) in used.by_model() {
            let asked = model.map(|model| (Some(&*model.id), Some(&*model.provider)));
            let own = || (own.map(|model| &*model.id), own.map(|model| &*model.provider));
            row.run_used(agent, asked.unwrap_or_else(own), calls);
        }
    })
}

fn change(
    rows: &mut dyn Rows,
    run: &RunRow,
    at: Timestamp,
    what: impl FnOnce(&mut MetricsRow, &str),
) -> Result<(), ViewError> {
    let date = day_of(run.created_at);
    let row = rows.metrics(run.user_id.as_ref(), &date)?;
    let mut row = row.unwrap_or_else(|| MetricsRow::new(run.user_id.clone(), date, at));
    what(&mut row, run.agent_id.as_deref().unwrap_or_default());
    row.touch(at);
    rows.put_metrics(row)
}
