//! Threads that read: short blocks for the streams that follow, and one long scan for a replay. Each has its
//! own connection, so nothing waits for the writer.

use std::{path::PathBuf, thread};

use reenact_events::{CommandRecord, LogError, Offset, PartitionId};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::{
    block::Block,
    command,
    record::{self, position},
    schema,
    view::closed,
};

/// So many threads share the short reads.
const THREADS: usize = 2;

/// A block has at most so many events.
const BLOCK_EVENTS: usize = 256;

/// A block has at most so many commands.
const BLOCK_COMMANDS: i64 = 256;

/// A block is closed when its texts have so many bytes.
const BLOCK_BYTES: usize = 256 * 1024;

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
    Events(Range, oneshot::Sender<Result<Block, LogError>>),
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
    pub(crate) async fn events(&self, range: Range) -> Result<Block, LogError> {
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

fn connect_mapped(database: &std::path::Path, range: Range) -> Result<Connection, LogError> {
    let connection = connect(database, range)?;
    schema::map(&connection).map_err(|error| record::read_error(range.partition, range.from, &error))?;
    Ok(connection)
}

/// The first events of the range, if there are any.
pub(crate) fn block(connection: &Connection, range: Range) -> Result<Block, LogError> {
    let mut first = Block::default();
    let scanned = scan(connection, range, |block| {
        first = block;
        false
    });
    // What comes before damage can be read; the damage is met by whoever asks for what follows.
    if first.rows() == 0 { scanned.map(|()| first) } else { Ok(first) }
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
fn scan(connection: &Connection, range: Range, mut take: impl FnMut(Block) -> bool) -> Result<(), LogError> {
    let mut block = Block::default();
    let scanned = scan_rows(connection, range, &mut block, &mut take);
    if block.rows() > 0 {
        take(block);
    }
    scanned
}

/// Leaves the last block, which is not full, in `block`.
fn scan_rows(
    connection: &Connection,
    range: Range,
    block: &mut Block,
    take: &mut impl FnMut(Block) -> bool,
) -> Result<(), LogError> {
    let mut at = range.from;
    let failed = |at, error: rusqlite::Error| record::read_error(range.partition, at, &error);
    let mut statement = connection.prepare_cached(record::IN_RANGE).map_err(|error| failed(at, error))?;
    let keys = (position(range.partition, range.from), position(range.partition, range.until));
    let mut rows = statement.query(keys).map_err(|error| failed(at, error))?;
    while let Some(row) = rows.next().map_err(|error| failed(at, error))? {
        at = block.push(row)?;
        if (block.rows() >= BLOCK_EVENTS || block.bytes() >= BLOCK_BYTES) && !take(block.take()) {
            return Ok(());
        }
    }
    Ok(())
}

/// Reads a range on a thread of its own, some blocks ahead of whoever takes them. Dropping the receiver ends it.
pub(crate) fn scan_ahead(database: PathBuf, range: Range) -> mpsc::Receiver<Result<Block, LogError>> {
    let (blocks, receiver) = mpsc::channel(BLOCKS_AHEAD);
    let failed = blocks.clone();
    let thread = thread::Builder::new().name("log replay".to_owned()).spawn(move || {
        let read = connect_mapped(&database, range)
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
