//! From proposals to a known outcome: what goes into a batch, and how long to ask when the log is unsure.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use reenact_events::{
    Batch, BatchId, CommandId, CommitOutcome, Committed, Event, EventLog, Lease, NewEvent, Offset, StreamKey,
    Timestamp, UserId, ids,
};
use reenact_snapshots::StoreError;
use tokio::sync::oneshot;

use crate::{shared::Shared, states::States};

/// A batch is closed at so many events,
const BATCH_EVENTS_MAX: usize = 500;
/// or at so many bytes of payload.
const BATCH_BYTES_MAX: usize = 512 * 1024;
/// Pauses between tries of an unsure log, milliseconds: doubling from the first to the last.
const RETRY_MS: (u64, u64) = (10, 1_000);

/// Events that an entity decided, to be committed all or nothing.
#[derive(Debug)]
pub struct Proposal {
    /// The stream.
    pub key: StreamKey,
    /// Whose.
    pub owner: Option<UserId>,
    /// The command that made them.
    pub cause: Option<CommandId>,
    /// The moment they were decided at.
    pub at: Timestamp,
    /// In order.
    pub events: Vec<Event>,
    /// The command's place in the log of commands, if it came from there.
    pub consumed: Option<Offset>,
    /// Told when they are committed and folded.
    pub reply: oneshot::Sender<Result<Receipt, ProposeError>>,
}

/// The events are durable and folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// The last event's offset, or the last known one when there were none.
    pub offset: Offset,
}

/// The events were not committed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// The log refuses them for good.
    #[error("the log refuses the event: {0}")]
    Rejected(Arc<str>),
    /// The partition is lost; whether they were committed is told by the next owner's replay.
    #[error("the partition was lost")]
    Lost,
}

/// What is being committed.
pub(super) struct InFlight {
    pub(super) batch: Arc<Batch>,
    pub(super) proposals: Vec<Proposal>,
}

/// How a commit ended, once it is known.
#[derive(Debug)]
pub(super) enum Known {
    Committed(Committed),
    Rejected { event: Option<usize>, reason: Arc<str> },
    Lost(String),
}

/// Takes proposals into a batch, in order, up to the bounds; at least one, whatever its size.
pub(super) fn fill(
    pending: &mut std::collections::VecDeque<Proposal>,
    states: &States,
    lease: &Lease,
    number: u64,
    alone: bool,
) -> Result<InFlight, StoreError> {
    let mut taken =
        InFlight { batch: Arc::new(Batch::new(batch_id(lease, number), Vec::new())), proposals: Vec::new() };
    let mut heads: BTreeMap<StreamKey, u64> = BTreeMap::new();
    let (mut events, mut bytes, mut next_command) = (Vec::new(), 0, None);
    while let Some(proposal) = pending.pop_front() {
        let mut head = match heads.get(&proposal.key) {
            Some(head) => *head,
            None => states.next_seq(&proposal.key)?,
        };
        for event in &proposal.events {
            let (cause, owner) = (proposal.cause.clone(), proposal.owner.clone());
            let event = NewEvent::new(proposal.key.clone(), head, proposal.at, cause, owner, event)
                .map_err(|error| StoreError::new(format!("an event cannot be written as JSON: {error}")))?;
            bytes += event.data.len();
            head += 1;
            events.push(event);
        }
        heads.insert(proposal.key.clone(), head);
        next_command = next_command.max(proposal.consumed.map(Offset::next));
        taken.proposals.push(proposal);
        if alone || events.len() >= BATCH_EVENTS_MAX || bytes >= BATCH_BYTES_MAX {
            break;
        }
    }
    taken.batch = Arc::new(Batch { next_command, ..Batch::new(taken.batch.id, events) });
    Ok(taken)
}

fn batch_id(lease: &Lease, number: u64) -> BatchId {
    let parts = [lease.partition.to_string(), lease.term.to_string(), number.to_string()];
    BatchId(ids::derived("batch", &[&parts[0], &parts[1], &parts[2]]))
}

/// Commits, and asks again until the outcome is known. Waits as long as the log is unavailable: readiness
/// says so meanwhile, and nothing is answered.
pub(super) async fn commit(shared: &Shared, log: &dyn EventLog, lease: &Lease, batch: &Batch) -> Known {
    let mut pause_ms = RETRY_MS.0;
    loop {
        let trouble = match log.commit(lease, batch).await {
            CommitOutcome::Committed(committed) => {
                shared.trouble(lease.partition, None);
                return Known::Committed(committed);
            }
            CommitOutcome::Fenced => return Known::Lost("another owner has taken the partition".to_owned()),
            CommitOutcome::Rejected { event, reason } => return Known::Rejected { event, reason },
            CommitOutcome::Resend { reason } => reason,
            CommitOutcome::Unknown { reason } => match log.resolve(lease, batch.id).await {
                Ok(Some(committed)) => return Known::Committed(committed),
                Ok(None) => reason,
                // Only a new claim tells what became of the batch.
                Err(error) => return Known::Lost(error.to_string()),
            },
        };
        shared.trouble(lease.partition, Some(format!("the log does not take events: {trouble}")));
        tracing::warn!(partition = lease.partition.0, %trouble, pause_ms, "the log did not take a batch, sending it again");
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        pause_ms = (pause_ms * 2).min(RETRY_MS.1);
    }
}

/// Which proposal holds the event at a place of the batch.
pub(super) fn owner_of(proposals: &[Proposal], event: usize) -> Option<usize> {
    let mut end = 0;
    proposals.iter().position(|proposal| {
        end += proposal.events.len();
        event < end
    })
}
