//! The queries. Each sees one moment of the database; another user's row is looked for in the same way as
//! one that is not there.

use reenact_events::{AgentId, RunId, SessionId, event::RunStatus};

use super::{
    approvals,
    database::{Database, Transaction},
    metrics,
    rows::{
        self, RUN_COLUMNS, RUN_EVENT_COLUMNS, SESSION_COLUMNS, named_event_row, run_event_row, run_row, session_row,
    },
    schedules,
    select::{self, Conditions},
    steps,
    value::{Row, Unreadable, Value, integer},
};
use crate::{
    Dump, ViewError,
    fold::RunView,
    query::{Page, Paging, RunEventRow, RunFilter, RunRow, Scope, SessionFilter, SessionRow, StatusCount},
};

/// A page of sessions.
pub(crate) fn sessions(
    database: Database<'_>,
    scope: &Scope,
    filter: &SessionFilter,
    paging: Paging,
) -> Result<Page<SessionRow>, ViewError> {
    session_list(filter).page(database, select::of_sessions(scope, filter), paging, session_row)
}

/// How many sessions.
pub(crate) fn count_sessions(database: Database<'_>, scope: &Scope, filter: &SessionFilter) -> Result<u64, ViewError> {
    count(database, "sessions", session_list(filter).index, &select::of_sessions(scope, filter))
}

/// A page of runs.
pub(crate) fn runs(
    database: Database<'_>,
    scope: &Scope,
    filter: &RunFilter,
    paging: Paging,
) -> Result<Page<RunRow>, ViewError> {
    run_list(filter).page(database, select::of_runs(scope, filter), paging, run_row)
}

/// How many runs.
pub(crate) fn count_runs(database: Database<'_>, scope: &Scope, filter: &RunFilter) -> Result<u64, ViewError> {
    count(database, "runs", "", &select::of_runs(scope, filter))
}

/// How many runs have each status that any has.
pub(crate) fn runs_by_status(database: Database<'_>, scope: &Scope) -> Result<Vec<StatusCount>, ViewError> {
    let conditions = select::of_runs(scope, &RunFilter::default());
    let sql = format!("SELECT status, count(*), min(created_at) FROM runs{} GROUP BY status", conditions.sql());
    database.query(&sql, &conditions.values, |row| {
        Ok(StatusCount { status: row.status(0)?, runs: row.get(1)?, oldest_created_at: row.get(2)? })
    })
}

/// A list that is cut into pages.
#[derive(Debug, Clone, Copy)]
struct List {
    table: &'static str,
    key: &'static str,
    columns: &'static str,
    order: &'static str,
    index: &'static str,
}

fn session_list(filter: &SessionFilter) -> List {
    let (order, index) = select::session_order(filter);
    List { table: "sessions", key: "session_id", columns: SESSION_COLUMNS, order, index }
}

fn run_list(filter: &RunFilter) -> List {
    List { table: "runs", key: "run_id", columns: RUN_COLUMNS, order: select::run_order(filter), index: "" }
}

impl List {
    /// Finds the page's rows by index first and reads only those whole.
    fn sql(&self, database: Database<'_>, conditions: &Conditions) -> String {
        let Self { table, key, columns, order, index } = *self;
        let row = database.row_name(key);
        format!(
            "SELECT {columns} FROM {table} WHERE {row} IN
             (SELECT {row} FROM {table}{index}{}{order} LIMIT ? OFFSET ?){order}",
            conditions.sql()
        )
    }

