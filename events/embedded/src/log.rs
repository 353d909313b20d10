//! The handle: sends requests to the writer and opens streams.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use reenact_events::{
    Answer, Batch, BatchId, Clock, CommandRecord, CommitOutcome, Committed, EventLog, Forward, Lease, LogError, LogId,
    NodeId, Offset, Owner, PartitionId, Recorded, event::Loss, log::no_such_partition,
};
use tokio::sync::{broadcast, mpsc};

use crate::{
    Durability, OpenError, Options, Reader,
    directory::{Directory, io_error},
    open::{self, Existing},
    readers::Readers,
    request::{Claim, Request, Slot},
    schema::Identity,
    streams,
    view::{Views, closed},
    writer::{QUEUE_MAX, Writer},
};

/// A log on local disk. Clones are handles to the same one; the last that goes closes it, and waits until it
/// is closed.
#[derive(Clone)]
pub struct EmbeddedLog {
    inner: Arc<Inner>,
}

struct Inner {
    identity: Identity,
    clock: Arc<dyn Clock>,
    database: std::path::PathBuf,
    views: Vec<Views>,
    /// `None` only while closing.
    requests: Option<mpsc::Sender<Request>>,
    readers: Option<Readers>,
    writer: Option<thread::JoinHandle<()>>,
    answers: broadcast::Sender<Answer>,
    owners: Mutex<BTreeMap<PartitionId, Owner>>,
}

/// Answers that a slow listener may be behind.
const ANSWERS_KEPT: usize = 1_024;

impl Drop for Inner {
    fn drop(&mut self) {
        // The readers first, so that the writer's connection is the last one, and its close tidies the files.
        self.readers.take();
        self.requests.take();
        if self.writer.take().is_some_and(|writer| writer.join().is_err()) {
            tracing::error!("the writer of the log had panicked");
        }
    }
}

impl EmbeddedLog {
    /// Opens the log in a directory, creating both if need be.
    ///
    /// # Errors
    /// When the directory is in use, the file is another program's, damaged or of a newer format, the disk is
    /// full or may not be written, or the number of partitions is not the stored one.
    pub fn open(directory: &Path, options: Options) -> Result<Self, OpenError> {
        let locked = Directory::lock(directory)?;
        let database = locked.database.clone();
        let opened = open::open(&locked, &options, Existing::Optional)?;
        if options.durability == Durability::Relaxed {
            tracing::warn!(file = %database.display(), "relaxed durability: a power cut may take back the last commits");
        }
        let (identity, clock) = (opened.identity, options.clock.clone());
        let writer = Writer::new(locked, options, opened);
        let views = writer.views();
        let readers = Readers::start(&database).map_err(|error| io_error(&database, error))?;
        let (requests, queue) = mpsc::channel(QUEUE_MAX);
        let thread = thread::Builder::new().name("log writer".to_owned()).spawn(move || writer.run(queue));
        let writer = Some(thread.map_err(|error| io_error(&database, error))?);
        let (requests, readers) = (Some(requests), Some(readers));
        let (answers, owners) = (broadcast::channel(ANSWERS_KEPT).0, Mutex::default());
        let inner = Inner { identity, clock, database, views, requests, readers, writer, answers, owners };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Claims a partition, and accepts with it that something is lost: with no losses, a claim like any other. The
    /// commands that wait then are passed over, since some of them may have been taken before.
    ///
    /// # Errors
    /// As a claim has.
    pub async fn accept(&self, partition: PartitionId, node: NodeId, accepts: Vec<Loss>) -> Result<Lease, LogError> {
        let claim = Claim { partition, node, at: self.inner.clock.now(), accepts };
        let lease = self.ask(|slot| Request::Claim { claim, slot }).await.or_closed()?;
        let owner = Owner { partition, term: lease.term, node: lease.node.clone(), endpoint: None };
        self.inner.owners.lock().unwrap_or_else(PoisonError::into_inner).insert(partition, owner);
        Ok(lease)
    }

    /// Tells the answers of a batch to whoever listens in this process: nobody else can have asked.
    fn tell(&self, lease: &Lease, batch: &Batch, committed: &Committed) {
        for answer in &batch.answers {
            let placed = answer.placed(self.inner.identity.log_id, lease.partition, committed);
            if self.inner.answers.send(placed).is_err() {
                tracing::debug!("nobody listens for the answer");
            }
        }
    }

    /// Sends a request and waits for its answer; `None` when the writer is gone.
    async fn ask<T>(&self, request: impl FnOnce(Slot<T>) -> Request) -> Asked<T> {
        let (slot, answer) = Slot::new();
        let sent = match &self.inner.requests {
            Some(requests) => requests.send(request(slot)).await.is_ok(),
            None => false,
        };
        if !sent {
            return Asked::Unsent;
        }
        answer.await.map_or(Asked::Unanswered, Asked::Answered)
    }

    fn views(&self, partition: PartitionId) -> Result<Views, LogError> {
        let unknown = || LogError::Unavailable { reason: no_such_partition(partition, self.inner.identity.partitions) };
        self.inner.views.get(partition.0 as usize).cloned().ok_or_else(unknown)
    }

    /// Where a stream of this partition reads, and what it follows.
    fn door(&self, partition: PartitionId) -> Result<(crate::readers::Door, Views), LogError> {
        let views = self.views(partition)?;
        let readers = self.inner.readers.as_ref().ok_or_else(closed)?;
        Ok((readers.door(partition), views))
    }
}

/// How asking the writer ended.
enum Asked<T> {
    Answered(T),
    /// The writer is gone, and never saw the request.
    Unsent,
    /// The writer ended with the request in hand.
    Unanswered,
}

impl<T> Asked<Result<T, LogError>> {
    fn or_closed(self) -> Result<T, LogError> {
        match self {
            Self::Answered(answer) => answer,
            Self::Unsent | Self::Unanswered => Err(closed()),
        }
    }
}

impl EventLog for EmbeddedLog {
    fn partitions(&self) -> u32 {
        self.inner.identity.partitions
    }

