//! Rows of the tables: written for the folds, read by them and by the queries.

use std::borrow::Cow;

use reenact_events::{AgentId, Recorded, RunId, SessionId, UserId, agent::AgentSpec};

use super::{
    database::Database,
    value::{Row, Unreadable, Value, values},
};
use crate::{
    ViewError,
    fold::component,
    query::{RunEventRow, RunRow, SessionRow},
};

/// The columns that [`session_row`] reads.
pub(super) const SESSION_COLUMNS: &str = "sessions.session_id, session_type, agent_id, user_id, session_data, metadata, \
     summary, created_at, updated_at, first_message";

/// The columns that [`run_row`] reads.
pub(super) const RUN_COLUMNS: &str = "runs.run_id, runs.session_id, run_type, agent_id, user_id, parent_run_id, status, \
     run_index, run_data, created_at, updated_at";

/// The columns that [`run_event_row`] reads.
pub(super) const RUN_EVENT_COLUMNS: &str = "run_events.seq, run_events.at, run_events.type, run_events.data";

/// Reads [`SESSION_COLUMNS`].
pub(super) fn session_row(row: &Row<'_>) -> Result<SessionRow, Unreadable> {
    Ok(SessionRow {
        session_id: SessionId::trusted(&row.text(0)?),
        session_type: row.get(1)?,
        agent_id: row.get(2)?,
        user_id: row.id(3, UserId::trusted)?,
        session_data: row.json(4)?.unwrap_or_default(),
        metadata: row.json(5)?,
        summary: row.json(6)?,
        created_at: row.get(7)?,
        updated_at: row.get(8)?,
        first_message: row.get(9)?,
    })
}

/// Reads [`RUN_COLUMNS`].
pub(super) fn run_row(row: &Row<'_>) -> Result<RunRow, Unreadable> {
    Ok(RunRow {
        run_id: RunId::trusted(&row.text(0)?),
        session_id: SessionId::trusted(&row.text(1)?),
        run_type: row.get(2)?,
        agent_id: row.get(3)?,
        user_id: row.id(4, UserId::trusted)?,
        parent_run_id: row.id(5, RunId::trusted)?,
        status: row.status(6)?,
        run_index: row.get(7)?,
        run_data: row.json(8)?.unwrap_or_default(),
        created_at: row.get(9)?,
        updated_at: row.get(10)?,
    })
}

/// Reads [`RUN_EVENT_COLUMNS`].
pub(super) fn run_event_row(row: &Row<'_>) -> Result<RunEventRow, Unreadable> {
    Ok(RunEventRow { seq: row.get(0)?, at: row.get(1)?, kind: row.get(2)?, data: row.get(3)? })
}

/// What stands for [`Database::among`]'s mark.
pub(super) fn texts<'v>(texts: impl IntoIterator<Item = &'v str>) -> [Value<'v>; 1] {
    [Value::Texts(texts.into_iter().map(Cow::from).collect())]
}

/// The sessions of these ids, as far as they are there.
pub(super) fn sessions_of<'v>(
    database: Database<'_>,
    ids: impl IntoIterator<Item = &'v SessionId>,
) -> Result<Vec<SessionRow>, ViewError> {
    let sql = format!("SELECT {SESSION_COLUMNS} FROM sessions WHERE {}", database.among("session_id", "?1"));
    database.query(&sql, &texts(ids.into_iter().map(SessionId::as_str)), session_row)
}

/// The runs of these ids, as far as they are there.
pub(super) fn runs_of<'v>(
    database: Database<'_>,
    ids: impl IntoIterator<Item = &'v RunId>,
) -> Result<Vec<RunRow>, ViewError> {
    let sql = format!("SELECT {RUN_COLUMNS} FROM runs WHERE {}", database.among("run_id", "?1"));
    database.query(&sql, &texts(ids.into_iter().map(RunId::as_str)), run_row)
}

