//! Threads that read: short blocks for the streams that follow, and one long scan for a replay. Each has its
//! own connection, so nothing waits for the writer.

use std::{path::PathBuf, thread};

use reenact_events::{CommandRecord, LogError, Offset, PartitionId, Recorded};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::{
    command,
    record::{self, Rows, position},
    schema,
    view::closed,
};

/// So many threads share the short reads.
const THREADS: usize = 2;

/// A block has at most so many events.
const BLOCK_EVENTS: usize = 512;

/// A block has at most so many commands.
const BLOCK_COMMANDS: i64 = 256;

/// A block is closed when its payloads have so many bytes.
const BLOCK_BYTES: usize = 1024 * 1024;

/// So many blocks of a replay wait for whoever folds them.
const BLOCKS_AHEAD: usize = 4;

/// So many short reads may wait at one thread.
const QUEUE_MAX: usize = 256;

/// From where up to where, without the latter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) partition: PartitionId,
    pub(crate) from: Offset,
    pub(crate) until: Offset,
}

/// A block that is asked for. Whoever asked may have left; then the answer is dropped.
pub(crate) enum Read {
    Events(Range, oneshot::Sender<Result<Vec<Recorded>, LogError>>),
    Commands(Range, oneshot::Sender<Result<Vec<CommandRecord>, LogError>>),
}

/// The threads for short reads. They end when this is dropped.
pub(crate) struct Readers {
    queues: Vec<mpsc::Sender<Read>>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Readers {
    /// Starts the threads.
    pub(crate) fn start(database: &std::path::Path) -> std::io::Result<Self> {
        let mut readers = Self { queues: Vec::new(), threads: Vec::new() };
        for _ in 0..THREADS {
            let (queue, requests) = mpsc::channel(QUEUE_MAX);
            let database = database.to_owned();
            let thread =
                thread::Builder::new().name("log reader".to_owned()).spawn(move || serve(database, requests))?;
            readers.queues.push(queue);
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// The door of one partition's reads. It does not keep the threads alive: a stream may outlive the log.
    pub(crate) fn door(&self, partition: PartitionId) -> Door {
        Door(self.queues[partition.0 as usize % self.queues.len()].downgrade())
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.queues.clear();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a reader of the log had panicked");
            }
        }
    }
}

/// Where a stream asks for its blocks.
#[derive(Clone)]
pub(crate) struct Door(mpsc::WeakSender<Read>);

impl Door {
    /// A block of events; an empty one when there is none in the range.
    pub(crate) async fn events(&self, range: Range) -> Result<Vec<Recorded>, LogError> {
        let (reply, block) = oneshot::channel();
        self.send(Read::Events(range, reply)).await?;
        block.await.map_err(|_| closed())?
    }

    /// A block of commands; an empty one when there is none in the range.
    pub(crate) async fn commands(&self, range: Range) -> Result<Vec<CommandRecord>, LogError> {
        let (reply, block) = oneshot::channel();
        self.send(Read::Commands(range, reply)).await?;
        block.await.map_err(|_| closed())?
    }

    async fn send(&self, read: Read) -> Result<(), LogError> {
        self.0.upgrade().ok_or_else(closed)?.send(read).await.map_err(|_| closed())
    }
}

fn serve(database: PathBuf, mut requests: mpsc::Receiver<Read>) {
    // A connection that gave an error is not used again.
    let mut connection: Option<Connection> = None;
    while let Some(read) = requests.blocking_recv() {
        match read {
            Read::Events(range, reply) => {
                drop(reply.send(with(&database, &mut connection, range, |connection| block(connection, range))));
            }
            Read::Commands(range, reply) => {
                drop(reply.send(with(&database, &mut connection, range, |connection| commands(connection, range))));
            }
        }
    }
}

fn with<T>(
    database: &std::path::Path,
    kept: &mut Option<Connection>,
    range: Range,
    read: impl FnOnce(&Connection) -> Result<T, LogError>,
) -> Result<T, LogError> {
    let connection = match kept.take() {
        Some(connection) => connection,
        None => connect(database, range)?,
    };
    let answer = read(&connection)?;
    *kept = Some(connection);
    Ok(answer)
}

fn connect(database: &std::path::Path, range: Range) -> Result<Connection, LogError> {
    schema::connect_reader(database).map_err(|error| record::read_error(range.partition, range.from, &error))
}

/// The first events of the range, if there are any.
pub(crate) fn block(connection: &Connection, range: Range) -> Result<Vec<Recorded>, LogError> {
    let mut first = Vec::new();
    scan(connection, range, |block| {
        first = block;
        false
    })?;
    Ok(first)
}

/// The first commands of the range, if there are any.
fn commands(connection: &Connection, range: Range) -> Result<Vec<CommandRecord>, LogError> {
    let failed = |error: rusqlite::Error| record::read_error(range.partition, range.from, &error);
    let mut statement = connection.prepare_cached(command::IN_RANGE).map_err(failed)?;
    let (from, until) = (position(range.partition, range.from), position(range.partition, range.until));
    let mut rows = statement.query((from, until, BLOCK_COMMANDS)).map_err(failed)?;
    let mut block = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        block.push(command::read(range.partition, row)?);
    }
    Ok(block)
}

/// Hands the events of a range to `take`, block by block, until it wants no more.
fn scan(connection: &Connection, range: Range, mut take: impl FnMut(Vec<Recorded>) -> bool) -> Result<(), LogError> {
    let mut at = range.from;
    let failed = |at, error: rusqlite::Error| record::read_error(range.partition, at, &error);
    let mut statement = connection.prepare_cached(record::IN_RANGE).map_err(|error| failed(at, error))?;
    let keys = (position(range.partition, range.from), position(range.partition, range.until));
    let mut rows = statement.query(keys).map_err(|error| failed(at, error))?;
    let (mut reader, mut block, mut bytes) = (Rows::default(), Vec::new(), 0);
    while let Some(row) = rows.next().map_err(|error| failed(at, error))? {
        let recorded = reader.read(row)?;
        at = recorded.offset;
        bytes += recorded.event.data.len();
        block.push(recorded);
        if block.len() >= BLOCK_EVENTS || bytes >= BLOCK_BYTES {
            bytes = 0;
            if !take(std::mem::take(&mut block)) {
                return Ok(());
            }
        }
    }
    if !block.is_empty() {
        take(block);
    }
    Ok(())
}

/// Reads a range on a thread of its own, some blocks ahead of whoever takes them. Dropping the receiver ends it.
pub(crate) fn scan_ahead(database: PathBuf, range: Range) -> mpsc::Receiver<Result<Vec<Recorded>, LogError>> {
    let (blocks, receiver) = mpsc::channel(BLOCKS_AHEAD);
    let failed = blocks.clone();
    let thread = thread::Builder::new().name("log replay".to_owned()).spawn(move || {
        let read = connect(&database, range)
            .and_then(|connection| scan(&connection, range, |block| blocks.blocking_send(Ok(block)).is_ok()));
        if let Err(error) = read {
            // Without a receiver nobody wants to know.
            drop(blocks.blocking_send(Err(error)));
        }
    });
    if let Err(error) = thread {
        let reason = format!("a thread for the replay cannot be started: {error}").into();
        // The channel is empty, so there is room; and the receiver is in hand.
        drop(failed.try_send(Err(LogError::Unavailable { reason })));
    }
    receiver
}
