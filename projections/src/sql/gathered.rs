//! The rows of one batch: what it is about is read ahead, all at once, and what changes is written in the end, each row
//! once, however many of the batch's events are about it.
//!
//! Under load a batch holds most of a run, from its acceptance to its end, and every write of a row changes indexes;
//! and a server is asked a few times for a batch, not for an event. What is kept here is bounded by the batch.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use reenact_events::{
    AgentId, Event, Recorded, RunEvent, RunId, ScheduleId, SessionId, UserId, agent::AgentSpec, event::SessionEvent,
};

use super::{approvals, database::Database, metrics, rows, schedules, steps as sql_steps};
use crate::{
    ViewError,
    fold::{EndedRun, MetricsChange, Rows, RunView, approvals::PENDING, steps},
    metrics::MetricsRow,
    query::{ApprovalRow, RunEventRow, RunRow, SessionRow, StepRow},
    schedules::{ScheduleRow, ScheduleRunRow},
};

/// So many runs are worth a thread that makes their `run_data` while the other rows are written.
const BESIDE_FROM: usize = 32;
/// Of so many runs the events are read at once: a run may have many.
const RUNS_READ_AT_ONCE: usize = 32;

/// A row as the batch leaves it so far; none when there is none.
struct Kept<T> {
    row: Option<T>,
    changed: bool,
}

/// See the module. What was put is written by [`Gathered::write`].
pub(super) struct Gathered<'a, 'e> {
    database: Database<'a>,
    sessions: BTreeMap<SessionId, Kept<SessionRow>>,
    /// The sessions that were there, as they were.
    stored_sessions: BTreeMap<SessionId, SessionRow>,
    runs: BTreeMap<RunId, Kept<RunRow>>,
    /// Of those the ones that have ended, as long as nobody asks for their rows.
    runs_ended: BTreeMap<RunId, EndedRun>,
    /// The runs of which nothing was there.
    runs_new: BTreeSet<RunId>,
    /// The runs whose earlier events will be asked for, in that order.
    events_wanted: VecDeque<RunId>,
    /// Those that were read, until they are asked for.
    events_stored: BTreeMap<RunId, Vec<RunEventRow>>,
    events_new: BTreeMap<RunId, Vec<(&'e Recorded, &'e RunEvent)>>,
    steps: BTreeMap<(RunId, u32), Kept<StepRow>>,
    approvals: BTreeMap<RunId, BTreeMap<String, Kept<ApprovalRow>>>,
    /// The runs of which all that waits is in `approvals`.
    approvals_read: BTreeSet<RunId>,
    metrics: BTreeMap<(Option<UserId>, String), Vec<MetricsChange>>,
    schedules: BTreeMap<ScheduleId, Kept<ScheduleRow>>,
    schedule_runs: BTreeMap<String, Kept<ScheduleRunRow>>,
    components: BTreeMap<(AgentId, String), AgentSpec>,
    components_new: BTreeMap<(AgentId, String), AgentSpec>,
}

