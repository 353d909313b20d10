//! What is read of schedules.

use reenact_events::ScheduleId;

use crate::{
    ViewError, Views,
    query::{Page, Paging, Scope},
    schedules::{ScheduleFilter, ScheduleRow, ScheduleRunRow},
    sql::schedules,
};

impl Views {
    /// A page of schedules, newest first; another user's are as if they did not exist.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn schedules(
        &self,
        scope: &Scope,
        filter: &ScheduleFilter,
        paging: Paging,
    ) -> Result<Page<ScheduleRow>, ViewError> {
        let (scope, filter) = (scope.clone(), filter.clone());
        self.read(move |database| schedules::page(database, &scope, &filter, paging)).await
    }

    /// One schedule; another user's is as if it did not exist.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn schedule(&self, scope: &Scope, id: &ScheduleId) -> Result<Option<ScheduleRow>, ViewError> {
        let (scope, id) = (scope.clone(), id.clone());
        self.read(move |database| schedules::one(database, &scope, &id)).await
    }

    /// A page of what became of a schedule's due times, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn schedule_runs(
        &self,
        scope: &Scope,
        id: &ScheduleId,
        paging: Paging,
    ) -> Result<Page<ScheduleRunRow>, ViewError> {
        let (scope, id) = (scope.clone(), id.clone());
        self.read(move |database| schedules::page_of_runs(database, &scope, &id, paging)).await
    }

    /// What became of one due time of a schedule, by its attempt.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn schedule_run(
        &self,
        scope: &Scope,
        id: &ScheduleId,
        attempt: &str,
    ) -> Result<Option<ScheduleRunRow>, ViewError> {
        let (scope, id, attempt) = (scope.clone(), id.clone(), attempt.to_owned());
        self.read(move |database| schedules::one_run(database, &scope, &id, &attempt)).await
    }
}
