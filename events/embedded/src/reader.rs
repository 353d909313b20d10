//! Reads a log that is stopped, or that another process is writing: for `reenact events` and for audits.

use std::path::{Path, PathBuf};

use reenact_events::{LogError, LogId, Offset, PartitionId, Recorded, log::no_such_partition};
use rusqlite::Connection;

use crate::{
    OpenError,
    directory::database,
    ledger::Standing,
    open::check_identity,
    readers::{Range, block},
    record::{last_position, offset, position, read_error},
    schema::{self, Identity},
};

/// A log, read only. It takes no lock, so it can be opened beside the process that owns the directory. Its
/// methods block: they are for a command line or a thread of their own.
pub struct Reader {
    connection: Connection,
    file: PathBuf,
    identity: Identity,
}

impl Reader {
    /// Opens the log in a directory.
    ///
    /// # Errors
    /// When there is none, when it is another program's, damaged or newer, or when it may not be read.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        let file = database(directory);
        match std::fs::metadata(&file) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(OpenError::Missing { directory: directory.to_owned() });
            }
            Err(error) => return Err(crate::directory::io_error(&file, error)),
        }
        let connection = schema::connect_reader(&file).map_err(|error| OpenError::of_sqlite(&file, error))?;
        let identity = check_identity(&file, &connection)?;
        Ok(Self { connection, file, identity })
    }

    /// The database's file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Names the log.
    #[must_use]
    pub fn log_id(&self) -> LogId {
        self.identity.log_id
    }

    /// How many partitions.
    #[must_use]
    pub fn partitions(&self) -> u32 {
        self.identity.partitions
    }

    /// The offset of the first event and the offset that the next one will at least have.
    ///
    /// # Errors
    /// When the partition does not exist, or the log cannot be read.
    pub fn bounds(&self, partition: PartitionId) -> Result<(Offset, Offset), LogError> {
        self.check(partition)?;
        let standing = Standing::read(&self.connection, partition)?;
        Ok((Offset(0), standing.next))
    }

    /// The offset of the last event, if there is one.
    ///
    /// # Errors
    /// When the partition does not exist, or the log cannot be read.
    pub fn last(&self, partition: PartitionId) -> Result<Option<Offset>, LogError> {
        self.check(partition)?;
        let range = (position(partition, Offset(0)), last_position(partition));
        let sql = "SELECT max(position) FROM events WHERE position BETWEEN ?1 AND ?2";
        let last = self.connection.query_row(sql, range, |row| row.get::<_, Option<i64>>(0));
        Ok(last.map_err(|error| read_error(partition, Offset(0), &error))?.map(offset))
    }

    /// The next events at and after `from`, a block of them; none when there is none yet. Whoever follows a
    /// running log asks again, behind the last one.
    ///
    /// # Errors
    /// When the partition does not exist, or the log cannot be read or is damaged.
    pub fn read(&self, partition: PartitionId, from: Offset) -> Result<Vec<Recorded>, LogError> {
        self.check(partition)?;
        block(&self.connection, Range { partition, from, until: Offset(u64::MAX) }).map(Iterator::collect)
    }

    fn check(&self, partition: PartitionId) -> Result<(), LogError> {
        if partition.0 < self.identity.partitions {
            return Ok(());
        }
        Err(LogError::Unavailable { reason: no_such_partition(partition, self.identity.partitions) })
    }
}
