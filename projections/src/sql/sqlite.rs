//! SQLite: a connection with its file's name, so that every error says which file and what to do.

pub(crate) mod connections;
pub(crate) mod files;
pub(crate) mod load;
pub(crate) mod schema;

use std::{borrow::Cow, path::Path};

use rusqlite::{
    Connection, ErrorCode, ToSql, TransactionBehavior, params_from_iter,
    types::{ToSqlOutput, ValueRef},
};

use super::{
    database::Transaction,
    value::{Row, Unreadable, Value},
};
use crate::ViewError;

/// A connection at work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sqlite<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) path: &'a Path,
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let borrowed = match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
            Self::Texts(texts) => {
                let json = serde_json::Value::from_iter(texts.iter().map(Cow::as_ref));
                return Ok(ToSqlOutput::Owned(json.to_string().into()));
            }
        };
        Ok(ToSqlOutput::Borrowed(borrowed))
    }
}

/// Why a query failed: SQLite said so, or a row is not what it should be.
enum Failure {
    Sqlite(rusqlite::Error),
    Row(Unreadable),
}

impl Sqlite<'_> {
    /// Runs a statement and says how many rows it changed.
    pub(crate) fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<u64, ViewError> {
        let run = || self.connection.prepare_cached(sql)?.execute(params_from_iter(values));
        let changed = run().map_err(|error| self.error(&error))?;
        Ok(changed as u64)
    }

    /// Runs a statement once for each of these, in order.
    pub(crate) fn execute_each<const N: usize>(&self, sql: &str, rows: &[[Value<'_>; N]]) -> Result<(), ViewError> {
        let run = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            rows.iter().try_for_each(|values| statement.execute(params_from_iter(values)).map(drop))
        };
        run().map_err(|error| self.error(&error))
    }

    /// All rows of a query.
    pub(crate) fn query<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        mut map: impl FnMut(&Row<'_>) -> Result<T, Unreadable>,
    ) -> Result<Vec<T>, ViewError> {
        let mut run = || {
            let mut statement = self.connection.prepare_cached(sql).map_err(Failure::Sqlite)?;
            let mut rows = statement.query(params_from_iter(values)).map_err(Failure::Sqlite)?;
            let mut all = Vec::new();
            while let Some(row) = rows.next().map_err(Failure::Sqlite)? {
                all.push(map(&Row::Sqlite(row)).map_err(Failure::Row)?);
            }
            Ok(all)
        };
        run().map_err(|failure| match failure {
            Failure::Sqlite(error) => self.error(&error),
            Failure::Row(error) => self.unreadable(&error),
        })
    }

    /// Does `work` in one transaction: all of it or nothing. Reads in it see one moment.
    pub(crate) fn transaction<T>(
        &self,
        kind: Transaction,
        work: impl FnOnce() -> Result<T, ViewError>,
    ) -> Result<T, ViewError> {
        let behavior = match kind {
            Transaction::Read => TransactionBehavior::Deferred,
            Transaction::Write => TransactionBehavior::Immediate,
        };
        let begun = rusqlite::Transaction::new_unchecked(self.connection, behavior);
        let transaction = begun.map_err(|error| self.error(&error))?;
        let done = work()?;
        transaction.commit().map_err(|error| self.error(&error))?;
        Ok(done)
    }

    /// Several statements without values.
    pub(crate) fn batch(&self, sql: &str) -> Result<(), ViewError> {
        self.connection.execute_batch(sql).map_err(|error| self.error(&error))
    }

    /// What it means that a row is not what it should be.
    pub(crate) fn unreadable(&self, error: &Unreadable) -> ViewError {
        ViewError::Corrupt { database: place(self.path), reason: error.to_string().into() }
    }

    /// What an error of SQLite means for whoever uses the views.
    fn error(&self, error: &rusqlite::Error) -> ViewError {
        view_error(self.path, error)
    }
}

/// The file as errors name it.
pub(crate) fn place(path: &Path) -> std::sync::Arc<str> {
    path.display().to_string().into()
}

/// What an error of SQLite means for whoever uses the views in `path`.
pub(crate) fn view_error(path: &Path, error: &rusqlite::Error) -> ViewError {
    let database = place(path);
    let reason = error.to_string().into();
    match error {
        rusqlite::Error::SqliteFailure(failure, message) => match failure.code {
            ErrorCode::DiskFull => ViewError::DiskFull { database },
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => ViewError::Locked { database },
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => ViewError::Corrupt { database, reason },
            // A table that is not there: the file was replaced under us.
            ErrorCode::Unknown if message.as_deref().is_some_and(|text| text.starts_with("no such")) => {
                ViewError::Corrupt { database, reason }
            }
            _ => ViewError::Unusable { database, reason },
        },
        rusqlite::Error::SqlInputError { error, msg, .. } => {
            let error = rusqlite::Error::SqliteFailure(*error, Some(msg.clone()));
            view_error(path, &error)
        }
        _ => ViewError::Unusable { database, reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database<'a>(connection: &'a Connection, path: &'a Path) -> Sqlite<'a> {
        Sqlite { connection, path }
    }

    #[test]
    fn a_full_disk_is_told_and_changes_nothing() {
        let connection = Connection::open_in_memory().expect("opens");
        let database = database(&connection, Path::new("/data/views.db"));
        database.batch("CREATE TABLE t (x); PRAGMA max_page_count = 4").expect("writes");
        let fill =
            || (0..100).try_for_each(|_| database.execute("INSERT INTO t VALUES (zeroblob(1000))", &[]).map(drop));
        let error = database.transaction(Transaction::Write, fill).expect_err("is full");
        assert!(matches!(error, ViewError::DiskFull { .. }), "{error}");
        assert!(error.to_string().contains("/data/views.db"), "{error}");
        let rows = database.query("SELECT count(*) FROM t", &[], |row| row.get::<i64>(0)).expect("reads");
        assert_eq!(rows, [0]);
    }

    #[test]
    fn a_file_that_another_holds_is_locked() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("views.db");
        let (holder, other) = (Connection::open(&path).expect("opens"), Connection::open(&path).expect("opens"));
        holder.execute_batch("CREATE TABLE t (x); BEGIN EXCLUSIVE").expect("holds");
        other.busy_timeout(std::time::Duration::ZERO).expect("sets");
        let error = database(&other, &path).execute("INSERT INTO t VALUES (1)", &[]).expect_err("is locked");
        assert!(matches!(error, ViewError::Locked { .. }), "{error}");
    }

    #[test]
    fn a_file_that_is_no_database_is_corrupt() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("views.db");
        std::fs::write(&path, "words, ".repeat(1000)).expect("writes");
        let connection = Connection::open(&path).expect("opens");
        let error = database(&connection, &path).batch("CREATE TABLE t (x)").expect_err("is no database");
        assert!(matches!(error, ViewError::Corrupt { .. }), "{error}");
    }

    #[test]
    fn a_table_that_is_gone_is_corrupt() {
        let connection = Connection::open_in_memory().expect("opens");
        let database = database(&connection, Path::new("views.db"));
        let error = database.execute("DELETE FROM runs", &[]).expect_err("is gone");
        assert!(matches!(error, ViewError::Corrupt { .. }), "{error}");
    }

    #[test]
    fn the_linked_sqlite_loses_no_committed_page() {
        assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
    }
}
