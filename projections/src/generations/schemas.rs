//! Generations as schemas of a PostgreSQL server: the live one has the configured name, the others that name with
//! `_g1`, `_g2`, … behind it. A swap renames two schemas in one transaction, so whoever reads by the configured name
//! reads old rows or new ones. The number of the live one is its comment.

use std::time::Duration;

use reenact_events::{LogId, Offset, PartitionId};
use tokio::runtime::Handle;

use super::{Fill, GenerationError, Generations};
use crate::{
    Loader, Position, PostgresAddress, ViewError, Views,
    sql::{
        database::{Database, Transaction},
        postgres::{Postgres, dialect::quoted, server::Server},
        value::values,
        write,
    },
};

/// The advisory lock of whoever fills a generation.
const REBUILD: &str = "rebuild";
/// A lock of a connection that was just ended may last a moment longer: how often and how long it is waited for.
const ENDING: (u32, Duration) = (50, Duration::from_millis(100));

/// The generations of a deployment's schema.
#[derive(Debug)]
pub struct Schemas {
    address: PostgresAddress,
    log_id: LogId,
    partitions: u32,
    server: Server,
}

impl Schemas {
    /// Those on a server, which is not asked before something is wanted.
    ///
    /// # Errors
    /// When connections cannot be made at all.
    pub fn of(address: &PostgresAddress, log_id: LogId, partitions: u32) -> Result<Self, ViewError> {
        Ok(Self { address: address.clone(), log_id, partitions, server: Server::look(address)? })
    }

    fn connection(&self) -> Result<Postgres, ViewError> {
        self.server.connection(&Handle::current())
    }

    /// The schema of a generation that is not live.
    fn name(&self, number: u32) -> String {
        format!("{}_g{number}", self.address.schema())
    }

    fn number_of(&self, schema: &str) -> Option<u32> {
        let digits = schema.strip_prefix(self.address.schema())?.strip_prefix("_g")?;
        digits.parse().ok().filter(|number| self.name(*number) == schema)
    }

    fn schema_of(&self, number: u32) -> Result<String, GenerationError> {
        Ok(if self.live()? == number { self.address.schema().to_owned() } else { self.name(number) })
    }

    fn live_on(&self, postgres: &Postgres) -> Result<u32, ViewError> {
        let sql = "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = ?1";
        let schema = self.address.schema();
        let comment: Option<Option<String>> =
            Database::Postgres(postgres).first(sql, &values![schema], |row| row.get(0))?;
        let number = comment.flatten().and_then(|comment| comment.strip_prefix("generation ")?.parse().ok());
        // Nothing is said of one that was never swapped.
        Ok(number.unwrap_or(1))
    }

    /// Renames the schemas, and says which is live, within a transaction.
    fn rename(&self, postgres: &Postgres, (old, new): (u32, u32)) -> Result<(), ViewError> {
        let live = quoted(self.address.schema());
        let (old_name, new_name) = (quoted(&self.name(old)), quoted(&self.name(new)));
        postgres.batch(&format!(
            "SET LOCAL synchronous_commit TO on;
             ALTER SCHEMA {live} RENAME TO {old_name};
             ALTER SCHEMA {new_name} RENAME TO {live};
             COMMENT ON SCHEMA {live} IS 'generation {new}';"
        ))
    }

    /// Whether nobody else fills a generation of this deployment; nobody begins to as long as `postgres` is kept.
    fn is_alone(postgres: &Postgres, lock: i64) -> Result<bool, ViewError> {
        for _ in 0..ENDING.0 {
            let asked = "SELECT pg_try_advisory_lock(?1)::int::bigint";
            if Database::Postgres(postgres).first(asked, &values![lock], |row| row.get::<i64>(0))? == Some(1) {
                return Ok(true);
            }
            std::thread::sleep(ENDING.1);
        }
        Ok(false)
    }
}

impl Generations for Schemas {
    fn numbers(&self) -> Result<Vec<u32>, GenerationError> {
        let postgres = self.connection()?;
        let sql = "SELECT nspname::text FROM pg_namespace";
        let names: Vec<String> = Database::Postgres(&postgres).query(sql, &[], |row| row.get(0))?;
        let mut numbers: Vec<_> = names.iter().filter_map(|name| self.number_of(name)).collect();
        numbers.push(self.live_on(&postgres)?);
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn live(&self) -> Result<u32, GenerationError> {
        Ok(self.live_on(&self.connection()?)?)
    }

    fn positions(&self, number: u32) -> Result<Vec<Position>, GenerationError> {
        self.known(number)?;
        let (postgres, schema) = (self.connection()?, quoted(&self.schema_of(number)?));
        let database = Database::Postgres(&postgres);
        let read = database.transaction(Transaction::Read, || {
            let table = format!("{schema}.projection_position");
            let sql = "SELECT coalesce(to_regclass(?1)::oid, 0)::bigint";
            if database.first(sql, &values![&table], |row| row.get::<i64>(0))? == Some(0) {
                return Ok((0..self.partitions).map(PartitionId).map(Position::start).collect());
            }
            database.batch(&format!("SET LOCAL search_path TO {schema}"))?;
            (0..self.partitions).map(PartitionId).map(|partition| write::position(database, partition)).collect()
        });
        Ok(read?)
    }

    fn loader(&self, number: u32) -> Result<Loader, GenerationError> {
        self.beside(number)?;
        let runtime = Handle::current();
        let address = self.address.with_schema(&self.name(number));
        let (server, _) = runtime.block_on(Server::open(&address, self.log_id, self.partitions))?;
        let connection = server.connection(&runtime)?;
        if !Self::is_alone(&connection, self.server.lock(REBUILD))? {
            return Err(GenerationError::Busy { number });
        }
        Ok(Loader::on_server(server, connection, self.partitions)?)
    }

    fn swap(&self, number: u32, views: Option<&Views>, fill: Fill<'_>) -> Result<(), GenerationError> {
        self.known(number)?;
        self.beside(number)?;
        let postgres = self.connection()?;
        let database = Database::Postgres(&postgres);
        let mut refused = None;
        let swapped = database.transaction(Transaction::Write, || {
            postgres.lock("schema")?;
            // Whoever folds the live rows waits for the end of this before it looks up a table's name.
            postgres.may_rename()?;
            let sql = "SELECT partition, next_offset FROM projection_position WHERE projection = ?1 ORDER BY partition";
            let live: Vec<_> = database
                .query(sql, &values![write::PROJECTION], |row| Ok((PartitionId(row.get(0)?), Offset(row.get(1)?))))?;
            if let Err(error) = fill(&live) {
                refused = Some(error);
                return Err(ViewError::Closed);
            }
            self.rename(&postgres, (self.live_on(&postgres)?, number))
        });
        match (swapped, refused) {
            (_, Some(refused)) => Err(refused),
            (swapped, None) => {
                swapped?;
                if let Some(views) = views {
                    views.are_others();
                }
                Ok(())
            }
        }
    }

    fn remove(&self, number: u32) -> Result<(), GenerationError> {
        self.known(number)?;
        self.beside(number)?;
        let postgres = self.connection()?;
        if !Self::is_alone(&postgres, self.server.lock(REBUILD))? {
            return Err(GenerationError::Busy { number });
        }
        let dropped = postgres.batch(&format!("DROP SCHEMA {} CASCADE", quoted(&self.name(number))));
        let unlocked = Database::Postgres(&postgres)
            .first("SELECT pg_advisory_unlock(?1)::int::bigint", &values![self.server.lock(REBUILD)], |row| {
                row.get::<i64>(0)
            })
            .map(drop);
        Ok(dropped.and(unlocked)?)
    }
}
