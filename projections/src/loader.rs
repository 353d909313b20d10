//! Folds the log into rows that nobody reads yet: a new generation of the views, or the views as of a moment.
//!
//! Whoever has one feeds it with events of each partition in order. It keeps no more than the events it is given, so
//! it needs the same memory for any log.

use std::path::{Path, PathBuf};

use reenact_events::{LogId, PartitionId, Recorded};
use rusqlite::Connection;

use crate::{
    Decoded, Position, ViewError,
    sql::{
        database::Database,
        postgres::{Postgres, server::Server},
        sqlite::{Sqlite, load},
        write,
    },
};

/// So many events are worth folding together: rows that several of them change are written once.
pub const TOGETHER_EVENTS: usize = 4_000;
/// The same in bytes of payload: what a batch may keep in memory.
pub const TOGETHER_BYTES: usize = 8 << 20;

/// Rows on their way. What was folded stays when it is dropped; opening it again goes on from there.
pub struct Loader {
    rows: Rows,
    positions: Vec<Position>,
}

/// Where they are filled into.
enum Rows {
    File { path: PathBuf, connection: Connection },
    Schema { connection: Box<Postgres>, _server: Server },
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader").field("positions", &self.positions).finish_non_exhaustive()
    }
}

impl Loader {
    /// Opens or makes the rows of the log `log_id` in a database file.
    ///
    /// # Errors
    /// When the file cannot be used, is damaged or is not of this log.
    pub fn open(path: &Path, log_id: LogId, partitions: u32) -> Result<Self, ViewError> {
        let (connection, positions) = load::begin(path, log_id, partitions)?;
        Ok(Self { rows: Rows::File { path: path.to_owned(), connection }, positions })
    }

    /// Fills a schema of a server, with a connection of its own.
    pub(crate) fn on_server(server: Server, connection: Postgres, partitions: u32) -> Result<Self, ViewError> {
        let at = |partition| write::position(Database::Postgres(&connection), partition);
        let positions = (0..partitions).map(PartitionId).map(at).collect::<Result<_, _>>()?;
        // What is lost with the power is folded again; the swap waits for the disk.
        connection.batch("SET synchronous_commit TO off")?;
        Ok(Self { rows: Rows::Schema { connection: Box::new(connection), _server: server }, positions })
    }

    /// How far each partition is folded, by partition.
    #[must_use]
    pub fn positions(&self) -> &[Position] {
        &self.positions
    }

    /// How far a partition is folded.
    ///
    /// # Errors
    /// When there is no such partition.
    pub fn position(&self, partition: PartitionId) -> Result<Position, ViewError> {
        let found = usize::try_from(partition.0).ok().and_then(|place| self.positions.get(place));
        let partitions = u32::try_from(self.positions.len()).unwrap_or(u32::MAX);
        found.copied().ok_or(ViewError::NoSuchPartition { partition, partitions })
    }

    /// Folds the events that are not in the rows yet, in one transaction, and says how many that were.
    ///
    /// # Errors
    /// When they do not continue the rows, or the file cannot be written. The rows are as before.
    pub fn fold<R: AsRef<[Recorded]>>(&mut self, batch: &Decoded<R>) -> Result<usize, ViewError> {
        let (partition, position) = (batch.end().partition, self.position(batch.end().partition)?);
        let (events, _) = batch.from(position.next_offset);
        let next = write::fold_decoded(self.database(), position, batch)?;
        if let Some(place) = usize::try_from(partition.0).ok().and_then(|place| self.positions.get_mut(place)) {
            *place = next;
        }
        Ok(events.len())
    }

    /// Makes it fit to be read: all indexes are there, and all of it is on the disk. It may be fed on.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(&self) -> Result<(), ViewError> {
        match &self.rows {
            Rows::File { path, connection } => load::finish(Sqlite { connection, path }),
            Rows::Schema { connection, .. } => connection.analyse(),
        }
    }

    /// Makes it a file by itself, to be carried elsewhere, with nothing beside it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn close_alone(self) -> Result<(), ViewError> {
        self.finish()?;
        match &self.rows {
            Rows::File { .. } => self.database().batch("PRAGMA journal_mode = DELETE;"),
            Rows::Schema { .. } => Ok(()),
        }
    }

    fn database(&self) -> Database<'_> {
        match &self.rows {
            Rows::File { path, connection } => Database::Sqlite(Sqlite { connection, path }),
            Rows::Schema { connection, .. } => Database::Postgres(connection),
        }
    }
}
