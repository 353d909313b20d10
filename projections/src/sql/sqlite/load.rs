//! A database that is filled at full speed while nobody reads it: loose about the disk and without the indexes that
//! only lists use. [`finish`] makes it what every other one is, before anybody reads it.

use std::{fs::File, io::ErrorKind, path::Path};

use reenact_events::{LogId, PartitionId};
use rusqlite::Connection;

use super::{
    Sqlite, place,
    schema::{self, Content},
    view_error,
};
use crate::{
    Position, ViewError,
    sql::{database::Database, value::values, write},
};

/// Indexes by which lists are found and nothing is folded. Made at the end, each costs one sort in place of a search
/// for every row.
const OF_LISTS: [&str; 13] = [
    "approvals_by_created",
    "approvals_by_status",
    "approvals_of_owner",
    "metrics_by_date",
    "runs_by_created",
    "runs_by_status",
    "runs_of_agent",
    "runs_of_owner",
    "sessions_by_created",
    "sessions_by_updated",
    "sessions_by_title",
    "sessions_of_agent",
    "sessions_of_owner",
];

/// Opens or makes the database, and says how far each partition is folded.
pub(crate) fn begin(path: &Path, log_id: LogId, partitions: u32) -> Result<(Connection, Vec<Position>), ViewError> {
    let connection = schema::connect(path)?;
    let sqlite = Sqlite { connection: &connection, path };
    if schema::prepare(sqlite, log_id, partitions)? == Content::OfAnotherLog {
        let reason = "it is of another log: drop it".into();
        return Err(ViewError::Unusable { database: place(path), reason });
    }
    let at = |partition| write::position(Database::Sqlite(sqlite), partition);
    let positions: Vec<_> = (0..partitions).map(PartitionId).map(at).collect::<Result<_, _>>()?;
    check(sqlite, &positions)?;
    // What is lost with the power is folded again, and nobody was told anything.
    sqlite.batch("PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 16384; PRAGMA cache_size = -64000;")?;
    if positions.iter().all(|position| *position == Position::start(position.partition)) {
        for index in OF_LISTS {
            sqlite.batch(&format!("DROP INDEX IF EXISTS {index};"))?;
        }
    }
    Ok((connection, positions))
}

/// A database that was being filled when the power went may be damaged, as its writer did not wait for the disk.
fn check(sqlite: Sqlite<'_>, positions: &[Position]) -> Result<(), ViewError> {
    if positions.iter().all(|position| position.next_offset.0 == 0) {
        return Ok(());
    }
    let found =
        Database::Sqlite(sqlite).first("PRAGMA quick_check(1)", &[], |row| row.get::<String>(0))?.unwrap_or_default();
    if found == "ok" {
        return Ok(());
    }
    Err(ViewError::Corrupt { database: place(sqlite.path), reason: found.into() })
}

/// Makes the indexes that are missing, and waits until all of it is on the disk.
pub(crate) fn finish(sqlite: Sqlite<'_>) -> Result<(), ViewError> {
    for (name, sql) in indexes()? {
        let known = "SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ?1";
        if Database::Sqlite(sqlite).first(known, &values![&name], |_| Ok(()))?.is_none() {
            sqlite.batch(&sql)?;
        }
    }
    sqlite.batch("PRAGMA wal_checkpoint(TRUNCATE);")?;
    // Somebody else who reads it may have kept frames in the write-ahead log: that goes to the disk too.
    for file in schema::files(sqlite.path) {
        match File::open(&file).and_then(|opened| opened.sync_all()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                let reason = format!("`{}` cannot be forced to the disk: {error}", file.display()).into();
                return Err(ViewError::Unusable { database: place(sqlite.path), reason });
            }
            _ => {}
        }
    }
    Ok(())
}

/// All indexes of the newest schema: name and statement.
fn indexes() -> Result<Vec<(String, String)>, ViewError> {
    let path = Path::new("an empty schema");
    let connection = Connection::open_in_memory().map_err(|error| view_error(path, &error))?;
    let sqlite = Sqlite { connection: &connection, path };
    schema::prepare(sqlite, LogId::default(), 1)?;
    let sql = "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL ORDER BY name";
    Database::Sqlite(sqlite).query(sql, &[], |row| Ok((row.get(0)?, row.get(1)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(connection: &Connection) -> Vec<String> {
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'index' ORDER BY name";
        let mut statement = connection.prepare(sql).expect("is SQL");
        statement.query_map([], |row| row.get(0)).expect("reads").collect::<Result<_, _>>().expect("reads")
    }

    #[test]
    fn a_filled_database_has_all_indexes_at_its_end_and_none_for_lists_before() {
        let folder = tempfile::tempdir().expect("folder");
        let (usual, filled) = (folder.path().join("usual.db"), folder.path().join("filled.db"));
        let connection = schema::connect(&usual).expect("opens");
        schema::prepare(Sqlite { connection: &connection, path: &usual }, LogId::default(), 1).expect("prepares");
        let wanted = names(&connection);
        assert!(OF_LISTS.iter().all(|index| wanted.iter().any(|name| name == index)), "{wanted:?}");
        let (connection, _) = begin(&filled, LogId::default(), 1).expect("begins");
        let few = names(&connection);
        assert!(OF_LISTS.iter().all(|index| few.iter().all(|name| name != index)), "{few:?}");
        finish(Sqlite { connection: &connection, path: &filled }).expect("finishes");
        assert_eq!(names(&connection), wanted);
    }
}
