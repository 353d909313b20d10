//! Opening the file: is it ours, of this log, of a schema that we know? Versioned migrations run here.

use std::path::{Path, PathBuf};

use reenact_events::{LogId, PartitionId};
use rusqlite::Connection;

use super::{Sqlite, place, view_error};
use crate::{
    Position, ViewError,
    sql::{
        database::{Database, Transaction},
        migrations::MIGRATIONS,
        write,
    },
};

/// Marks a SQLite file as reenact's views ("rnvw").
const APPLICATION_ID: i64 = 0x726e_7677;

/// Below this, a checkpoint beside a write can lose committed pages.
const SQLITE_VERSION_MIN: i32 = 3_051_003;

/// What a file turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The views of the log.
    Views,
    /// Views of another log, or of one with another number of partitions.
    OfAnotherLog,
}

/// What is not among the pages that a connection keeps is in the kernel's cache, so few are enough.
const CACHE_KIB: i64 = 4_000;

/// Opens a connection with the settings that all have. Reads once, so that the connection holds on to its
/// file and its write-ahead log from here on, whatever happens to their names.
pub(crate) fn connect(path: &Path) -> Result<Connection, ViewError> {
    let connection = Connection::open(path).map_err(|error| view_error(path, &error))?;
    Sqlite { connection: &connection, path }.batch(
        "PRAGMA busy_timeout = 5000;
         PRAGMA synchronous = NORMAL;
         PRAGMA journal_size_limit = 67108864;
         SELECT count(*) FROM sqlite_schema;",
    )?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB).map_err(|error| view_error(path, &error))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Brings the file to the newest schema and says whose views it holds.
pub(crate) fn prepare(sqlite: Sqlite<'_>, log_id: LogId, partitions: u32) -> Result<Content, ViewError> {
    if rusqlite::version_number() < SQLITE_VERSION_MIN {
        return Err(ViewError::OldSqlite { found: rusqlite::version() });
    }
    let database = Database::Sqlite(sqlite);
    let found = known_version(sqlite)?;
    database.batch("PRAGMA journal_mode = WAL;")?;
    migrate(database, found)?;
    adopt(database, log_id, partitions)
}

fn integer_of(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The schema of the file; 0 when it is empty.
fn version(database: Database<'_>, path: &Path) -> Result<i64, ViewError> {
    let number = |sql| Ok(database.first(sql, &[], |row| row.get::<i64>(0))?.unwrap_or_default());
    if number("SELECT count(*) FROM sqlite_schema")? == 0 {
        return Ok(0);
    }
    if number("PRAGMA application_id")? != APPLICATION_ID {
        return Err(ViewError::Foreign { database: place(path) });
    }
    number("PRAGMA user_version")
}

/// The schema of the file, if this program knows it.
pub(crate) fn known_version(sqlite: Sqlite<'_>) -> Result<i64, ViewError> {
    let found = version(Database::Sqlite(sqlite), sqlite.path)?;
    let known = integer_of(MIGRATIONS.len());
    if found > known {
        let remedy = "delete the file and its `-wal` and `-shm`";
        return Err(ViewError::NewerSchema { database: place(sqlite.path), found, known, remedy });
    }
    Ok(found)
}

fn migrate(database: Database<'_>, found: i64) -> Result<(), ViewError> {
    let first = usize::try_from(found).unwrap_or_default();
    for (index, migration) in MIGRATIONS.iter().enumerate().skip(first) {
        let version = integer_of(index) + 1;
        database.transaction(Transaction::Write, || {
            database.batch(migration)?;
            database.batch(&format!(
                "PRAGMA application_id = {APPLICATION_ID};
                 PRAGMA user_version = {version};
                 INSERT INTO schema_versions (table_name, version, created_at)
                 SELECT name, {version}, strftime('%Y-%m-%dT%H:%M:%SZ', 'now') FROM sqlite_schema WHERE type = 'table'
                 ON CONFLICT (table_name) DO UPDATE SET version = excluded.version, updated_at = excluded.created_at;"
            ))
        })?;
    }
    Ok(())
}

/// Compares the log that the positions are of with ours; an empty file becomes ours.
fn adopt(database: Database<'_>, log_id: LogId, partitions: u32) -> Result<Content, ViewError> {
    let known = write::followed(database)?;
    if known == (0..partitions).map(|partition| (partition, log_id.to_string())).collect::<Vec<_>>() {
        return Ok(Content::Views);
    }
    if !known.is_empty() {
        return Ok(Content::OfAnotherLog);
    }
    database.transaction(Transaction::Write, || {
        for partition in (0..partitions).map(PartitionId) {
            write::insert_position(database, log_id, Position::start(partition))?;
        }
        Ok(Content::Views)
    })
}

/// The file and what SQLite keeps beside it.
pub(crate) fn files(path: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|suffix| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    })
}

/// Deletes the file and what SQLite keeps beside it. No connection may be open.
pub(crate) fn discard(path: &Path) -> Result<(), ViewError> {
    for file in files(path) {
        match std::fs::remove_file(&file) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                let reason = format!("`{}` cannot be deleted: {error}", file.display()).into();
                return Err(ViewError::Unusable { database: place(path), reason });
            }
        }
    }
    Ok(())
}
