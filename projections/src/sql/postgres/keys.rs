//! The keys of users' content on a server, for the nodes of a deployment together: the tables of `keys.db` in a schema
//! of their own.
//!
//! What is updated stays in the pages of a table until they are written anew, so that is done when a key is destroyed.
//! What the server has written ahead, and its backups, are not reached from here.

use std::{borrow::Cow, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use reenact_events::{
    LogId, NodeId, UserId,
    keys::{KeptKey, KeptReport, KeyError, KeyTable, Known, Scrubs, Turn},
};
use uuid::Uuid;

use super::{Postgres, address::PostgresAddress, schema, server::Server};
use crate::{
    ViewError,
    sql::{
        database::{Database, Transaction},
        value::{Value, values},
    },
};

const TABLES: &str = r#"
    CREATE TABLE IF NOT EXISTS log (log_id TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS keys (
        key_id BYTEA PRIMARY KEY, user_id TEXT COLLATE "C" NOT NULL, secret BYTEA
    );
    CREATE UNIQUE INDEX IF NOT EXISTS current_keys ON keys (user_id) WHERE secret IS NOT NULL;
    CREATE INDEX IF NOT EXISTS keys_of_user ON keys (user_id);
    CREATE TABLE IF NOT EXISTS erasures (
        user_id TEXT COLLATE "C" PRIMARY KEY, report TEXT NOT NULL, is_finished BIGINT NOT NULL
    );
    CREATE INDEX IF NOT EXISTS unfinished ON erasures (user_id) WHERE is_finished = 0;
    CREATE TABLE IF NOT EXISTS scrub_rounds (round BIGINT PRIMARY KEY);
    CREATE TABLE IF NOT EXISTS scrubs (node TEXT COLLATE "C" PRIMARY KEY, round BIGINT NOT NULL);
"#;

/// What is worked on by whoever has the turn.
const ERASURES: &str = "erasures";

/// See the module. Clones share the connections.
#[derive(Debug, Clone)]
pub struct PostgresKeys {
    server: Server,
}

impl PostgresKeys {
    /// Makes the tables in the schema of this address, unless they are there.
    ///
    /// # Errors
    /// When they are another log's, or the server does not do it.
    pub async fn make(address: &PostgresAddress, log_id: LogId) -> Result<Self, KeyError> {
        let keys = Self::on(address)?;
        let made = keys.write(move |database, postgres| {
            database.transaction(Transaction::Write, || {
                postgres.lock("schema")?;
                schema::make(postgres)?;
                postgres.batch(TABLES)?;
                let known = "INSERT INTO log SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM log)";
                database.execute(known, &values![log_id.to_string()]).map(drop)
            })
        });
        made.await?;
        keys.of_log(log_id).await
    }

    /// The tables that are there.
    ///
    /// # Errors
    /// When there are none, they are another log's, or the server does not answer.
    pub async fn open(address: &PostgresAddress, log_id: LogId) -> Result<Self, KeyError> {
        let keys = Self::on(address)?;
        let schema = keys.server.names().schema.clone();
        let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = ?1 AND tablename IN ('log', 'keys')";
        let found = keys.write(move |database, _| database.first(tables, &values![&schema], |row| row.get::<i64>(0)));
        if found.await? != Some(2) {
            let reason = "there are none, and users' content of this log is sealed with such keys: name the right \
                          `--database` and `--database-schema`, or, if they are lost, restore them from a backup";
            return Err(keys.error(reason.to_owned()));
        }
        keys.of_log(log_id).await
    }

    fn on(address: &PostgresAddress) -> Result<Self, KeyError> {
        let place = || address.names().database;
        let failed = |error: ViewError| KeyError { place: place(), reason: error.to_string().into() };
        Ok(Self { server: Server::look(address).map_err(failed)? })
    }

    async fn of_log(self, log_id: LogId) -> Result<Self, KeyError> {
        let of = self.write(|database, _| database.first("SELECT log_id FROM log", &[], |row| row.get::<String>(0)));
        match of.await? {
            Some(of) if of == log_id.to_string() => Ok(self),
            of => {
                let of = of.unwrap_or_default();
                let reason = format!(
                    "they are those of log {of}, and not of {log_id}: restore the right ones, or give this deployment \
                     another `--database-schema`"
                );
                Err(self.error(reason))
            }
        }
    }

    fn error(&self, reason: String) -> KeyError {
        KeyError { place: self.server.names().database.clone(), reason: reason.into() }
    }

    async fn write<T: Send + 'static>(
        &self,
        work: impl Fn(Database<'_>, &Postgres) -> Result<T, ViewError> + Send + 'static,
    ) -> Result<T, KeyError> {
        let done = self.server.write(move |database| match database {
            Database::Postgres(postgres) => work(database, postgres),
            Database::Sqlite(_) => Err(ViewError::Closed),
        });
        done.await.map_err(|error| self.error(error.to_string()))
    }
}

fn bytes(id: &Uuid) -> Value<'_> {
    Value::Blob(Cow::Borrowed(id.as_bytes()))
}

/// The latest round of scrubbing.
fn asked(database: Database<'_>) -> Result<u64, ViewError> {
    let sql = "SELECT coalesce(max(round), 0) FROM scrub_rounds";
    Ok(database.first(sql, &[], |row| row.get::<u64>(0))?.unwrap_or_default())
}

impl KeyTable for PostgresKeys {
    fn place(&self) -> Arc<str> {
        self.server.names().database.clone()
    }

    fn of_user<'a>(&'a self, user: &'a UserId, offered: KeptKey) -> BoxFuture<'a, Result<KeptKey, KeyError>> {
        let user = user.clone();
        self.write(move |database, _| {
            let current = || {
                let sql = "SELECT key_id, secret FROM keys WHERE user_id = ?1 AND secret IS NOT NULL";
                database.first(sql, &values![user.as_str()], |row| {
                    let secret: Vec<u8> = row.get(1)?;
                    Ok(KeptKey { id: Uuid::from_bytes(row.bytes(0)?), secret: secret.into() })
                })
            };
            loop {
                if let Some(known) = current()? {
                    return Ok(known);
                }
                // Of two that offer one at once, one waits for the other's. It may be destroyed by then.
                let add = "INSERT INTO keys VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
                database.execute(add, &[bytes(&offered.id), user.as_str().into(), (&*offered.secret).into()])?;
            }
        })
        .boxed()
    }

    fn find(&self, id: Uuid) -> BoxFuture<'_, Result<Known, KeyError>> {
        let found = self.write(move |database, _| {
            let one = "SELECT secret FROM keys WHERE key_id = ?1";
            database.first(one, &[bytes(&id)], |row| row.get::<Option<Vec<u8>>>(0))
        });
        async move {
            Ok(match found.await? {
                None => Known::Nothing,
                Some(None) => Known::Destroyed,
                Some(Some(secret)) => Known::Here(KeptKey { id, secret: secret.into() }),
            })
        }
        .boxed()
    }

    fn destroy<'a>(&'a self, user: &'a UserId) -> BoxFuture<'a, Result<Vec<Uuid>, KeyError>> {
        let user = user.clone();
        self.write(move |database, postgres| {
            database.execute("UPDATE keys SET secret = NULL WHERE user_id = ?1", &values![user.as_str()])?;
            postgres.batch("VACUUM FULL keys")?;
            let all = "SELECT key_id FROM keys WHERE user_id = ?1 ORDER BY key_id";
            database.query(all, &values![user.as_str()], |row| Ok(Uuid::from_bytes(row.bytes(0)?)))
        })
        .boxed()
    }

    fn report<'a>(&'a self, user: &'a UserId) -> BoxFuture<'a, Result<Option<String>, KeyError>> {
        let user = user.clone();
        self.write(move |database, _| {
            let one = "SELECT report FROM erasures WHERE user_id = ?1";
            database.first(one, &values![user.as_str()], |row| row.get::<String>(0))
        })
        .boxed()
    }

    fn keep_report<'a>(
        &'a self,
        user: &'a UserId,
        before: Option<&'a str>,
        report: &'a KeptReport,
    ) -> BoxFuture<'a, Result<bool, KeyError>> {
        let (user, before, report) = (user.clone(), before.map(str::to_owned), report.clone());
        self.write(move |database, _| {
            let (user, text, is_finished) = (user.as_str(), &report.text, i64::from(report.is_finished));
            let kept = match &before {
                None => {
                    let add = "INSERT INTO erasures VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
                    database.execute(add, &values![user, text, is_finished])?
                }
                Some(before) => {
                    let put = "UPDATE erasures SET report = ?2, is_finished = ?3 WHERE user_id = ?1 AND report = ?4";
                    database.execute(put, &values![user, text, is_finished, before])?
                }
            };
            Ok(kept == 1)
        })
        .boxed()
    }

    fn unfinished(&self) -> BoxFuture<'_, Result<Vec<(UserId, String)>, KeyError>> {
        self.write(|database, _| {
            let all = "SELECT user_id, report FROM erasures WHERE is_finished = 0 ORDER BY user_id";
            database.query(all, &[], |row| Ok((UserId::trusted(&row.text(0)?), row.get::<String>(1)?)))
        })
        .boxed()
    }

    fn turn(&self) -> BoxFuture<'_, Result<Option<Turn>, KeyError>> {
        async move {
            let turn = self.server.turn(ERASURES).await.map_err(|error| self.error(error.to_string()))?;
            Ok(turn.map(|turn| Box::new(turn) as Turn))
        }
        .boxed()
    }

    fn ask_scrub(&self) -> BoxFuture<'_, Result<u64, KeyError>> {
        self.write(|database, _| {
            let next = asked(database)?.saturating_add(1);
            // Whoever else asks at this moment is an error: whoever has the turn is alone.
            database.execute("INSERT INTO scrub_rounds VALUES (?1)", &values![next]).map(|_| next)
        })
        .boxed()
    }

    fn scrubs(&self) -> BoxFuture<'_, Result<Scrubs, KeyError>> {
        self.write(|database, _| {
            let asked = asked(database)?;
            let done = database.query("SELECT node, round FROM scrubs", &[], |row| {
                Ok((NodeId::trusted(&row.text(0)?), row.get::<u64>(1)?))
            })?;
            Ok(Scrubs { asked, done: done.into_iter().collect() })
        })
        .boxed()
    }

    fn scrubbed<'a>(&'a self, node: &'a NodeId, round: u64) -> BoxFuture<'a, Result<(), KeyError>> {
        let node = node.clone();
        self.write(move |database, _| {
            let put = "INSERT INTO scrubs VALUES (?1, ?2) ON CONFLICT (node) DO UPDATE SET round = ?2";
            database.execute(put, &values![node.as_str(), round]).map(drop)
        })
        .boxed()
    }
}
