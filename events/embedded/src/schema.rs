//! The database: its settings, its tables, and how to tell ours from another program's.

use std::path::Path;

use reenact_events::LogId;
use rusqlite::{Connection, OpenFlags};
use uuid::Uuid;

use crate::Durability;

/// "reen": tells our files from those of other programs.
pub(crate) const APPLICATION_ID: i32 = 0x7265_656e;

/// The format that this version writes.
pub(crate) const FORMAT: i32 = 1;

/// Older ones can corrupt a database when a checkpoint meets a write (fixed in 3.51.3).
pub(crate) const SQLITE_VERSION_MIN: i32 = 3_051_003;

/// `log` says what the whole is, `partitions` where each partition stands. Events are never changed;
/// commands are deleted when the cursor has passed them. `empty_batches` lets `resolve` find the batches that
/// wrote no event; those of earlier terms are dropped at a claim. `readable_events` is for people.
const TABLES: &str = "
CREATE TABLE log (
    only_row   INTEGER PRIMARY KEY CHECK (only_row = 1),
    log_id     BLOB NOT NULL,
    partitions INTEGER NOT NULL,
    openings   INTEGER NOT NULL
);
CREATE TABLE partitions (
    partition    INTEGER PRIMARY KEY,
    term         INTEGER,
    claims       INTEGER NOT NULL,
    next_offset  INTEGER NOT NULL,
    chain        BLOB NOT NULL,
    next_command INTEGER NOT NULL,
    cursor       INTEGER NOT NULL,
    crc          INTEGER NOT NULL
);
CREATE TABLE events (
    position INTEGER PRIMARY KEY,
    term     INTEGER NOT NULL,
    batch    BLOB NOT NULL,
    id       BLOB NOT NULL,
    kind     TEXT NOT NULL,
    stream   TEXT NOT NULL,
    seq      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    cause    TEXT,
    owner    TEXT,
    subject  TEXT,
    data     TEXT NOT NULL,
    chain    BLOB NOT NULL,
    crc      INTEGER NOT NULL
);
CREATE TABLE commands (
    position INTEGER PRIMARY KEY,
    command  TEXT NOT NULL,
    crc      INTEGER NOT NULL
);
CREATE TABLE empty_batches (
    position INTEGER PRIMARY KEY,
    batch    BLOB NOT NULL
);
CREATE VIEW readable_events AS
    SELECT position >> 48 AS partition, position & 0xffffffffffff AS \"offset\", term, kind, stream, seq,
           datetime(at / 1000.0, 'unixepoch', 'subsec') AS at, owner, subject, cause, data
    FROM events;
";

/// What the whole is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) log_id: LogId,
    pub(crate) partitions: u32,
}

/// The connection that writes. None of this changes a database: it may be another program's.
///
/// Checkpoints are made by the writer between commits: one inside a commit makes that commit slow.
pub(crate) fn connect_writer(
    file: &Path,
    durability: Durability,
    bytes_max: Option<u64>,
) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.pragma_update(None, "busy_timeout", 5000)?;
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::Relaxed => "NORMAL",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    if let Some(bytes) = bytes_max {
        let pages = i64::try_from(bytes / u64::from(PAGE_BYTES)).unwrap_or(i64::MAX).max(1);
        connection.pragma_update(None, "max_page_count", pages)?;
    }
    Ok(connection)
}

const PAGE_BYTES: u32 = 4096;

/// A connection that only reads, beside the writer or alone.
pub(crate) fn connect_reader(file: &Path) -> rusqlite::Result<Connection> {
    let connection =
        Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.pragma_update(None, "busy_timeout", 5000)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// Lets a connection read the file through memory, which makes a long scan a quarter faster.
///
/// An error of the disk under mapped memory ends the process instead of giving an error, so only the replay
/// does it: without its replay a process has nothing to do anyway.
pub(crate) fn map(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "mmap_size", 1_i64 << 30)
}

/// Whether nothing was ever created in this database.
pub(crate) fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    let objects: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(objects == 0 && integer(connection, "application_id")? == 0)
}

/// A numeric setting.
pub(crate) fn integer(connection: &Connection, pragma: &str) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, pragma, |row| row.get(0))
}

/// Creates the tables, all in one transaction: a crash leaves an empty database or a whole one.
pub(crate) fn create(connection: &mut Connection, identity: Identity) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction.execute(
        "INSERT INTO log (only_row, log_id, partitions, openings) VALUES (1, ?1, ?2, 0)",
        (&identity.log_id.0.as_bytes()[..], identity.partitions),
    )?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()
}

/// What the database says that it is.
pub(crate) fn identity(connection: &Connection) -> rusqlite::Result<Identity> {
    connection.query_row("SELECT log_id, partitions FROM log", [], |row| {
        Ok(Identity { log_id: LogId(Uuid::from_bytes(row.get(0)?)), partitions: row.get(1)? })
    })
}

/// Whether every table is there with the columns that are used.
pub(crate) fn check(connection: &Connection) -> rusqlite::Result<()> {
    for sql in [
        "SELECT log_id, partitions, openings FROM log",
        "SELECT partition, term, claims, next_offset, chain, next_command, cursor, crc FROM partitions",
        "SELECT position, term, batch, id, kind, stream, seq, at, cause, owner, subject, data, chain, crc FROM events",
        "SELECT position, command, crc FROM commands",
        "SELECT position, batch FROM empty_batches",
    ] {
        connection.prepare(sql)?;
    }
    Ok(())
}

/// Commits a small change. Whatever an earlier process or connection left half written in the write-ahead
/// file is buried by it, so that it cannot come back at the next recovery; and a disk that cannot be written
/// is noticed now.
pub(crate) fn bury(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute("UPDATE log SET openings = openings + 1", []).map(drop)
}
