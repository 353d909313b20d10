//! A session's actor: accepts its runs, keeps their actors, and begins the next one when there is room.
//!
//! It is the parent of its runs' actors: a run that panics is restarted from state here and touches no
//! other. Its own state is what the partition folded; it keeps only who is at work.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use reenact_events::{
    Command, CommandBody, Event, Offset, RunId, SessionId, StreamKey, UserId,
    command::StartRun,
    event::{Failure, RunStatus},
};
use tokio::sync::oneshot;

use crate::{
    api::{Accepted, Refusal, SubmitError},
    partition::{Gauge, Partition, Proposal, ProposeError, Receipt, Submission},
    run::{Context, RunCommand},
    run_actor::{Entry, RunActor, RunMessage, RunSeed},
    session::{self, Fields, NewRun},
};

/// Restarts of one run's actor after which the run is ended with an error.
const RUN_CRASHES_MAX: u32 = 5;
/// The first pause before a restart, milliseconds; doubles each time.
const RESTART_MS: u64 = 20;

/// What a session's actor is told.
#[derive(Debug)]
pub enum SessionMessage {
    /// Decide a command.
    Submit(Submission),
    /// Bring back the runs that have not ended.
    Restore,
    /// There is a slot for the first waiting run.
    Admit,
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
        matches!(self, Self::Submit(_) | Self::Restore | Self::Admit)
    }
}

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
        _: ActorRef<SessionMessage>,
        message: SessionMessage,
        work: &mut SessionWork,
    ) -> Result<(), ActorProcessingErr> {
        let routed = message.is_routed();
        match message {
            SessionMessage::Submit(submission) => work.submit(submission).await?,
            SessionMessage::Restore => work.restore().await?,
            SessionMessage::Admit => work.admit().await?,
            SessionMessage::RunChanged { run_id, status, handled } => {
                work.run_changed(&run_id, status, handled).await?
            }
            SessionMessage::Restart(run) => work.restart(run).await?,
        }
        work.update_gauge(routed);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<SessionMessage>,
        event: SupervisionEvent,
        work: &mut SessionWork,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(cell, error) = event {
            let failed = work.runs.iter().find(|(_, place)| place.actor.get_id() == cell.get_id());
            let Some(run) = failed.map(|(run, _)| run.clone()) else { return Ok(()) };
            tracing::error!(%run, %error, "a run's actor failed, it is restarted from state");
            work.restart_later(run);
        }
        Ok(())
    }
}

