//! A partition's actor: routes commands to its sessions, gathers their proposals into batches, folds what
//! was committed, and only then answers.
//!
//! One commit is in flight at a time; what is proposed meanwhile goes into the next batch (group commit). A
//! fault of the log or the store ends this actor, and the node restores the partition anew: everything that
//! the actors below knew is in the log.

mod commit;
mod helpers;
mod restore;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use reenact_events::{Command, Event, Lease, Offset, SessionId};
use reenact_snapshots::{Position, StoreError};
use tokio::{sync::oneshot, task::AbortHandle};

use crate::{
    api::{Accepted, SubmitError},
    session_actor::{SessionActor, SessionMessage, SessionSeed},
    shared::Shared,
    states::{Fact, States},
};

pub use commit::{Proposal, ProposeError, Receipt};
pub use restore::{RestoreError, Restored, restore};

/// What a partition's actor is told.
pub enum PartitionMessage {
    /// Decide a command.
    Submit(Submission),
    /// Commit events.
    Propose(Proposal),
    /// Tell when everything proposed so far is committed.
    Barrier(oneshot::Sender<()>),
    /// A waiting session may begin a run.
    Admit(SessionId),
    /// Let go of sessions that are idle.
    Sweep,
    /// The state store cannot be used any more: the partition is restored anew.
    StoreFailed(StoreError),
    #[doc(hidden)]
    CommitEnded(CommitEnded),
}

/// A command on its way.
#[derive(Debug)]
pub struct Submission {
    /// What is asked.
    pub command: Command,
    /// Its place in the log of commands, if it came from there.
    pub consumed: Option<Offset>,
    /// Told when it is durable, or refused.
    pub reply: oneshot::Sender<Result<Accepted, SubmitError>>,
}

#[doc(hidden)]
pub struct CommitEnded(commit::Known);

/// What the sessions and runs of a partition have in common.
#[derive(Clone)]
pub struct Partition {
    /// The node's.
    pub shared: Arc<Shared>,
    /// The right to append.
    pub lease: Lease,
    /// The current states.
    pub states: Arc<States>,
    /// The partition's actor.
    pub actor: ActorRef<PartitionMessage>,
}

impl Partition {
    /// Commits events and waits until they are durable and folded.
    ///
    /// # Errors
    /// When the log refuses them, or the partition is lost.
    pub async fn propose(
        &self,
        build: impl FnOnce(oneshot::Sender<Result<Receipt, ProposeError>>) -> Proposal,
    ) -> Result<Receipt, ProposeError> {
        let (reply, answer) = oneshot::channel();
        self.actor.cast(PartitionMessage::Propose(build(reply))).map_err(|_| ProposeError::Lost)?;
        answer.await.unwrap_or(Err(ProposeError::Lost))
    }

    /// Waits until everything that was proposed before is committed and folded.
    pub async fn barrier(&self) {
        let (reply, answer) = oneshot::channel();
        if self.actor.cast(PartitionMessage::Barrier(reply)).is_ok() {
            // A dropped barrier means that the partition is gone, and the waiter with it.
            answer.await.unwrap_or_default();
        }
    }
}

/// How busy a session's actor is, so that it is let go only when nothing can be lost.
#[derive(Debug, Default)]
pub struct Gauge {
    /// Messages routed to it and not handled yet.
    pub pending: AtomicU32,
    /// It has runs at work or waiting.
    pub busy: AtomicBool,
}

struct Place {
    actor: ActorRef<SessionMessage>,
    gauge: Arc<Gauge>,
    used_at: tokio::time::Instant,
}

enum After {
    Tell(oneshot::Sender<()>),
    Restart(SessionId),
}

/// See the module.
pub struct PartitionActor {
    /// The node's.
    pub shared: Arc<Shared>,
}

/// What the actor knows.
pub struct PartitionState {
    partition: Partition,
    position: Position,
    sessions: BTreeMap<SessionId, Place>,
    crashes: BTreeMap<SessionId, u32>,
    held: BTreeMap<SessionId, Vec<SessionMessage>>,
    pending: VecDeque<Proposal>,
    one_by_one: usize,
    in_flight: Option<commit::InFlight>,
    batches: u64,
    proposed: u64,
    settled: u64,
    after: VecDeque<(u64, After)>,
    helpers: Vec<AbortOnDrop>,
    committing: Option<AbortOnDrop>,
}

