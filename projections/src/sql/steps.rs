//! Rows of the steps of runs.

use reenact_events::{RunId, SessionId, UserId};

use super::{
    database::Database,
    rows::texts,
    value::{Row, Unreadable, values},
};
use crate::{ViewError, fold::usage::Tokens, query::StepRow};

const COLUMNS: &str = "run_id, step, session_id, user_id, kind, name, status, attempts, requested_at, completed_at, \
     duration_ms, error, input_tokens, output_tokens, total_tokens, cache_read_tokens, cache_write_tokens, \
     reasoning_tokens";

const PUT: &str = "
    INSERT INTO run_steps (run_id, step, session_id, user_id, owner, kind, name, status, attempts, requested_at,
                           completed_at, duration_ms, error, input_tokens, output_tokens, total_tokens,
                           cache_read_tokens, cache_write_tokens, reasoning_tokens)
    VALUES (?1, ?2, ?3, ?4, coalesce(?4, ''), ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
    ON CONFLICT (run_id, step) DO UPDATE SET
        name = excluded.name, status = excluded.status, attempts = excluded.attempts,
        requested_at = excluded.requested_at, completed_at = excluded.completed_at,
        duration_ms = excluded.duration_ms, error = excluded.error, input_tokens = excluded.input_tokens,
        output_tokens = excluded.output_tokens, total_tokens = excluded.total_tokens,
        cache_read_tokens = excluded.cache_read_tokens, cache_write_tokens = excluded.cache_write_tokens,
        reasoning_tokens = excluded.reasoning_tokens";

fn row(row: &Row<'_>) -> Result<StepRow, Unreadable> {
    Ok(StepRow {
        run_id: RunId::trusted(&row.text(0)?),
        step: row.get(1)?,
        session_id: SessionId::trusted(&row.text(2)?),
        user_id: row.id(3, UserId::trusted)?,
        kind: row.get(4)?,
        name: row.get(5)?,
        status: row.get(6)?,
        attempts: row.get(7)?,
        requested_at: row.get(8)?,
        completed_at: row.get(9)?,
        duration_ms: row.get(10)?,
        error: row.get(11)?,
        tokens: Tokens {
            input_tokens: row.get(12)?,
            output_tokens: row.get(13)?,
            total_tokens: row.get(14)?,
            cache_read_tokens: row.get(15)?,
            cache_write_tokens: row.get(16)?,
            reasoning_tokens: row.get(17)?,
        },
    })
}

/// Writes rows of steps.
pub(super) fn put(database: Database<'_>, rows: &[&StepRow]) -> Result<(), ViewError> {
    let values = rows.iter().map(|row| {
        values![
            row.run_id.as_str(),
            row.step,
            row.session_id.as_str(),
            row.user_id.as_ref().map(UserId::as_str),
            &row.kind,
            row.name.as_deref(),
            &row.status,
            row.attempts,
            row.requested_at,
            row.completed_at,
            row.duration_ms,
            row.error.as_deref(),
            row.tokens.input_tokens,
            row.tokens.output_tokens,
            row.tokens.total_tokens,
            row.tokens.cache_read_tokens,
            row.tokens.cache_write_tokens,
            row.tokens.reasoning_tokens,
        ]
    });
    database.execute_each(PUT, &values.collect::<Vec<_>>())
}

/// The steps of these runs from a place on.
pub(super) fn of<'v>(
    database: Database<'_>,
    runs: impl IntoIterator<Item = &'v RunId>,
    from: u32,
) -> Result<Vec<StepRow>, ViewError> {
    let of_runs = database.among("run_id", "?1");
    let sql = format!("SELECT {COLUMNS} FROM run_steps WHERE {of_runs} AND step >= ?2");
    let [runs] = texts(runs.into_iter().map(RunId::as_str));
    database.query(&sql, &[runs, from.into()], row)
}

pub(super) fn all(database: Database<'_>) -> Result<Vec<StepRow>, ViewError> {
    database.query(&format!("SELECT {COLUMNS} FROM run_steps ORDER BY run_id, step"), &[], row)
}
