//! Rows of the tables: written by the folds, read by them and by the queries.

use reenact_events::{AgentId, RunId, ScheduleId, SessionId, UserId, agent::AgentSpec};
use rusqlite::{Row, params};

use super::{
    approvals,
    database::Database,
    metrics, schedules,
    values::{id, integer, json, status, unsigned},
};
use crate::{
    ViewError,
    fold::{Rows, component},
    metrics::MetricsRow,
    query::{ApprovalRow, RunEventRow, RunRow, SessionRow},
    schedules::{ScheduleRow, ScheduleRunRow},
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
pub(super) fn session_row(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    Ok(SessionRow {
        session_id: SessionId::trusted(row.get_ref(0)?.as_str()?),
        session_type: row.get(1)?,
        agent_id: row.get(2)?,
        user_id: id(row, 3, UserId::trusted)?,
        session_data: json(row, 4)?.unwrap_or_default(),
        metadata: json(row, 5)?,
        summary: json(row, 6)?,
        created_at: row.get(7)?,
        updated_at: row.get(8)?,
        first_message: row.get(9)?,
    })
}

/// Reads [`RUN_COLUMNS`].
pub(super) fn run_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    Ok(RunRow {
        run_id: RunId::trusted(row.get_ref(0)?.as_str()?),
        session_id: SessionId::trusted(row.get_ref(1)?.as_str()?),
        run_type: row.get(2)?,
        agent_id: row.get(3)?,
        user_id: id(row, 4, UserId::trusted)?,
        parent_run_id: id(row, 5, RunId::trusted)?,
        status: status(row, 6)?,
        run_index: unsigned(row, 7)?,
        run_data: json(row, 8)?.unwrap_or_default(),
        created_at: row.get(9)?,
        updated_at: row.get(10)?,
    })
}

/// Reads [`RUN_EVENT_COLUMNS`].
pub(super) fn run_event_row(row: &Row<'_>) -> rusqlite::Result<RunEventRow> {
    Ok(RunEventRow { seq: unsigned(row, 0)?, at: row.get(1)?, kind: row.get(2)?, data: row.get(3)? })
}

