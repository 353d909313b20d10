//! The keys in a file of their own. What is removed from it is overwritten, in the file and in its log.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures::{FutureExt, future::BoxFuture};
use reenact_events::{
    LogId, NodeId, UserId,
    keys::{KeptKey, KeptReport, KeyError, KeyTable, Known, Scrubs, Turn},
};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};
use uuid::Uuid;

/// How long another process that writes is waited for.
const BUSY_WITHIN: Duration = Duration::from_secs(10);
/// Pause before it is tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(10);
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS log (log_id TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS keys (key_id BLOB PRIMARY KEY, user_id TEXT NOT NULL, secret BLOB) WITHOUT ROWID;
    CREATE UNIQUE INDEX IF NOT EXISTS current_keys ON keys (user_id) WHERE secret IS NOT NULL;
    CREATE INDEX IF NOT EXISTS keys_of_user ON keys (user_id);
    CREATE TABLE IF NOT EXISTS erasures (
        user_id TEXT PRIMARY KEY, report TEXT NOT NULL, is_finished INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS unfinished ON erasures (user_id) WHERE is_finished = 0;
    CREATE TABLE IF NOT EXISTS scrub_rounds (round INTEGER PRIMARY KEY);
    CREATE TABLE IF NOT EXISTS scrubs (node TEXT PRIMARY KEY, round INTEGER NOT NULL) WITHOUT ROWID;
";

/// See the module. Clones share it.
#[derive(Clone)]
pub struct SqliteKeys {
    place: Arc<str>,
    connection: Arc<Mutex<Connection>>,
}

impl SqliteKeys {
    /// Opens the file, and makes it if there is none.
    ///
    /// # Errors
    /// When it is another log's, or cannot be used.
    pub fn open(file: &Path, log_id: LogId) -> Result<Self, KeyError> {
        let keys = Self::opened(file, OpenFlags::default())?;
        keys.with(|connection| {
            write_ahead(connection)?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.execute_batch(TABLES)?;
            let known = "INSERT INTO log SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM log)";
            connection.execute(known, [log_id.to_string()]).map(|_| ())
        })?;
        let of = keys.log_id()?;
        if of != log_id.to_string() {
            return Err(keys.error(format!("they are those of log {of}, and not of {log_id}: restore the right ones")));
        }
        Ok(keys)
    }

    /// The keys in a file that is there, only to read them.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn look(file: &Path) -> Result<Self, KeyError> {
        let keys = Self::opened(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        keys.log_id()?;
        Ok(keys)
    }

    fn opened(file: &Path, flags: OpenFlags) -> Result<Self, KeyError> {
        let place: Arc<str> = format!("`{}`", file.display()).into();
        let failed = |error: rusqlite::Error| KeyError { place: place.clone(), reason: error.to_string().into() };
        let connection = Connection::open_with_flags(file, flags).map_err(failed)?;
        connection.busy_timeout(BUSY_WITHIN).map_err(failed)?;
        connection.pragma_update(None, "secure_delete", true).map_err(failed)?;
        Ok(Self { place: place.clone(), connection: Arc::new(Mutex::new(connection)) })
    }

    fn log_id(&self) -> Result<String, KeyError> {
        self.with(|connection| connection.query_row("SELECT log_id FROM log", [], |row| row.get(0)))
    }

    fn error(&self, reason: String) -> KeyError {
        KeyError { place: self.place.clone(), reason: reason.into() }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T, KeyError> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut connection).map_err(|error| self.error(error.to_string()))
    }

    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, KeyError> + Send + 'static,
    ) -> BoxFuture<'_, Result<T, KeyError>> {
        let keys = self.clone();
        async move {
            let done = tokio::task::spawn_blocking(move || work(&keys)).await;
            done.unwrap_or_else(|error| Err(self.error(format!("a task that asks them ended early: {error}"))))
        }
        .boxed()
    }

    fn destroy_now(&self, user: &UserId) -> Result<Vec<Uuid>, KeyError> {
        let ids = self.with(|connection| {
            connection.execute("UPDATE keys SET secret = NULL WHERE user_id = ?1", [user.as_str()])?;
            let mut rows = connection.prepare("SELECT key_id FROM keys WHERE user_id = ?1 ORDER BY key_id")?;
            rows.query_map([user.as_str()], |row| row.get::<_, [u8; 16]>(0))?.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        // Until then the key stands in what was written ahead.
        let busy: bool = self.with(|connection| {
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0))
        })?;
        if busy {
            return Err(self.error("another process reads them and keeps a destroyed key in `-wal`: end it".to_owned()));
        }
        Ok(ids.into_iter().map(Uuid::from_bytes).collect())
    }
}

