//! Rows and queries of schedules.

use reenact_events::{RunId, ScheduleId, SessionId, UserId};

use super::{
    database::{Database, Transaction},
    select::{self, Conditions},
    value::{Row, Unreadable, Value, values},
};
use crate::{
    ViewError,
    query::{Page, Paging, Scope},
    schedules::{ScheduleFilter, ScheduleRow, ScheduleRunRow},
};

const COLUMNS: &str = "id, user_id, name, description, method, endpoint, payload, cron_expr, timezone, timeout_seconds, \
     max_retries, retry_delay_seconds, enabled, next_run_at, target_type, target_id, disabled_reason, created_at, \
     updated_at, at, overlap, catch_up, jitter_seconds";

const PUT: &str = "
    INSERT INTO schedules (id, user_id, name, description, method, endpoint, payload, cron_expr, timezone,
                           timeout_seconds, max_retries, retry_delay_seconds, enabled, next_run_at, target_type,
                           target_id, disabled_reason, created_at, updated_at, at, overlap, catch_up, jitter_seconds)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23)
    ON CONFLICT (id) DO UPDATE SET
        name = excluded.name, description = excluded.description, method = excluded.method,
        endpoint = excluded.endpoint, payload = excluded.payload, cron_expr = excluded.cron_expr,
        timezone = excluded.timezone, timeout_seconds = excluded.timeout_seconds, max_retries = excluded.max_retries,
        retry_delay_seconds = excluded.retry_delay_seconds, enabled = excluded.enabled,
        next_run_at = excluded.next_run_at, target_type = excluded.target_type, target_id = excluded.target_id,
        disabled_reason = excluded.disabled_reason, updated_at = excluded.updated_at, at = excluded.at,
        overlap = excluded.overlap, catch_up = excluded.catch_up, jitter_seconds = excluded.jitter_seconds";

const RUN_COLUMNS: &str = "id, attempt_id, schedule_id, user_id, attempt, due_at, until, triggered_at, completed_at, \
     status, run_id, session_id, error, input, created_at";

