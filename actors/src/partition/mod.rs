//! A partition's actor: routes commands to its sessions, gathers their proposals into batches, folds what
//! was committed, and only then answers.
//!
//! One commit is in flight at a time; what is proposed meanwhile goes into the next batch (group commit). A
//! fault of the log or the store ends this actor, and the node restores the partition anew: everything that
//! the actors below knew is in the log.

mod batches;
mod begin;
mod commit;
mod pump;
mod restore;
mod schedules;
mod snapshot;
mod sweeper;
mod turns;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use reenact_events::{Command, CommandBody, Lease, Offset, RunId, SessionId, agent::AgentSpec};
use reenact_snapshots::{Position, SnapshotError, StoreError};
use tokio::{sync::oneshot, task::AbortHandle};

use crate::{
    admission::Ticket,
    answers::Consumed,
    api::{Accepted, SubmitError},
    family,
    run::{RunState, state::Origin},
    session_actor::{SessionActor, SessionMessage, SessionSeed},
    shared::Shared,
    states::States,
};

pub use begin::snapshots_folder;
pub use commit::{Proposal, ProposeError, Receipt, Settlement, Settles};
pub use restore::{Failure, RestoreError, Restored, restore};
use schedules::Schedules;
pub use snapshot::Parting;
use snapshot::Snapshots;
use turns::Turns;

/// What a partition's actor is told.
pub enum PartitionMessage {
    /// Decide a command.
    Submit(Submission),
    /// Commit events.
    Propose(Proposal),
    /// Settle a command of the log without deciding it.
    Settle(Proposal),
    /// Tell when everything proposed so far is committed.
    Barrier(oneshot::Sender<()>),
    /// A command of the log must be asked again: nothing waits behind it.
    Bar,
    /// Commands may wait again; tell which are not settled when everything proposed so far is committed.
    Resume(oneshot::Sender<BTreeSet<Offset>>),
    /// Take nothing new; tell when what is being committed is. What is given then may make a last snapshot.
    HandOver(oneshot::Sender<Parting>),
    /// A run of a session has a slot.
    Admit(SessionId, RunId),
    /// Let go of sessions that are idle.
    Sweep,
    /// Leave nothing of what was removed from the states, neither in the store nor in snapshots.
    Scrub(oneshot::Sender<Result<(), SnapshotError>>),
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
    pub consumed: Option<Consumed>,
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

    /// What decides when the run's turn comes.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn ticket(&self, run: &RunState) -> Result<Ticket, StoreError> {
        let Origin { session_id, user_id, queued_at, .. } = &*run.origin;
        Ok(Ticket::of(session_id, user_id.as_ref(), &*self.agent(run)?, *queued_at))
    }

    /// The agent that the run pinned.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn agent(&self, run: &RunState) -> Result<Arc<AgentSpec>, StoreError> {
        let version = &run.origin.agent_version;
        self.states.agent(version)?.ok_or_else(|| {
            let agent = &run.origin.agent_id;
            StoreError::new(format!("version `{version}` of agent `{agent}` is not in the state store"))
        })
    }

    /// What was at work has its slots before anybody who waits is called.
    fn keep_slots(&self, session: &SessionId) -> Result<(), StoreError> {
        for active in &self.states.session(session)?.active {
            if let Some(run) = self.states.run(active)?.filter(|run| !run.rests()) {
                let ticket = self.ticket(&run)?;
                self.shared.admission().force(self.lease.partition, active, &ticket);
            }
        }
        Ok(())
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
    Resume(oneshot::Sender<BTreeSet<Offset>>),
    Restart(SessionId),
    RestartSchedules,
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
    schedules: Schedules,
    crashes: BTreeMap<SessionId, u32>,
    held: BTreeMap<SessionId, Vec<SessionMessage>>,
    pending: VecDeque<Proposal>,
    one_by_one: usize,
    in_flight: Option<commit::InFlight>,
    batches: u64,
    proposed: u64,
    settled: u64,
    after: VecDeque<(u64, After)>,
    turns: Turns<Proposal>,
    snapshots: Arc<Snapshots>,
    /// Told when nothing is being committed any more: the partition goes to another node.
    leaving: Option<Leaving>,
    helpers: Vec<AbortOnDrop>,
    committing: Option<AbortOnDrop>,
}

