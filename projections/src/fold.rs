//! What the rows say of the events: pure folds, one set for every place that rows are kept in.
//!
//! [`apply()`] turns one event into changes of [`Rows`]; it costs the same for the thousandth run of a session
//! as for the first. [`run::RunView`] is a run as far as its events tell, [`output`] writes it as AgentOS's
//! RunOutput.

pub mod apply;
pub mod approvals;
pub mod component;
pub mod holds;
pub mod json;
pub mod messages;
mod metrics;
pub mod output;
pub mod run;
mod schedules;
pub mod session;
pub mod steps;
pub mod tools;
pub mod usage;

use reenact_events::{AgentId, Recorded, RunEvent, RunId, ScheduleId, SessionId, UserId, agent::AgentSpec};

pub use apply::{EndedRun, apply, decode};
pub use metrics::MetricsChange;
pub use run::RunView;

use crate::{
    ViewError,
    query::{ApprovalRow, RunRow, SessionRow, StepRow},
    schedules::{ScheduleRow, ScheduleRunRow},
};

/// Where rows are kept: a SQL transaction, or maps in memory. Reads see the writes before them. Events are lent until
/// they are written.
pub trait Rows<'e> {
    /// A session's row.
    ///
    /// # Errors
    /// When the place cannot be read.
    fn session(&mut self, session: &SessionId) -> Result<Option<SessionRow>, ViewError>;

    /// Writes a session's row over the one that was there.
    ///
    /// # Errors
    /// When the place cannot be written.
    fn put_session(&mut self, row: SessionRow) -> Result<(), ViewError>;

    /// Removes a session's row, its runs, their events and steps, and what waits, or waited, for somebody in them.
    ///
    /// # Errors
    /// When the place cannot be written.
    fn delete_session(&mut self, session: &SessionId) -> Result<(), ViewError>;

    /// A run's row.
    ///
    /// # Errors
    /// When the place cannot be read.
    fn run(&mut self, run: &RunId) -> Result<Option<&RunRow>, ViewError>;

    /// Writes a run's row over the one that was there.
    ///
    /// # Errors
    /// When the place cannot be written.
    fn put_run(&mut self, row: RunRow) -> Result<(), ViewError>;

    /// Writes the row of a run that has ended.
    ///
    /// # Errors
    /// When the place cannot be written.
    fn put_ended_run(&mut self, run: EndedRun) -> Result<(), ViewError> {
        self.put_run(run.whole())
    }

    /// A run as far as its events tell; none when they do not begin with its acceptance.
    ///
    /// # Errors
    /// When the place, or an event there, cannot be read.
    fn run_view(&mut self, run: &RunId) -> Result<Option<RunView>, ViewError>;

    /// Adds an event, which was recorded as that, to its run if that has a row.
    ///
    /// # Errors
    /// When the place cannot be written.
    fn put_run_event(&mut self, recorded: &'e Recorded, event: &'e RunEvent) -> Result<(), ViewError>;

    /// A step of a run.
    ///
    /// # Errors
    /// When the place cannot be read.
    fn step(&mut self, run: &RunId, step: u32) -> Result<Option<StepRow>, ViewError>;

    /// Writes the row of a step over the one that was there.
    ///
    /// # Errors
    /// When the place cannot be written.
    fn put_step(&mut self, row: StepRow) -> Result<(), ViewError>;

    /// Writes the row of a wait for somebody over the one that was there.
    ///
    /// # Errors
    /// When the place cannot be written.
    fn put_approval(&mut self, row: ApprovalRow) -> Result<(), ViewError>;

    /// What waits for somebody in a run, by id.
    ///
    /// # Errors
    /// When the place cannot be read.
    fn pending_approvals(&mut self, run: &RunId) -> Result<Vec<ApprovalRow>, ViewError>;

    /// Changes the metrics of a user and day.
    ///
    /// # Errors
    /// When the place cannot be written.
    fn change_metrics(&mut self, user: Option<&UserId>, date: &str, change: MetricsChange) -> Result<(), ViewError>;

    /// A schedule's row.
    ///
    /// # Errors
    /// When the place cannot be read.
    fn schedule(&mut self, id: &ScheduleId) -> Result<Option<ScheduleRow>, ViewError>;

    /// Writes a schedule's row over the one that was there.
    ///
    /// # Errors
    /// When the place cannot be written.
    fn put_schedule(&mut self, row: ScheduleRow) -> Result<(), ViewError>;

    /// Removes a schedule's row and what became of its due times; the runs stay.
    ///
    /// # Errors
    /// When the place cannot be written.
    fn delete_schedule(&mut self, id: &ScheduleId) -> Result<(), ViewError>;

    /// An attempt's row.
    ///
    /// # Errors
    /// When the place cannot be read.
    fn schedule_run(&mut self, attempt_id: &str) -> Result<Option<ScheduleRunRow>, ViewError>;

    /// Writes an attempt's row over the one that was there.
    ///
    /// # Errors
    /// When the place cannot be written.
    fn put_schedule_run(&mut self, row: ScheduleRunRow) -> Result<(), ViewError>;

    /// A version of an agent.
    ///
    /// # Errors
    /// When the place cannot be read.
    fn component(&mut self, agent: &AgentId, version: &str) -> Result<Option<AgentSpec>, ViewError>;

    /// Keeps a version of an agent.
    ///
    /// # Errors
    /// When the place cannot be written.
    fn put_component(&mut self, version: &str, spec: &AgentSpec) -> Result<(), ViewError>;

    /// Removes the versions that begin so.
    ///
    /// # Errors
    /// When the place cannot be written.
    fn forget_components(&mut self, beginning: &str) -> Result<(), ViewError>;
}
