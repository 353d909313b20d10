//! A session's actor: accepts its runs, keeps their actors, and begins the next one when there is room.
//!
//! It is the parent of its runs' actors: a run that panics is restarted from state here and touches no
//! other. Its own state is what the partition folded; it keeps only who is at work.

mod accept;
mod busy;
mod copy;
mod fork;
mod line;
mod requeue;
mod runs;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, atomic::Ordering},
};

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use reenact_events::{Command, CommandBody, CommandId, Event, RunId, SessionId, StreamKey, UserId, event::RunStatus};
use reenact_snapshots::StoreError;
use tokio::sync::oneshot;

use crate::{
    answers::{Consumed, Told},
    api::{Accepted, Refusal, SubmitError},
    family,
    partition::{Gauge, Partition, Proposal, ProposeError, Receipt, Settles, Submission},
    run::RunCommand,
    run_actor::{Entry, RunMessage},
    session::Fields,
};

/// What a session's actor is told.
#[derive(Debug)]
pub enum SessionMessage {
    /// Decide a command.
    Submit(Submission),
    /// Bring back the runs that have not ended.
    Restore,
    /// The run has a slot.
    Admit(RunId),
    /// The run could go on, and has no slot.
    Due(RunId),
    /// A run's status has changed.
    RunChanged {
        /// Which run.
        run_id: RunId,
        /// Its status now.
        status: RunStatus,
        /// How many messages its actor has handled.
        handled: u64,
    },
    /// A run's actor is to be restarted from state.
    Restart(RunId),
}

impl SessionMessage {
    /// Whether the partition routed it, and so counts it.
    fn is_routed(&self) -> bool {
        matches!(self, Self::Submit(_) | Self::Restore | Self::Admit(_))
    }
}

use accept::Asked;

type Answer = oneshot::Sender<Result<Accepted, SubmitError>>;

/// What the actor begins with.
pub struct SessionSeed {
    /// Its partition.
    pub partition: Partition,
    /// Which session.
    pub session: SessionId,
    /// Its gauge.
    pub gauge: Arc<Gauge>,
}

/// See the module.
pub struct SessionActor;

/// What the actor knows.
pub struct SessionWork {
    seed: SessionSeed,
    myself: ActorRef<SessionMessage>,
    runs: BTreeMap<RunId, RunPlace>,
    crashes: BTreeMap<RunId, u32>,
    deletion: Option<Submission>,
    deferred: VecDeque<Submission>,
}

impl Actor for SessionActor {
    type Msg = SessionMessage;
    type State = SessionWork;
    type Arguments = SessionSeed;

