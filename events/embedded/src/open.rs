//! Opening: nothing is handed out before the database is known to be ours, whole and writable.

use std::{collections::BTreeMap, fs::File, io::Read, path::Path};

use reenact_events::{LogError, LogId, PartitionId, Recorded};
use rusqlite::Connection;
use uuid::Uuid;

use crate::{
    OpenError, Options,
    block::Block,
    directory::{Directory, io_error},
    ledger::Standing,
    record::{self, PARTITIONS_MAX, last_position, position},
    schema::{self, Identity},
};

/// So many events at each partition's end are checked when a log is opened.
const CHECKED: i64 = 64;

/// A database that may be written.
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    pub(crate) identity: Identity,
    pub(crate) standings: BTreeMap<PartitionId, Standing>,
}

/// Whether a log must be there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// One is created when there is none.
    Optional,
    /// There was one a moment ago: a new one would hide that it is gone.
    Required,
}

/// Opens the database in a locked directory.
pub(crate) fn open(directory: &Directory, options: &Options, existing: Existing) -> Result<Opened, OpenError> {
    check_version(rusqlite::version_number())?;
    if options.partitions == 0 || options.partitions > PARTITIONS_MAX {
        return Err(OpenError::PartitionsOutOfRange { wanted: options.partitions, max: PARTITIONS_MAX });
    }
    let file = &directory.database;
    let sqlite = |source| OpenError::of_sqlite(file, source);
    check_header(file)?;
    if existing == Existing::Required && !file.exists() {
        let directory = file.parent().map(Into::into).unwrap_or_default();
        return Err(OpenError::Missing { directory });
    }
    let mut connection = schema::connect_writer(file, options.durability, options.bytes_max).map_err(sqlite)?;
    if schema::is_empty(&connection).map_err(sqlite)? {
        let identity = Identity { log_id: new_log_id(), partitions: options.partitions };
        schema::create(&mut connection, identity).map_err(sqlite)?;
        directory.sync()?;
    }
    let identity = check_identity(file, &connection)?;
    if identity.partitions != options.partitions {
        return Err(OpenError::Partitions { stored: identity.partitions, wanted: options.partitions });
    }
    let standings = check_ends(&connection, identity).map_err(|error| OpenError::of_log(file, &error))?;
    schema::bury(&connection).map_err(sqlite)?;
    Ok(Opened { connection, identity, standings })
}

#[expect(
    clippy::disallowed_methods,
    reason = "a log that is created anew must differ from every other, also from one of the same name that was deleted"
)]
fn new_log_id() -> LogId {
    LogId(Uuid::new_v4())
}

fn check_version(found: i32) -> Result<(), OpenError> {
    let dotted = |version: i32| format!("{}.{}.{}", version / 1_000_000, version / 1000 % 1000, version % 1000);
    if found >= schema::SQLITE_VERSION_MIN {
        return Ok(());
    }
    Err(OpenError::SqliteTooOld { found: dotted(found), needed: dotted(schema::SQLITE_VERSION_MIN) })
}

/// Looks at the file before SQLite does: another program's database is not to be touched at all.
fn check_header(file: &Path) -> Result<(), OpenError> {
    let mut header = Vec::new();
    match File::open(file) {
        Ok(opened) => opened.take(100).read_to_end(&mut header).map_err(|error| io_error(file, error))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => return Err(io_error(file, error)),
    };
    let foreign = |reason: &str| Err(OpenError::Foreign { file: file.to_owned(), reason: reason.to_owned() });
    if header.is_empty() {
        return check_no_orphan(file);
    }
    if !header.starts_with(b"SQLite format 3\0") || header.len() < 100 {
        return foreign("it is no SQLite database");
    }
    match i32::from_be_bytes([header[68], header[69], header[70], header[71]]) {
        // The real number may still stand in the write-ahead file.
        0 | schema::APPLICATION_ID => Ok(()),
        _ => foreign("it is another program's database"),
    }
}

/// A write-ahead file without its database: the events in it would be lost by starting afresh.
fn check_no_orphan(file: &Path) -> Result<(), OpenError> {
    let ahead = file.with_extension("db-wal");
    match std::fs::metadata(&ahead) {
        Ok(found) if found.len() > 0 => {
            let reason = format!("it is missing or empty, but `{}` is there", ahead.display());
            Err(OpenError::Corrupt { file: file.to_owned(), reason })
        }
        _ => Ok(()),
    }
}

/// What the database says that it is, if it is ours and of a format that is known.
pub(crate) fn check_identity(file: &Path, connection: &Connection) -> Result<Identity, OpenError> {
    let sqlite = |source| OpenError::of_sqlite(file, source);
    let application = schema::integer(connection, "application_id").map_err(sqlite)?;
    if application != schema::APPLICATION_ID {
        let reason = "it is another program's database".to_owned();
        return Err(OpenError::Foreign { file: file.to_owned(), reason });
    }
    let found = schema::integer(connection, "user_version").map_err(sqlite)?;
    if found > schema::FORMAT {
        return Err(OpenError::Newer { file: file.to_owned(), found, known: schema::FORMAT });
    }
    let damaged = |error: rusqlite::Error| match error.sqlite_error_code() {
        // A table or a column that is not there is an error without a code of its own.
        None | Some(rusqlite::ErrorCode::Unknown) => {
            OpenError::Corrupt { file: file.to_owned(), reason: error.to_string() }
        }
        _ => OpenError::of_sqlite(file, error),
    };
    schema::check(connection).map_err(damaged)?;
    schema::identity(connection).map_err(damaged)
}

/// Checks where each partition stands against the events at its end.
fn check_ends(connection: &Connection, identity: Identity) -> Result<BTreeMap<PartitionId, Standing>, LogError> {
    let mut standings = BTreeMap::new();
    for partition in (0..identity.partitions).map(PartitionId) {
        let standing = Standing::read(connection, partition)?;
        check_end(connection, partition, &standing)?;
        standings.insert(partition, standing);
    }
    Ok(standings)
}

fn check_end(connection: &Connection, partition: PartitionId, standing: &Standing) -> Result<(), LogError> {
    let damaged = |reason: &str| LogError::Damaged { partition, offset: standing.next, reason: reason.into() };
    let events = last_events(connection, partition)?;
    for pair in events.windows(2) {
        let (later, earlier) = (&pair[0], &pair[1]);
        if !later.follows(earlier.chain) {
            let reason = "the chain does not link to the event before".into();
            return Err(LogError::Damaged { partition, offset: later.offset, reason });
        }
    }
    match events.first() {
        None if standing.term.is_none() => Ok(()),
        None => Err(damaged("its events are gone")),
        Some(last) if last.chain != standing.chain => Err(damaged("its last event is not the one that was last")),
        Some(last) if last.offset >= standing.next => Err(damaged("it holds events beyond its end")),
        Some(last) if Some(last.term) > standing.term => Err(damaged("its last event is of a later ownership")),
        Some(_) => Ok(()),
    }
}

/// The last events, the newest first.
fn last_events(connection: &Connection, partition: PartitionId) -> Result<Vec<Recorded>, LogError> {
    let failed = |error: rusqlite::Error| record::read_error(partition, Default::default(), &error);
    let mut statement = connection.prepare(record::LAST_OF_RANGE).map_err(failed)?;
    let range = (position(partition, Default::default()), last_position(partition), CHECKED);
    let mut rows = statement.query(range).map_err(failed)?;
    let mut events = Block::default();
    while let Some(row) = rows.next().map_err(failed)? {
        events.push(row)?;
    }
    Ok(events.collect())
}
