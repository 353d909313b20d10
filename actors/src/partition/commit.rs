//! From proposals to a known outcome: what goes into a batch, and how long to ask when the log is unsure.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use reenact_events::{
    Answer, Batch, BatchId, Command, CommandId, CommitOutcome, Committed, DeadLetter, Event, EventLog, Forward, Lease,
    NewAnswer, NewEvent, Offset, Outcome, StreamKey, Timestamp, UserId, ids,
};
use reenact_snapshots::StoreError;
use tokio::sync::oneshot;

use crate::{
    answers::{self, Asker},
    api::{Refusal, SubmitError},
    shared::Shared,
    states::States,
};

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
    /// Commands for other streams that follow from them.
    pub sends: Vec<Forward>,
    /// The command that it settles, if that came from the log.
    pub settles: Option<Settles>,
    /// Told when they are committed and folded.
    pub reply: oneshot::Sender<Result<Receipt, ProposeError>>,
}

/// The command of the log that a proposal settles.
#[derive(Debug, Clone)]
pub struct Settles {
    /// Where it waits.
    pub offset: Offset,
    /// How it ends.
    pub settlement: Settlement,
}

/// See [`Settles`].
#[derive(Debug, Clone)]
pub enum Settlement {
    /// It was decided; its publisher is told, if it wants to be.
    Decided(Option<Box<Answer>>),
    /// Another partition decides it.
    Forwarded(Box<Forward>),
    /// It is no command.
    Dead(Box<DeadLetter>),
}

impl Settles {
    /// The same command, with which the log does not take something. Each time there is less of it, so that the cursor
    /// passes it in the end: nothing that a publisher sends may hold up those behind it.
    fn refused(self, reason: &Arc<str>) -> Self {
        let offset = self.offset;
        let settlement = match self.settlement {
            Settlement::Decided(Some(answer)) if answer.outcome != Outcome::Rejected => {
                Settlement::Decided(Some(too_large(answer.correlation_id, answer.command_id, reason)))
            }
            Settlement::Forwarded(forward) => {
                let Forward { partition, command: Command { id, reply_to, .. } } = *forward;
                tracing::error!(%offset, command = %id, %partition, %reason, "a command cannot be sent on: it is refused");
                Settlement::Decided(reply_to.map(|reply_to| too_large(reply_to.correlation_id, id, reason)))
            }
            Settlement::Dead(letter) if letter.value.is_some() => {
                let bytes = letter.value.as_ref().map_or(0, Vec::len);
                let reason =
                    format!("{}; its value of {bytes} bytes is not kept here ({reason})", letter.reason).into();
                Settlement::Dead(Box::new(DeadLetter { value: None, reason, ..*letter }))
            }
            Settlement::Dead(letter) if letter.key.is_some() || !letter.headers.is_empty() => {
                let reason = format!("{}, and neither are its key and headers", letter.reason).into();
                Settlement::Dead(Box::new(DeadLetter { key: None, headers: Vec::new(), reason, ..*letter }))
            }
            Settlement::Dead(_) | Settlement::Decided(_) => {
                tracing::error!(%offset, %reason, "a command is passed over, and nobody can be told");
                Settlement::Decided(None)
            }
        };
        Self { offset, settlement }
    }
}

fn too_large(correlation_id: Arc<str>, command_id: CommandId, reason: &Arc<str>) -> Box<Answer> {
    let error = SubmitError::from(Refusal::TooLarge(reason.clone()));
    Box::new(answers::rejected(&Asker { correlation_id, command_id }, &error))
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
    /// The command is asked again, after one before it.
    #[error("a command before this one is asked again")]
    OutOfTurn,
    /// The partition is lost; whether they were committed is told by the next owner's replay.
    #[error("the partition was lost")]
    Lost,
}

impl ProposeError {
    /// What whoever asked is told.
    ///
    /// # Errors
    /// When nobody can be told: the partition is lost.
    pub fn told(self) -> Result<SubmitError, Self> {
        match self {
            Self::Rejected(reason) => Ok(Refusal::TooLarge(reason).into()),
            Self::OutOfTurn => Ok(SubmitError::Unavailable { reason: self.to_string().into() }),
            Self::Lost => Err(self),
        }
    }
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

/// Where a batch is written, and what was written before it.
pub(super) struct Slot<'a> {
    pub(super) states: &'a States,
    pub(super) lease: &'a Lease,
    /// How many batches there were under this lease.
    pub(super) number: u64,
    /// The last offset that was written.
    pub(super) known: Offset,
    /// One proposal only.
    pub(super) alone: bool,
}

