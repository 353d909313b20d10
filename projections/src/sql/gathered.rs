//! The rows of one batch: each run, session, and day of a user that it is about is read once and written once, however
//! many of its events the batch has.
//!
//! Under load a batch holds most of a run, from its acceptance to its end, and every write of a row changes indexes.
//! What is kept here is bounded by the batch.

use std::collections::BTreeMap;

use reenact_events::{AgentId, RunId, ScheduleId, SessionId, UserId, agent::AgentSpec};

use super::{database::Database, rows};
use crate::{
    ViewError,
    fold::Rows,
    metrics::MetricsRow,
    query::{ApprovalRow, RunEventRow, RunRow, SessionRow},
    schedules::{ScheduleRow, ScheduleRunRow},
};

/// A row as the batch leaves it so far.
struct Kept<T> {
    row: T,
    changed: bool,
}

/// See the module. What was put is written by [`Gathered::write`].
pub(super) struct Gathered<'a> {
    database: Database<'a>,
    sessions: BTreeMap<SessionId, Kept<SessionRow>>,
    runs: BTreeMap<RunId, Kept<RunRow>>,
    metrics: BTreeMap<(Option<UserId>, String), Kept<MetricsRow>>,
    components: BTreeMap<(AgentId, String), AgentSpec>,
}

impl<'a> Gathered<'a> {
    /// Nothing was read yet.
    pub(super) fn new(database: Database<'a>) -> Self {
        Self {
            database,
            sessions: BTreeMap::new(),
            runs: BTreeMap::new(),
            metrics: BTreeMap::new(),
            components: BTreeMap::new(),
        }
    }

    /// Writes what has changed, and forgets what was read.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub(super) fn write(&mut self) -> Result<(), ViewError> {
        for (_, kept) in std::mem::take(&mut self.sessions).into_iter().filter(|(_, kept)| kept.changed) {
            self.database.put_session(kept.row)?;
        }
        for (_, kept) in std::mem::take(&mut self.runs).into_iter().filter(|(_, kept)| kept.changed) {
            self.database.put_run(kept.row)?;
        }
        for (_, kept) in std::mem::take(&mut self.metrics).into_iter().filter(|(_, kept)| kept.changed) {
            self.database.put_metrics(kept.row)?;
        }
        Ok(())
    }
}

impl Rows for Gathered<'_> {
    fn session(&mut self, session: &SessionId) -> Result<Option<SessionRow>, ViewError> {
        if let Some(kept) = self.sessions.get(session) {
            return Ok(Some(kept.row.clone()));
        }
        let Some(row) = self.database.session(session)? else { return Ok(None) };
        self.sessions.insert(session.clone(), Kept { row: row.clone(), changed: false });
        Ok(Some(row))
    }

    fn put_session(&mut self, row: SessionRow) -> Result<(), ViewError> {
        self.sessions.insert(row.session_id.clone(), Kept { row, changed: true });
        Ok(())
    }

    fn delete_session(&mut self, session: &SessionId) -> Result<(), ViewError> {
        // Which runs it has is for the database to say.
        self.write()?;
        self.database.delete_session(session)
    }

    fn run(&mut self, run: &RunId) -> Result<Option<RunRow>, ViewError> {
        if let Some(kept) = self.runs.get(run) {
            return Ok(Some(kept.row.clone()));
        }
        let Some(row) = self.database.run(run)? else { return Ok(None) };
        self.runs.insert(run.clone(), Kept { row: row.clone(), changed: false });
        Ok(Some(row))
    }

    fn put_run(&mut self, row: RunRow) -> Result<(), ViewError> {
        self.runs.insert(row.run_id.clone(), Kept { row, changed: true });
        Ok(())
    }

    fn run_events(&mut self, run: &RunId) -> Result<Vec<RunEventRow>, ViewError> {
        self.database.run_events(run)
    }

    fn put_run_event(&mut self, run: &RunId, event: RunEventRow) -> Result<(), ViewError> {
        match self.runs.get(run) {
            Some(kept) => rows::put_event_of(self.database, &kept.row.session_id, run, &event),
            None => self.database.put_run_event(run, event),
        }
    }

    fn put_approval(&mut self, row: ApprovalRow) -> Result<(), ViewError> {
        self.database.put_approval(row)
    }

    fn pending_approvals(&mut self, run: &RunId) -> Result<Vec<ApprovalRow>, ViewError> {
        self.database.pending_approvals(run)
    }

    fn metrics(&mut self, user: Option<&UserId>, date: &str) -> Result<Option<MetricsRow>, ViewError> {
        let key = (user.cloned(), date.to_owned());
        if let Some(kept) = self.metrics.get(&key) {
            return Ok(Some(kept.row.clone()));
        }
        let Some(row) = self.database.metrics(user, date)? else { return Ok(None) };
        self.metrics.insert(key, Kept { row: row.clone(), changed: false });
        Ok(Some(row))
    }

    fn put_metrics(&mut self, row: MetricsRow) -> Result<(), ViewError> {
        self.metrics.insert((row.user_id.clone(), row.date.clone()), Kept { row, changed: true });
        Ok(())
    }

    fn schedule(&mut self, id: &ScheduleId) -> Result<Option<ScheduleRow>, ViewError> {
        self.database.schedule(id)
    }

    fn put_schedule(&mut self, row: ScheduleRow) -> Result<(), ViewError> {
        self.database.put_schedule(row)
    }

    fn delete_schedule(&mut self, id: &ScheduleId) -> Result<(), ViewError> {
        self.database.delete_schedule(id)
    }

    fn schedule_run(&mut self, attempt_id: &str) -> Result<Option<ScheduleRunRow>, ViewError> {
        self.database.schedule_run(attempt_id)
    }

    fn put_schedule_run(&mut self, row: ScheduleRunRow) -> Result<(), ViewError> {
        self.database.put_schedule_run(row)
    }

    fn component(&mut self, agent: &AgentId, version: &str) -> Result<Option<AgentSpec>, ViewError> {
        let key = (agent.clone(), version.to_owned());
        if let Some(spec) = self.components.get(&key) {
            return Ok(Some(spec.clone()));
        }
        let found = self.database.component(agent, version)?;
        if let Some(spec) = &found {
            self.components.insert(key, spec.clone());
        }
        Ok(found)
    }

    fn put_component(&mut self, version: &str, spec: &AgentSpec) -> Result<(), ViewError> {
        self.components.remove(&(spec.id.clone(), version.to_owned()));
        self.database.put_component(version, spec)
    }
}
