//! The actor of a partition's schedules: decides the commands about them, and does for each what is owed when its
//! moment has come.
//!
//! It has no state of its own: what is owed next stands in the store, in order, so it looks at the first entry and
//! sleeps until then. It sleeps in short pieces, because clocks are put forward and back. Whatever it does for one
//! schedule is one batch, with the commands that it sends; when that is not committed, the entry is still there.

use std::time::Duration;

use futures::future::join_all;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use reenact_events::{
    AgentId, Command, CommandBody, CommandId, Event, Forward, ScheduleId, StreamKey, Timestamp, UserId,
    command::AgentRef, schedule::ScheduleCommand,
};

use crate::{
    answers::{Consumed, Told},
    api::{Accepted, Refusal, SubmitError},
    partition::{Partition, Proposal, ProposeError, Receipt, Settles, Submission},
    schedule::{Context, Decided, change, create, erase, wake},
};

/// Schedules that are seen to at once.
const AT_ONCE_MAX: usize = 256;
/// The longest sleep: a clock that was put forward is noticed after it.
const SLEEP_MAX: Duration = Duration::from_secs(10);

/// What the actor is told.
#[derive(Debug)]
pub enum ScheduleMessage {
    /// Decide a command.
    Submit(Box<Submission>),
    /// See whether something is owed.
    Wake,
}

/// See the module.
pub struct ScheduleActor;

/// What the actor knows.
pub struct Schedules {
    partition: Partition,
    myself: ActorRef<ScheduleMessage>,
    sleep: Option<tokio::task::AbortHandle>,
}

impl Drop for Schedules {
    fn drop(&mut self) {
        self.sleep.iter().for_each(tokio::task::AbortHandle::abort);
    }
}

impl Actor for ScheduleActor {
    type Msg = ScheduleMessage;
    type State = Schedules;
    type Arguments = Partition;

    async fn pre_start(
        &self,
        myself: ActorRef<ScheduleMessage>,
        partition: Partition,
    ) -> Result<Schedules, ActorProcessingErr> {
        let mut schedules = Schedules { partition, myself, sleep: None };
        schedules.sleep()?;
        Ok(schedules)
    }

    async fn handle(
        &self,
        _: ActorRef<ScheduleMessage>,
        message: ScheduleMessage,
        schedules: &mut Schedules,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ScheduleMessage::Submit(submission) => schedules.submit(*submission).await?,
            ScheduleMessage::Wake => schedules.wake().await?,
        }
        schedules.sleep()
    }
}

/// What a command comes to.
struct Outcome {
    id: ScheduleId,
    decided: Decided,
    /// It had taken effect before.
    duplicate: bool,
}

