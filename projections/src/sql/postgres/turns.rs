//! Who does what one node is enough for, where several share a schema: whoever has its advisory lock. So partitions are
//! folded, and erasures are worked on.
//!
//! The lock keeps the others from doing the same in vain; it proves nothing. What keeps events from being folded twice
//! is the position, which moves with the rows, and a report about an erasure is written in the place of the one that was
//! read. So a lock that was lost with its connection needs no watching: whoever is overtaken asks for it again.

use std::sync::Arc;

use deadpool_postgres::{Object, Pool};
use tokio::sync::Mutex;

use super::{Names, server, view_error};
use crate::ViewError;

/// The session that has this process's locks.
#[derive(Debug)]
pub(super) struct Turns {
    pool: Pool,
    names: Arc<Names>,
    session: Mutex<Session>,
}

#[derive(Debug, Default)]
struct Session {
    client: Option<Object>,
    /// How many there were: a lock ends with its session.
    number: u64,
}

/// The right to do something that one is enough for. It ends with the process, with the connection, and when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    lock: i64,
    session: u64,
}

impl Turns {
    pub(super) fn new(pool: Pool, names: Arc<Names>) -> Self {
        Self { pool, names, session: Mutex::default() }
    }

    /// The right to do this, if nobody has it.
    pub(super) async fn take(self: &Arc<Self>, what: &str) -> Result<Option<Turn>, ViewError> {
        let lock = self.names.lock(&format!("turn {what}"));
        let mut session = self.session.lock().await;
        if session.client.as_ref().is_none_or(|client| client.is_closed()) {
            // The one that is closed goes back first: there is one place.
            session.client = None;
            session.client = Some(server::take(&self.pool, &self.names).await?);
            session.number += 1;
        }
        let Some(client) = &session.client else { return Ok(None) };
        let asked = client.query_one("SELECT pg_try_advisory_lock($1)", &[&lock]).await;
        let is_ours = asked.and_then(|row| row.try_get(0)).map_err(|error| view_error(&self.names.database, &error))?;
        Ok(if is_ours { Some(Turn { turns: self.clone(), lock, session: session.number }) } else { None })
    }

    async fn give_back(&self, lock: i64, number: u64) {
        let session = self.session.lock().await;
        if let Some(client) = session.client.as_ref().filter(|_| session.number == number)
            && let Err(error) = client.execute("SELECT pg_advisory_unlock($1)", &[&lock]).await
        {
            tracing::debug!(%error, "a turn ends with its connection");
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (turns, lock, session) = (self.turns.clone(), self.lock, self.session);
        // Without a runtime everything ends, connections too.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { turns.give_back(lock, session).await });
        }
    }
}
