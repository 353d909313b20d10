//! What an event changes in the metrics of a user and day.

use std::fmt;

use reenact_events::{Timestamp, UserId, agent::AgentSpec, event::RunStatus};

use super::{Rows, run::RunView, usage::ModelUsage};
use crate::{
    ViewError,
    metrics::{MetricsRow, day_of},
    query::{RunRow, SessionRow},
};

/// A change of the metrics of a user and day. Changes commute, so they may be made later than they are known.
pub struct MetricsChange {
    at: Timestamp,
    what: Box<dyn FnOnce(&mut MetricsRow) + Send>,
}

impl fmt::Debug for MetricsChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsChange").field("at", &self.at).finish_non_exhaustive()
    }
}

impl MetricsChange {
    /// Makes the change in the row of a user and day, which may not be there yet.
    pub fn make(self, row: &mut Option<MetricsRow>, user: Option<&UserId>, date: &str) {
        let row = row.get_or_insert_with(|| MetricsRow::new(user.cloned(), date.to_owned(), self.at));
        (self.what)(row);
        row.touch(self.at);
    }
}

/// A session was made.
pub(super) fn session_made(rows: &mut dyn Rows, session: &SessionRow, at: Timestamp) -> Result<(), ViewError> {
    let what = Box::new(|row: &mut MetricsRow| row.agent_sessions_count += 1);
    rows.change_metrics(session.user_id.as_ref(), &day_of(session.created_at), MetricsChange { at, what })
}

/// A run was accepted.
pub(super) fn run_accepted(rows: &mut dyn Rows, run: &RunRow, at: Timestamp) -> Result<(), ViewError> {
    let status = run.status;
    change(rows, run, at, move |row, agent| row.run_accepted(agent, status))
}

/// A run was at `from` and is where its row says.
pub(super) fn run_moved(rows: &mut dyn Rows, run: &RunRow, from: RunStatus, at: Timestamp) -> Result<(), ViewError> {
    let to = run.status;
    if to == from {
        return Ok(());
    }
    change(rows, run, at, move |row, _| row.run_moved(from, to))
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
    let own = spec.map(|spec| (spec.model.id.clone(), spec.model.provider.clone()));
    change(rows, run, at, move |row, agent| {
        for (model, calls) in used.by_model() {
            let asked = model.map(|model| (Some(&*model.id), Some(&*model.provider)));
            let own = || own.as_ref().map_or((None, None), |(id, provider)| (Some(&**id), Some(&**provider)));
            row.run_used(agent, asked.unwrap_or_else(own), calls);
        }
    })
}

fn change(
    rows: &mut dyn Rows,
    run: &RunRow,
    at: Timestamp,
    what: impl FnOnce(&mut MetricsRow, &str) + Send + 'static,
) -> Result<(), ViewError> {
    let agent = run.agent_id.clone().unwrap_or_default();
    let what = Box::new(move |row: &mut MetricsRow| what(row, &agent));
    rows.change_metrics(run.user_id.as_ref(), &day_of(run.created_at), MetricsChange { at, what })
}