impl Schedules {
    /// Sleeps until something is owed, if anything ever is.
    fn sleep(&mut self) -> Result<(), ActorProcessingErr> {
        self.sleep.take().iter().for_each(tokio::task::AbortHandle::abort);
        let Some(at) = self.partition.states.schedules_wake_at()? else { return Ok(()) };
        let wait_ms = u64::try_from(at.ms_since(self.partition.shared.now())).unwrap_or(0);
        let (wait, myself) = (Duration::from_millis(wait_ms).min(SLEEP_MAX), self.myself.clone());
        let task = tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            // The actor may have ended; its successor looks itself.
            myself.cast(ScheduleMessage::Wake).unwrap_or_default();
        });
        self.sleep = Some(task.abort_handle());
        Ok(())
    }

    /// Does what is owed, for many schedules at once: what is proposed together is committed together.
    async fn wake(&mut self) -> Result<(), ActorProcessingErr> {
        let now = self.partition.shared.now();
        let mut proposals = Vec::new();
        for id in self.partition.states.schedules_due(now, AT_ONCE_MAX)? {
            let Some(state) = self.partition.states.schedule(&id)? else { continue };
            let decided = self.decide(state.user_id.as_ref(), now, |context| wake(&state, context))?;
            proposals.push(self.propose(None, state.user_id.clone(), None, decided, now));
        }
        for proposed in join_all(proposals).await {
            proposed?;
        }
        Ok(())
    }

    /// Decides with what may be looked at.
    fn decide<T>(
        &self,
        owner: Option<&UserId>,
        now: Timestamp,
        decide: impl FnOnce(&Context<'_>) -> T,
    ) -> Result<T, ActorProcessingErr> {
        let (shared, states) = (&self.partition.shared, &self.partition.states);
        let is_served = |agent: &AgentId| shared.agent(&AgentRef::Named(agent.clone())).is_some();
        let trouble = std::cell::RefCell::new(None);
        let is_taken = |name: &str| match states.schedule_named(owner, name) {
            Ok(known) => known.is_some(),
            Err(error) => {
                trouble.replace(Some(error));
                true
            }
        };
        let decided = decide(&Context { now, is_served: &is_served, is_taken: &is_taken });
        match trouble.into_inner() {
            Some(error) => Err(error.into()),
            None => Ok(decided),
        }
    }

    fn propose(
        &self,
        cause: Option<CommandId>,
        owner: Option<UserId>,
        settles: Option<Settles>,
        decided: Decided,
        at: Timestamp,
    ) -> impl Future<Output = Result<Receipt, ProposeError>> + use<> {
        let partition = self.partition.clone();
        let partitions = partition.shared.tools.log.partitions();
        let key = StreamKey::schedules(owner.as_ref());
        let events: Vec<Event> =
            decided.events.into_iter().map(Event::from).chain(decided.erased.map(Event::from)).collect();
        let sends = decided
            .sends
            .into_iter()
            .filter_map(|command| Some(Forward { partition: command.stream()?.partition_of(partitions), command }));
        let sends = sends.collect();
        async move { partition.propose(|reply| Proposal { key, owner, cause, at, events, sends, settles, reply }).await }
    }

    async fn submit(&mut self, submission: Submission) -> Result<(), ActorProcessingErr> {
        let Submission { command, consumed, reply } = submission;
        let Command { id, user_id, body, .. } = command;
        let CommandBody::Schedule(asked) = body else { return Ok(()) };
        let now = self.partition.shared.now();
        let answer = match self.outcome(&id, user_id.as_ref(), asked, now)? {
            Ok(outcome) => self.commit(id, user_id, outcome, consumed, now).await?,
            Err(refusal) => self.refuse(user_id, refusal.into(), consumed, now).await?,
        };
        // Whoever asked may have left.
        reply.send(answer).unwrap_or_default();
        Ok(())
    }

    fn outcome(
        &self,
        id: &CommandId,
        owner: Option<&UserId>,
        asked: ScheduleCommand,
        now: Timestamp,
    ) -> Result<Result<Outcome, Refusal>, ActorProcessingErr> {
        let schedule = asked.schedule_id().cloned().unwrap_or_else(|| ScheduleId::of_command(id, owner));
        if self.partition.states.was_taken(id)? {
            return Ok(Ok(Outcome { id: schedule, decided: Decided::default(), duplicate: true }));
        }
        let known = self.partition.states.schedule(&schedule)?.filter(|known| known.user_id.as_ref() == owner);
        let decided = match (known, asked) {
            (_, ScheduleCommand::Create(spec)) => {
                let id = schedule.clone();
                self.decide(owner, now, |context| create(id, owner.cloned(), *spec, context))?
            }
            // Nobody's content is sealed.
            (_, ScheduleCommand::EraseOwner(keys)) => match owner {
                Some(owner) => Ok(erase(owner.clone(), self.partition.states.schedules_of(owner)?, keys)),
                None => Ok(Decided::default()),
            },
            (Some(state), asked) => self.decide(owner, now, |context| change(&state, id, asked, context))?,
            // A schedule that is gone wants to know nothing.
            (None, ScheduleCommand::Report(_)) => Ok(Decided::default()),
            (None, _) => Err(Refusal::ScheduleNotFound),
        };
        Ok(decided.map(|decided| Outcome { id: schedule, decided, duplicate: false }))
    }

    async fn commit(
        &self,
        id: CommandId,
        owner: Option<UserId>,
        outcome: Outcome,
        consumed: Option<Consumed>,
        now: Timestamp,
    ) -> Result<Result<Accepted, SubmitError>, ActorProcessingErr> {
        let Outcome { id: schedule_id, decided, duplicate } = outcome;
        let told = || Told { duplicate, session_id: None, schedule_id: Some(schedule_id.clone()), run: None };
        let settles = consumed.map(|consumed| consumed.accepted(told));
        match self.propose(Some(id), owner, settles, decided, now).await {
            Ok(Receipt { offset }) => Ok(Ok(Accepted {
                session_id: None,
                schedule_id: Some(schedule_id),
                run_id: None,
                partition: self.partition.lease.partition,
                offset,
                status: None,
                duplicate,
            })),
            Err(error) => Ok(Err(error.told()?)),
        }
    }

    /// A refused command of the log moves the cursor all the same.
    async fn refuse(
        &self,
        owner: Option<UserId>,
        refused: SubmitError,
        consumed: Option<Consumed>,
        now: Timestamp,
    ) -> Result<Result<Accepted, SubmitError>, ActorProcessingErr> {
        if let Some(consumed) = consumed {
            let settles = Some(consumed.rejected(&refused));
            if let Err(error) = self.propose(None, owner, settles, Decided::default(), now).await {
                return Ok(Err(error.told()?));
            }
        }
        Ok(Err(refused))
    }
}