/// Takes proposals into a batch, in order, up to the bounds; at least one, whatever its size.
pub(super) fn fill(pending: &mut VecDeque<Proposal>, slot: &Slot<'_>) -> Result<InFlight, StoreError> {
    let mut batch = Batch::new(batch_id(slot.lease, slot.number), Vec::new());
    let mut heads: BTreeMap<StreamKey, u64> = BTreeMap::new();
    let (mut bytes, mut proposals) = (0, Vec::new());
    while let Some(proposal) = pending.pop_front() {
        if !proposal.events.is_empty() {
            let head = match heads.get(&proposal.key) {
                Some(head) => *head,
                None => slot.states.next_seq(&proposal.key)?,
            };
            bytes += write(&proposal, head, &mut batch.events)?;
            heads.insert(proposal.key.clone(), head + proposal.events.len() as u64);
        }
        batch.forwards.extend(proposal.sends.iter().cloned());
        if let Some(settles) = &proposal.settles {
            settle(settles, !proposal.events.is_empty(), slot.known, &mut batch);
        }
        proposals.push(proposal);
        if slot.alone || batch.events.len() >= BATCH_EVENTS_MAX || bytes >= BATCH_BYTES_MAX {
            break;
        }
    }
    Ok(InFlight { batch: Arc::new(batch), proposals })
}

/// Puts the proposal's events behind the batch's; how many bytes they have.
fn write(proposal: &Proposal, mut head: u64, events: &mut Vec<NewEvent>) -> Result<usize, StoreError> {
    let mut bytes = 0;
    for event in &proposal.events {
        let (cause, owner) = (proposal.cause.clone(), proposal.owner.clone());
        let event = NewEvent::new(proposal.key.clone(), head, proposal.at, cause, owner, event)
            .map_err(|error| StoreError::new(format!("an event cannot be written as JSON: {error}")))?;
        bytes += event.data.len();
        head += 1;
        events.push(event);
    }
    Ok(bytes)
}

/// Moves the cursor behind the command and does with it what is to be done. Its events, if it made any
/// (`acts`), are the batch's last.
fn settle(settles: &Settles, acts: bool, known: Offset, batch: &mut Batch) {
    batch.next_command = batch.next_command.max(Some(settles.offset.next()));
    match &settles.settlement {
        Settlement::Decided(None) => {}
        Settlement::Decided(Some(answer)) => {
            let event = if acts { batch.events.len().checked_sub(1) } else { None };
            batch.answers.push(NewAnswer { answer: (**answer).clone(), event, known });
        }
        Settlement::Forwarded(forward) => batch.forwards.push((**forward).clone()),
        Settlement::Dead(letter) => batch.dead_letters.push((**letter).clone()),
    }
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

/// What settles the command of a proposal that the log does not take, in its place.
pub(super) fn bare(settles: Settles, key: StreamKey, at: Timestamp) -> Proposal {
    let (reply, _nobody) = oneshot::channel();
    Proposal { key, owner: None, cause: None, at, events: Vec::new(), sends: Vec::new(), settles: Some(settles), reply }
}

/// The proposal is refused for good. What is left to do in its place: its command is settled all the same, so
/// that the cursor does not pass it without an answer.
pub(super) fn refuse(refused: Proposal, reason: Arc<str>) -> Option<Proposal> {
    let Proposal { key, at, settles, reply, .. } = refused;
    let instead = settles.map(|settles| bare(settles.refused(&reason), key, at));
    // The proposer may have died.
    reply.send(Err(ProposeError::Rejected(reason))).unwrap_or_default();
    instead
}

/// Which proposal holds the event at a place of the batch.
pub(super) fn owner_of(proposals: &[Proposal], event: usize) -> Option<usize> {
    let mut end = 0;
    proposals.iter().position(|proposal| {
        end += proposal.events.len();
        event < end
    })
}
