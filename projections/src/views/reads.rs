//! What can be read of the views: each query sees one moment.

use reenact_events::{RunId, SessionId, event::RunStatus};

use super::Views;
use crate::{
    Dump, ViewError,
    metrics::{MetricsFilter, MetricsRow},
    query::{
        ApprovalFilter, ApprovalRow, Page, Paging, RunEventRow, RunFilter, RunRow, Scope, SessionFilter, SessionRow,
        StatusCount,
    },
    retention::{Resting, Rule},
    sql::{approvals, metrics, read, retention},
};

impl Views {
    /// A page of sessions.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn sessions(
        &self,
        scope: &Scope,
        filter: &SessionFilter,
        paging: Paging,
    ) -> Result<Page<SessionRow>, ViewError> {
        let (scope, filter) = (scope.clone(), filter.clone());
        self.read(move |database| read::sessions(database, &scope, &filter, paging)).await
    }

    /// How many sessions the filter names.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn count_sessions(&self, scope: &Scope, filter: &SessionFilter) -> Result<u64, ViewError> {
        let (scope, filter) = (scope.clone(), filter.clone());
        self.read(move |database| read::count_sessions(database, &scope, &filter)).await
    }

    /// One session; another user's is as if it did not exist.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn session(&self, scope: &Scope, session: &SessionId) -> Result<Option<SessionRow>, ViewError> {
        let (scope, session) = (scope.clone(), session.clone());
        self.read(move |database| read::session(database, &scope, &session)).await
    }

    /// A page of runs, newest first. Runs that have not ended have the short `run_data`.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn runs(&self, scope: &Scope, filter: &RunFilter, paging: Paging) -> Result<Page<RunRow>, ViewError> {
        let (scope, filter) = (scope.clone(), filter.clone());
        self.read(move |database| read::runs(database, &scope, &filter, paging)).await
    }

    /// How many runs have each status that any has, at one moment.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn runs_by_status(&self, scope: &Scope) -> Result<Vec<StatusCount>, ViewError> {
        let scope = scope.clone();
        self.read(move |database| read::runs_by_status(database, &scope)).await
    }

    /// How many runs the filter names.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn count_runs(&self, scope: &Scope, filter: &RunFilter) -> Result<u64, ViewError> {
        let (scope, filter) = (scope.clone(), filter.clone());
        self.read(move |database| read::count_runs(database, &scope, &filter)).await
    }

    /// All runs of a session in the order they were started, each with all that is known of it.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn session_runs(
        &self,
        scope: &Scope,
        session: &SessionId,
        filter: &RunFilter,
    ) -> Result<Vec<RunRow>, ViewError> {
        let scope = scope.clone();
        let filter = RunFilter { session_id: Some(session.clone()), ..filter.clone() };
        self.read(move |database| read::session_runs(database, &scope, &filter)).await
    }

    /// One run with all that is known of it, also while it is at work; another user's is as if it did not exist.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn run(&self, scope: &Scope, run: &RunId) -> Result<Option<RunRow>, ViewError> {
        let (scope, run) = (scope.clone(), run.clone());
        self.read(move |database| read::run(database, &scope, &run)).await
    }

    /// The events of a run in order, those after `after_seq` if it is given; empty when there is no such run.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn run_events(
        &self,
        scope: &Scope,
        run: &RunId,
        after_seq: Option<u64>,
    ) -> Result<Vec<RunEventRow>, ViewError> {
        let (scope, run) = (scope.clone(), run.clone());
        self.read(move |database| read::run_events(database, &scope, &run, after_seq)).await
    }

    /// Where a run is; another user's is as if it did not exist.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn run_status(&self, scope: &Scope, run: &RunId) -> Result<Option<RunStatus>, ViewError> {
        let (scope, run) = (scope.clone(), run.clone());
        self.read(move |database| read::run_status(database, &scope, &run)).await
    }

    /// The metrics of users and days, by day and user; a user's are theirs alone.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn metrics(&self, scope: &Scope, filter: &MetricsFilter) -> Result<Vec<MetricsRow>, ViewError> {
        let (scope, filter) = (scope.clone(), filter.clone());
        self.read(move |database| metrics::list(database, &scope, &filter)).await
    }

    /// A page of what waits, or waited, for somebody, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn approvals(
        &self,
        scope: &Scope,
        filter: &ApprovalFilter,
        paging: Paging,
    ) -> Result<Page<ApprovalRow>, ViewError> {
        let (scope, filter) = (scope.clone(), filter.clone());
        self.read(move |database| approvals::page(database, &scope, &filter, paging)).await
    }

    /// How many waits for somebody the filter names.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn count_approvals(&self, scope: &Scope, filter: &ApprovalFilter) -> Result<u64, ViewError> {
        let (scope, filter) = (scope.clone(), filter.clone());
        self.read(move |database| approvals::count(database, &scope, &filter)).await
    }

    /// One wait for somebody; one in another user's run is as if it did not exist.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn approval(&self, scope: &Scope, id: &str) -> Result<Option<ApprovalRow>, ViewError> {
        let (scope, id) = (scope.clone(), id.to_owned());
        self.read(move |database| approvals::one(database, &scope, &id)).await
    }

    /// Sessions at rest that a rule of retention names, those that have rested longest first, from behind `after` on.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn resting(&self, rule: &Rule, after: Option<&Resting>, limit: u64) -> Result<Vec<Resting>, ViewError> {
        let (rule, after) = (rule.clone(), after.cloned());
        self.read(move |database| retention::resting(database, &rule, after.as_ref(), limit)).await
    }

    /// All rows, to compare with another fold of the same log.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn dump(&self) -> Result<Dump, ViewError> {
        self.read(read::dump).await
    }
}
