//! Where the rows are: a file of this process, or a server that several share.

use reenact_events::{Offset, PartitionId};

use super::{
    database::Database,
    postgres::{server::Server, turns::Turn},
    sqlite::files::Files,
};
use crate::{Position, ViewError};

/// See the module. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) enum Store {
    /// A file.
    Sqlite(Files),
    /// A server.
    Postgres(Server),
}

/// The right to fold a partition.
#[derive(Debug)]
pub(crate) enum MayFold {
    /// Nobody else does.
    Alone,
    /// For as long as this is kept.
    InTurn(#[expect(dead_code, reason = "its end is what counts")] Turn),
}

impl Store {
    /// Does `work` with a connection that reads.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl Fn(Database<'_>) -> Result<T, ViewError> + Send + 'static,
    ) -> Result<T, ViewError> {
        match self {
            Self::Sqlite(files) => files.read(work).await,
            Self::Postgres(server) => server.read(work).await,
        }
    }

    /// Does `work` with a connection that folds.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl Fn(Database<'_>) -> Result<T, ViewError> + Send + 'static,
    ) -> Result<T, ViewError> {
        match self {
            Self::Sqlite(files) => files.write(work).await,
            Self::Postgres(server) => server.write(work).await,
        }
    }

    /// The right to fold a partition; none while another process has it.
    pub(crate) async fn may_fold(&self, partition: PartitionId) -> Result<Option<MayFold>, ViewError> {
        match self {
            Self::Sqlite(_) => Ok(Some(MayFold::Alone)),
            Self::Postgres(server) => Ok(server.turn(&partition.to_string()).await?.map(MayFold::InTurn)),
        }
    }

    /// Whether others may fold the same rows, and read them.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Removes all rows, if that `is_wanted` once nobody uses them any more, and tells where the partitions stand then.
    /// Rows that others share are removed only while they are at `expected`, if that is given.
    pub(crate) async fn begin_anew(
        &self,
        expected: Option<Position>,
        is_wanted: impl FnOnce() -> bool,
        tell: impl FnOnce(&[Offset]),
    ) -> Result<(), ViewError> {
        match self {
            Self::Sqlite(files) => files.begin_anew(is_wanted, tell).await,
            Self::Postgres(server) => {
                if is_wanted() && server.empty(expected).await? {
                    tell(&[]);
                }
                Ok(())
            }
        }
    }
}