    fn page<T>(
        &self,
        database: Database<'_>,
        conditions: Conditions,
        paging: Paging,
        map: fn(&Row<'_>) -> Result<T, Unreadable>,
    ) -> Result<Page<T>, ViewError> {
        let Self { table, index, .. } = *self;
        let (limit, offset) = select::limit_and_offset(paging);
        database.transaction(Transaction::Read, || {
            let total = count(database, table, index, &conditions)?;
            if offset >= total {
                return Ok(Page { items: Vec::new(), total });
            }
            let sql = self.sql(database, &conditions);
            let mut values = conditions.values;
            values.extend([Value::from(limit), Value::from(offset)]);
            Ok(Page { items: database.query(&sql, &values, map)?, total })
        })
    }
}

fn count(database: Database<'_>, table: &str, index: &str, conditions: &Conditions) -> Result<u64, ViewError> {
    let sql = format!("SELECT count(*) FROM {table}{index}{}", conditions.sql());
    let total = database.first(&sql, &conditions.values, |row| row.get(0))?;
    Ok(total.unwrap_or_default())
}

/// One session.
pub(crate) fn session(
    database: Database<'_>,
    scope: &Scope,
    session: &SessionId,
) -> Result<Option<SessionRow>, ViewError> {
    let mut conditions = Conditions::within(scope);
    conditions.and("session_id = ?", session.as_str());
    let sql = format!("SELECT {SESSION_COLUMNS} FROM sessions{}", conditions.sql());
    database.first(&sql, &conditions.values, session_row)
}

/// All runs of a session in order, each complete.
pub(crate) fn session_runs(
    database: Database<'_>,
    scope: &Scope,
    filter: &RunFilter,
) -> Result<Vec<RunRow>, ViewError> {
    let conditions = select::of_runs(scope, filter);
    let sql = format!("SELECT {RUN_COLUMNS} FROM runs{} ORDER BY run_index, run_id", conditions.sql());
    database.transaction(Transaction::Read, || {
        let rows = database.query(&sql, &conditions.values, run_row)?;
        rows.into_iter().map(|row| complete(database, row)).collect()
    })
}

/// One run, complete.
pub(crate) fn run(database: Database<'_>, scope: &Scope, run: &RunId) -> Result<Option<RunRow>, ViewError> {
    let conditions = of_run(scope, run);
    let sql = format!("SELECT {RUN_COLUMNS} FROM runs{}", conditions.sql());
    database.transaction(Transaction::Read, || {
        let row = database.first(&sql, &conditions.values, run_row)?;
        row.map(|row| complete(database, row)).transpose()
    })
}

fn of_run(scope: &Scope, run: &RunId) -> Conditions {
    let mut conditions = Conditions::within(scope);
    conditions.and("runs.run_id = ?", run.as_str());
    conditions
}

/// What a run's events tell, while its row does not.
fn complete(database: Database<'_>, mut row: RunRow) -> Result<RunRow, ViewError> {
    if row.status.is_end() {
        return Ok(row);
    }
    let events = rows::run_events(database, &row.run_id)?;
    if let Some(view) = RunView::from_rows(&events)? {
        let spec = rows::component(database, &view.queued.agent_id, &view.queued.agent_version)?;
        row.complete(&view, spec.as_ref());
    }
    Ok(row)
}

/// Where a run is.
pub(crate) fn run_status(database: Database<'_>, scope: &Scope, run: &RunId) -> Result<Option<RunStatus>, ViewError> {
    let conditions = of_run(scope, run);
    let sql = format!("SELECT status FROM runs{}", conditions.sql());
    database.first(&sql, &conditions.values, |row| row.status(0))
}

/// The events of a run after a sequence.
pub(crate) fn run_events(
    database: Database<'_>,
    scope: &Scope,
    run: &RunId,
    after_seq: Option<u64>,
) -> Result<Vec<RunEventRow>, ViewError> {
    let mut conditions = of_run(scope, run);
    conditions.and("run_events.seq > ?", after_seq.map_or(-1, integer));
    let sql = format!(
        "SELECT {RUN_EVENT_COLUMNS} FROM runs JOIN run_events ON run_events.run_id = runs.run_id{} ORDER BY seq",
        conditions.sql()
    );
    database.query(&sql, &conditions.values, run_event_row)
}

/// All rows.
pub(crate) fn dump(database: Database<'_>) -> Result<Dump, ViewError> {
    let all = |columns: &str, table: &str, order: &str| format!("SELECT {columns} FROM {table} ORDER BY {order}");
    let event_columns = format!("{RUN_EVENT_COLUMNS}, run_events.run_id");
    database.transaction(Transaction::Read, || {
        Ok(Dump {
            sessions: database.query(&all(SESSION_COLUMNS, "sessions", "session_id"), &[], session_row)?,
            runs: database.query(&all(RUN_COLUMNS, "runs", "run_id"), &[], run_row)?,
            run_events: database.query(&all(&event_columns, "run_events", "run_id, seq"), &[], named_event_row)?,
            run_steps: steps::all(database)?,
            approvals: approvals::all(database)?,
            metrics: metrics::all(database)?,
            schedules: schedules::all(database)?,
            schedule_runs: schedules::all_runs(database)?,
            components: components(database)?,
        })
    })
}

fn components(database: Database<'_>) -> Result<Vec<(AgentId, String, String)>, ViewError> {
    let sql = "SELECT agent_id, version, spec FROM components ORDER BY agent_id, version";
    let component = |row: &Row<'_>| Ok((AgentId::trusted(&row.text(0)?), row.get(1)?, row.get(2)?));
    database.query(sql, &[], component)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use reenact_events::{LogId, UserId};

    use super::*;
    use crate::sql::sqlite::{Sqlite, schema};

    /// What SQLite says it will do for the page and for its total.
    fn plans(list: List, conditions: &Conditions) -> Vec<String> {
        let connection = rusqlite::Connection::open_in_memory().expect("opens");
        let sqlite = Sqlite { connection: &connection, path: Path::new("views.db") };
        schema::prepare(sqlite, LogId(uuid::Uuid::nil()), 1).expect("prepares");
        let count = format!("SELECT count(*) FROM {}{}{}", list.table, list.index, conditions.sql());
        let explain = |sql: String| {
            let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("is SQL");
            let rows = statement.raw_query().mapped(|row| row.get::<_, String>(3)).collect::<Result<Vec<_>, _>>();
            rows.expect("explains")
        };
        [explain(list.sql(Database::Sqlite(sqlite), conditions)), explain(count)].concat()
    }

    /// Rows are found and counted in an index that holds all that is asked; then only those of the page are
    /// read. Within a session, whose rows are few, the heads of the rows may be read.
    fn check(list: List, conditions: &Conditions) {
        const FINE: [&str; 3] = ["COVERING INDEX", "INTEGER PRIMARY KEY", "INDEX runs_of_session (session_id=?)"];
        let plans = plans(list, conditions);
        let reads = plans.iter().filter(|plan| plan.starts_with("SCAN") || plan.starts_with("SEARCH"));
        let bad: Vec<_> = reads.filter(|plan| !FINE.iter().any(|fine| plan.contains(fine))).collect();
        assert!(bad.is_empty(), "{} {bad:#?}", conditions.sql());
    }

    #[test]
    fn lists_are_found_and_counted_without_reading_rows() {
        for scope in [Scope::Anyone, Scope::User(UserId::trusted("alice"))] {
            for set in 0..16_u8 {
                let some = |bit: u8| (set & bit != 0).then(|| "x".to_owned());
                let filter = SessionFilter {
                    session_type: some(8),
                    component_id: some(1),
                    user_id: some(2).map(|user| UserId::trusted(&user)),
                    name: some(4),
                    ..SessionFilter::default()
                };
                check(session_list(&filter), &select::of_sessions(&scope, &filter));
                let filter = RunFilter {
                    agent_id: some(1),
                    user_id: some(2).map(|user| UserId::trusted(&user)),
                    session_id: some(4).map(|session| SessionId::trusted(&session)),
                    statuses: some(8).map(|_| RunStatus::Running).into_iter().collect(),
                    ..RunFilter::default()
                };
                check(run_list(&filter), &select::of_runs(&scope, &filter));
            }
        }
    }
}
