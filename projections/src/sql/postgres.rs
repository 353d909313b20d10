//! PostgreSQL: a connection on loan, whose statements are waited for on a blocking thread.
//!
//! Folds and queries are the same for a file and a server, so they do not know of waiting; they run on tokio's
//! blocking threads, and what they ask for is driven by the runtime that they came from. A batch asks a few times,
//! however many events it has: rows are read ahead and written without waiting in between.

pub(crate) mod address;
pub(crate) mod dialect;
pub(crate) mod keys;
mod schema;
pub(crate) mod server;
pub(crate) mod turns;
mod types;

use std::{cell::Cell, sync::Arc, time::Duration};

use deadpool_postgres::Object;
use futures::{StreamExt, TryStreamExt, stream};
use tokio::runtime::Handle;
use tokio_postgres::{Error, error::SqlState, types::ToSql};

use super::{
    database::{Database, Transaction},
    value::{Row, Unreadable, Value},
};
use crate::ViewError;

/// How long the server may take for a statement before it counts as gone.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// The lock of whoever counts on what the schemas are called, or changes it.
const RENAMED: &str = "renamed";
/// How many rows a statement may insert, the most first: a few numbers, so that there are few statements to prepare.
const ROWS_AT_ONCE: [usize; 3] = [64, 8, 1];
/// How many statements are sent before the first one's answer is waited for.
const SENT_AHEAD: usize = 500;

/// A connection at work.
pub(crate) struct Postgres {
    client: Option<Object>,
    runtime: Handle,
    names: Arc<Names>,
    /// Nobody else may have the connection: it is in a transaction, or of no use.
    is_spoilt: Cell<bool>,
    /// Statements were prepared for tables that others stand in the place of.
    is_stale: Cell<bool>,
}

/// How errors name the server, and what its advisory locks are called.
#[derive(Debug)]
pub(crate) struct Names {
    /// The database and the schema, without the password.
    pub(crate) database: Arc<str>,
    pub(crate) schema: String,
}

impl Names {
    /// The advisory lock of one thing of this schema.
    pub(crate) fn lock(&self, what: &str) -> i64 {
        let hash = blake3::hash(format!("reenact {what} {}", self.schema).as_bytes());
        let (head, _) = hash.as_bytes().split_at(8);
        head.iter().fold(0, |number, byte| (number << 8) | i64::from(*byte))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.is_spoilt.get() {
            self.client.take().map(Object::take);
        }
    }
}

impl Postgres {
    /// Works with `client` from a blocking thread of `runtime`.
    pub(crate) fn new(client: Object, runtime: Handle, names: Arc<Names>) -> Self {
        Self { client: Some(client), runtime, names, is_spoilt: Cell::new(false), is_stale: Cell::new(false) }
    }

    /// Whether what was done is to be done once more, because statements had to be forgotten.
    pub(crate) fn forget_what_is_stale(&self) -> bool {
        let is_stale = self.is_stale.replace(false);
        if is_stale && let Some(client) = &self.client {
            client.statement_cache.clear();
        }
        is_stale
    }

    fn wait<T>(&self, ask: impl AsyncFnOnce(&Object) -> Result<T, Error>) -> Result<T, ViewError> {
        let Some(client) = &self.client else { return Err(ViewError::Closed) };
        // Until the answer is there, nobody knows in which state the connection is.
        let was_spoilt = self.is_spoilt.replace(true);
        let asked = self.runtime.block_on(async { tokio::time::timeout(ANSWER_WITHIN, ask(client)).await });
        match asked {
            Ok(answer) => {
                self.is_spoilt.set(was_spoilt || client.is_closed());
                answer.map_err(|error| self.error(&error))
            }
            Err(_) => Err(self.unavailable(&format!("no answer within {} seconds", ANSWER_WITHIN.as_secs()))),
        }
    }

    /// Runs a statement and says how many rows it changed.
    pub(crate) fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<u64, ViewError> {
        let sql = dialect::statement(sql);
        self.wait(async |client| {
            let statement = client.prepare_cached(&sql).await?;
            client.execute(&statement, &parameters(values)).await
        })
    }

