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
