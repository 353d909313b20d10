//! Rows and queries of the metrics of users and days.

use reenact_events::UserId;
use rusqlite::{Row, params, params_from_iter};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    database::Database,
    select::Conditions,
    values::{integer, unreadable, unsigned},
};
use crate::{
    ViewError,
    metrics::{DAILY, MetricsFilter, MetricsRow},
    query::Scope,
};

const COLUMNS: &str = "user_id, date, agent_runs_count, agent_sessions_count, users_count, token_metrics, model_metrics, \
     status_metrics, component_metrics, created_at, updated_at";

const PUT: &str = "
    INSERT OR REPLACE INTO metrics (id, user_id, date, agent_runs_count, agent_sessions_count, users_count,
                                    token_metrics, model_metrics, status_metrics, component_metrics, created_at,
                                    updated_at, aggregation_period)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";

fn row(row: &Row<'_>) -> rusqlite::Result<MetricsRow> {
    let user = row.get_ref(0)?.as_str()?;
    Ok(MetricsRow {
        user_id: (!user.is_empty()).then(|| UserId::trusted(user)),
        date: row.get(1)?,
        agent_runs_count: unsigned(row, 2)?,
        agent_sessions_count: unsigned(row, 3)?,
        users_count: unsigned(row, 4)?,
        token_metrics: of_json(row, 5)?,
        model_metrics: of_json(row, 6)?,
        status_metrics: of_json(row, 7)?,
        component_metrics: of_json(row, 8)?,
        created_at: row.get(9)?,
        updated_at: row.get(10)?,
    })
}

fn of_json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(row.get_ref(column)?.as_str()?).map_err(|error| unreadable(column, error))
}

fn to_json(row: &MetricsRow, value: &impl Serialize) -> Result<String, ViewError> {
    serde_json::to_string(value).map_err(|error| ViewError::BadRow {
        row: format!("metrics {}", row.id()).into(),
        reason: error.to_string().into(),
    })
}

pub(super) fn get(database: Database<'_>, user: Option<&UserId>, date: &str) -> Result<Option<MetricsRow>, ViewError> {
    let sql = format!("SELECT {COLUMNS} FROM metrics WHERE user_id = ?1 AND date = ?2 AND aggregation_period = ?3");
    database.first(&sql, params![user.map_or("", UserId::as_str), date, DAILY], row)
}

pub(super) fn put(database: Database<'_>, row: &MetricsRow) -> Result<(), ViewError> {
    database.execute(
        PUT,
        params![
            row.id(),
            row.user_id.as_ref().map_or("", UserId::as_str),
            row.date,
            integer(row.agent_runs_count),
            integer(row.agent_sessions_count),
            integer(row.users_count),
            to_json(row, &row.token_metrics)?,
            to_json(row, &row.model_metrics)?,
            to_json(row, &row.status_metrics)?,
            to_json(row, &row.component_metrics)?,
            row.created_at,
            row.updated_at,
            DAILY,
        ],
    )?;
    Ok(())
}

pub(super) fn all(database: Database<'_>) -> Result<Vec<MetricsRow>, ViewError> {
    database.query(&format!("SELECT {COLUMNS} FROM metrics ORDER BY date, user_id"), [], row)
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
    database.query(&sql, params_from_iter(conditions.values), row)
}