/// The events of these runs, each run's in order.
pub(super) fn events_of<'v>(
    database: Database<'_>,
    ids: impl IntoIterator<Item = &'v RunId>,
) -> Result<Vec<(RunId, RunEventRow)>, ViewError> {
    let of_runs = database.among("run_id", "?1");
    let sql = format!("SELECT {RUN_EVENT_COLUMNS}, run_id FROM run_events WHERE {of_runs} ORDER BY run_id, seq");
    database.query(&sql, &texts(ids.into_iter().map(RunId::as_str)), named_event_row)
}

/// Reads [`RUN_EVENT_COLUMNS`] and the run's id behind them.
pub(super) fn named_event_row(row: &Row<'_>) -> Result<(RunId, RunEventRow), Unreadable> {
    Ok((RunId::trusted(&row.text(4)?), run_event_row(row)?))
}

/// The events of a run in order.
pub(super) fn run_events(database: Database<'_>, run: &RunId) -> Result<Vec<RunEventRow>, ViewError> {
    let sql = format!("SELECT {RUN_EVENT_COLUMNS} FROM run_events WHERE run_id = ?1 ORDER BY seq");
    database.query(&sql, &values![run.as_str()], run_event_row)
}

const PUT_SESSION: &str = "
    INSERT INTO sessions (session_id, session_type, agent_id, user_id, owner, created_at, title_folded, updated_at,
                          first_message, metadata, summary, session_data)
    VALUES (?1, ?2, ?3, ?4, coalesce(?4, ''), ?5, ?6, ?7, ?8, ?9, ?10, ?11)
    ON CONFLICT (session_id) DO UPDATE SET
        session_type = excluded.session_type, agent_id = excluded.agent_id, user_id = excluded.user_id,
        owner = excluded.owner, created_at = excluded.created_at, title_folded = excluded.title_folded,
        updated_at = excluded.updated_at, first_message = excluded.first_message, metadata = excluded.metadata,
        summary = excluded.summary, session_data = excluded.session_data";

/// Writes whole rows of sessions.
pub(super) fn put_sessions(database: Database<'_>, rows: &[&SessionRow]) -> Result<(), ViewError> {
    let values = rows.iter().map(|row| {
        values![
            row.session_id.as_str(),
            &row.session_type,
            row.agent_id.as_deref(),
            row.user_id.as_ref().map(UserId::as_str),
            row.created_at,
            title_folded(row),
            row.updated_at,
            row.first_message.as_deref(),
            row.metadata.as_ref().map(ToString::to_string),
            row.summary.as_ref().map(ToString::to_string),
            row.session_data.to_string(),
        ]
    });
    database.execute_each(PUT_SESSION, &values.collect::<Vec<_>>())
}

/// What a search by name looks at.
fn title_folded(row: &SessionRow) -> String {
    row.title().unwrap_or_default().to_lowercase()
}

const TOUCH_SESSION: &str = "
    UPDATE sessions SET updated_at = ?2, first_message = ?3, metadata = ?4, summary = ?5, session_data = ?6
    WHERE session_id = ?1";

/// Whether `now` differs from the stored row in nothing that [`touch_sessions`] does not write. That is what a run
/// changes of its session: most of the indexes stay as they are.
pub(super) fn is_touched_only(stored: &SessionRow, now: &SessionRow) -> bool {
    stored.session_type == now.session_type
        && stored.agent_id == now.agent_id
        && stored.user_id == now.user_id
        && stored.created_at == now.created_at
        && title_folded(stored) == title_folded(now)
}

/// Writes rows of sessions that are there and [`is_touched_only`] says yes of.
pub(super) fn touch_sessions(database: Database<'_>, rows: &[&SessionRow]) -> Result<(), ViewError> {
    let values = rows.iter().map(|row| {
        values![
            row.session_id.as_str(),
            row.updated_at,
            row.first_message.as_deref(),
            row.metadata.as_ref().map(ToString::to_string),
            row.summary.as_ref().map(ToString::to_string),
            row.session_data.to_string(),
        ]
    });
    database.execute_each(TOUCH_SESSION, &values.collect::<Vec<_>>())
}