    async fn pre_start(
        &self,
        myself: ActorRef<SessionMessage>,
        seed: SessionSeed,
    ) -> Result<SessionWork, ActorProcessingErr> {
        Ok(SessionWork {
            seed,
            myself,
            runs: BTreeMap::new(),
            crashes: BTreeMap::new(),
            deletion: None,
            deferred: VecDeque::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<SessionMessage>,
        message: SessionMessage,
        work: &mut SessionWork,
    ) -> Result<(), ActorProcessingErr> {
        let reacted = work.react(message).await;
        if reacted.is_err() {
            family::kill_those_below(myself.get_cell());
        }
        reacted
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SessionMessage>,
        event: SupervisionEvent,
        work: &mut SessionWork,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(cell, error) = event {
            if error.is::<StoreError>() {
                family::kill_those_below(myself.get_cell());
                return Err(error);
            }
            let failed = work.runs.iter().find(|(_, place)| place.actor.get_id() == cell.get_id());
            let Some(run) = failed.map(|(run, _)| run.clone()) else { return Ok(()) };
            if error.is::<ProposeError>() {
                // The partition goes to another node, or is restored here: the run goes on there, from the log.
                tracing::info!(%run, %error, "a run's actor has ended with its partition");
            } else {
                tracing::error!(%run, %error, "a run's actor failed, it is restarted from state");
            }
            work.restart_later(run);
        }
        Ok(())
    }
}

impl SessionWork {
    async fn react(&mut self, message: SessionMessage) -> Result<(), ActorProcessingErr> {
        let routed = message.is_routed();
        match message {
            SessionMessage::Submit(submission) => self.submit(submission).await?,
            SessionMessage::Restore => self.restore().await?,
            SessionMessage::Admit(run) => self.admit(&run).await?,
            SessionMessage::Due(run) => self.due(&run)?,
            SessionMessage::RunChanged { run_id, status, handled } => {
                self.run_changed(&run_id, status, handled).await?
            }
            SessionMessage::Restart(run) => self.restart(run).await?,
        }
        self.update_gauge(routed);
        Ok(())
    }

    fn id(&self) -> &SessionId {
        &self.seed.session
    }

    fn partition(&self) -> &Partition {
        &self.seed.partition
    }

    fn update_gauge(&self, routed: bool) {
        let busy = !self.runs.is_empty() || !self.crashes.is_empty() || self.deletion.is_some();
        self.seed.gauge.busy.store(busy, Ordering::SeqCst);
        if routed {
            self.seed.gauge.pending.fetch_sub(1, Ordering::SeqCst);
        }
    }

    async fn submit(&mut self, submission: Submission) -> Result<(), ActorProcessingErr> {
        if self.deletion.is_some() {
            self.deferred.push_back(submission);
            return Ok(());
        }
        let Submission { command, consumed, reply } = submission;
        let Command { id, user_id, body, reply_to, key: _, sealed: _ } = command;
        if !matches!(body, CommandBody::StartRun(_)) && self.partition().states.was_taken(&id)? {
            let run = self.run_of(&body, user_id.as_ref())?;
            let answer = self.repeat(run, true, consumed.as_ref()).await?;
            return self.reply(reply, answer, consumed).await;
        }
        match body {
            CommandBody::StartRun(start) => {
                let run_id = RunId::of_command(&id, self.id());
                let asked = Asked { cause: &id, run_id, user_id, consumed: consumed.as_ref() };
                let answer = self.start_run(asked, *start).await?;
                self.reply(reply, answer, consumed).await
            }
            CommandBody::ForkRun(fork) => {
                let run_id = RunId::of_command(&id, self.id());
                let asked = Asked { cause: &id, run_id, user_id, consumed: consumed.as_ref() };
                let answer = self.fork_run(asked, *fork).await?;
                self.reply(reply, answer, consumed).await
            }
            CommandBody::CancelRun { run_id, reason, .. } => {
                let what = RunCommand::Cancel { reason, partial: None };
                self.ask_run(user_id.as_ref(), run_id, what, (Some(id), consumed), reply).await
            }
            CommandBody::ContinueRun { run_id, decisions, decided_by, .. } => {
                let has_slot = self.try_continue(&run_id)?;
                let by = decided_by.or_else(|| user_id.clone());
                let what = RunCommand::Resolve { decisions, by, has_slot };
                self.ask_run(user_id.as_ref(), run_id, what, (Some(id), consumed), reply).await
            }
            CommandBody::RequeueRun { run_id, .. } => {
                let answer = self.requeue(&id, user_id, run_id, consumed.as_ref()).await?;
                self.reply(reply, answer, consumed).await
            }
            CommandBody::ForkSession { name, metadata, summary, .. } => {
                let fields = Fields { name, state: None, metadata, summary };
                let answer = self.copy(&id, user_id, fields, consumed.as_ref()).await?;
                self.reply(reply, answer, consumed).await
            }
            body @ CommandBody::DeleteSession { runs, .. } => {
                let command = Command { reply_to, ..Command::new(id, user_id, body) };
                self.delete(Submission { command, consumed, reply }, runs).await
            }
            body => {
                let answer = self.change(&id, user_id, body, consumed.as_ref()).await?;
                self.reply(reply, answer, consumed).await
            }
        }
    }

    /// Answers; a refused command of the log moves the cursor all the same, so that it is not met again.
    async fn reply(
        &self,
        reply: Answer,
        mut answer: Result<Accepted, SubmitError>,
        consumed: Option<Consumed>,
    ) -> Result<(), ActorProcessingErr> {
        if let (Err(refused), Some(consumed)) = (&answer, consumed)
            && !matches!(refused, SubmitError::Unavailable { .. })
        {
            let settled = self.propose(None, None, Some(consumed.rejected(refused)), Vec::new()).await;
            if let Err(error) = settled {
                answer = Err(error.told()?);
            }
        }
        // Whoever asked may have left.
        reply.send(answer).unwrap_or_default();
        Ok(())
    }

    async fn propose(
        &self,
        cause: Option<CommandId>,
        owner: Option<UserId>,
        settles: Option<Settles>,
        events: Vec<Event>,
    ) -> Result<Receipt, ProposeError> {
        let at = self.partition().shared.now();
        let key = StreamKey::session(self.id());
        self.partition()
            .propose(|reply| Proposal { key, owner, cause, at, events, sends: Vec::new(), settles, reply })
            .await
    }

    /// The run that a command is about, as far as `user` may know.
    fn run_of(
        &self,
        body: &CommandBody,
        user: Option<&UserId>,
    ) -> Result<Option<(RunId, RunStatus)>, ActorProcessingErr> {
        let (CommandBody::CancelRun { run_id, .. }
        | CommandBody::ContinueRun { run_id, .. }
        | CommandBody::RequeueRun { run_id, .. }) = body
        else {
            return Ok(None);
        };
        let run = self.partition().states.run(run_id)?.filter(|run| run.origin.session_id == *self.id());
        let visible = self.is_visible(user)?;
        Ok(run.filter(|_| visible).map(|run| (run_id.clone(), run.told_status())))
    }

    /// Settles a command that changes nothing any more.
    async fn repeat(
        &self,
        run: Option<(RunId, RunStatus)>,
        duplicate: bool,
        consumed: Option<&Consumed>,
    ) -> Result<Result<Accepted, SubmitError>, ActorProcessingErr> {
        let told = || Told::of_session(self.id(), run.clone(), duplicate);
        let settles = consumed.map(|consumed| consumed.accepted(told));
        match self.propose(None, None, settles, Vec::new()).await {
            Ok(receipt) => Ok(Ok(Accepted { duplicate, ..self.accepted(receipt, run) })),
            Err(error) => Ok(Err(error.told()?)),
        }
    }

    fn accepted(&self, receipt: Receipt, run: Option<(RunId, RunStatus)>) -> Accepted {
        let (run_id, status) = run.unzip();
        Accepted {
            session_id: Some(self.id().clone()),
            schedule_id: None,
            run_id,
            partition: self.partition().lease.partition,
            offset: receipt.offset,
            status,
            duplicate: false,
        }
    }

    fn is_visible(&self, user: Option<&UserId>) -> Result<bool, ActorProcessingErr> {
        Ok(self.partition().states.session(self.id())?.is_visible_to(user))
    }

    async fn ask_run(
        &mut self,
        user: Option<&UserId>,
        run_id: RunId,
        what: RunCommand,
        (cause, consumed): (Option<CommandId>, Option<Consumed>),
        reply: Answer,
    ) -> Result<(), ActorProcessingErr> {
        if self.crashes.contains_key(&run_id) && !self.runs.contains_key(&run_id) {
            // Its actor has failed and is not back yet. One that only took this command would keep the run from
            // being recovered.
            self.restart(run_id.clone()).await?;
        }
        let known = self.partition().states.run(&run_id)?.filter(|run| run.origin.session_id == *self.id());
        let Some(run) = known.filter(|_| self.is_visible(user).unwrap_or(false)) else {
            return self.reply(reply, Err(Refusal::RunNotFound.into()), consumed).await;
        };
        if run.progress.status.is_end() {
            let answer = match what {
                RunCommand::Resolve { decisions, .. } => Err(Refusal::not_in_doubt(&run_id, &decisions).into()),
                _ => self.repeat(Some((run_id, run.progress.status)), false, consumed.as_ref()).await?,
            };
            return self.reply(reply, answer, consumed).await;
        }
        if !self.runs.contains_key(&run_id) {
            self.spawn(run_id.clone(), Entry::Waiting).await?;
        }
        self.tell(&run_id, RunMessage::Submit { command: what, cause, consumed, reply });
        Ok(())
    }
}

struct RunPlace {
    actor: ActorRef<RunMessage>,
    /// Messages sent to it.
    sent: u64,
}
