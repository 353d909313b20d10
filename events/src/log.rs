//! The contract of the log (architecture §4). One suite (`tests/contract`) runs on every implementation.
//!
//! * One owner per partition: `claim` fences the previous one and appends `partition.claimed`, whose offset
//!   is the term.
//! * A batch is all or nothing. It carries events, the commands forwarded to other partitions, and the
//!   cursor behind the last command it consumed, so a command takes effect once and so does what it sends.
//! * Offsets grow and have gaps: every implementation leaves at least one unused after each batch.
//! * Readers see committed events only, in offset order.

use std::sync::Arc;

use futures::{
    FutureExt, StreamExt,
    channel::oneshot,
    future::BoxFuture,
    stream::{self, BoxStream},
};

use crate::{
    Answer, BatchId, ChainHash, Command, DeadLetter, Forward, LogId, NewAnswer, NewEvent, NodeId, Offset, PartitionId,
    Recorded, Term,
};

/// An event's payload may have this many bytes; a batch with a larger one is rejected.
pub const EVENT_BYTES_MAX: usize = 512 * 1024;

/// Whether the previous owner may still be at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predecessor {
    /// It cannot act any more (its process is known to be gone).
    Dead,
    /// It cannot append, but may still be calling a tool: steps are retried only after their `not_after`.
    MaybeAlive,
}

/// The right to append to a partition, until somebody else claims it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Which partition.
    pub partition: PartitionId,
    /// Which ownership.
    pub term: Term,
    /// Who owns.
    pub node: NodeId,
    /// What is known of the owner before.
    pub predecessor: Predecessor,
    /// How often a loss of events was accepted in this partition.
    pub losses: u32,
}

impl Lease {
    /// The offset of the claim: a replay up to and with it has seen everything before this ownership.
    #[must_use]
    pub fn claim_offset(&self) -> Offset {
        Offset(self.term.0)
    }
}

/// What is committed together.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Names the commit; a resend has the same id and the same content.
    pub id: BatchId,
    /// In order. Sequences continue their streams.
    pub events: Vec<NewEvent>,
    /// Commands for other partitions.
    pub forwards: Vec<Forward>,
    /// The offset behind the last command consumed, if any was.
    pub next_command: Option<Offset>,
    /// What the publishers of the commands are told.
    pub answers: Vec<NewAnswer>,
    /// Records of the command topic that are no commands, passed over by this batch.
    pub dead_letters: Vec<DeadLetter>,
}

impl Batch {
    /// A batch of events and nothing else.
    #[must_use]
    pub fn new(id: BatchId, events: Vec<NewEvent>) -> Self {
        Self { id, events, forwards: Vec::new(), next_command: None, answers: Vec::new(), dead_letters: Vec::new() }
    }

    /// Whether it would write nothing at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
            && self.forwards.is_empty()
            && self.next_command.is_none()
            && self.answers.is_empty()
            && self.dead_letters.is_empty()
    }

    /// Why no log of so many partitions may write this batch, if none may: its content is at fault.
    #[must_use]
    pub fn fault(&self, partitions: u32) -> Option<CommitOutcome> {
        if let Some(event) = self.events.iter().position(|event| event.data.len() > EVENT_BYTES_MAX) {
            let bytes = self.events[event].data.len();
            let reason = format!("the event has {bytes} bytes, at most {EVENT_BYTES_MAX} are allowed").into();
            return Some(CommitOutcome::Rejected { event: Some(event), reason });
        }
        let astray = self.forwards.iter().find(|forward| forward.partition.0 >= partitions)?;
        let reason = no_such_partition(astray.partition, partitions);
        Some(CommitOutcome::Rejected { event: None, reason })
    }
}

/// What a log of so many partitions says about one that it does not have.
#[must_use]
pub fn no_such_partition(partition: PartitionId, partitions: u32) -> Arc<str> {
    format!("there is no partition {partition}: this log has {partitions}, counted from 0").into()
}

/// Where a batch stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The offset of each event, in the batch's order.
    pub offsets: Vec<Offset>,
    /// The chain after each event, in the batch's order.
    pub chain: Vec<ChainHash>,
}

/// How a commit ended.
#[derive(Debug, Clone)]
pub enum CommitOutcome {
    /// Durable and visible.
    Committed(Committed),
    /// Somebody else owns the partition: nothing was written, nothing ever will be under this lease.
    Fenced,
    /// Nothing was written; the same batch may be sent again.
    Resend {
        /// Why.
        reason: Arc<str>,
    },
    /// It may or may not have been written: ask with `resolve`.
    Unknown {
        /// Why.
        reason: Arc<str>,
    },
    /// Nothing was written and the same batch never will be: its content is at fault.
    Rejected {
        /// The event that is at fault, by place in the batch, if one is.
        event: Option<usize>,
        /// Why.
        reason: Arc<str>,
    },
}

/// Why the log could not be read or claimed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LogError {
    /// The partition has another owner now.
    #[error("partition {partition} has another owner")]
    Fenced {
        /// Which.
        partition: PartitionId,
    },
    /// The log cannot be reached or used now; trying again later may help.
    #[error("the log is not available: {reason}")]
    Unavailable {
        /// What it said, and what to do.
        reason: Arc<str>,
    },
    /// Stored data is not what was written. Never skipped.
    #[error("the log is damaged in partition {partition} at offset {offset}: {reason}")]
    Damaged {
        /// Where.
        partition: PartitionId,
        /// Where in it.
        offset: Offset,
        /// What is wrong.
        reason: Arc<str>,
    },
    /// The reader asked for events that are not there: removed, or the position is another log's.
    #[error(
        "partition {partition} starts at offset {low} and has nothing at {wanted}: it was removed, or the position \
         belongs to another log"
    )]
    OutOfRange {
        /// Which.
        partition: PartitionId,
        /// What was asked for.
        wanted: Offset,
        /// What is there.
        low: Offset,
    },
}

