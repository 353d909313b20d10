//! The views in maps, for simulations and as the yardstick of the SQL ones: the same folds, the same rule
//! about positions, nothing else.

use std::collections::BTreeMap;

use reenact_events::{
    AgentId, PartitionId, Recorded, RunEvent, RunId, ScheduleId, SessionId, UserId, agent::AgentSpec,
};

use crate::{
    Dump, Position, ViewError,
    fold::{self, MetricsChange, Rows, RunView, approvals::PENDING, component},
    metrics::MetricsRow,
    query::{ApprovalRow, RunEventRow, RunRow, SessionRow, StepRow},
    schedules::{ScheduleRow, ScheduleRunRow},
};

/// The views of a log in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryViews {
    positions: BTreeMap<PartitionId, Position>,
    tables: Tables,
}

#[derive(Debug, Clone, Default)]
struct Tables {
    sessions: BTreeMap<SessionId, SessionRow>,
    runs: BTreeMap<RunId, RunRow>,
    run_events: BTreeMap<RunId, BTreeMap<u64, RunEventRow>>,
    run_steps: BTreeMap<(RunId, u32), StepRow>,
    approvals: BTreeMap<String, ApprovalRow>,
    metrics: BTreeMap<(String, Option<UserId>), MetricsRow>,
    schedules: BTreeMap<ScheduleId, ScheduleRow>,
    schedule_runs: BTreeMap<String, ScheduleRunRow>,
    components: BTreeMap<(AgentId, String), String>,
}

impl MemoryViews {
    /// Views of nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How far a partition is folded.
    #[must_use]
    pub fn position(&self, partition: PartitionId) -> Position {
        self.positions.get(&partition).copied().unwrap_or_else(|| Position::start(partition))
    }

    /// Folds a batch, all of it or nothing, and returns the position behind it.
    ///
    /// # Errors
    /// [`ViewError::Overtaken`] when the views are not at `expected`, [`ViewError::Diverged`] and
    /// [`ViewError::Unreadable`] when the batch cannot follow there.
    pub fn apply(&mut self, expected: Position, batch: &[Recorded]) -> Result<Position, ViewError> {
        let partition = expected.partition;
        if self.position(partition) != expected {
            return Err(ViewError::Overtaken { partition, expected: expected.next_offset });
        }
        let next = expected.after(batch)?;
        let events = batch.iter().map(fold::decode).collect::<Result<Vec<_>, _>>()?;
        for (recorded, event) in batch.iter().zip(events) {
            if let Some(event) = event {
                fold::apply(&mut self.tables, recorded, &event)?;
            }
        }
        self.positions.insert(partition, next);
        Ok(next)
    }

    /// A session's row.
    #[must_use]
    pub fn session(&self, session: &SessionId) -> Option<&SessionRow> {
        self.tables.sessions.get(session)
    }

    /// A run's row with all that is known of it, also while it is at work.
    ///
    /// # Errors
    /// When a stored event cannot be read.
    pub fn run(&self, run: &RunId) -> Result<Option<RunRow>, ViewError> {
        let Some(row) = self.tables.runs.get(run) else { return Ok(None) };
        let mut row = row.clone();
        if !row.status.is_end() {
            let events: Vec<_> = self.tables.events(run);
            if let Some(view) = RunView::from_rows(&events)? {
                let spec = self.tables.spec(&view.queued.agent_id, &view.queued.agent_version)?;
                row.complete(&view, spec.as_ref());
            }
        }
        Ok(Some(row))
    }

    /// All rows.
    #[must_use]
    pub fn dump(&self) -> Dump {
        let tables = &self.tables;
        let events = tables.run_events.iter();
        let components = tables.components.iter();
        Dump {
            sessions: tables.sessions.values().cloned().collect(),
            runs: tables.runs.values().cloned().collect(),
            run_events: events
                .flat_map(|(run, events)| events.values().map(|event| (run.clone(), event.clone())))
                .collect(),
            run_steps: tables.run_steps.values().cloned().collect(),
            approvals: tables.approvals.values().cloned().collect(),
            metrics: tables.metrics.values().cloned().collect(),
            schedules: tables.schedules.values().cloned().collect(),
            schedule_runs: tables.schedule_runs.values().cloned().collect(),
            components: components
                .map(|((agent, version), spec)| (agent.clone(), version.clone(), spec.clone()))
                .collect(),
        }
    }
}

impl Tables {
    fn spec(&self, agent: &AgentId, version: &str) -> Result<Option<AgentSpec>, ViewError> {
        let json = self.components.get(&(agent.clone(), version.to_owned()));
        json.map(|json| component::read(agent, version, json)).transpose()
    }