impl<'a, 'e> Gathered<'a, 'e> {
    /// Reads the rows that the events are about.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub(super) fn read_ahead(
        database: Database<'a>,
        events: impl Iterator<Item = &'e Event> + Clone,
    ) -> Result<Self, ViewError> {
        let mut gathered = Self {
            database,
            sessions: BTreeMap::new(),
            stored_sessions: BTreeMap::new(),
            runs: BTreeMap::new(),
            runs_ended: BTreeMap::new(),
            runs_new: BTreeSet::new(),
            events_wanted: VecDeque::new(),
            events_stored: BTreeMap::new(),
            events_new: BTreeMap::new(),
            steps: BTreeMap::new(),
            approvals: BTreeMap::new(),
            approvals_read: BTreeSet::new(),
            metrics: BTreeMap::new(),
            schedules: BTreeMap::new(),
            schedule_runs: BTreeMap::new(),
            components: BTreeMap::new(),
            components_new: BTreeMap::new(),
        };
        let run_events =
            events.clone().filter_map(|event| if let Event::Run(event) = event { Some(event) } else { None });
        gathered.read_runs(run_events.clone().map(RunEvent::run_id).collect())?;
        let named = events.filter_map(session_of).cloned();
        let of_runs = gathered.runs.values().filter_map(|kept| Some(kept.row.as_ref()?.session_id.clone()));
        let sessions = named.chain(of_runs).collect();
        gathered.read_sessions(sessions)?;
        gathered.read_steps(run_events.clone().filter_map(|event| Some((event.run_id(), steps::step_of(event)?))))?;
        // What the batch begins with has nothing behind it.
        let is_stored = |run: &&RunId| !gathered.runs_new.contains(*run);
        let looking_back = run_events.filter(|event| looks_back(event)).map(RunEvent::run_id).filter(is_stored);
        let looking_back: Vec<_> = looking_back.collect();
        gathered.read_approvals(looking_back.iter().copied().collect())?;
        let mut seen = BTreeSet::new();
        gathered.events_wanted = looking_back.into_iter().filter(|run| seen.insert(*run)).cloned().collect();
        Ok(gathered)
    }

    fn read_runs(&mut self, ids: BTreeSet<&RunId>) -> Result<(), ViewError> {
        if ids.is_empty() {
            return Ok(());
        }
        let found = rows::runs_of(self.database, ids.iter().copied())?;
        self.runs_new.extend(ids.iter().map(|id| (*id).clone()));
        for row in &found {
            self.runs_new.remove(&row.run_id);
        }
        self.runs.extend(ids.into_iter().map(|id| (id.clone(), Kept { row: None, changed: false })));
        self.runs.extend(found.into_iter().map(|row| (row.run_id.clone(), Kept { row: Some(row), changed: false })));
        Ok(())
    }

    fn read_sessions(&mut self, ids: BTreeSet<SessionId>) -> Result<(), ViewError> {
        if ids.is_empty() {
            return Ok(());
        }
        let found = rows::sessions_of(self.database, &ids)?;
        self.stored_sessions.extend(found.iter().map(|row| (row.session_id.clone(), row.clone())));
        self.sessions.extend(ids.into_iter().map(|id| (id, Kept { row: None, changed: false })));
        let kept = found.into_iter().map(|row| (row.session_id.clone(), Kept { row: Some(row), changed: false }));
        self.sessions.extend(kept);
        Ok(())
    }

    fn read_steps<'i>(&mut self, ids: impl Iterator<Item = (&'i RunId, u32)>) -> Result<(), ViewError> {
        let ids: BTreeSet<_> = ids.collect();
        let Some(from) = ids.iter().map(|(_, step)| *step).min() else { return Ok(()) };
        let runs: BTreeSet<_> = ids.iter().map(|(run, _)| *run).filter(|run| !self.runs_new.contains(*run)).collect();
        let stored = if runs.is_empty() { Vec::new() } else { sql_steps::of(self.database, runs, from)? };
        let keep = |row: Option<StepRow>| Kept { row, changed: false };
        // What the batch did already stays as it is.
        for row in stored {
            self.steps.entry((row.run_id.clone(), row.step)).or_insert_with(|| keep(Some(row)));
        }
        for (run, step) in ids {
            self.steps.entry((run.clone(), step)).or_insert_with(|| keep(None));
        }
        Ok(())
    }

    /// What the batch did already stays as it is.
    fn read_approvals(&mut self, runs: BTreeSet<&RunId>) -> Result<(), ViewError> {
        if runs.is_empty() {
            return Ok(());
        }
        for row in approvals::pending_in(self.database, runs.iter().copied())? {
            let of_run = self.approvals.entry(row.run_id.clone()).or_default();
            of_run.entry(row.id.clone()).or_insert(Kept { row: Some(row), changed: false });
        }
        self.approvals_read.extend(runs.into_iter().cloned());
        Ok(())
    }

    /// Writes what has changed. What other partitions change as well comes last, because whoever does has to wait from
    /// there to the end of the transaction: the sums at the very end, so that nobody waits in a circle.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub(super) fn write(mut self) -> Result<(), ViewError> {
        self.write_own()?;
        rows::put_components(self.database, &self.components_new)?;
        self.write_metrics()
    }

    /// Writes what has changed of the partition's own, and forgets what was read.
    fn write_own(&mut self) -> Result<(), ViewError> {
        let (runs, ended) = (std::mem::take(&mut self.runs), std::mem::take(&mut self.runs_ended));
        self.runs_new.clear();
        let written: Vec<_> = changed(runs.values()).collect();
        let data = || written.iter().map(|row| data_of(row, &ended)).collect::<Vec<_>>();
        if written.len() < BESIDE_FROM {
            self.write_others(&runs)?;
            return rows::put_runs(self.database, &written, &data());
        }
        std::thread::scope(|scope| {
            let data = scope.spawn(data);
            self.write_others(&runs)?;
            let data = data.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            rows::put_runs(self.database, &written, &data)
        })
    }

    /// All but the runs' own rows.
    fn write_others(&mut self, runs: &BTreeMap<RunId, Kept<RunRow>>) -> Result<(), ViewError> {
        self.write_sessions()?;
        let events = std::mem::take(&mut self.events_new);
        let of_runs = events.iter().filter_map(|(run, events)| Some((run, runs.get(run)?.row.as_ref()?, events)));
        let named =
            of_runs.flat_map(|(run, row, events)| events.iter().map(move |event| (&row.session_id, run, event.0)));
        rows::put_events(self.database, &named.collect::<Vec<_>>())?;
        self.events_stored.clear();
        let steps = std::mem::take(&mut self.steps);
        sql_steps::put(self.database, &changed(steps.values()).collect::<Vec<_>>())?;
        let approvals = std::mem::take(&mut self.approvals);
        self.approvals_read.clear();
        approvals::put(self.database, &changed_in(&approvals))?;
        self.write_schedules()
    }

    fn write_sessions(&mut self) -> Result<(), ViewError> {
        let (sessions, stored) = (std::mem::take(&mut self.sessions), std::mem::take(&mut self.stored_sessions));
        let is_touched =
            |row: &&SessionRow| stored.get(&row.session_id).is_some_and(|stored| rows::is_touched_only(stored, row));
        let (touched, whole): (Vec<_>, Vec<_>) = changed(sessions.values()).partition(is_touched);
        rows::touch_sessions(self.database, &touched)?;
        rows::put_sessions(self.database, &whole)
    }

    fn write_schedules(&mut self) -> Result<(), ViewError> {
        let schedules = std::mem::take(&mut self.schedules);
        schedules::put(self.database, &changed(schedules.values()).collect::<Vec<_>>())?;
        let runs = std::mem::take(&mut self.schedule_runs);
        schedules::put_runs(self.database, &changed(runs.values()).collect::<Vec<_>>())
    }

    fn write_metrics(self) -> Result<(), ViewError> {
        let changes = self.metrics;
        if changes.is_empty() {
            return Ok(());
        }
        self.database.alone_with_sums()?;
        let ids: Vec<_> = changes.keys().map(|(user, date)| MetricsRow::id_of(user.as_ref(), date)).collect();
        let found = metrics::of(self.database, ids.iter().map(String::as_str))?;
        let mut found: BTreeMap<_, _> =
            found.into_iter().map(|row| ((row.user_id.clone(), row.date.clone()), row)).collect();
        let changed = changes.into_iter().filter_map(|((user, date), changes)| {
            let mut row = found.remove(&(user.clone(), date.clone()));
            changes.into_iter().for_each(|change| change.make(&mut row, user.as_ref(), &date));
            row
        });
        metrics::put(self.database, &changed.collect::<Vec<_>>())
    }
}

