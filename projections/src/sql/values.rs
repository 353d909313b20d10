//! Between columns and the types of the rows.

use reenact_events::event::RunStatus;
use rusqlite::{Row, types::Type};
use serde_json::Value;

/// What cannot be read in a column.
pub(crate) fn unreadable<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    column: usize,
    error: E,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
}

/// A column that holds JSON or nothing.
pub(crate) fn json(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Value>> {
    let text = row.get_ref(column)?.as_str_or_null()?;
    text.map(|text| serde_json::from_str(text).map_err(|error| unreadable(column, error))).transpose()
}

/// A column that holds a run's status.
pub(crate) fn status(row: &Row<'_>, column: usize) -> rusqlite::Result<RunStatus> {
    let text = row.get_ref(column)?.as_str()?;
    let known = RunStatus::ALL.into_iter().find(|status| status.as_str() == text);
    known.ok_or_else(|| unreadable(column, format!("`{text}` is no status of a run")))
}

/// A column that holds an id or nothing.
pub(crate) fn id<T>(row: &Row<'_>, column: usize, take: impl FnOnce(&str) -> T) -> rusqlite::Result<Option<T>> {
    Ok(row.get_ref(column)?.as_str_or_null()?.map(take))
}

/// A number as SQLite can hold it. Offsets and sequences count from 0 and stay far below the limit.
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number from 0 that [`integer`] wrote.
pub(crate) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}
