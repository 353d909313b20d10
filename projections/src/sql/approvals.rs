//! Rows and queries of the queue of approvals.

use reenact_events::{RunId, SessionId, UserId};

use super::{
    database::{Database, Transaction},
    rows::texts,
    select::{self, Conditions},
    value::{Row, Unreadable, Value, values},
};
use crate::{
    ViewError,
    fold::approvals::PENDING,
    query::{ApprovalFilter, ApprovalRow, Page, Paging, Scope},
};

const COLUMNS: &str = "id, run_id, session_id, agent_id, user_id, step, status, pause_type, tool_name, created_at, \
     updated_at, expires_at, resolved_at, resolved_by, data";

const PUT: &str = "
    INSERT INTO approvals (id, run_id, session_id, agent_id, user_id, owner, step, status, pause_type, tool_name,
                           created_at, updated_at, expires_at, resolved_at, resolved_by, data)
    VALUES (?1, ?2, ?3, ?4, ?5, coalesce(?5, ''), ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
    ON CONFLICT (id) DO UPDATE SET
        run_id = excluded.run_id, session_id = excluded.session_id, agent_id = excluded.agent_id,
        user_id = excluded.user_id, owner = excluded.owner, step = excluded.step, status = excluded.status,
        pause_type = excluded.pause_type, tool_name = excluded.tool_name, created_at = excluded.created_at,
        updated_at = excluded.updated_at, expires_at = excluded.expires_at, resolved_at = excluded.resolved_at,
        resolved_by = excluded.resolved_by, data = excluded.data";

fn row(row: &Row<'_>) -> Result<ApprovalRow, Unreadable> {
    Ok(ApprovalRow {
        id: row.get(0)?,
        run_id: RunId::trusted(&row.text(1)?),
        session_id: SessionId::trusted(&row.text(2)?),
        agent_id: row.get(3)?,
        user_id: row.id(4, UserId::trusted)?,
        step: row.get(5)?,
        status: row.get(6)?,
        pause_type: row.get(7)?,
        tool_name: row.get(8)?,
        created_at: row.get(9)?,
        updated_at: row.get(10)?,
        expires_at: row.get(11)?,
        resolved_at: row.get(12)?,
        resolved_by: row.id(13, UserId::trusted)?,
        data: row.json(14)?.unwrap_or_default(),
    })
}

pub(super) fn put(database: Database<'_>, rows: &[&ApprovalRow]) -> Result<(), ViewError> {
    let values = rows.iter().map(|row| {
        values![
            &row.id,
            row.run_id.as_str(),
            row.session_id.as_str(),
            row.agent_id.as_deref(),
            row.user_id.as_ref().map(UserId::as_str),
            row.step,
            &row.status,
            &row.pause_type,
            &row.tool_name,
            row.created_at,
            row.updated_at,
            row.expires_at,
            row.resolved_at,
            row.resolved_by.as_ref().map(UserId::as_str),
            row.data.to_string(),
        ]
    });
    database.execute_each(PUT, &values.collect::<Vec<_>>())
}

/// What waits for somebody in these runs.
pub(super) fn pending_in<'v>(
    database: Database<'_>,
    runs: impl IntoIterator<Item = &'v RunId>,
) -> Result<Vec<ApprovalRow>, ViewError> {
    let in_runs = database.among("run_id", "?1");
    let sql = format!("SELECT {COLUMNS} FROM approvals WHERE {in_runs} AND status = ?2 ORDER BY id");
    let [runs] = texts(runs.into_iter().map(RunId::as_str));
    database.query(&sql, &[runs, PENDING.into()], row)
}

pub(super) fn all(database: Database<'_>) -> Result<Vec<ApprovalRow>, ViewError> {
    database.query(&format!("SELECT {COLUMNS} FROM approvals ORDER BY id"), &[], row)
}

fn conditions(scope: &Scope, filter: &ApprovalFilter) -> Conditions {
    let mut conditions = Conditions::within(scope);
    conditions.and_some("status = ?", filter.status.as_deref());
    conditions.and_some("pause_type = ?", filter.pause_type.as_deref());
    conditions.and_some("agent_id = ?", filter.agent_id.as_deref());
    conditions.and_some("owner = ?", filter.user_id.as_ref().map(UserId::as_str));
    conditions.and_some("run_id = ?", filter.run_id.as_ref().map(RunId::as_str));
    conditions
}

/// How many.
pub(crate) fn count(database: Database<'_>, scope: &Scope, filter: &ApprovalFilter) -> Result<u64, ViewError> {
    count_of(database, &conditions(scope, filter))
}

fn count_of(database: Database<'_>, conditions: &Conditions) -> Result<u64, ViewError> {
    let sql = format!("SELECT count(*) FROM approvals{}", conditions.sql());
    let total = database.first(&sql, &conditions.values, |row| row.get(0))?;
    Ok(total.unwrap_or_default())
}

/// A page, newest first.
pub(crate) fn page(
    database: Database<'_>,
    scope: &Scope,
    filter: &ApprovalFilter,
    paging: Paging,
) -> Result<Page<ApprovalRow>, ViewError> {
    let conditions = conditions(scope, filter);
    let (limit, offset) = select::limit_and_offset(paging);
    database.transaction(Transaction::Read, || {
        let total = count_of(database, &conditions)?;
        let order = "ORDER BY created_at DESC, id DESC LIMIT ? OFFSET ?";
        let sql = format!("SELECT {COLUMNS} FROM approvals{} {order}", conditions.sql());
        let mut values = conditions.values;
        values.extend([Value::from(limit), Value::from(offset)]);
        Ok(Page { items: database.query(&sql, &values, row)?, total })
    })
}

/// One.
pub(crate) fn one(database: Database<'_>, scope: &Scope, id: &str) -> Result<Option<ApprovalRow>, ViewError> {
    let mut conditions = Conditions::within(scope);
    conditions.and("id = ?", id);
    let sql = format!("SELECT {COLUMNS} FROM approvals{}", conditions.sql());
    database.first(&sql, &conditions.values, row)
}