    /// Runs a statement once for each of these and waits for the answers together. Rows that are inserted go many to a
    /// statement.
    pub(crate) fn execute_each<const N: usize>(&self, sql: &str, rows: &[[Value<'_>; N]]) -> Result<(), ViewError> {
        if rows.is_empty() {
            return Ok(());
        }
        self.wait(async |client| {
            let mut parts = Vec::new();
            let mut rest = rows;
            while !rest.is_empty() {
                let fits = |many: &&usize| **many <= rest.len() && dialect::takes_many(sql);
                let (part, others) = rest.split_at(ROWS_AT_ONCE.iter().find(fits).copied().unwrap_or(1));
                let statement = client.prepare_cached(&dialect::of_rows(sql, part.len(), N)).await?;
                parts.push((statement, part));
                rest = others;
            }
            let sent = parts.iter().map(|(statement, part)| async move {
                let values: Vec<_> = part.iter().flat_map(|values| parameters(values)).collect();
                client.execute(statement, &values).await
            });
            stream::iter(sent).buffered(SENT_AHEAD).try_for_each(|_| async { Ok(()) }).await
        })
    }

    /// All rows of a query.
    pub(crate) fn query<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        mut map: impl FnMut(&Row<'_>) -> Result<T, Unreadable>,
    ) -> Result<Vec<T>, ViewError> {
        let sql = dialect::statement(sql);
        let rows = self.wait(async |client| {
            let statement = client.prepare_cached(&sql).await?;
            client.query(&statement, &parameters(values)).await
        })?;
        rows.iter().map(|row| map(&Row::Postgres(row)).map_err(|error| self.unreadable(&error))).collect()
    }

    /// Does `work` in one transaction: all of it or nothing. One that reads sees one moment.
    pub(crate) fn transaction<T>(
        &self,
        kind: Transaction,
        work: impl FnOnce() -> Result<T, ViewError>,
    ) -> Result<T, ViewError> {
        self.batch(match kind {
            Transaction::Read => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            Transaction::Write => "BEGIN",
        })?;
        self.is_spoilt.set(true);
        let done = work();
        self.batch(if done.is_ok() { "COMMIT" } else { "ROLLBACK" }).or_else(|error| {
            // What made the work fail says more than that it cannot be taken back on a connection that is gone.
            if done.is_ok() { Err(error) } else { Ok(()) }
        })?;
        self.is_spoilt.set(self.client.as_ref().is_none_or(|client| client.is_closed()));
        done
    }

    /// Several statements without values.
    pub(crate) fn batch(&self, sql: &str) -> Result<(), ViewError> {
        self.wait(async |client| client.batch_execute(sql).await)
    }

    /// Has the planner look at the tables of this schema, and at no others: a database has other people's.
    pub(crate) fn analyse(&self) -> Result<(), ViewError> {
        let tables = "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename";
        let tables = Database::Postgres(self).query(tables, &[], |row| row.get::<String>(0))?;
        let tables: Vec<_> = tables.iter().map(|table| dialect::quoted(table)).collect();
        self.batch(&format!("ANALYZE {}", tables.join(", ")))
    }

    /// Waits until nobody else changes sums; lets go when the transaction ends.
    pub(crate) fn alone_with_sums(&self) -> Result<(), ViewError> {
        self.lock("sums")
    }

    /// Keeps schemas from being renamed until the transaction ends.
    pub(crate) fn stay(&self) -> Result<(), ViewError> {
        self.execute("SELECT pg_advisory_xact_lock_shared(?1)", &[self.names.lock(RENAMED).into()]).map(drop)
    }

    /// Waits until nobody counts on the schemas' names, and keeps everybody from it until the transaction ends.
    pub(crate) fn may_rename(&self) -> Result<(), ViewError> {
        self.lock(RENAMED)
    }

    /// Waits for one of [`Names::lock`]; lets go when the transaction ends.
    pub(crate) fn lock(&self, what: &str) -> Result<(), ViewError> {
        self.execute("SELECT pg_advisory_xact_lock(?1)", &[self.names.lock(what).into()]).map(drop)
    }

    fn unreadable(&self, error: &Unreadable) -> ViewError {
        ViewError::BadRow { row: format!("of `{}`", self.names.database).into(), reason: error.to_string().into() }
    }

    fn unavailable(&self, reason: &str) -> ViewError {
        ViewError::Unavailable { database: self.names.database.clone(), reason: reason.into() }
    }

    fn error(&self, error: &Error) -> ViewError {
        let is_stale =
            |code: &SqlState| *code == SqlState::FEATURE_NOT_SUPPORTED || *code == SqlState::INVALID_SQL_STATEMENT_NAME;
        self.is_stale.set(self.is_stale.get() || error.code().is_some_and(is_stale));
        view_error(&self.names.database, error)
    }
}

fn parameters<'v>(values: &'v [Value<'_>]) -> Vec<&'v (dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

/// What an error of the server, or of the way to it, means for whoever uses the views.
pub(crate) fn view_error(database: &Arc<str>, error: &Error) -> ViewError {
    let database = database.clone();
    let Some(said) = error.as_db_error() else {
        return ViewError::Unavailable { database, reason: chain(error).into() };
    };
    let reason: Arc<str> = match said.detail() {
        Some(detail) => format!("{}: {detail}", said.message()).into(),
        None => said.message().into(),
    };
    let code = said.code().code();
    match &code[..2] {
        // No room on the disk; the other shortages of its class pass by themselves.
        "53" if *said.code() == SqlState::DISK_FULL => ViewError::DiskFull { database },
        // A login that is refused, and a database that is not there.
        "28" | "3D" => ViewError::Refused { database, reason },
        // It shuts down, starts, has no connection left, or stood in somebody's way.
        "57" | "53" | "40" | "55" | "08" => ViewError::Unavailable { database, reason },
        "25" if *said.code() == SqlState::READ_ONLY_SQL_TRANSACTION => ViewError::Unavailable { database, reason },
        "0A" | "26" => ViewError::Unavailable { database, reason },
        _ => ViewError::Unusable { database, reason: format!("{reason} ({code})").into() },
    }
}

/// An error with its causes: tokio-postgres says "error connecting to server", and why is below.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut words: Vec<String> = Vec::new();
    for cause in causes.map(ToString::to_string) {
        if !words.last().is_some_and(|last| last.ends_with(&cause)) {
            words.push(cause);
        }
    }
    words.join(": ")
}