/// A record of the command topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRecord {
    /// Where it waits.
    pub offset: Offset,
    /// What it is.
    pub arrival: Arrival,
}

/// See [`CommandRecord`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival {
    /// A command. Its stream may be another partition's: then it is forwarded, not decided.
    Command(Box<Command>),
    /// No command. It goes to the dead letters in the batch that passes over it.
    Poison(Box<DeadLetter>),
}

/// A change of what this process may own.
#[derive(Debug)]
pub enum Ownership {
    /// This process takes part. It may own nothing for now: that is told beside.
    Joined,
    /// The partition may be claimed.
    Granted(PartitionId),
    /// Another process is to have it: what is in flight may be finished, then `released` is dropped.
    Withdrawn {
        /// Which.
        partition: PartitionId,
        /// Kept until the partition is let go.
        released: Released,
    },
    /// Another process may have it already: nothing that is in flight counts.
    Lost(PartitionId),
}

/// Dropped when a withdrawn partition is let go.
#[derive(Debug)]
pub struct Released {
    _told: oneshot::Sender<()>,
}

impl Released {
    /// The mark, and what ends when it is dropped.
    #[must_use]
    pub fn new() -> (Self, BoxFuture<'static, ()>) {
        let (told, dropped) = oneshot::channel();
        (Self { _told: told }, dropped.map(|_| ()).boxed())
    }
}

/// Who owns a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Which partition.
    pub partition: PartitionId,
    /// Under which ownership.
    pub term: Term,
    /// Which node.
    pub node: NodeId,
    /// Where it serves HTTP, if it said.
    pub endpoint: Option<Arc<str>>,
}

/// The log. See the module for what it promises.
pub trait EventLog: Send + Sync {
    /// How many partitions; fixed for the log's life.
    fn partitions(&self) -> u32;

    /// Names the log.
    fn log_id(&self) -> LogId;

    /// Takes a partition from whoever had it.
    fn claim(&self, partition: PartitionId, node: NodeId) -> BoxFuture<'_, Result<Lease, LogError>>;

    /// The events at and after `from`, up to and with the lease's claim, then ends. A fence ends it with
    /// [`LogError::Fenced`].
    fn replay(&self, lease: &Lease, from: Offset) -> BoxStream<'static, Result<Recorded, LogError>>;

    /// Appends a batch, durably, or not at all.
    fn commit<'a>(&'a self, lease: &'a Lease, batch: &'a Batch) -> BoxFuture<'a, CommitOutcome>;

    /// Whether a batch whose outcome was [`CommitOutcome::Unknown`] was written. When this answers `None`,
    /// the batch is not there and never will come, so it may be sent again.
    fn resolve<'a>(&'a self, lease: &'a Lease, batch: BatchId) -> BoxFuture<'a, Result<Option<Committed>, LogError>>;

    /// The events at and after `from`, then those that come, for ever.
    fn tail(&self, partition: PartitionId, from: Offset) -> BoxStream<'static, Result<Recorded, LogError>>;

    /// The offset of the first event and the offset that the next one will at least have.
    fn bounds(&self, partition: PartitionId) -> BoxFuture<'_, Result<(Offset, Offset), LogError>>;

    /// The offset of the last event, if there is one: a reader that has seen it has seen everything that was
    /// there. Offsets have gaps, so this does not follow from [`EventLog::bounds`].
    fn last_event(&self, partition: PartitionId) -> BoxFuture<'_, Result<Option<Offset>, LogError>>;

    /// The commands at and after the owner's journaled cursor (0 before the first), then those that come,
    /// for ever.
    fn commands(&self, lease: &Lease) -> BoxStream<'static, Result<CommandRecord, LogError>>;

    /// Puts commands into their partitions from outside, durably.
    fn publish(&self, commands: Vec<Forward>) -> BoxFuture<'_, Result<(), LogError>>;

    /// The answers that are committed from now on, whoever they are for, for ever.
    fn answers(&self) -> BoxStream<'static, Result<Answer, LogError>>;

    /// Why the log cannot be used at present, if that is known without asking it: for readiness.
    fn trouble(&self) -> Option<Arc<str>> {
        None
    }

    /// Whether other processes own partitions of this log too. Then commands for their partitions go through
    /// the log, and so do the answers.
    fn is_shared(&self) -> bool {
        false
    }

    /// What this process may own, as it changes, for ever. A log that one process has to itself grants every
    /// partition at once and withdraws none. Dropping the stream lets go of everything.
    fn ownership(&self) -> BoxStream<'static, Ownership> {
        let all = (0..self.partitions()).map(|partition| Ownership::Granted(PartitionId(partition)));
        stream::iter(all.collect::<Vec<_>>()).chain(stream::pending()).boxed()
    }

    /// Who owns what, as far as it was said.
    fn owners(&self) -> BoxFuture<'_, Result<Vec<Owner>, LogError>>;

    /// Removes the commands that were taken, where a log keeps them for a while, and says with which each partition
    /// begins from now on. What was not taken yet stays.
    fn drop_taken_commands(&self) -> BoxFuture<'_, Result<Vec<(PartitionId, Offset)>, LogError>> {
        async { Ok(Vec::new()) }.boxed()
    }
}