    fn events(&self, run: &RunId) -> Vec<RunEventRow> {
        self.run_events.get(run).into_iter().flat_map(BTreeMap::values).cloned().collect()
    }
}

impl<'e> Rows<'e> for Tables {
    fn session(&mut self, session: &SessionId) -> Result<Option<SessionRow>, ViewError> {
        Ok(self.sessions.get(session).cloned())
    }

    fn put_session(&mut self, row: SessionRow) -> Result<(), ViewError> {
        self.sessions.insert(row.session_id.clone(), row);
        Ok(())
    }

    fn delete_session(&mut self, session: &SessionId) -> Result<(), ViewError> {
        self.sessions.remove(session);
        let runs = self.runs.extract_if(.., |_, row| row.session_id == *session);
        for (run, _) in runs {
            self.run_events.remove(&run);
        }
        self.run_steps.retain(|_, row| row.session_id != *session);
        self.approvals.retain(|_, row| row.session_id != *session);
        Ok(())
    }

    fn run(&mut self, run: &RunId) -> Result<Option<&RunRow>, ViewError> {
        Ok(self.runs.get(run))
    }

    fn put_run(&mut self, row: RunRow) -> Result<(), ViewError> {
        self.runs.insert(row.run_id.clone(), row);
        Ok(())
    }

    fn run_view(&mut self, run: &RunId) -> Result<Option<RunView>, ViewError> {
        RunView::from_rows(&self.events(run))
    }

    fn put_run_event(&mut self, recorded: &'e Recorded, event: &'e RunEvent) -> Result<(), ViewError> {
        let (run, row) = (event.run_id(), RunEventRow::of(recorded));
        if self.runs.contains_key(run) {
            self.run_events.entry(run.clone()).or_default().insert(row.seq, row);
        }
        Ok(())
    }

    fn step(&mut self, run: &RunId, step: u32) -> Result<Option<StepRow>, ViewError> {
        Ok(self.run_steps.get(&(run.clone(), step)).cloned())
    }

    fn put_step(&mut self, row: StepRow) -> Result<(), ViewError> {
        self.run_steps.insert((row.run_id.clone(), row.step), row);
        Ok(())
    }

    fn put_approval(&mut self, row: ApprovalRow) -> Result<(), ViewError> {
        self.approvals.insert(row.id.clone(), row);
        Ok(())
    }

    fn pending_approvals(&mut self, run: &RunId) -> Result<Vec<ApprovalRow>, ViewError> {
        let waits = |row: &&ApprovalRow| row.run_id == *run && row.status == PENDING;
        Ok(self.approvals.values().filter(waits).cloned().collect())
    }

    fn change_metrics(&mut self, user: Option<&UserId>, date: &str, change: MetricsChange) -> Result<(), ViewError> {
        let key = (date.to_owned(), user.cloned());
        let mut row = self.metrics.remove(&key);
        change.make(&mut row, user, date);
        self.metrics.extend(row.map(|row| (key, row)));
        Ok(())
    }

    fn schedule(&mut self, id: &ScheduleId) -> Result<Option<ScheduleRow>, ViewError> {
        Ok(self.schedules.get(id).cloned())
    }

    fn put_schedule(&mut self, row: ScheduleRow) -> Result<(), ViewError> {
        self.schedules.insert(row.id.clone(), row);
        Ok(())
    }

    fn delete_schedule(&mut self, id: &ScheduleId) -> Result<(), ViewError> {
        self.schedules.remove(id);
        self.schedule_runs.retain(|_, row| row.schedule_id != *id);
        Ok(())
    }

    fn schedule_run(&mut self, attempt_id: &str) -> Result<Option<ScheduleRunRow>, ViewError> {
        Ok(self.schedule_runs.get(attempt_id).cloned())
    }

    fn put_schedule_run(&mut self, row: ScheduleRunRow) -> Result<(), ViewError> {
        self.schedule_runs.insert(row.attempt_id.clone(), row);
        Ok(())
    }

    fn component(&mut self, agent: &AgentId, version: &str) -> Result<Option<AgentSpec>, ViewError> {
        self.spec(agent, version)
    }

    fn put_component(&mut self, version: &str, spec: &AgentSpec) -> Result<(), ViewError> {
        let json = component::write(version, spec)?;
        self.components.insert((spec.id.clone(), version.to_owned()), json);
        Ok(())
    }

    fn forget_components(&mut self, beginning: &str) -> Result<(), ViewError> {
        self.components.retain(|(_, version), _| !version.starts_with(beginning));
        Ok(())
    }
}