const PUT_RUN: &str = "
    INSERT INTO schedule_runs (id, attempt_id, schedule_id, user_id, attempt, due_at, until, triggered_at,
                               completed_at, status, run_id, session_id, error, input, created_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
    ON CONFLICT (id) DO UPDATE SET
        until = excluded.until, triggered_at = excluded.triggered_at, completed_at = excluded.completed_at,
        status = excluded.status, run_id = excluded.run_id, session_id = excluded.session_id, error = excluded.error";

fn row(row: &Row<'_>) -> Result<ScheduleRow, Unreadable> {
    Ok(ScheduleRow {
        id: ScheduleId::trusted(&row.text(0)?),
        user_id: row.id(1, UserId::trusted)?,
        name: row.get(2)?,
        description: row.get(3)?,
        method: row.get(4)?,
        endpoint: row.get(5)?,
        payload: row.json(6)?,
        cron_expr: row.get(7)?,
        timezone: row.get(8)?,
        timeout_seconds: row.get(9)?,
        max_retries: row.get(10)?,
        retry_delay_seconds: row.get(11)?,
        enabled: row.get::<u32>(12)? != 0,
        next_run_at: row.get(13)?,
        target_type: row.get(14)?,
        target_id: row.get(15)?,
        disabled_reason: row.get(16)?,
        created_at: row.get(17)?,
        updated_at: row.get(18)?,
        at: row.get(19)?,
        overlap: row.get(20)?,
        catch_up: row.get(21)?,
        jitter_seconds: row.get(22)?,
    })
}

fn run_row(row: &Row<'_>) -> Result<ScheduleRunRow, Unreadable> {
    Ok(ScheduleRunRow {
        id: row.get(0)?,
        attempt_id: row.get(1)?,
        schedule_id: ScheduleId::trusted(&row.text(2)?),
        user_id: row.id(3, UserId::trusted)?,
        attempt: row.get(4)?,
        due_at: row.get(5)?,
        until: row.get(6)?,
        triggered_at: row.get(7)?,
        completed_at: row.get(8)?,
        status: row.get(9)?,
        run_id: row.id(10, RunId::trusted)?,
        session_id: row.id(11, SessionId::trusted)?,
        error: row.get(12)?,
        input: row.json(13)?,
        created_at: row.get(14)?,
    })
}

pub(super) fn get(database: Database<'_>, schedule: &ScheduleId) -> Result<Option<ScheduleRow>, ViewError> {
    database.first(&format!("SELECT {COLUMNS} FROM schedules WHERE id = ?1"), &values![schedule.as_str()], row)
}

pub(super) fn put(database: Database<'_>, rows: &[&ScheduleRow]) -> Result<(), ViewError> {
    let values = rows.iter().map(|row| {
        values![
            row.id.as_str(),
            row.user_id.as_ref().map(UserId::as_str),
            &row.name,
            row.description.as_deref(),
            &row.method,
            &row.endpoint,
            row.payload.as_ref().map(ToString::to_string),
            &row.cron_expr,
            &row.timezone,
            row.timeout_seconds,
            row.max_retries,
            row.retry_delay_seconds,
            u32::from(row.enabled),
            row.next_run_at,
            row.target_type.as_deref(),
            row.target_id.as_deref(),
            row.disabled_reason.as_deref(),
            row.created_at,
            row.updated_at,
            row.at,
            &row.overlap,
            &row.catch_up,
            row.jitter_seconds,
        ]
    });
    database.execute_each(PUT, &values.collect::<Vec<_>>())
}

pub(super) fn delete(database: Database<'_>, schedule: &ScheduleId) -> Result<(), ViewError> {
    database.execute("DELETE FROM schedule_runs WHERE schedule_id = ?1", &values![schedule.as_str()])?;
    database.execute("DELETE FROM schedules WHERE id = ?1", &values![schedule.as_str()])?;
    Ok(())
}

pub(super) fn get_run(database: Database<'_>, attempt: &str) -> Result<Option<ScheduleRunRow>, ViewError> {
    let sql = format!("SELECT {RUN_COLUMNS} FROM schedule_runs WHERE attempt_id = ?1");
    database.first(&sql, &values![attempt], run_row)
}

pub(super) fn put_runs(database: Database<'_>, rows: &[&ScheduleRunRow]) -> Result<(), ViewError> {
    let values = rows.iter().map(|row| {
        values![
            &row.id,
            &row.attempt_id,
            row.schedule_id.as_str(),
            row.user_id.as_ref().map(UserId::as_str),
            row.attempt,
            row.due_at,
            row.until,
            row.triggered_at,
            row.completed_at,
            &row.status,
            row.run_id.as_ref().map(RunId::as_str),
            row.session_id.as_ref().map(SessionId::as_str),
            row.error.as_deref(),
            row.input.as_ref().map(ToString::to_string),
            row.created_at,
        ]
    });
    database.execute_each(PUT_RUN, &values.collect::<Vec<_>>())
}

pub(super) fn all(database: Database<'_>) -> Result<Vec<ScheduleRow>, ViewError> {
    database.query(&format!("SELECT {COLUMNS} FROM schedules ORDER BY id"), &[], row)
}

pub(super) fn all_runs(database: Database<'_>) -> Result<Vec<ScheduleRunRow>, ViewError> {
    database.query(&format!("SELECT {RUN_COLUMNS} FROM schedule_runs ORDER BY attempt_id"), &[], run_row)
}

/// A table whose rows are shown newest first.
struct List {
    table: &'static str,
    columns: &'static str,
}

impl List {
    fn page<T>(
        &self,
        database: Database<'_>,
        conditions: Conditions,
        paging: Paging,
        map: fn(&Row<'_>) -> Result<T, Unreadable>,
    ) -> Result<Page<T>, ViewError> {
        let Self { table, columns } = self;
        let (limit, offset) = select::limit_and_offset(paging);
        database.transaction(Transaction::Read, || {
            let count = format!("SELECT count(*) FROM {table}{}", conditions.sql());
            let total = database.first(&count, &conditions.values, |row| row.get(0))?;
            let order = "ORDER BY created_at DESC, id DESC LIMIT ? OFFSET ?";
            let sql = format!("SELECT {columns} FROM {table}{} {order}", conditions.sql());
            let mut values = conditions.values;
            values.extend([Value::from(limit), Value::from(offset)]);
            let items = database.query(&sql, &values, map)?;
            Ok(Page { items, total: total.unwrap_or_default() })
        })
    }
}

/// A page of schedules.
pub(crate) fn page(
    database: Database<'_>,
    scope: &Scope,
    filter: &ScheduleFilter,
    paging: Paging,
) -> Result<Page<ScheduleRow>, ViewError> {
    let mut conditions = Conditions::of_owner(scope);
    conditions.and_some("enabled = ?", filter.enabled.map(i64::from));
    conditions.and_some("user_id = ?", filter.user_id.as_ref().map(UserId::as_str));
    List { table: "schedules", columns: COLUMNS }.page(database, conditions, paging, row)
}

/// One schedule.
pub(crate) fn one(
    database: Database<'_>,
    scope: &Scope,
    schedule: &ScheduleId,
) -> Result<Option<ScheduleRow>, ViewError> {
    let mut conditions = Conditions::of_owner(scope);
    conditions.and("id = ?", schedule.as_str());
    let sql = format!("SELECT {COLUMNS} FROM schedules{}", conditions.sql());
    database.first(&sql, &conditions.values, row)
}

/// A page of what became of a schedule's due times.
pub(crate) fn page_of_runs(
    database: Database<'_>,
    scope: &Scope,
    schedule: &ScheduleId,
    paging: Paging,
) -> Result<Page<ScheduleRunRow>, ViewError> {
    let mut conditions = Conditions::of_owner(scope);
    conditions.and("schedule_id = ?", schedule.as_str());
    List { table: "schedule_runs", columns: RUN_COLUMNS }.page(database, conditions, paging, run_row)
}

/// What became of one, by its attempt.
pub(crate) fn one_run(
    database: Database<'_>,
    scope: &Scope,
    schedule: &ScheduleId,
    attempt: &str,
) -> Result<Option<ScheduleRunRow>, ViewError> {
    let mut conditions = Conditions::of_owner(scope);
    conditions.and("schedule_id = ?", schedule.as_str());
    conditions.and("attempt_id = ?", attempt);
    let sql = format!("SELECT {RUN_COLUMNS} FROM schedule_runs{}", conditions.sql());
    database.first(&sql, &conditions.values, run_row)
}
