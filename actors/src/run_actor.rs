//! A run's actor: decide, commit, evolve, perform.
//!
//! Effects are begun only after the events that announce them are committed, live in tasks that end with
//! this actor, and report the attempt they belong to. A panic here or in an effect ends the actor; its
//! session restarts it from state.

mod expiry;
mod filled;
mod reports;
mod slot;
mod timeout;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use reenact_events::{
    CommandId, Event, Predecessor, RunEvent, RunId, StreamKey, Text, Timestamp,
    agent::{AgentSpec, Effect},
    event::{Failure, RunStatus, StepCall},
};
use tokio::{sync::oneshot, task::AbortHandle};

use crate::{
    answers::{Consumed, Told},
    api::{Accepted, SubmitError},
    effects::{self, Words},
    partition::{Partition, Proposal, ProposeError, Receipt, Settles},
    run::{Context, RunCommand, RunState, StepState, decide, evolve},
    session_actor::SessionMessage,
};

/// Clocks of two nodes may differ by this much, milliseconds.
const SKEW_MS: i64 = 1_000;

/// What a run's actor is told.
#[derive(Debug)]
pub enum RunMessage {
    /// Decide a command from outside.
    Submit {
        /// What is asked.
        command: RunCommand,
        /// Which command it is, where a repeat of it is to have no effect.
        cause: Option<CommandId>,
        /// Its place in the log of commands, if it came from there.
        consumed: Option<Consumed>,
        /// Told when it is durable.
        reply: oneshot::Sender<Result<Accepted, SubmitError>>,
    },
    /// The run has a slot.
    Begin,
    /// An effect's outcome, or a timer.
    Do(RunCommand),
    /// An effect panicked.
    Panicked(String),
}

/// How an actor comes to its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// It was begun in the batch that accepted it: its effects are due.
    Begun,
    /// It has a slot and begins now.
    Called,
    /// It was at work when its last actor ended.
    Recovered,
    /// It waits for its turn, or for a decision.
    Waiting,
    /// It cannot go on.
    Failing(Failure),
}

/// What the actor begins with.
pub struct RunSeed {
    /// Its partition.
    pub partition: Partition,
    /// Its session's actor.
    pub session: ActorRef<SessionMessage>,
    /// Which run.
    pub run_id: RunId,
    /// How it comes to it.
    pub entry: Entry,
}

/// See the module.
pub struct RunActor;

/// What the actor knows.
pub struct RunWork {
    partition: Partition,
    session: ActorRef<SessionMessage>,
    myself: ActorRef<RunMessage>,
    run: Arc<RunState>,
    agent: Arc<AgentSpec>,
    effects: BTreeMap<u32, Running>,
    /// The wait for an owner that was replaced: whatever else happens meanwhile, it ends with a recovery.
    recovery: Option<Running>,
    timeout: Option<Running>,
    /// The wait for the first held call that expires, and when that is.
    expiry: Option<(Timestamp, Running)>,
    /// Steps whose wait is over, while the run has no slot.
    due: Vec<u32>,
    handled: u64,
}

/// A task that ends with the actor.
struct Running {
    task: AbortHandle,
    words: Option<Arc<Words>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Actor for RunActor {
    type Msg = RunMessage;
    type State = RunWork;
    type Arguments = RunSeed;

    async fn pre_start(&self, myself: ActorRef<RunMessage>, seed: RunSeed) -> Result<RunWork, ActorProcessingErr> {
        let RunSeed { partition, session, run_id, entry } = seed;
        let run = partition.states.run(&run_id)?.ok_or_else(|| format!("run `{run_id}` is not in the state store"))?;
        let agent = partition.agent(&run)?;
        let mut work = RunWork {
            partition,
            session,
            myself,
            run,
            agent,
            effects: BTreeMap::new(),
            recovery: None,
            timeout: None,
            expiry: None,
            due: Vec::new(),
            handled: 0,
        };
        work.enter(entry)?;
        work.settle_slot()?;
        Ok(work)
    }

    async fn handle(
        &self,
        _: ActorRef<RunMessage>,
        message: RunMessage,
        work: &mut RunWork,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            RunMessage::Submit { command, cause, consumed, reply } => {
                work.handled += 1;
                let answer = work.decide_and_commit(command, cause, consumed).await?;
                // Whoever asked may have left.
                reply.send(answer).unwrap_or_default();
            }
            RunMessage::Begin => {
                work.handled += 1;
                work.begin().await?;
            }
            RunMessage::Do(RunCommand::Begin) => work.begin().await?,
            RunMessage::Do(RunCommand::RetryDue { step }) => work.retry_due(step).await?,
            RunMessage::Do(RunCommand::Expire) => work.expire().await?,
            RunMessage::Do(command) => work.act(command).await?,
            RunMessage::Panicked(what) => return Err(what.into()),
        }
        work.settle_slot()
    }
}

