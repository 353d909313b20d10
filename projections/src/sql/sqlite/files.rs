//! The views in a file: opened, read, written, and begun anew when what is in it is not to be trusted.

use std::{path::Path, sync::Arc};

use reenact_events::{LogId, Offset, PartitionId};
use rusqlite::Connection;

use super::{
    Sqlite,
    connections::{Closed, Connections},
    place,
    schema::{self, Content},
};
use crate::{
    ViewError,
    sql::{database::Database, write},
};

/// Connections that read side by side.
const READERS: usize = 4;

/// A file with its connections; another may take its place. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    log_id: LogId,
    partitions: u32,
    writer: Connections,
    readers: Connections,
}

struct Opened {
    writer: Connection,
    readers: Vec<Connection>,
    nexts: Vec<Offset>,
}

impl Files {
    /// Opens the file, or begins it anew; the answer has where each partition stands.
    pub(crate) fn open(path: &Path, log_id: LogId, partitions: u32) -> Result<(Self, Vec<Offset>), ViewError> {
        let opened = open_or_begin_anew(path, log_id, partitions)?;
        let path: Arc<Path> = path.into();
        let (writer, readers) = (vec![opened.writer], opened.readers);
        let (writer, readers) = (Connections::new(path.clone(), writer), Connections::new(path, readers));
        Ok((Self { log_id, partitions, writer, readers }, opened.nexts))
    }

    /// Does `work` with a connection that reads.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(Database<'_>) -> Result<T, ViewError> + Send + 'static,
    ) -> Result<T, ViewError> {
        self.readers.with(work).await
    }

    /// Does `work` with the connection that writes.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(Database<'_>) -> Result<T, ViewError> + Send + 'static,
    ) -> Result<T, ViewError> {
        self.writer.with(work).await
    }

    /// Deletes the file and begins an empty one in its place, if that `is_wanted` once nobody uses it any more; then
    /// tells where the partitions stand before anybody uses the new one.
    pub(crate) async fn begin_anew(
        &self,
        is_wanted: impl FnOnce() -> bool,
        tell: impl FnOnce(&[Offset]),
    ) -> Result<(), ViewError> {
        let writer = self.writer.close().await?;
        let readers = self.readers.close().await?;
        if !is_wanted() {
            return Ok(());
        }
        let (path, log_id, partitions) = (self.writer.path(), self.log_id, self.partitions);
        let file = path.clone();
        let opened = tokio::task::spawn_blocking(move || {
            schema::discard(&file)?;
            open_or_begin_anew(&file, log_id, partitions)
        });
        let opened = opened.await.map_err(|_| ViewError::Closed)??;
        tell(&opened.nexts);
        self.put((writer, readers), path, opened);
        Ok(())
    }

    fn put(&self, (writer, readers): (Closed, Closed), path: Arc<Path>, opened: Opened) {
        self.writer.put(writer, path.clone(), vec![opened.writer]);
        self.readers.put(readers, path, opened.readers);
    }

    /// Nothing is written as long as the answer lives.
    pub(crate) async fn stop_writing(&self) -> Result<Closed, ViewError> {
        self.writer.close().await
    }

    /// Reads and writes another file from now on. `switch` is called when it is open and nobody reads the one before
    /// any more; when it fails, everything stays as it was.
    pub(crate) async fn move_to<E: From<ViewError>>(
        &self,
        writer: Closed,
        path: &Path,
        switch: impl FnOnce() -> Result<(), E>,
        tell: impl FnOnce(&[Offset]),
    ) -> Result<(), E> {
        let (path, log_id, partitions): (Arc<Path>, _, _) = (path.into(), self.log_id, self.partitions);
        let file = path.clone();
        let opened = tokio::task::spawn_blocking(move || {
            let other = || ViewError::Unusable { database: place(&file), reason: "it is of another log".into() };
            open(&file, log_id, partitions)?.ok_or_else(other)
        });
        let opened = opened.await.map_err(|_| ViewError::Closed)??;
        let readers = self.readers.close().await?;
        switch()?;
        tell(&opened.nexts);
        self.put((writer, readers), path, opened);
        Ok(())
    }
}

fn open_or_begin_anew(path: &Path, log_id: LogId, partitions: u32) -> Result<Opened, ViewError> {
    let reason = match open(path, log_id, partitions) {
        Ok(Some(opened)) => return Ok(opened),
        Ok(None) => "they are of another log".into(),
        Err(ViewError::Corrupt { reason, .. } | ViewError::BadRow { reason, .. }) => reason,
        Err(error) => return Err(error),
    };
    tracing::warn!(path = %path.display(), %reason, "the views are discarded and folded again from the log");
    schema::discard(path)?;
    let unusable = || ViewError::Unusable { database: place(path), reason: "a new file is not as it was made".into() };
    open(path, log_id, partitions)?.ok_or_else(unusable)
}

fn open(path: &Path, log_id: LogId, partitions: u32) -> Result<Option<Opened>, ViewError> {
    let writer = schema::connect(path)?;
    let sqlite = Sqlite { connection: &writer, path };
    if schema::prepare(sqlite, log_id, partitions)? == Content::OfAnotherLog {
        return Ok(None);
    }
    let next = |partition| write::position(Database::Sqlite(sqlite), partition).map(|position| position.next_offset);
    let nexts = (0..partitions).map(PartitionId).map(next).collect::<Result<_, _>>()?;
    let readers = (0..READERS).map(|_| schema::connect(path)).collect::<Result<_, _>>()?;
    Ok(Some(Opened { writer, readers, nexts }))
}