/// Whose session's row the event is about, where it says so.
fn session_of(event: &Event) -> Option<&SessionId> {
    match event {
        Event::Session(SessionEvent::Created(event)) => Some(&event.session_id),
        Event::Session(SessionEvent::Updated(event)) => Some(&event.session_id),
        Event::Run(RunEvent::Queued(event)) => Some(&event.session_id),
        _ => None,
    }
}

/// Whether the fold of the event reads the events before it.
fn looks_back(event: &RunEvent) -> bool {
    use RunEvent::{Requeued, StepAnswered, StepExpired, StepInDoubt, StepResolved};
    matches!(event, StepInDoubt(_) | StepResolved(_) | StepAnswered(_) | StepExpired(_) | Requeued(_)) || event.is_end()
}

/// The `run_data` of a row as it is stored.
fn data_of(row: &RunRow, ended: &BTreeMap<RunId, EndedRun>) -> String {
    ended.get(&row.run_id).map_or_else(|| row.run_data.to_string(), |ended| ended.data().to_string())
}

fn changed<'k, T: 'k>(kept: impl Iterator<Item = &'k Kept<T>>) -> impl Iterator<Item = &'k T> {
    kept.filter(|kept| kept.changed).filter_map(|kept| kept.row.as_ref())
}

fn changed_in(approvals: &BTreeMap<RunId, BTreeMap<String, Kept<ApprovalRow>>>) -> Vec<&ApprovalRow> {
    changed(approvals.values().flat_map(BTreeMap::values)).collect()
}

impl<'e> Rows<'e> for Gathered<'_, 'e> {
    fn session(&mut self, session: &SessionId) -> Result<Option<SessionRow>, ViewError> {
        if !self.sessions.contains_key(session) {
            self.read_sessions(BTreeSet::from([session.clone()]))?;
        }
        Ok(self.sessions.get(session).and_then(|kept| kept.row.clone()))
    }

    fn put_session(&mut self, row: SessionRow) -> Result<(), ViewError> {
        self.sessions.insert(row.session_id.clone(), Kept { row: Some(row), changed: true });
        Ok(())
    }

    fn delete_session(&mut self, session: &SessionId) -> Result<(), ViewError> {
        // Which runs it has is for the database to say.
        self.write_own()?;
        rows::delete_session(self.database, session)
    }

    fn run(&mut self, run: &RunId) -> Result<Option<&RunRow>, ViewError> {
        if !self.runs.contains_key(run) {
            self.read_runs(BTreeSet::from([run]))?;
        }
        if let Some(ended) = self.runs_ended.remove(run) {
            self.put_run(ended.whole())?;
        }
        Ok(self.runs.get(run).and_then(|kept| kept.row.as_ref()))
    }

    fn put_run(&mut self, row: RunRow) -> Result<(), ViewError> {
        self.runs_ended.remove(&row.run_id);
        self.runs.insert(row.run_id.clone(), Kept { row: Some(row), changed: true });
        Ok(())
    }

    fn put_ended_run(&mut self, run: EndedRun) -> Result<(), ViewError> {
        self.put_run(run.row.clone())?;
        self.runs_ended.insert(run.row.run_id.clone(), run);
        Ok(())
    }

    fn run_view(&mut self, run: &RunId) -> Result<Option<RunView>, ViewError> {
        let is_new = self.runs_new.contains(run);
        if !is_new && !self.events_stored.contains_key(run) {
            let others = self.events_wanted.iter().filter(|other| *other != run);
            let runs: BTreeSet<_> =
                [run.clone()].into_iter().chain(others.take(RUNS_READ_AT_ONCE - 1).cloned()).collect();
            self.events_wanted.retain(|wanted| !runs.contains(wanted));
            let found = rows::events_of(self.database, &runs)?;
            self.events_stored.extend(runs.into_iter().map(|run| (run, Vec::new())));
            for (run, event) in found {
                self.events_stored.entry(run).or_default().push(event);
            }
        }
        // They are seldom asked for twice, and need not be kept.
        let mut view = RunView::from_rows(&self.events_stored.remove(run).unwrap_or_default())?;
        for (recorded, event) in self.events_new.get(run).into_iter().flatten() {
            RunView::next(&mut view, recorded.event.at, event);
        }
        Ok(view)
    }

    fn put_run_event(&mut self, recorded: &'e Recorded, event: &'e RunEvent) -> Result<(), ViewError> {
        let run = event.run_id();
        if self.run(run)?.is_some() {
            match self.events_new.get_mut(run) {
                Some(events) => events.push((recorded, event)),
                None => drop(self.events_new.insert(run.clone(), vec![(recorded, event)])),
            }
        }
        Ok(())
    }

    fn step(&mut self, run: &RunId, step: u32) -> Result<Option<StepRow>, ViewError> {
        let id = (run.clone(), step);
        if !self.steps.contains_key(&id) {
            self.read_steps([(run, step)].into_iter())?;
        }
        Ok(self.steps.get(&id).and_then(|kept| kept.row.clone()))
    }

    fn put_step(&mut self, row: StepRow) -> Result<(), ViewError> {
        self.steps.insert((row.run_id.clone(), row.step), Kept { row: Some(row), changed: true });
        Ok(())
    }

    fn put_approval(&mut self, row: ApprovalRow) -> Result<(), ViewError> {
        let of_run = self.approvals.entry(row.run_id.clone()).or_default();
        of_run.insert(row.id.clone(), Kept { row: Some(row), changed: true });
        Ok(())
    }

    fn pending_approvals(&mut self, run: &RunId) -> Result<Vec<ApprovalRow>, ViewError> {
        if !self.approvals_read.contains(run) && !self.runs_new.contains(run) {
            self.read_approvals(BTreeSet::from([run]))?;
        }
        let rows = self.approvals.get(run).into_iter().flat_map(BTreeMap::values);
        let waiting = rows.filter_map(|kept| kept.row.as_ref()).filter(|row| row.status == PENDING);
        Ok(waiting.cloned().collect())
    }

    fn change_metrics(&mut self, user: Option<&UserId>, date: &str, change: MetricsChange) -> Result<(), ViewError> {
        self.metrics.entry((user.cloned(), date.to_owned())).or_default().push(change);
        Ok(())
    }

    fn schedule(&mut self, id: &ScheduleId) -> Result<Option<ScheduleRow>, ViewError> {
        if !self.schedules.contains_key(id) {
            let row = schedules::get(self.database, id)?;
            self.schedules.insert(id.clone(), Kept { row, changed: false });
        }
        Ok(self.schedules.get(id).and_then(|kept| kept.row.clone()))
    }

    fn put_schedule(&mut self, row: ScheduleRow) -> Result<(), ViewError> {
        self.schedules.insert(row.id.clone(), Kept { row: Some(row), changed: true });
        Ok(())
    }

    fn delete_schedule(&mut self, id: &ScheduleId) -> Result<(), ViewError> {
        // Which attempts it has is for the database to say.
        self.write_own()?;
        schedules::delete(self.database, id)
    }

    fn schedule_run(&mut self, attempt_id: &str) -> Result<Option<ScheduleRunRow>, ViewError> {
        if !self.schedule_runs.contains_key(attempt_id) {
            let row = schedules::get_run(self.database, attempt_id)?;
            self.schedule_runs.insert(attempt_id.to_owned(), Kept { row, changed: false });
        }
        Ok(self.schedule_runs.get(attempt_id).and_then(|kept| kept.row.clone()))
    }

    fn put_schedule_run(&mut self, row: ScheduleRunRow) -> Result<(), ViewError> {
        self.schedule_runs.insert(row.attempt_id.clone(), Kept { row: Some(row), changed: true });
        Ok(())
    }

    fn component(&mut self, agent: &AgentId, version: &str) -> Result<Option<AgentSpec>, ViewError> {
        let key = (agent.clone(), version.to_owned());
        if let Some(spec) = self.components_new.get(&key).or_else(|| self.components.get(&key)) {
            return Ok(Some(spec.clone()));
        }
        let found = rows::component(self.database, agent, version)?;
        if let Some(spec) = &found {
            self.components.insert(key, spec.clone());
        }
        Ok(found)
    }

    fn put_component(&mut self, version: &str, spec: &AgentSpec) -> Result<(), ViewError> {
        let key = (spec.id.clone(), version.to_owned());
        self.components.remove(&key);
        self.components_new.insert(key, spec.clone());
        Ok(())
    }

    fn forget_components(&mut self, beginning: &str) -> Result<(), ViewError> {
        self.components.retain(|(_, version), _| !version.starts_with(beginning));
        self.components_new.retain(|(_, version), _| !version.starts_with(beginning));
        rows::forget_components(self.database, beginning)
    }
}