/// Removes a session, its runs, their events and steps, and what waits, or waited, for somebody in them.
pub(super) fn delete_session(database: Database<'_>, session: &SessionId) -> Result<(), ViewError> {
    let session = values![session.as_str()];
    for table in ["run_events", "run_steps"] {
        let sql = format!("DELETE FROM {table} WHERE run_id IN (SELECT run_id FROM runs WHERE session_id = ?1)");
        database.execute(&sql, &session)?;
    }
    database.execute("DELETE FROM approvals WHERE session_id = ?1", &session)?;
    database.execute("DELETE FROM runs WHERE session_id = ?1", &session)?;
    database.execute("DELETE FROM sessions WHERE session_id = ?1", &session)?;
    Ok(())
}

/// Only the status, the time and the data of a run ever change: most of the indexes stay as they are.
const PUT_RUN: &str = "
    INSERT INTO runs (run_id, session_id, run_type, agent_id, user_id, owner, parent_run_id, status, run_index,
                      created_at, updated_at, run_data)
    VALUES (?1, ?2, ?3, ?4, ?5, coalesce(?5, ''), ?6, ?7, ?8, ?9, ?10, ?11)
    ON CONFLICT (run_id) DO UPDATE SET
        status = excluded.status, updated_at = excluded.updated_at, run_data = excluded.run_data";

/// Writes rows of runs, each with this `run_data`.
pub(super) fn put_runs(database: Database<'_>, rows: &[&RunRow], data: &[String]) -> Result<(), ViewError> {
    let values = rows.iter().zip(data).map(|(row, data)| {
        values![
            row.run_id.as_str(),
            row.session_id.as_str(),
            &row.run_type,
            row.agent_id.as_deref(),
            row.user_id.as_ref().map(UserId::as_str),
            row.parent_run_id.as_ref().map(RunId::as_str),
            row.status.as_str(),
            row.run_index,
            row.created_at,
            row.updated_at,
            data,
        ]
    });
    database.execute_each(PUT_RUN, &values.collect::<Vec<_>>())
}

const PUT_EVENT: &str =
    "INSERT INTO run_events (session_id, run_id, seq, at, type, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// Adds events to runs that have a row.
pub(super) fn put_events(database: Database<'_>, events: &[(&SessionId, &RunId, &Recorded)]) -> Result<(), ViewError> {
    let values = events.iter().map(|(session, run, recorded)| {
        let event = &recorded.event;
        values![session.as_str(), run.as_str(), event.seq, event.at.0, &*event.kind, &*event.data]
    });
    database.execute_each(PUT_EVENT, &values.collect::<Vec<_>>())
}

/// A version of an agent.
pub(super) fn component(
    database: Database<'_>,
    agent: &AgentId,
    version: &str,
) -> Result<Option<AgentSpec>, ViewError> {
    let sql = "SELECT spec FROM components WHERE agent_id = ?1 AND version = ?2";
    let json: Option<String> = database.first(sql, &values![agent.as_str(), version], |row| row.get(0))?;
    json.map(|json| component::read(agent, version, &json)).transpose()
}

const PUT_COMPONENT: &str = "
    INSERT INTO components (agent_id, version, spec) VALUES (?1, ?2, ?3)
    ON CONFLICT (agent_id, version) DO NOTHING";

/// Removes the versions of agents that begin so.
pub(super) fn forget_components(database: Database<'_>, beginning: &str) -> Result<(), ViewError> {
    let sql = "DELETE FROM components WHERE substr(version, 1, ?2) = ?1";
    database.execute(sql, &values![beginning, beginning.chars().count() as i64]).map(|_| ())
}

/// Keeps versions of agents, which never change, in the order of their names: two who write some of the same never wait for each other.
pub(super) fn put_components(
    database: Database<'_>,
    specs: &std::collections::BTreeMap<(AgentId, String), AgentSpec>,
) -> Result<(), ViewError> {
    let mut values = Vec::with_capacity(specs.len());
    for ((agent, version), spec) in specs {
        values.push(values![agent.as_str(), version, component::write(version, spec)?]);
    }
    database.execute_each(PUT_COMPONENT, &values)
}
