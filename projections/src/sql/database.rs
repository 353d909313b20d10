//! A connection at work, of SQLite or of PostgreSQL: one way to run a statement, and the few words in which their SQL
//! differs.
//!
//! Statements are written as SQLite takes them (`?1`, `INDEXED BY`, `+column`, `instr`); [`postgres::dialect`] turns
//! them into PostgreSQL's.
//!
//! [`postgres::dialect`]: super::postgres::dialect

use super::{
    postgres::Postgres,
    sqlite::Sqlite,
    value::{Row, Unreadable, Value},
};
use crate::ViewError;

/// A connection at work.
#[derive(Clone, Copy)]
pub(crate) enum Database<'a> {
    /// A file.
    Sqlite(Sqlite<'a>),
    /// A server.
    Postgres(&'a Postgres),
}

/// What a transaction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transaction {
    /// Reads, all of one moment.
    Read,
    /// Changes.
    Write,
}

impl Database<'_> {
    /// Runs a statement and says how many rows it changed.
    pub(crate) fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<u64, ViewError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.execute(sql, values),
            Self::Postgres(postgres) => postgres.execute(sql, values),
        }
    }

    /// Runs a statement once for each of these, in order; a server is not waited for in between.
    pub(crate) fn execute_each<const N: usize>(&self, sql: &str, rows: &[[Value<'_>; N]]) -> Result<(), ViewError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.execute_each(sql, rows),
            Self::Postgres(postgres) => postgres.execute_each(sql, rows),
        }
    }

    /// All rows of a query.
    pub(crate) fn query<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        map: impl FnMut(&Row<'_>) -> Result<T, Unreadable>,
    ) -> Result<Vec<T>, ViewError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.query(sql, values, map),
            Self::Postgres(postgres) => postgres.query(sql, values, map),
        }
    }

    /// The row of a query that has at most one.
    pub(crate) fn first<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        map: impl FnMut(&Row<'_>) -> Result<T, Unreadable>,
    ) -> Result<Option<T>, ViewError> {
        Ok(self.query(sql, values, map)?.into_iter().next())
    }

    /// Does `work` in one transaction: all of it or nothing.
    pub(crate) fn transaction<T>(
        &self,
        kind: Transaction,
        work: impl FnOnce() -> Result<T, ViewError>,
    ) -> Result<T, ViewError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.transaction(kind, work),
            Self::Postgres(postgres) => postgres.transaction(kind, work),
        }
    }

    /// Several statements without values.
    pub(crate) fn batch(&self, sql: &str) -> Result<(), ViewError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.batch(sql),
            Self::Postgres(postgres) => postgres.batch(sql),
        }
    }

    /// The condition that `column` is one of the texts that stand for `mark` ([`Value::Texts`]).
    pub(crate) fn among(&self, column: &str, mark: &str) -> String {
        match self {
            Self::Sqlite(_) => format!("{column} IN (SELECT value FROM json_each({mark}))"),
            Self::Postgres(_) => format!("{column} = ANY ({mark})"),
        }
    }

    /// What names a row of a table whose key is `key` in the cheapest way that an index alone can tell.
    pub(crate) fn row_name(&self, key: &'static str) -> &'static str {
        match self {
            Self::Sqlite(_) => "rowid",
            Self::Postgres(_) => key,
        }
    }

    /// Keeps other rows from taking the place of these until the transaction ends: its first statement, since the
    /// names of tables are looked up by each. A file that is written is not replaced.
    pub(crate) fn stay(&self) -> Result<(), ViewError> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(postgres) => postgres.stay(),
        }
    }

    /// Waits until nobody else changes what rows of several partitions add up to; lets go when the transaction ends.
    /// A file has one writer anyway.
    pub(crate) fn alone_with_sums(&self) -> Result<(), ViewError> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(postgres) => postgres.alone_with_sums(),
        }
    }
}
