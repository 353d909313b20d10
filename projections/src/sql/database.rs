//! One connection with its file's name, so that every error says which file and what to do.

use std::path::Path;

use rusqlite::{Connection, ErrorCode, Params, Row, Transaction, TransactionBehavior};

use crate::ViewError;

/// A connection at work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Database<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) path: &'a Path,
}

impl<'a> Database<'a> {
    /// Runs a statement and says how many rows it changed.
    pub(crate) fn execute(&self, sql: &str, params: impl Params) -> Result<usize, ViewError> {
        let run = || self.connection.prepare_cached(sql)?.execute(params);
        run().map_err(|error| self.error(&error))
    }

    /// All rows of a query.
    pub(crate) fn query<T>(
        &self,
        sql: &str,
        params: impl Params,
        map: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, ViewError> {
        let run = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            let rows = statement.query_map(params, map)?;
            rows.collect::<rusqlite::Result<Vec<T>>>()
        };
        run().map_err(|error| self.error(&error))
    }

    /// The first row of a query.
    pub(crate) fn first<T>(
        &self,
        sql: &str,
        params: impl Params,
        map: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, ViewError> {
        let run = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query(params)?;
            rows.next()?.map(map).transpose()
        };
        run().map_err(|error| self.error(&error))
    }

    /// Does `work` in one transaction: all of it or nothing. Reads in it see one moment.
    pub(crate) fn transaction<T>(
        &self,
        behavior: TransactionBehavior,
        work: impl FnOnce() -> Result<T, ViewError>,
    ) -> Result<T, ViewError> {
        let transaction = Transaction::new_unchecked(self.connection, behavior).map_err(|error| self.error(&error))?;
        let done = work()?;
        transaction.commit().map_err(|error| self.error(&error))?;
        Ok(done)
    }

    /// Several statements without parameters.
    pub(crate) fn batch(&self, sql: &str) -> Result<(), ViewError> {
        self.connection.execute_batch(sql).map_err(|error| self.error(&error))
    }

    /// What an error of SQLite means for whoever uses the views.
    pub(crate) fn error(&self, error: &rusqlite::Error) -> ViewError {
        view_error(self.path, error)
    }
}

/// What an error of SQLite means for whoever uses the views in `path`.
pub(crate) fn view_error(path: &Path, error: &rusqlite::Error) -> ViewError {
    let path = path.to_owned();
    let reason = error.to_string().into();
    match error {
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::IntegralValueOutOfRange(..) => ViewError::Corrupt { path, reason },
        rusqlite::Error::SqliteFailure(failure, message) => match failure.code {
            ErrorCode::DiskFull => ViewError::DiskFull { path },
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => ViewError::Locked { path },
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => ViewError::Corrupt { path, reason },
            // A table that is not there: the file was replaced under us.
            ErrorCode::Unknown if message.as_deref().is_some_and(|text| text.starts_with("no such")) => {
                ViewError::Corrupt { path, reason }
            }
            _ => ViewError::Unusable { path, reason },
        },
        rusqlite::Error::SqlInputError { error, msg, .. } => {
            let error = rusqlite::Error::SqliteFailure(*error, Some(msg.clone()));
            view_error(&path, &error)
        }
        _ => ViewError::Unusable { path, reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database<'a>(connection: &'a Connection, path: &'a Path) -> Database<'a> {
        Database { connection, path }
    }

    #[test]
    fn a_full_disk_is_told_and_changes_nothing() {
        let connection = Connection::open_in_memory().expect("opens");
        let database = database(&connection, Path::new("/data/views.db"));
        database.batch("CREATE TABLE t (x); PRAGMA max_page_count = 4").expect("writes");
        let fill =
            || (0..100).try_for_each(|_| database.execute("INSERT INTO t VALUES (zeroblob(1000))", []).map(drop));
        let error = database.transaction(TransactionBehavior::Immediate, fill).expect_err("is full");
        assert!(matches!(error, ViewError::DiskFull { .. }), "{error}");
        assert!(error.to_string().contains("/data/views.db"), "{error}");
        let rows = database.first("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).expect("reads");
        assert_eq!(rows, Some(0));
    }

    #[test]
    fn a_file_that_another_holds_is_locked() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("views.db");
        let (holder, other) = (Connection::open(&path).expect("opens"), Connection::open(&path).expect("opens"));
        holder.execute_batch("CREATE TABLE t (x); BEGIN EXCLUSIVE").expect("holds");
        other.busy_timeout(std::time::Duration::ZERO).expect("sets");
        let error = database(&other, &path).execute("INSERT INTO t VALUES (1)", []).expect_err("is locked");
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
        let error = database.execute("DELETE FROM runs", []).expect_err("is gone");
        assert!(matches!(error, ViewError::Corrupt { .. }), "{error}");
    }

    #[test]
    fn the_linked_sqlite_loses_no_committed_page() {
        assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
    }
}