type Leaving = Option<oneshot::Sender<Parting>>;

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
        let Restored { lease, states, store, position, unsaved, .. } = restored;
        // Sessions that are restored below may be called at once.
        self.shared.arrived(lease.partition, myself.clone(), states.clone());
        let partition = Partition { shared: self.shared.clone(), lease, states, actor: myself.clone() };
        let snapshots = Arc::new(Snapshots::new(&partition, store, unsaved));
        let mut helpers = vec![sweeper::sweeper(&self.shared, myself.clone()), pump::command_pump(&partition)];
        helpers.extend(snapshots.keep());
        let schedules = Schedules::spawn(&partition).await?;
        let mut state = PartitionState {
            partition,
            position,
            sessions: BTreeMap::new(),
            schedules,
            crashes: BTreeMap::new(),
            held: BTreeMap::new(),
            pending: VecDeque::new(),
            one_by_one: 0,
            in_flight: None,
            batches: 0,
            proposed: 0,
            settled: 0,
            after: VecDeque::new(),
            turns: Turns::default(),
            snapshots,
            leaving: None,
            helpers,
            committing: None,
        };
        let open = state.partition.states.open_sessions()?;
        for session in open.keys() {
            state.partition.keep_slots(session)?;
        }
        for (session, waiting) in open {
            tracing::debug!(%session, waiting, "resuming a session");
            state.route(session, SessionMessage::Restore).await?;
        }
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<PartitionMessage>,
        message: PartitionMessage,
        state: &mut PartitionState,
    ) -> Result<(), ActorProcessingErr> {
        let reacted = state.react(message).await;
        if reacted.is_err() {
            family::kill_those_below(myself.get_cell());
        }
        reacted
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<PartitionMessage>,
        event: SupervisionEvent,
        state: &mut PartitionState,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(cell, error) = event {
            if state.leaving.is_some() {
                return Ok(());
            }
            if error.is::<StoreError>() {
                // No session's fault: what they all read is broken.
                family::kill_those_below(myself.get_cell());
                return Err(error);
            }
            if cell.get_id() == state.schedules.actor.get_id() {
                tracing::error!(%error, "the actor of the schedules failed, it is started again");
                state.after.push_back((state.proposed, After::RestartSchedules));
                return state.run_after().await;
            }
            let failed = state.sessions.iter().find(|(_, place)| place.actor.get_id() == cell.get_id());
            let Some(session) = failed.map(|(session, _)| session.clone()) else { return Ok(()) };
            if error.is::<ProposeError>() {
                tracing::info!(%session, %error, "a session's actor has ended with its partition");
            } else {
                tracing::error!(%session, %error, "a session's actor failed, it is restarted from state");
            }
            state.sessions.remove(&session);
            state.held.entry(session.clone()).or_default();
            state.after.push_back((state.proposed, After::Restart(session)));
            state.run_after().await?;
        }
        Ok(())
    }
}

impl PartitionState {
    async fn react(&mut self, message: PartitionMessage) -> Result<(), ActorProcessingErr> {
        match message {
            // Its reply is dropped: the next owner is asked.
            PartitionMessage::Submit(_)
            | PartitionMessage::Propose(_)
            | PartitionMessage::Settle(_)
            | PartitionMessage::Admit(..)
                if self.leaving.is_some() => {}
            PartitionMessage::Submit(submission) => self.submit(submission).await?,
            PartitionMessage::Propose(proposal) => {
                self.propose(proposal);
                self.commit_next()?;
            }
            PartitionMessage::Settle(proposal) => {
                if let Some(settles) = &proposal.settles {
                    self.turns.expect(settles.offset);
                }
                self.propose(proposal);
                self.commit_next()?;
            }
            PartitionMessage::Bar => self.turns.bar().into_iter().for_each(batches::refuse_turn),
            PartitionMessage::Resume(reply) => {
                self.after.push_back((self.proposed, After::Resume(reply)));
                self.run_after().await?;
            }
            PartitionMessage::Barrier(reply) => {
                self.after.push_back((self.proposed, After::Tell(reply)));
                self.run_after().await?;
            }
            PartitionMessage::HandOver(reply) => self.hand_over(reply),
            PartitionMessage::Admit(session, run) => self.route(session, SessionMessage::Admit(run)).await?,
            PartitionMessage::Sweep => self.sweep(),
            // Whoever waits may have left.
            PartitionMessage::Scrub(reply) => reply.send(self.snapshots.scrub().await).unwrap_or_default(),
            PartitionMessage::StoreFailed(error) => return Err(error.into()),
            PartitionMessage::CommitEnded(CommitEnded(known)) => {
                self.commit_ended(known)?;
                self.commit_next()?;
                self.run_after().await?;
            }
        }
        Ok(())
    }

    async fn submit(&mut self, submission: Submission) -> Result<(), ActorProcessingErr> {
        if let Some(consumed) = &submission.consumed {
            self.turns.expect(consumed.offset);
        }
        if let CommandBody::Schedule(_) = submission.command.body {
            self.schedules.submit(submission);
            return Ok(());
        }
        match submission.command.body.session_id().cloned() {
            Some(session) => self.route(session, SessionMessage::Submit(submission)).await,
            // Whoever sends a command here has found its session.
            None => Ok(()),
        }
    }

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

    async fn run_after(&mut self) -> Result<(), ActorProcessingErr> {
        while self.after.front().is_some_and(|(ticket, _)| *ticket <= self.settled) {
            match self.after.pop_front() {
                // Who waited may have died.
                Some((_, After::Tell(reply))) => reply.send(()).unwrap_or_default(),
                Some((_, After::Resume(reply))) => reply.send(self.turns.resume()).unwrap_or_default(),
                Some((_, After::Restart(session))) => self.restart(session).await?,
                Some((_, After::RestartSchedules)) => self.restart_schedules().await?,
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
}

/// Failures of one session's actor between two sweeps after which the whole partition is restored anew.
const CRASHES_MAX: u32 = 10;
