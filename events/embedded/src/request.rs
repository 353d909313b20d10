//! What the writer is asked, and how it answers once it knows whether the transaction is durable.

use std::{collections::BTreeSet, sync::Arc};

use reenact_events::{
    Batch, BatchId, CommitOutcome, Committed, Forward, Lease, LogError, NodeId, PartitionId, Predecessor, Timestamp,
    event::Loss,
};
use tokio::sync::oneshot;

use crate::ledger::{Ledger, Stop};

/// Where an answer goes, and the answer that holds if the transaction does.
pub(crate) struct Slot<T> {
    reply: oneshot::Sender<T>,
    answer: Option<T>,
}

impl<T> Slot<T> {
    /// A slot, and the end at which its answer arrives.
    pub(crate) fn new() -> (Self, oneshot::Receiver<T>) {
        let (reply, receiver) = oneshot::channel();
        (Self { reply, answer: None }, receiver)
    }

    fn give(self) {
        if let Some(answer) = self.answer {
            // Whoever asked may have left: then nobody is told, and what was done stays done.
            drop(self.reply.send(answer));
        }
    }

    fn fail(mut self, answer: T) {
        self.answer = Some(answer);
        self.give();
    }
}

/// One question. See [`reenact_events::EventLog`].
pub(crate) enum Request {
    Claim { claim: Claim, slot: Slot<Result<Lease, LogError>> },
    Commit { lease: Lease, batch: Batch, slot: Slot<CommitOutcome> },
    Resolve { lease: Lease, batch: BatchId, slot: Slot<Result<Option<Committed>, LogError>> },
    Publish { commands: Vec<Forward>, slot: Slot<Result<(), LogError>> },
}

/// Who takes which partition, and what is accepted to be lost with it.
pub(crate) struct Claim {
    pub(crate) partition: PartitionId,
    pub(crate) node: NodeId,
    pub(crate) at: Timestamp,
    pub(crate) accepts: Vec<Loss>,
}

/// Why a transaction did not become durable.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// Nothing of it was written.
    Unwritten(Arc<str>),
    /// It may or may not have been written.
    Unknown(Arc<str>),
    /// Nothing of it was written: what stands in this partition is not what was written there before.
    Damaged(PartitionId, LogError),
}

impl Failure {
    pub(crate) fn reason(&self) -> Arc<str> {
        match self {
            Self::Unwritten(reason) | Self::Unknown(reason) => reason.clone(),
            Self::Damaged(_, error) => error.to_string().into(),
        }
    }

    /// What it means to whoever asked about `partition`: where there is no damage, trying again may help.
    fn error(&self, partition: Option<PartitionId>) -> LogError {
        match self {
            Self::Damaged(damaged, error) if partition == Some(*damaged) => error.clone(),
            _ => LogError::Unavailable { reason: self.reason() },
        }
    }
}

impl Request {
    /// Does what is asked, inside a transaction. `claimed` holds the partitions that a lease of this process
    /// was given for.
    pub(crate) fn perform(&mut self, ledger: &mut Ledger<'_>, claimed: &mut BTreeSet<PartitionId>) -> Result<(), Stop> {
        match self {
            Self::Claim { claim: Claim { partition, node, at, accepts }, slot } => {
                slot.answer = Some(match ledger.check(*partition) {
                    Err(error) => Err(error),
                    Ok(()) => {
                        let first = claimed.insert(*partition);
                        let predecessor = if first { Predecessor::Dead } else { Predecessor::MaybeAlive };
                        Ok(ledger.claim(*partition, node.clone(), predecessor, *at, accepts.clone())?)
                    }
                });
            }
            Self::Commit { lease, batch, slot } => slot.answer = Some(ledger.commit(lease, batch)?),
            Self::Resolve { lease, batch, slot } => slot.answer = Some(ledger.resolve(lease, *batch)?),
            Self::Publish { commands, slot } => slot.answer = Some(ledger.publish(commands)?),
        }
        Ok(())
    }

    /// Which partition it is about; published commands may be for several.
    pub(crate) fn partition(&self) -> Option<PartitionId> {
        match self {
            Self::Claim { claim, .. } => Some(claim.partition),
            Self::Commit { lease, .. } | Self::Resolve { lease, .. } => Some(lease.partition),
            Self::Publish { commands, .. } => commands.first().map(|forward| forward.partition),
        }
    }

    /// The transaction is durable: the answer holds.
    pub(crate) fn give(self) {
        match self {
            Self::Claim { slot, .. } => slot.give(),
            Self::Commit { slot, .. } => slot.give(),
            Self::Resolve { slot, .. } => slot.give(),
            Self::Publish { slot, .. } => slot.give(),
        }
    }

    /// The transaction is not durable, or may not be.
    pub(crate) fn fail(self, failure: &Failure) {
        let error = failure.error(self.partition());
        match self {
            Self::Claim { slot, .. } => slot.fail(Err(error)),
            Self::Resolve { slot, .. } => slot.fail(Err(error)),
            Self::Publish { slot, .. } => slot.fail(Err(error)),
            Self::Commit { slot, .. } => slot.fail(match failure {
                Failure::Unwritten(reason) => CommitOutcome::Resend { reason: reason.clone() },
                Failure::Unknown(reason) => CommitOutcome::Unknown { reason: reason.clone() },
                Failure::Damaged(..) => CommitOutcome::Resend { reason: failure.reason() },
            }),
        }
    }

    /// About how many bytes this adds to the database.
    pub(crate) fn bytes(&self) -> u64 {
        const ROW_BYTES: usize = 256;
        let Self::Commit { batch, .. } = self else { return ROW_BYTES as u64 };
        batch.events.iter().map(|event| (event.data.len() + ROW_BYTES) as u64).sum()
    }
}