impl SessionWork {
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
        let Command { id, user_id, body } = command;
        match body {
            CommandBody::StartRun(start) => {
                let start = Start { run_id: RunId::of_command(&id), user_id, start: *start, consumed };
                let answer = self.start_run(&id, start).await?;
                self.reply(reply, answer, consumed).await
            }
            CommandBody::CancelRun { run_id, reason, .. } => {
                let what = RunCommand::Cancel { reason, partial: None };
                self.ask_run(user_id.as_ref(), run_id, what, consumed, reply).await
            }
            CommandBody::ResolveStep { run_id, step, resolution, .. } => {
                let what = RunCommand::Resolve { step, resolution, by: user_id.clone() };
                self.ask_run(user_id.as_ref(), run_id, what, consumed, reply).await
            }
            CommandBody::DeleteSession { session_id } => {
                let body = CommandBody::DeleteSession { session_id };
                self.delete(Submission { command: Command { id, user_id, body }, consumed, reply }).await
            }
            body => {
                let answer = self.change(&id, user_id, body, consumed).await?;
                self.reply(reply, answer, consumed).await
            }
        }
    }

    /// Answers; a refused command of the log moves the cursor all the same, so that it is not met again.
    async fn reply(
        &self,
        reply: Answer,
        answer: Result<Accepted, SubmitError>,
        consumed: Option<Offset>,
    ) -> Result<(), ActorProcessingErr> {
        if answer.is_err() && consumed.is_some() {
            self.propose(None, None, consumed, Vec::new()).await?;
        }
        // Whoever asked may have left.
        reply.send(answer).unwrap_or_default();
        Ok(())
    }

    async fn propose(
        &self,
        cause: Option<reenact_events::CommandId>,
        owner: Option<UserId>,
        consumed: Option<Offset>,
        events: Vec<Event>,
    ) -> Result<Receipt, ProposeError> {
        let at = self.partition().shared.now();
        let key = StreamKey::session(self.id());
        self.partition().propose(|reply| Proposal { key, owner, cause, at, events, consumed, reply }).await
    }

    fn accepted(&self, receipt: Receipt, run: Option<(RunId, RunStatus)>) -> Accepted {
        let (run_id, status) = run.unzip();
        Accepted {
            session_id: self.id().clone(),
            run_id,
            partition: self.partition().lease.partition,
            offset: receipt.offset,
            status,
        }
    }

    async fn start_run(
        &mut self,
        cause: &reenact_events::CommandId,
        asked: Start,
    ) -> Result<Result<Accepted, SubmitError>, ActorProcessingErr> {
        let Start { run_id, user_id, start, consumed } = asked;
        let partition = self.partition().clone();
        let number = partition.lease.partition;
        if let Some(known) = partition.states.run(&run_id)? {
            if known.origin.session_id != *self.id() || !self.is_visible(user_id.as_ref())? {
                return Ok(Err(Refusal::RunNotFound.into()));
            }
            let receipt = self.propose(None, None, consumed, Vec::new()).await?;
            return Ok(Ok(self.accepted(receipt, Some((run_id, known.progress.status)))));
        }
        if partition.states.was_taken(&run_id)? {
            return Ok(Err(Refusal::RunNotFound.into()));
        }
        let session = partition.states.session(self.id())?;
        let begins = session.is_free() && partition.shared.admission().try_begin(number, &run_id);
        if !begins && let Err(queued) = partition.shared.admission().try_wait(number, &run_id) {
            let limit = partition.shared.settings.queue_depth_max;
            return Ok(Err(SubmitError::QueueFull { queued, limit, retry_after_s: 1 }));
        }
        let version = start.agent.version();
        let version_known = partition.states.agent(&version)?.is_some();
        let context = Context { now: partition.shared.now(), agent: start.agent.clone() };
        let new =
            NewRun { run_id: run_id.clone(), user_id: user_id.clone(), start: &start, version, version_known, begins };
        let decided = session::start_run(&session, new, &context);
        let outcome = match decided {
            Ok(events) => {
                let at = context.now;
                let key = StreamKey::session(self.id());
                let cause = Some(cause.clone());
                partition.propose(|reply| Proposal { key, owner: user_id, cause, at, events, consumed, reply }).await
            }
            Err(refusal) => {
                partition.shared.admission().release(number, &run_id);
                return Ok(Err(refusal.into()));
            }
        };
        match outcome {
            Ok(receipt) => {
                if begins {
                    self.spawn(run_id.clone(), Entry::Begun).await?;
                } else {
                    self.stand_in_line_if_free()?;
                }
                let status = if begins { RunStatus::Running } else { RunStatus::Pending };
                Ok(Ok(self.accepted(receipt, Some((run_id, status)))))
            }
            Err(ProposeError::Rejected(reason)) => {
                partition.shared.admission().release(number, &run_id);
                Ok(Err(Refusal::TooLarge(reason).into()))
            }
            Err(lost) => Err(lost.into()),
        }
    }

    fn has_slot(&self, run_id: &RunId) -> bool {
        let partition = self.partition();
        partition.shared.admission().holds(partition.lease.partition, run_id)
    }

    fn is_visible(&self, user: Option<&UserId>) -> Result<bool, ActorProcessingErr> {
        Ok(self.partition().states.session(self.id())?.is_visible_to(user))
    }

    async fn change(
        &mut self,
        cause: &reenact_events::CommandId,
        user: Option<UserId>,
        body: CommandBody,
        consumed: Option<Offset>,
    ) -> Result<Result<Accepted, SubmitError>, ActorProcessingErr> {
        let session = self.partition().states.session(self.id())?;
        let decided = match body {
            CommandBody::CreateSession { session_id, agent_id, name, state, metadata } => {
                let fields = Fields { name, state, metadata, summary: None };
                session::create(&session, &session_id, user.clone(), agent_id.as_ref(), fields)
            }
            CommandBody::UpdateSession { session_id, name, state, metadata, summary } => {
                let fields = Fields { name, state, metadata, summary };
                session::update(&session, &session_id, user.as_ref(), fields)
            }
            CommandBody::DeleteSession { session_id } => session::delete(&session, &session_id, user.as_ref()),
            CommandBody::StartRun(_) | CommandBody::CancelRun { .. } | CommandBody::ResolveStep { .. } => {
                Ok(Vec::new())
            }
        };
        let events = match decided {
            Ok(events) => events,
            Err(refusal) => return Ok(Err(refusal.into())),
        };
        match self.propose(Some(cause.clone()), user, consumed, events).await {
            Ok(receipt) => Ok(Ok(self.accepted(receipt, None))),
            Err(ProposeError::Rejected(reason)) => Ok(Err(Refusal::TooLarge(reason).into())),
            Err(lost) => Err(lost.into()),
        }
    }

    async fn ask_run(
        &mut self,
        user: Option<&UserId>,
        run_id: RunId,
        what: RunCommand,
        consumed: Option<Offset>,
        reply: Answer,
    ) -> Result<(), ActorProcessingErr> {
        let known = self.partition().states.run(&run_id)?.filter(|run| run.origin.session_id == *self.id());
        let Some(run) = known.filter(|_| self.is_visible(user).unwrap_or(false)) else {
            return self.reply(reply, Err(Refusal::RunNotFound.into()), consumed).await;
        };
        if run.progress.status.is_end() {
            let answer = match what {
                RunCommand::Resolve { step, .. } => Err(Refusal::StepNotInDoubt { run: run_id, step }.into()),
                _ => {
                    let receipt = self.propose(None, None, consumed, Vec::new()).await?;
                    Ok(self.accepted(receipt, Some((run_id, run.progress.status))))
                }
            };
            return self.reply(reply, answer, consumed).await;
        }
        if !self.runs.contains_key(&run_id) {
            self.spawn(run_id.clone(), Entry::Waiting).await?;
        }
        self.tell(&run_id, RunMessage::Submit { command: what, consumed, reply });
        Ok(())
    }

    /// Stops every run first; the deletion is decided when the last one has ended.
    async fn delete(&mut self, submission: Submission) -> Result<(), ActorProcessingErr> {
        if !self.is_visible(submission.command.user_id.as_ref())? {
            let Submission { reply, consumed, .. } = submission;
            return self.reply(reply, Err(Refusal::SessionNotFound.into()), consumed).await;
        }
        for run_id in self.partition().states.open_runs(self.id())? {
            let (reply, _nobody) = oneshot::channel();
            let what = RunCommand::Cancel { reason: Some("the session is deleted".into()), partial: None };
            self.ask_run(submission.command.user_id.as_ref(), run_id, what, None, reply).await?;
        }
        self.deletion = Some(submission);
        self.delete_if_quiet().await
    }

    async fn delete_if_quiet(&mut self) -> Result<(), ActorProcessingErr> {
        if self.deletion.is_none() || !self.partition().states.open_runs(self.id())?.is_empty() {
            return Ok(());
        }
        if let Some(Submission { command, consumed, reply }) = self.deletion.take() {
            let answer = self.change(&command.id, command.user_id, command.body, consumed).await?;
            self.partition().shared.deleted.notify_one();
            self.reply(reply, answer, consumed).await?;
        }
        while self.deletion.is_none()
            && let Some(submission) = self.deferred.pop_front()
        {
            Box::pin(self.submit(submission)).await?;
        }
        Ok(())
    }

    async fn spawn(&mut self, run_id: RunId, entry: Entry) -> Result<(), ActorProcessingErr> {
        let seed = RunSeed {
            partition: self.partition().clone(),
            session: self.myself.clone(),
            run_id: run_id.clone(),
            entry,
        };
        let (actor, _) = RunActor::spawn_linked(None, RunActor, seed, self.myself.get_cell()).await?;
        self.runs.insert(run_id, RunPlace { actor, sent: 0 });
        Ok(())
    }

    async fn restore(&mut self) -> Result<(), ActorProcessingErr> {
        let partition = self.partition().clone();
        for run_id in partition.states.open_runs(self.id())? {
            let Some(run) = partition.states.run(&run_id)? else { continue };
            match run.progress.status {
                RunStatus::Running => {
                    partition.shared.admission().force(partition.lease.partition, &run_id);
                    self.spawn(run_id, Entry::Recovered).await?;
                }
                RunStatus::Pending => partition.shared.admission().found_waiting(partition.lease.partition, &run_id),
                _ => {}
            }
        }
        self.stand_in_line_if_free()
    }

    fn stand_in_line_if_free(&self) -> Result<(), ActorProcessingErr> {
        let partition = self.partition();
        let session = partition.states.session(self.id())?;
        if session.active.is_empty() && session.waiting > 0 {
            partition.shared.admission().stand_in_line(partition.lease.partition, self.id());
        }
        partition.shared.call_next();
        Ok(())
    }

    async fn admit(&mut self) -> Result<(), ActorProcessingErr> {
        let partition = self.partition().clone();
        let session = partition.states.session(self.id())?;
        let first = if session.active.is_empty() { partition.states.first_waiting(self.id())? } else { None };
        partition.shared.admission().answer(partition.lease.partition, self.id(), first.as_ref());
        let Some(run_id) = first else {
            partition.shared.call_next();
            return Ok(());
        };
        if self.runs.contains_key(&run_id) {
            self.tell(&run_id, RunMessage::Begin);
            return Ok(());
        }
        self.spawn(run_id, Entry::Called).await
    }

    async fn run_changed(&mut self, run_id: &RunId, status: RunStatus, handled: u64) -> Result<(), ActorProcessingErr> {
        let partition = self.partition().clone();
        if status == RunStatus::Running {
            partition.shared.admission().force(partition.lease.partition, run_id);
            return Ok(());
        }
        partition.shared.admission().release(partition.lease.partition, run_id);
        if status.is_end() {
            self.crashes.remove(run_id);
            if let Some(place) = self.runs.remove(run_id) {
                // What stands in its mailbox is still answered.
                place.actor.drain().map_err(|error| error.to_string())?;
            }
        } else if self.runs.get(run_id).is_some_and(|place| place.sent == handled) {
            // A paused run costs no memory. Only this actor sends to it, so its mailbox is empty.
            if let Some(place) = self.runs.remove(run_id) {
                place.actor.stop(None);
            }
        }
        if !self.runs.contains_key(run_id) {
            partition.states.release_run(run_id);
        }
        self.stand_in_line_if_free()?;
        self.delete_if_quiet().await
    }

    fn tell(&mut self, run_id: &RunId, message: RunMessage) {
        let Some(place) = self.runs.get_mut(run_id) else { return };
        place.sent += 1;
        if place.actor.cast(message).is_err() {
            tracing::warn!(run = %run_id, "a command came for a run that is being restarted");
        }
    }

    fn restart_later(&mut self, run_id: RunId) {
        self.runs.remove(&run_id);
        let crashes = self.crashes.entry(run_id.clone()).or_default();
        *crashes += 1;
        let pause = Duration::from_millis(RESTART_MS << (*crashes).min(8));
        let myself = self.myself.clone();
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            // The session's actor may have ended meanwhile: its restart restores the run.
            myself.cast(SessionMessage::Restart(run_id)).unwrap_or_default();
        });
    }

    async fn restart(&mut self, run_id: RunId) -> Result<(), ActorProcessingErr> {
        // What the failed actor proposed must be folded before its successor looks at the state.
        self.partition().barrier().await;
        let Some(run) = self.partition().states.run(&run_id)? else { return Ok(()) };
        if run.progress.status.is_end() {
            return self.run_changed(&run_id, run.progress.status, 0).await;
        }
        let crashes = self.crashes.get(&run_id).copied().unwrap_or_default();
        let entry = match run.progress.status {
            _ if crashes > RUN_CRASHES_MAX => Entry::Failing(Failure {
                kind: "internal".into(),
                message: format!("the run's actor failed {RUN_CRASHES_MAX} times; the server's log says why").into(),
                status: None,
            }),
            RunStatus::Running => Entry::Recovered,
            // It was called, and failed before it began.
            RunStatus::Pending if self.has_slot(&run_id) => Entry::Called,
            _ => Entry::Waiting,
        };
        if !self.runs.contains_key(&run_id) {
            self.spawn(run_id, entry).await?;
        }
        Ok(())
    }
}

struct RunPlace {
    actor: ActorRef<RunMessage>,
    /// Messages sent to it.
    sent: u64,
}

struct Start {
    run_id: RunId,
    user_id: Option<UserId>,
    start: StartRun,
    consumed: Option<Offset>,
}
