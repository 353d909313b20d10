//! What can go wrong in a memory log, and the hook that a test or a simulation hangs in to make it happen.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::{Batch, PartitionId};

/// What happens to one commit instead of its plain success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The batch is written, the answer is lost.
    UnknownApplied,
    /// The batch is lost, and so is the answer.
    UnknownLost,
    /// The answer is lost and the batch is on its way: it is written at the how-many-eth later operation on
    /// this log, unless `resolve` or a claim has settled that it never will.
    UnknownLate {
        /// How many operations later; 1 is the next one.
        operations: u32,
    },
    /// The lease is void from here on, though nobody else has claimed yet.
    Fenced,
    /// The batch is refused for now.
    Resend,
    /// The batch is refused for good.
    Rejected,
    /// The process ends before the batch is durable: the commit never answers and nothing was written.
    CrashBefore,
    /// The process ends after the batch is durable: the commit never answers and the batch was written.
    CrashAfter,
}

/// What a process is doing with the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Taking a partition.
    Claim(PartitionId),
    /// Sending a batch.
    Commit(PartitionId),
    /// Waiting for a commit's answer: the batch is already durable.
    Answer(PartitionId),
    /// Asking what became of a batch.
    Resolve(PartitionId),
    /// Asking where the log begins and ends.
    Bounds(PartitionId),
    /// Opening a replay.
    Replay(PartitionId),
    /// Reading the next event of a tail.
    Tail(PartitionId),
    /// Reading the next command.
    Commands(PartitionId),
    /// Putting commands into the log.
    Publish,
}

/// Decides what goes wrong. Every method has a default that lets all go well.
pub trait Faults: Send + Sync {
    /// Asked once for every commit that reaches the log under a valid lease.
    fn on_commit(&self, partition: PartitionId, batch: &Batch) -> Option<Fault> {
        let _unused = (partition, batch);
        None
    }

    /// How long an operation takes, for example a sleep on a simulation's virtual clock.
    fn delay(&self, operation: Operation) -> Option<BoxFuture<'static, ()>> {
        let _unused = operation;
        None
    }

    /// Why the log cannot be reached now, if it cannot. Not asked for commits: those have [`Fault::Resend`].
    fn unavailable(&self, operation: Operation) -> Option<Arc<str>> {
        let _unused = operation;
        None
    }

    /// A crash that [`Faults::on_commit`] asked for has happened: whoever runs the world drops it now.
    fn crashed(&self) {}
}

/// Lets all go well.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFaults;

impl Faults for NoFaults {}
