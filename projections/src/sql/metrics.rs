//! Rows and queries of the metrics of users and days.

use reenact_events::UserId;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    database::Database,
    rows::texts,
    select::Conditions,
    value::{Row, Unreadable, unreadable, values},
};
use crate::{
    ViewError,
    metrics::{DAILY, MetricsFilter, MetricsRow},
    query::Scope,
};

const COLUMNS: &str = "user_id, date, agent_runs_count, agent_sessions_count, users_count, token_metrics, model_metrics, \
     status_metrics, component_metrics, created_at, updated_at";

const PUT: &str = "
    INSERT INTO metrics (id, user_id, date, agent_runs_count, agent_sessions_count, users_count, token_metrics,
                         model_metrics, status_metrics, component_metrics, created_at, updated_at, aggregation_period)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
    ON CONFLICT (id) DO UPDATE SET
        agent_runs_count = excluded.agent_runs_count, agent_sessions_count = excluded.agent_sessions_count,
        users_count = excluded.users_count, token_metrics = excluded.token_metrics,
        model_metrics = excluded.model_metrics, status_metrics = excluded.status_metrics,
        component_metrics = excluded.component_metrics, created_at = excluded.created_at,
        updated_at = excluded.updated_at";

fn row(row: &Row<'_>) -> Result<MetricsRow, Unreadable> {
    let user = row.text(0)?;
    Ok(MetricsRow {
        user_id: (!user.is_empty()).then(|| UserId::trusted(&user)),
        date: row.get(1)?,
        agent_runs_count: row.get(2)?,
        agent_sessions_count: row.get(3)?,
        users_count: row.get(4)?,
        token_metrics: of_json(row, 5)?,
        model_metrics: of_json(row, 6)?,
        status_metrics: of_json(row, 7)?,
        component_metrics: of_json(row, 8)?,
        created_at: row.get(9)?,
        updated_at: row.get(10)?,
    })
}

fn of_json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T, Unreadable> {
    row.json(column)?.ok_or_else(|| unreadable(column, "it is empty"))
}

fn to_json(row: &MetricsRow, value: &impl Serialize) -> Result<String, ViewError> {
    serde_json::to_string(value).map_err(|error| ViewError::BadRow {
        row: format!("metrics {}", row.id()).into(),
        reason: error.to_string().into(),
    })
}

/// The rows of these ids, as far as they are there.
pub(super) fn of<'v>(
    database: Database<'_>,
    ids: impl IntoIterator<Item = &'v str>,
) -> Result<Vec<MetricsRow>, ViewError> {
    let sql = format!("SELECT {COLUMNS} FROM metrics WHERE {}", database.among("id", "?1"));
    database.query(&sql, &texts(ids), row)
}

pub(super) fn put<'v>(database: Database<'_>, rows: impl IntoIterator<Item = &'v MetricsRow>) -> Result<(), ViewError> {
    let mut values = Vec::new();
    for row in rows {
        values.push(values![
            row.id(),
            row.user_id.as_ref().map_or("", UserId::as_str),
            &row.date,
            row.agent_runs_count,
            row.agent_sessions_count,
            row.users_count,
            to_json(row, &row.token_metrics)?,
            to_json(row, &row.model_metrics)?,
            to_json(row, &row.status_metrics)?,
            to_json(row, &row.component_metrics)?,
            row.created_at,
            row.updated_at,
            DAILY,
        ]);
    }
    database.execute_each(PUT, &values)
}

pub(super) fn all(database: Database<'_>) -> Result<Vec<MetricsRow>, ViewError> {
    database.query(&format!("SELECT {COLUMNS} FROM metrics ORDER BY date, user_id"), &[], row)
}

/// The rows, by day and user. A user's are theirs alone: what is nobody's is not shown to everybody here.
pub(crate) fn list(
    database: Database<'_>,
    scope: &Scope,
    filter: &MetricsFilter,
) -> Result<Vec<MetricsRow>, ViewError> {
    let mut conditions = Conditions::of_owner(scope);
    conditions.and_some("user_id = ?", filter.user_id.as_ref().map(UserId::as_str));
    conditions.and_some("date >= ?", filter.from.map(|day| day.to_string()).as_deref());
    conditions.and_some("date <= ?", filter.to.map(|day| day.to_string()).as_deref());
    let sql = format!("SELECT {COLUMNS} FROM metrics{} ORDER BY date, user_id", conditions.sql());
    database.query(&sql, &conditions.values, row)
}
