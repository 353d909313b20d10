//! The schema that holds the views: made, migrated, and found to be ours. All of it is one transaction, and whoever
//! starts at the same moment waits for its end.
//!
//! Nothing here or elsewhere names the schema beside a table: it is what a connection's `search_path` says, so schemas
//! can be renamed into each other's place.

use reenact_events::{LogId, Offset, PartitionId};

use super::{Postgres, dialect};
use crate::{
    Position, ViewError,
    sql::{
        database::{Database, Transaction},
        migrations::MIGRATIONS,
        value::values,
        write,
    },
};

/// Brings the schema to the newest version, makes sure that it is of this log, and says where its partitions stand.
pub(super) fn prepare(postgres: &Postgres, log_id: LogId, partitions: u32) -> Result<Vec<Offset>, ViewError> {
    let database = Database::Postgres(postgres);
    database.transaction(Transaction::Write, || {
        postgres.lock("schema")?;
        speaks_utf8(postgres)?;
        make(postgres)?;
        migrate(postgres)?;
        adopt(postgres, log_id, partitions)?;
        let next = |partition| write::position(database, partition).map(|position| position.next_offset);
        (0..partitions).map(PartitionId).map(next).collect()
    })
}

fn number(postgres: &Postgres, sql: &str, values: &[crate::sql::value::Value<'_>]) -> Result<i64, ViewError> {
    let found = Database::Postgres(postgres).first(sql, values, |row| row.get::<i64>(0))?;
    Ok(found.unwrap_or_default())
}

fn speaks_utf8(postgres: &Postgres) -> Result<(), ViewError> {
    let encoding: Option<String> = Database::Postgres(postgres).first("SHOW server_encoding", &[], |row| row.get(0))?;
    match encoding.as_deref() {
        Some("UTF8") => Ok(()),
        other => Err(ViewError::Refused {
            database: postgres.names.database.clone(),
            reason: format!("its encoding is `{}`, and texts need `UTF8`", other.unwrap_or_default()).into(),
        }),
    }
}

/// A user who may make no schema can still use one that somebody made for them.
pub(super) fn make(postgres: &Postgres) -> Result<(), ViewError> {
    let schema = &postgres.names.schema;
    let known = number(postgres, "SELECT count(*) FROM pg_namespace WHERE nspname = ?1", &values![schema])?;
    if known == 0 {
        postgres.batch(&format!("CREATE SCHEMA {}", dialect::quoted(schema)))?;
    }
    Ok(())
}

/// The version of what the schema holds; 0 when it is empty.
fn version(postgres: &Postgres) -> Result<i64, ViewError> {
    let schema = &postgres.names.schema;
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = ?1";
    if number(postgres, tables, &values![schema])? == 0 {
        return Ok(0);
    }
    let ours = format!("{tables} AND tablename IN ('schema_versions', 'projection_position')");
    if number(postgres, &ours, &values![schema])? != 2 {
        return Err(ViewError::Foreign { database: postgres.names.database.clone() });
    }
    number(postgres, "SELECT max(version::bigint) FROM schema_versions", &[])
}

fn migrate(postgres: &Postgres) -> Result<(), ViewError> {
    let found = version(postgres)?;
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    if found > known {
        let database = postgres.names.database.clone();
        return Err(ViewError::NewerSchema { database, found, known, remedy: "drop the schema" });
    }
    for (version, migration) in (1_i64..).zip(MIGRATIONS).filter(|(version, _)| *version > found) {
        postgres.batch(&dialect::definition(migration))?;
        postgres.execute(
            "INSERT INTO schema_versions (table_name, version, created_at)
             SELECT tablename, ?1, to_char(now() AT TIME ZONE 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')
             FROM pg_tables WHERE schemaname = current_schema()
             ON CONFLICT (table_name) DO UPDATE SET version = excluded.version, updated_at = excluded.created_at",
            &values![version.to_string()],
        )?;
    }
    Ok(())
}

/// Compares the log that the rows are of with ours; an empty schema becomes ours. Others may use what is another
/// log's, so it is not touched.
fn adopt(postgres: &Postgres, log_id: LogId, partitions: u32) -> Result<(), ViewError> {
    let database = Database::Postgres(postgres);
    let known = write::followed(database)?;
    if known.is_empty() {
        let mut all = (0..partitions).map(PartitionId);
        return all.try_for_each(|partition| write::insert_position(database, log_id, Position::start(partition)));
    }
    let expected = log_id.to_string();
    if known.iter().all(|(_, log)| *log == expected) && known.len() == partitions as usize {
        return Ok(());
    }
    let log = known.iter().map(|(_, log)| log.as_str()).next().unwrap_or_default();
    let found = format!("{log} with {} partitions", known.len()).into();
    Err(ViewError::OfAnotherLog { database: postgres.names.database.clone(), expected: log_id, found })
}

/// Empties the tables and puts every partition back to its beginning, unless `expected` is given and the rows are not
/// there any more: then somebody else did it, or went on. The positions are locked first, so nobody folds meanwhile,
/// and whoever was about to finds out.
pub(super) fn empty(postgres: &Postgres, expected: Option<Position>) -> Result<bool, ViewError> {
    let database = Database::Postgres(postgres);
    database.transaction(Transaction::Write, || {
        database.stay()?;
        let lock = "SELECT partition FROM projection_position WHERE projection = ?1 ORDER BY partition FOR UPDATE";
        let partitions: Vec<u32> = database.query(lock, &values![write::PROJECTION], |row| row.get(0))?;
        if let Some(expected) = expected
            && write::position(database, expected.partition)? != expected
        {
            return Ok(false);
        }
        postgres.batch("TRUNCATE sessions, runs, run_events, run_steps, approvals, metrics, components")?;
        for partition in partitions.into_iter().map(PartitionId) {
            write::put_back(database, partition)?;
        }
        Ok(true)
    })
}