    fn log_id(&self) -> LogId {
        self.inner.identity.log_id
    }

    fn claim(&self, partition: PartitionId, node: NodeId) -> BoxFuture<'_, Result<Lease, LogError>> {
        self.accept(partition, node, Vec::new()).boxed()
    }

    fn replay(&self, lease: &Lease, from: Offset) -> BoxStream<'static, Result<Recorded, LogError>> {
        match self.views(lease.partition) {
            Ok(views) => streams::replay(self.inner.database.clone(), views, lease.clone(), from),
            Err(error) => streams::failed(error),
        }
    }

    fn commit<'a>(&'a self, lease: &'a Lease, batch: &'a Batch) -> BoxFuture<'a, CommitOutcome> {
        async move {
            let sent = (lease.clone(), batch.clone());
            match self.ask(|slot| Request::Commit { lease: sent.0, batch: sent.1, slot }).await {
                Asked::Answered(outcome) => {
                    if let CommitOutcome::Committed(committed) = &outcome {
                        self.tell(lease, batch, committed);
                    }
                    outcome
                }
                Asked::Unsent => CommitOutcome::Resend { reason: "the log was closed".into() },
                Asked::Unanswered => CommitOutcome::Unknown { reason: "the log ended before it answered".into() },
            }
        }
        .boxed()
    }

    fn resolve<'a>(&'a self, lease: &'a Lease, batch: BatchId) -> BoxFuture<'a, Result<Option<Committed>, LogError>> {
        async move {
            let lease = lease.clone();
            self.ask(|slot| Request::Resolve { lease, batch, slot }).await.or_closed()
        }
        .boxed()
    }

    fn tail(&self, partition: PartitionId, from: Offset) -> BoxStream<'static, Result<Recorded, LogError>> {
        match self.door(partition) {
            Ok((door, views)) => streams::tail(door, views, partition, from),
            Err(error) => streams::failed(error),
        }
    }

    fn bounds(&self, partition: PartitionId) -> BoxFuture<'_, Result<(Offset, Offset), LogError>> {
        let bounds = self.views(partition).map(|views| (Offset(0), views.borrow().next));
        async move { bounds }.boxed()
    }

    fn last_event(&self, partition: PartitionId) -> BoxFuture<'_, Result<Option<Offset>, LogError>> {
        async move {
            self.views(partition)?;
            let directory = self.inner.database.parent().map(Path::to_owned).unwrap_or_default();
            let unavailable = |error: String| LogError::Unavailable { reason: error.into() };
            let read = tokio::task::spawn_blocking(move || {
                Reader::open(&directory).map_err(|error| unavailable(error.to_string()))?.last(partition)
            });
            read.await.map_err(|error| unavailable(error.to_string()))?
        }
        .boxed()
    }

    fn commands(&self, lease: &Lease) -> BoxStream<'static, Result<CommandRecord, LogError>> {
        match self.door(lease.partition) {
            Ok((door, views)) => streams::commands(door, views, lease.clone()),
            Err(error) => streams::failed(error),
        }
    }

    fn publish(&self, commands: Vec<Forward>) -> BoxFuture<'_, Result<(), LogError>> {
        async move { self.ask(|slot| Request::Publish { commands, slot }).await.or_closed() }.boxed()
    }

    fn answers(&self) -> BoxStream<'static, Result<Answer, LogError>> {
        let listener = self.inner.answers.subscribe();
        stream::unfold(listener, |mut listener| async move {
            loop {
                match listener.recv().await {
                    Ok(answer) => return Some((Ok(answer), listener)),
                    Err(broadcast::error::RecvError::Closed) => return None,
                    Err(broadcast::error::RecvError::Lagged(missed)) => {
                        tracing::warn!(missed, "a listener was too slow for the answers");
                    }
                }
            }
        })
        .boxed()
    }

    fn owners(&self) -> BoxFuture<'_, Result<Vec<Owner>, LogError>> {
        let owners = self.inner.owners.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        async move { Ok(owners) }.boxed()
    }
}