impl RunWork {
    fn enter(&mut self, entry: Entry) -> Result<(), ActorProcessingErr> {
        let first = match entry {
            Entry::Waiting => None,
            Entry::Begun => {
                self.perform_requested();
                None
            }
            Entry::Called => Some((RunCommand::Begin, 0)),
            Entry::Recovered if self.is_over() => Some((self.timed_out(), 0)),
            Entry::Recovered => {
                self.ask_and_wait_again();
                let owed = self.run.open_steps().map(|(at, step)| (at, step.attempt)).collect();
                Some((RunCommand::Recover { owed }, self.wait_for_a_zombie_ms()))
            }
            Entry::Failing(failure) => Some((RunCommand::Fail(failure), 0)),
        };
        self.set_timeout();
        self.set_expiry();
        match first {
            Some((command, 0)) => self.myself.cast(RunMessage::Do(command)).map_err(|error| error.to_string().into()),
            Some((command, wait_ms)) => {
                self.recovery = Some(self.later(wait_ms, command));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// How long an owner that was replaced may still begin what it had announced.
    fn wait_for_a_zombie_ms(&self) -> i64 {
        if self.partition.lease.predecessor == Predecessor::Dead {
            return 0;
        }
        let now = self.partition.shared.now();
        let requested = self.run.open_steps().filter(|(_, step)| step.state == StepState::Requested);
        let last = requested.map(|(_, step)| step.not_after).max();
        last.map_or(0, |last| last.plus_ms(SKEW_MS).ms_since(now))
    }

    /// Recovery's part that is not a decision: asking `reconcile` tools, and waiting for retries.
    fn ask_and_wait_again(&mut self) {
        self.ask_reconcile_tools(&[]);
        let run = self.run.clone();
        for (at, step) in run.open_steps() {
            if let StepState::Waiting { retry_at, .. } = &step.state {
                self.retry_later(at, *retry_at);
            }
        }
    }

    /// Asks about the calls of `reconcile` tools that were cut off: those that the latest events do not ask for.
    fn ask_reconcile_tools(&mut self, latest: &[RunEvent]) {
        let run = self.run.clone();
        let is_new =
            |at: u32| latest.iter().any(|event| matches!(event, RunEvent::StepRequested(asks) if asks.step == at));
        for (at, step) in run.open_steps().filter(|(at, _)| !is_new(*at)) {
            if step.state == StepState::Requested && step.effect() == Effect::Reconcile {
                self.perform(at, step.attempt, true);
            }
        }
    }

    fn later(&self, wait_ms: i64, command: RunCommand) -> Running {
        let myself = self.myself.clone();
        let wait = Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0));
        let task = tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            // The actor may have ended; its successor sets its own timers.
            myself.cast(RunMessage::Do(command)).unwrap_or_default();
        });
        Running { task: task.abort_handle(), words: None }
    }

    fn retry_later(&mut self, step: u32, retry_at: Timestamp) {
        let wait_ms = retry_at.ms_since(self.partition.shared.now());
        self.effects.insert(step, self.later(wait_ms, RunCommand::RetryDue { step }));
    }

    async fn act(&mut self, command: RunCommand) -> Result<(), ActorProcessingErr> {
        match self.decide_and_commit(command, None, None).await? {
            Ok(_) => Ok(()),
            Err(refused) => Err(refused.into()),
        }
    }

    async fn decide_and_commit(
        &mut self,
        command: RunCommand,
        cause: Option<CommandId>,
        consumed: Option<Consumed>,
    ) -> Result<Result<Accepted, SubmitError>, ActorProcessingErr> {
        let command = self.with_partial_answer(command).await;
        let command = match self.with_arguments(command).await {
            Ok(command) => command,
            Err(SubmitError::Refused(refusal)) => {
                return self.refuse(refusal.into(), self.partition.shared.now(), consumed).await;
            }
            Err(error) => return Ok(Err(error)),
        };
        let context = Context { now: self.partition.shared.now(), agent: self.agent.clone() };
        let events = match decide(&self.run, command, &context) {
            Ok(events) => events,
            Err(refusal) => return self.refuse(refusal.into(), context.now, consumed).await,
        };
        let settles = consumed.map(|consumed| consumed.accepted(|| self.told(&events, context.now)));
        let receipt = match self.propose(&events, context.now, cause, settles).await {
            Ok(receipt) => receipt,
            Err(ProposeError::Rejected(reason)) => return self.fail_for_size(reason).await,
            Err(error) => return Ok(Err(error.told()?)),
        };
        self.after_commit(&events)?;
        Ok(Ok(self.accepted(receipt)))
    }

    /// A refused command of the log moves the cursor all the same.
    async fn refuse(
        &self,
        refused: SubmitError,
        at: Timestamp,
        consumed: Option<Consumed>,
    ) -> Result<Result<Accepted, SubmitError>, ActorProcessingErr> {
        if let Some(consumed) = consumed
            && let Err(error) = self.propose(&[], at, None, Some(consumed.rejected(&refused))).await
        {
            return Ok(Err(error.told()?));
        }
        Ok(Err(refused))
    }

    /// What the publisher of a command that makes these events is told.
    fn told(&self, events: &[RunEvent], at: Timestamp) -> Told {
        let mut after = (*self.run).clone();
        events.iter().for_each(|event| evolve(&mut after, event, at));
        let run = Some((after.id().clone(), after.told_status()));
        Told::of_session(&self.run.origin.session_id, run, false)
    }

    fn accepted(&self, receipt: Receipt) -> Accepted {
        Accepted {
            session_id: Some(self.run.origin.session_id.clone()),
            schedule_id: None,
            run_id: Some(self.run.id().clone()),
            partition: self.partition.lease.partition,
            offset: receipt.offset,
            status: Some(self.run.told_status()),
            duplicate: false,
        }
    }

    /// What the model has said so far is kept when its run is cancelled.
    async fn with_partial_answer(&self, command: RunCommand) -> RunCommand {
        let RunCommand::Cancel { reason, partial: None } = command else { return command };
        let words = self.effects.values().find_map(|running| running.words.as_ref());
        let said = words.map(|words| words.so_far()).filter(|said| !said.is_empty());
        let owner = self.run.origin.user_id.as_ref();
        let partial = match said {
            Some(said) => match Text::keep(&said, owner, &*self.partition.shared.tools.blobs).await {
                Ok(text) => Some(text),
                Err(error) => {
                    tracing::warn!(run = %self.run.id(), %error, "the unfinished answer of a cancelled run is not kept");
                    None
                }
            },
            None => None,
        };
        RunCommand::Cancel { reason, partial }
    }

    async fn propose(
        &self,
        events: &[RunEvent],
        at: Timestamp,
        cause: Option<CommandId>,
        settles: Option<Settles>,
    ) -> Result<Receipt, ProposeError> {
        let key = StreamKey::session(&self.run.origin.session_id);
        let owner = self.run.origin.user_id.clone();
        let sends = reports::of(&self.run, events, self.partition.shared.tools.log.partitions());
        let events = events.iter().cloned().map(Event::from).collect();
        self.partition.propose(|reply| Proposal { key, owner, cause, at, events, sends, settles, reply }).await
    }

    /// The log does not take the events: the run ends with the reason, which is small.
    async fn fail_for_size(&mut self, reason: Arc<str>) -> Result<Result<Accepted, SubmitError>, ActorProcessingErr> {
        let failure = Failure { kind: "too_large".into(), message: reason, status: None };
        let context = Context { now: self.partition.shared.now(), agent: self.agent.clone() };
        let events = decide(&self.run, RunCommand::Fail(failure), &context)?;
        let receipt = self.propose(&events, context.now, None, None).await?;
        self.after_commit(&events)?;
        Ok(Ok(self.accepted(receipt)))
    }

    fn after_commit(&mut self, events: &[RunEvent]) -> Result<(), ActorProcessingErr> {
        if events.is_empty() {
            return Ok(());
        }
        let before = self.run.progress.status;
        let run = self.partition.states.run(self.run.id())?;
        self.run = run.ok_or_else(|| format!("run `{}` has left the state store", self.run.id()))?;
        self.effects.retain(|at, _| self.run.step(*at).is_some_and(|step| !step.state.is_settled()));
        for event in events {
            match event {
                RunEvent::Started(_) => self.ask_reconcile_tools(events),
                RunEvent::StepRequested(request) if self.run.awaits(request.step, request.attempt).is_some() => {
                    self.perform(request.step, request.attempt, false);
                }
                RunEvent::StepFailed(failed) => {
                    if let Some(retry_at) = failed.retry_at
                        && self
                            .run
                            .step(failed.step)
                            .is_some_and(|step| matches!(step.state, StepState::Waiting { .. }))
                    {
                        self.retry_later(failed.step, retry_at);
                    }
                }
                _ => {}
            }
        }
        let status = self.run.progress.status;
        if status.is_end() {
            self.effects.clear();
            self.recovery = None;
        }
        if status != RunStatus::Running {
            self.timeout = None;
        }
        self.set_timeout();
        self.set_expiry();
        if self.run.may_continue() {
            self.ask_for_a_slot()?;
        }
        if status != before {
            let changed = SessionMessage::RunChanged { run_id: self.run.id().clone(), status, handled: self.handled };
            self.session.cast(changed).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn perform_requested(&mut self) {
        let run = self.run.clone();
        for (at, step) in run.open_steps() {
            if step.state == StepState::Requested {
                self.perform(at, step.attempt, false);
            }
        }
    }

    /// Begins an attempt, or asks its tool whether it happened.
    fn perform(&mut self, at: u32, attempt: u32, reconcile: bool) {
        let Some(step) = self.run.awaits(at, attempt) else { return };
        let words = matches!(step.call, StepCall::Model { .. })
            .then(|| Arc::new(Words::new(self.partition.shared.live.clone(), self.run.id().clone(), at, attempt)));
        let job = effects::Job {
            partition: self.partition.clone(),
            run: self.run.clone(),
            agent: self.agent.clone(),
            step: step.clone(),
            at,
            reconcile,
            words: words.clone(),
        };
        let myself = self.myself.clone();
        let task = tokio::spawn(async move {
            let message = effects::perform(job).await;
            // The actor may have ended: nobody waits for this attempt any more.
            myself.cast(message).unwrap_or_default();
        });
        self.effects.insert(at, Running { task: task.abort_handle(), words });
    }
}