/// A task that ends with its owner.
pub(crate) struct AbortOnDrop(pub(crate) AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Actor for PartitionActor {
    type Msg = PartitionMessage;
    type State = PartitionState;
    type Arguments = Restored;

    async fn pre_start(
        &self,
        myself: ActorRef<PartitionMessage>,
        restored: Restored,
    ) -> Result<PartitionState, ActorProcessingErr> {
        let Restored { lease, states, position } = restored;
        // Sessions that are restored below may be called at once.
        self.shared.arrived(lease.partition, myself.clone(), states.clone());
        let partition = Partition { shared: self.shared.clone(), lease, states, actor: myself.clone() };
        let helpers = vec![helpers::sweeper(&self.shared, myself.clone()), helpers::command_pump(&partition)];
        let mut state = PartitionState {
            partition,
            position,
            sessions: BTreeMap::new(),
            crashes: BTreeMap::new(),
            held: BTreeMap::new(),
            pending: VecDeque::new(),
            one_by_one: 0,
            in_flight: None,
            batches: 0,
            proposed: 0,
            settled: 0,
            after: VecDeque::new(),
            helpers,
            committing: None,
        };
        for (session, waiting) in state.partition.states.open_sessions()? {
            tracing::debug!(%session, waiting, "resuming a session");
            state.route(session, SessionMessage::Restore).await?;
        }
        Ok(state)
    }

    async fn handle(
        &self,
        _: ActorRef<PartitionMessage>,
        message: PartitionMessage,
        state: &mut PartitionState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            PartitionMessage::Submit(submission) => {
                let Some(session) = submission.command.body.session_id().cloned() else { return Ok(()) };
                state.route(session, SessionMessage::Submit(submission)).await?;
            }
            PartitionMessage::Propose(proposal) => {
                state.proposed += 1;
                state.pending.push_back(proposal);
                state.commit_next()?;
            }
            PartitionMessage::Barrier(reply) => {
                state.after.push_back((state.proposed, After::Tell(reply)));
                state.run_after().await?;
            }
            PartitionMessage::Admit(session) => state.route(session, SessionMessage::Admit).await?,
            PartitionMessage::Sweep => state.sweep(),
            PartitionMessage::StoreFailed(error) => return Err(error.into()),
            PartitionMessage::CommitEnded(CommitEnded(known)) => {
                state.commit_ended(known)?;
                state.commit_next()?;
                state.run_after().await?;
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<PartitionMessage>,
        event: SupervisionEvent,
        state: &mut PartitionState,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(cell, error) = event {
            if error.is::<StoreError>() {
                // No session's fault: what they all read is broken.
                return Err(error);
            }
            let failed = state.sessions.iter().find(|(_, place)| place.actor.get_id() == cell.get_id());
            let Some(session) = failed.map(|(session, _)| session.clone()) else { return Ok(()) };
            tracing::error!(%session, %error, "a session's actor failed, it is restarted from state");
            state.sessions.remove(&session);
            state.held.entry(session.clone()).or_default();
            state.after.push_back((state.proposed, After::Restart(session)));
            state.run_after().await?;
        }
        Ok(())
    }
}

impl PartitionState {
    async fn route(&mut self, session: SessionId, message: SessionMessage) -> Result<(), ActorProcessingErr> {
        if let Some(held) = self.held.get_mut(&session) {
            held.push(message);
            return Ok(());
        }
        if !self.sessions.contains_key(&session) {
            let gauge = Arc::new(Gauge::default());
            let seed =
                SessionSeed { partition: self.partition.clone(), session: session.clone(), gauge: gauge.clone() };
            let (actor, _) =
                SessionActor::spawn_linked(None, SessionActor, seed, self.partition.actor.get_cell()).await?;
            self.sessions.insert(session.clone(), Place { actor, gauge, used_at: tokio::time::Instant::now() });
        }
        if let Some(place) = self.sessions.get_mut(&session) {
            place.used_at = tokio::time::Instant::now();
            place.gauge.pending.fetch_add(1, Ordering::SeqCst);
            // A dead actor's messages are answered by its dropped reply; its failure is on its way here.
            if place.actor.cast(message).is_err() {
                tracing::warn!(%session, "a message came for a session that is being restarted");
            }
        }
        Ok(())
    }

    fn commit_next(&mut self) -> Result<(), ActorProcessingErr> {
        while self.in_flight.is_none() && !self.pending.is_empty() {
            self.batches += 1;
            let alone = self.one_by_one > 0;
            self.one_by_one = self.one_by_one.saturating_sub(1);
            let filled =
                commit::fill(&mut self.pending, &self.partition.states, &self.partition.lease, self.batches, alone)?;
            if filled.batch.events.is_empty() && filled.batch.next_command.is_none() {
                self.answer(filled.proposals, self.last_offset());
                continue;
            }
            let (partition, batch) = (self.partition.clone(), filled.batch.clone());
            self.in_flight = Some(filled);
            let task = tokio::spawn(async move {
                let log = partition.shared.tools.log.clone();
                let known = commit::commit(&partition.shared, &*log, &partition.lease, &batch).await;
                // The actor may have ended meanwhile; the next claim's replay tells it then.
                partition.actor.cast(PartitionMessage::CommitEnded(CommitEnded(known))).unwrap_or_default();
            });
            self.committing = Some(AbortOnDrop(task.abort_handle()));
        }
        Ok(())
    }

    fn last_offset(&self) -> Offset {
        Offset(self.position.next_offset.0.saturating_sub(1))
    }

    fn answer(&mut self, proposals: Vec<Proposal>, offset: Offset) {
        self.settled += proposals.len() as u64;
        for proposal in proposals {
            // The proposer may have died: its successor reads what was committed.
            proposal.reply.send(Ok(Receipt { offset })).unwrap_or_default();
        }
    }

    fn commit_ended(&mut self, known: commit::Known) -> Result<(), ActorProcessingErr> {
        let Some(commit::InFlight { batch, mut proposals }) = self.in_flight.take() else { return Ok(()) };
        match known {
            commit::Known::Committed(committed) => {
                let events: Vec<&Event> = proposals.iter().flat_map(|proposal| &proposal.events).collect();
                let facts: Vec<_> = batch
                    .events
                    .iter()
                    .zip(&events)
                    .map(|(record, event)| Fact { key: &record.key, seq: record.seq, at: record.at, event })
                    .collect();
                if let (Some(offset), Some(chain)) = (committed.offsets.last(), committed.chain.last()) {
                    self.position = Position {
                        next_offset: offset.next(),
                        term: self.partition.lease.term,
                        chain: *chain,
                        ..self.position
                    };
                    if let Err(error) = self.partition.states.apply(&facts, self.position) {
                        self.partition.states.clear()?;
                        return Err(error.into());
                    }
                }
                for fact in &facts {
                    if let Event::Run(event) = fact.event {
                        self.partition.shared.live.event(fact.seq, fact.at, Arc::new(event.clone()));
                    }
                }
                self.answer(proposals, self.last_offset());
                Ok(())
            }
            commit::Known::Rejected { event, reason } => {
                let culprit =
                    event.and_then(|event| commit::owner_of(&proposals, event)).or((proposals.len() == 1).then_some(0));
                match culprit {
                    Some(culprit) => {
                        self.settled += 1;
                        let refused = proposals.remove(culprit);
                        refused.reply.send(Err(ProposeError::Rejected(reason))).unwrap_or_default();
                    }
                    None => self.one_by_one = proposals.len(),
                }
                for proposal in proposals.into_iter().rev() {
                    self.pending.push_front(proposal);
                }
                Ok(())
            }
            commit::Known::Lost(reason) => Err(reason.into()),
        }
    }

    async fn run_after(&mut self) -> Result<(), ActorProcessingErr> {
        while self.after.front().is_some_and(|(ticket, _)| *ticket <= self.settled) {
            match self.after.pop_front() {
                // Who waited may have died.
                Some((_, After::Tell(reply))) => reply.send(()).unwrap_or_default(),
                Some((_, After::Restart(session))) => self.restart(session).await?,
                None => {}
            }
        }
        Ok(())
    }

    async fn restart(&mut self, session: SessionId) -> Result<(), ActorProcessingErr> {
        let crashes = self.crashes.entry(session.clone()).or_default();
        *crashes += 1;
        let held = self.held.remove(&session).unwrap_or_default();
        if *crashes > CRASHES_MAX {
            return Err(format!("session `{session}` failed {CRASHES_MAX} times in a row").into());
        }
        if !self.partition.states.open_runs(&session)?.is_empty() {
            self.route(session.clone(), SessionMessage::Restore).await?;
        }
        for message in held {
            self.route(session.clone(), message).await?;
        }
        Ok(())
    }

    fn sweep(&mut self) {
        self.crashes.clear();
        let idle = Duration::from_millis(self.partition.shared.settings.idle_ms);
        let states = &self.partition.states;
        self.sessions.retain(|session, place| {
            let keep = place.gauge.busy.load(Ordering::SeqCst)
                || place.gauge.pending.load(Ordering::SeqCst) > 0
                || place.used_at.elapsed() < idle;
            if !keep {
                place.actor.stop(None);
                states.release_session(session);
            }
            keep
        });
        self.helpers.retain(|helper| !helper.0.is_finished());
    }
}

/// Failures of one session's actor between two sweeps after which the whole partition is restored anew.
const CRASHES_MAX: u32 = 10;
