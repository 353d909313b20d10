//! Connections on loan: one that writes, a few that read. SQLite blocks, so the work runs on tokio's blocking
//! threads; a caller that goes away gets no answer, but its connection comes back.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Sqlite, schema};
use crate::{ViewError, sql::database::Database};

/// A set of connections to one file.
#[derive(Debug, Clone)]
pub(crate) struct Connections {
    path: Arc<Path>,
    count: u32,
    permits: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

/// A connection that goes back where it came from, also when the work panics.
struct Loan {
    idle: Arc<Mutex<Vec<Connection>>>,
    connection: Option<Connection>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }
}

impl Connections {
    /// Takes over open connections.
    pub(crate) fn new(path: Arc<Path>, connections: Vec<Connection>) -> Self {
        let count = u32::try_from(connections.len()).unwrap_or(u32::MAX);
        let permits = Arc::new(Semaphore::new(connections.len()));
        Self { path, count, permits, idle: Arc::new(Mutex::new(connections)) }
    }

    /// Does `work` with a connection, waiting for one to be free.
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(Database<'_>) -> Result<T, ViewError> + Send + 'static,
    ) -> Result<T, ViewError> {
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| ViewError::Closed)?;
        let path = self.path.clone();
        let connection = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
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
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(Closed { _permits: permit })
    }

    /// Puts new connections in the place of those that were closed.
    pub(crate) fn put(&self, _closed: Closed, connections: Vec<Connection>) {
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = connections;
    }
}

/// No connection is open or will be while this lives.
#[derive(Debug)]
pub(crate) struct Closed {
    _permits: OwnedSemaphorePermit,
}
