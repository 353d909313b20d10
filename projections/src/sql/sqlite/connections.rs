//! Connections on loan: one that writes, a few that read. SQLite blocks, so the work runs on tokio's blocking
//! threads; a caller that goes away gets no answer, but its connection comes back.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Sqlite, schema};
use crate::{ViewError, sql::database::Database};

/// A set of connections to one file at a time.
#[derive(Debug, Clone)]
pub(crate) struct Connections {
    count: u32,
    permits: Arc<Semaphore>,
    idle: Arc<Mutex<Idle>>,
}

/// The connections that nobody uses, and the file that they are to.
#[derive(Debug)]
struct Idle {
    path: Arc<Path>,
    connections: Vec<Connection>,
}

/// A connection that goes back where it came from, also when the work panics.
struct Loan {
    idle: Arc<Mutex<Idle>>,
    connection: Option<Connection>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            locked(&self.idle).connections.push(connection);
        }
    }
}

fn locked(idle: &Mutex<Idle>) -> MutexGuard<'_, Idle> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connections {
    /// Takes over open connections.
    pub(crate) fn new(path: Arc<Path>, connections: Vec<Connection>) -> Self {
        let count = u32::try_from(connections.len()).unwrap_or(u32::MAX);
        let permits = Arc::new(Semaphore::new(connections.len()));
        Self { count, permits, idle: Arc::new(Mutex::new(Idle { path, connections })) }
    }

    /// The file that they are to.
    pub(crate) fn path(&self) -> Arc<Path> {
        locked(&self.idle).path.clone()
    }

    /// Does `work` with a connection, waiting for one to be free.
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(Database<'_>) -> Result<T, ViewError> + Send + 'static,
    ) -> Result<T, ViewError> {
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| ViewError::Closed)?;
        let (path, connection) = {
            let mut idle = locked(&self.idle);
            (idle.path.clone(), idle.connections.pop())
        };
        let mut loan = Loan { idle: self.idle.clone(), connection, _permit: permit };
        let done = tokio::task::spawn_blocking(move || {
            let connection = match loan.connection.take() {
                Some(connection) => connection,
                // After a failed attempt to open the file anew there is none: try again.
                None => schema::connect(&path)?,
            };
            work(Database::Sqlite(Sqlite { connection: loan.connection.insert(connection), path: &path }))
        });
        done.await.map_err(|_| ViewError::Closed)?
    }

    /// Waits until no connection is in use, closes them all, and keeps others from being used until the
    /// answer is given back to [`Connections::put`] or dropped.
    pub(crate) async fn close(&self) -> Result<Closed, ViewError> {
        let permit = self.permits.clone().acquire_many_owned(self.count).await.map_err(|_| ViewError::Closed)?;
        locked(&self.idle).connections.clear();
        Ok(Closed { _permits: permit })
    }

    /// Puts new connections to a file in the place of those that were closed.
    pub(crate) fn put(&self, _closed: Closed, path: Arc<Path>, connections: Vec<Connection>) {
        *locked(&self.idle) = Idle { path, connections };
    }
}

/// No connection is open or will be while this lives.
#[derive(Debug)]
pub(crate) struct Closed {
    _permits: OwnedSemaphorePermit,
}