/// Another process that opens the file may hold it for a moment, and to change this mode SQLite does not wait by itself.
fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    let began = Instant::now();
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && began.elapsed() < BUSY_WITHIN =>
            {
                std::thread::sleep(BUSY_PAUSE);
            }
            done => return done,
        }
    }
}

/// A round, which is counted from 0.
fn number(stored: i64) -> u64 {
    stored.unsigned_abs()
}

impl KeyTable for SqliteKeys {
    fn place(&self) -> Arc<str> {
        self.place.clone()
    }

    fn of_user<'a>(&'a self, user: &'a UserId, offered: KeptKey) -> BoxFuture<'a, Result<KeptKey, KeyError>> {
        let user = user.clone();
        self.blocking(move |keys| {
            keys.with(|connection| {
                let current = "SELECT key_id, secret FROM keys WHERE user_id = ?1 AND secret IS NOT NULL";
                let read = |row: &rusqlite::Row<'_>| {
                    let secret: Vec<u8> = row.get(1)?;
                    Ok(KeptKey { id: Uuid::from_bytes(row.get(0)?), secret: secret.into() })
                };
                if let Some(known) = connection.query_row(current, [user.as_str()], read).optional()? {
                    return Ok(known);
                }
                let add = "INSERT INTO keys VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
                connection.execute(add, params![offered.id.as_bytes(), user.as_str(), &*offered.secret])?;
                connection.query_row(current, [user.as_str()], read)
            })
        })
    }

    fn find(&self, id: Uuid) -> BoxFuture<'_, Result<Known, KeyError>> {
        self.blocking(move |keys| {
            let secret: Option<Option<Vec<u8>>> = keys.with(|connection| {
                let one = "SELECT secret FROM keys WHERE key_id = ?1";
                connection.query_row(one, [id.as_bytes()], |row| row.get(0)).optional()
            })?;
            Ok(match secret {
                None => Known::Nothing,
                Some(None) => Known::Destroyed,
                Some(Some(secret)) => Known::Here(KeptKey { id, secret: secret.into() }),
            })
        })
    }

    fn destroy<'a>(&'a self, user: &'a UserId) -> BoxFuture<'a, Result<Vec<Uuid>, KeyError>> {
        let user = user.clone();
        self.blocking(move |keys| keys.destroy_now(&user))
    }

    fn report<'a>(&'a self, user: &'a UserId) -> BoxFuture<'a, Result<Option<String>, KeyError>> {
        let user = user.clone();
        self.blocking(move |keys| {
            let one = "SELECT report FROM erasures WHERE user_id = ?1";
            keys.with(|connection| connection.query_row(one, [user.as_str()], |row| row.get(0)).optional())
        })
    }

    fn keep_report<'a>(
        &'a self,
        user: &'a UserId,
        before: Option<&'a str>,
        report: &'a KeptReport,
    ) -> BoxFuture<'a, Result<bool, KeyError>> {
        let (user, before, report) = (user.clone(), before.map(str::to_owned), report.clone());
        self.blocking(move |keys| {
            let (text, is_finished) = (&report.text, report.is_finished);
            let kept = keys.with(|connection| match before {
                None => {
                    let add = "INSERT INTO erasures VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
                    connection.execute(add, params![user.as_str(), text, is_finished])
                }
                Some(before) => {
                    let put = "UPDATE erasures SET report = ?2, is_finished = ?3 WHERE user_id = ?1 AND report = ?4";
                    connection.execute(put, params![user.as_str(), text, is_finished, before])
                }
            })?;
            Ok(kept == 1)
        })
    }

    fn unfinished(&self) -> BoxFuture<'_, Result<Vec<(UserId, String)>, KeyError>> {
        self.blocking(|keys| {
            keys.with(|connection| {
                let all = "SELECT user_id, report FROM erasures WHERE is_finished = 0 ORDER BY user_id";
                let mut rows = connection.prepare(all)?;
                let read = |row: &rusqlite::Row<'_>| {
                    Ok((UserId::trusted(&row.get::<_, String>(0)?), row.get::<_, String>(1)?))
                };
                rows.query_map([], read)?.collect()
            })
        })
    }

    /// A file is one node's.
    fn turn(&self) -> BoxFuture<'_, Result<Option<Turn>, KeyError>> {
        async { Ok(Some(Box::new(()) as Turn)) }.boxed()
    }

    fn ask_scrub(&self) -> BoxFuture<'_, Result<u64, KeyError>> {
        self.blocking(|keys| {
            let next = "INSERT INTO scrub_rounds SELECT coalesce(max(round), 0) + 1 FROM scrub_rounds RETURNING round";
            keys.with(|connection| connection.query_row(next, [], |row| row.get(0).map(number)))
        })
    }

    fn scrubs(&self) -> BoxFuture<'_, Result<Scrubs, KeyError>> {
        self.blocking(|keys| {
            keys.with(|connection| {
                let asked = "SELECT coalesce(max(round), 0) FROM scrub_rounds";
                let asked = connection.query_row(asked, [], |row| row.get(0).map(number))?;
                let mut rows = connection.prepare("SELECT node, round FROM scrubs")?;
                let read =
                    |row: &rusqlite::Row<'_>| Ok((NodeId::trusted(&row.get::<_, String>(0)?), row.get(1).map(number)?));
                Ok(Scrubs { asked, done: rows.query_map([], read)?.collect::<rusqlite::Result<_>>()? })
            })
        })
    }

    fn scrubbed<'a>(&'a self, node: &'a NodeId, round: u64) -> BoxFuture<'a, Result<(), KeyError>> {
        let node = node.clone();
        self.blocking(move |keys| {
            let put = "INSERT INTO scrubs VALUES (?1, ?2) ON CONFLICT (node) DO UPDATE SET round = ?2";
            let round = i64::try_from(round).unwrap_or(i64::MAX);
            keys.with(|connection| connection.execute(put, params![node.as_str(), round]).map(|_| ()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(number: u8) -> KeptKey {
        KeptKey { id: Uuid::from_u128(number.into()), secret: [number; 32].as_slice().into() }
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().unwrap()
    }

    #[test]
    fn the_bytes_of_a_destroyed_key_are_in_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let keys = SqliteKeys::open(&folder.path().join("keys.db"), LogId(Uuid::from_u128(1))).unwrap();
        let alice = UserId::trusted("alice");
        runtime().block_on(async {
            keys.of_user(&alice, kept(0xa1)).await.unwrap();
            keys.destroy(&alice).await.unwrap();
        });
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            assert!(!bytes.windows(16).any(|window| window == [0xa1; 16]), "the key's bytes are there");
        }
    }

    #[test]
    fn many_that_open_it_at_the_same_moment_all_have_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = &folder.path().join("keys.db");
        std::thread::scope(|scope| {
            let open = || SqliteKeys::open(file, LogId(Uuid::from_u128(1))).map(drop);
            let tries: Vec<_> = (0..32).map(|_| scope.spawn(open)).collect();
            tries.into_iter().for_each(|opened| opened.join().unwrap().unwrap());
        });
    }
}
