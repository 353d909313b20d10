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
pub mod session;
pub mod tools;
pub mod usage;

use reenact_events::{AgentId, RunId, SessionId, UserId, agent::AgentSpec};

pub use apply::{apply, decode};
pub use metrics::MetricsChange;
pub use run::RunView;

use crate::{
    ViewError,
    query::{ApprovalRow, RunEventRow, RunRow, SessionRow},
};

/// Where rows are kept: a SQL transaction, or maps in memory. Reads see the writes before them.
pub trait Rows {
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

    /// Removes a session's row, its runs, their events and what waits, or waited, for somebody in them.
    ///
    /// # Errors
    /// When the place cannot be written.
    fn delete_session(&mut self, session: &SessionId) -> Result<(), ViewError>;

    /// A run's row.
    ///
    /// # Errors
    /// When the place cannot be read.
    fn run(&mut self, run: &RunId) -> Result<Option<RunRow>, ViewError>;

    /// Writes a run's row over the one that was there.
    ///
    /// # Errors
    /// When the place cannot be written.
    fn put_run(&mut self, row: RunRow) -> Result<(), ViewError>;

    /// The events of a run in order.
    ///
    /// # Errors
    /// When the place cannot be read.
    fn run_events(&mut self, run: &RunId) -> Result<Vec<RunEventRow>, ViewError>;

    /// Adds an event to a run that has a row; does nothing when it has none.
    ///
    /// # Errors
    /// When the place cannot be written.
    fn put_run_event(&mut self, run: &RunId, event: RunEventRow) -> Result<(), ViewError>;

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
}