const PUT_SESSION: &str = "
    INSERT OR REPLACE INTO sessions (session_id, session_type, agent_id, user_id, owner, created_at, title_folded,
                                     updated_at, first_message, metadata, summary, session_data)
    VALUES (?1, ?2, ?3, ?4, coalesce(?4, ''), ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

/// What a run changes of its session, when nothing else differs: most of the indexes stay as they are.
const TOUCH_SESSION: &str = "
    UPDATE sessions SET updated_at = ?7, first_message = ?8, metadata = ?9, summary = ?10, session_data = ?11
    WHERE session_id = ?1 AND session_type = ?2 AND agent_id IS ?3 AND user_id IS ?4 AND created_at = ?5
          AND title_folded = ?6";

const PUT_RUN: &str = "
    INSERT INTO runs (run_id, session_id, run_type, agent_id, user_id, owner, parent_run_id, status, run_index,
                      created_at, updated_at, run_data)
    VALUES (?1, ?2, ?3, ?4, ?5, coalesce(?5, ''), ?6, ?7, ?8, ?9, ?10, ?11)
    ON CONFLICT (run_id) DO UPDATE SET status = ?7, updated_at = ?10, run_data = ?11";

/// Adds an event to a run of which it is known that it has a row, or will have.
pub(super) fn put_event_of(
    database: Database<'_>,
    session: &SessionId,
    run: &RunId,
    event: &RunEventRow,
) -> Result<(), ViewError> {
    database.execute(
        "INSERT INTO run_events (session_id, run_id, seq, at, type, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![session.as_str(), run.as_str(), integer(event.seq), event.at, event.kind, event.data],
    )?;
    Ok(())
}

impl Rows for Database<'_> {
    fn session(&mut self, session: &SessionId) -> Result<Option<SessionRow>, ViewError> {
        let sql = format!("SELECT {SESSION_COLUMNS} FROM sessions WHERE session_id = ?1");
        self.first(&sql, params![session.as_str()], session_row)
    }

    fn put_session(&mut self, row: SessionRow) -> Result<(), ViewError> {
        let title = row.title().unwrap_or_default().to_lowercase();
        let metadata = row.metadata.as_ref().map(ToString::to_string);
        let summary = row.summary.as_ref().map(ToString::to_string);
        let session_data = row.session_data.to_string();
        let values = params![
            row.session_id.as_str(),
            row.session_type,
            row.agent_id,
            row.user_id.as_ref().map(UserId::as_str),
            row.created_at,
            title,
            row.updated_at,
            row.first_message,
            metadata,
            summary,
            session_data,
        ];
        if self.execute(TOUCH_SESSION, values)? == 0 {
            self.execute(PUT_SESSION, values)?;
        }
        Ok(())
    }

    fn delete_session(&mut self, session: &SessionId) -> Result<(), ViewError> {
        let session = params![session.as_str()];
        self.execute(
            "DELETE FROM run_events WHERE run_id IN (SELECT run_id FROM runs WHERE session_id = ?1)",
            session,
        )?;
        self.execute("DELETE FROM approvals WHERE session_id = ?1", session)?;
        self.execute("DELETE FROM runs WHERE session_id = ?1", session)?;
        self.execute("DELETE FROM sessions WHERE session_id = ?1", session)?;
        Ok(())
    }

    fn run(&mut self, run: &RunId) -> Result<Option<RunRow>, ViewError> {
        let sql = format!("SELECT {RUN_COLUMNS} FROM runs WHERE run_id = ?1");
        self.first(&sql, params![run.as_str()], run_row)
    }

    /// Only the status, the time and the data of a run ever change: most of the indexes stay as they are.
    fn put_run(&mut self, row: RunRow) -> Result<(), ViewError> {
        self.execute(
            PUT_RUN,
            params![
                row.run_id.as_str(),
                row.session_id.as_str(),
                row.run_type,
                row.agent_id,
                row.user_id.as_ref().map(UserId::as_str),
                row.parent_run_id.as_ref().map(RunId::as_str),
                row.status.as_str(),
                integer(row.run_index),
                row.created_at,
                row.updated_at,
                row.run_data.to_string(),
            ],
        )?;
        Ok(())
    }

    fn run_events(&mut self, run: &RunId) -> Result<Vec<RunEventRow>, ViewError> {
        let sql = format!("SELECT {RUN_EVENT_COLUMNS} FROM run_events WHERE run_id = ?1 ORDER BY seq");
        self.query(&sql, params![run.as_str()], run_event_row)
    }

    fn put_run_event(&mut self, run: &RunId, event: RunEventRow) -> Result<(), ViewError> {
        self.execute(
            "INSERT INTO run_events (session_id, run_id, seq, at, type, data)
             SELECT session_id, run_id, ?2, ?3, ?4, ?5 FROM runs WHERE run_id = ?1",
            params![run.as_str(), integer(event.seq), event.at, event.kind, event.data],
        )?;
        Ok(())
    }

    fn put_approval(&mut self, row: ApprovalRow) -> Result<(), ViewError> {
        approvals::put(*self, &row)
    }

    fn pending_approvals(&mut self, run: &RunId) -> Result<Vec<ApprovalRow>, ViewError> {
        approvals::pending(*self, run)
    }

    fn metrics(&mut self, user: Option<&UserId>, date: &str) -> Result<Option<MetricsRow>, ViewError> {
        metrics::get(*self, user, date)
    }

    fn put_metrics(&mut self, row: MetricsRow) -> Result<(), ViewError> {
        metrics::put(*self, &row)
    }

    fn schedule(&mut self, id: &ScheduleId) -> Result<Option<ScheduleRow>, ViewError> {
        schedules::get(*self, id)
    }

    fn put_schedule(&mut self, row: ScheduleRow) -> Result<(), ViewError> {
        schedules::put(*self, &row)
    }

    fn delete_schedule(&mut self, id: &ScheduleId) -> Result<(), ViewError> {
        schedules::delete(*self, id)
    }

    fn schedule_run(&mut self, attempt_id: &str) -> Result<Option<ScheduleRunRow>, ViewError> {
        schedules::get_run(*self, attempt_id)
    }

    fn put_schedule_run(&mut self, row: ScheduleRunRow) -> Result<(), ViewError> {
        schedules::put_run(*self, &row)
    }

    fn component(&mut self, agent: &AgentId, version: &str) -> Result<Option<AgentSpec>, ViewError> {
        let sql = "SELECT spec FROM components WHERE agent_id = ?1 AND version = ?2";
        let json: Option<String> = self.first(sql, params![agent.as_str(), version], |row| row.get(0))?;
        json.map(|json| component::read(agent, version, &json)).transpose()
    }

    fn put_component(&mut self, version: &str, spec: &AgentSpec) -> Result<(), ViewError> {
        let json = component::write(version, spec)?;
        self.execute(
            "INSERT OR REPLACE INTO components (agent_id, version, spec) VALUES (?1, ?2, ?3)",
            params![spec.id.as_str(), version, json],
        )?;
        Ok(())
    }
}
