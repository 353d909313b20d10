//! The commands that the session itself decides: starting a run, and creating, changing and deleting the session.

use std::sync::Arc;

use ractor::ActorProcessingErr;
use reenact_events::{
    AgentId, CommandBody, CommandId, Event, RunId, StreamKey, Timestamp, UserId,
    agent::{AgentSpec, WhenBusy},
    command::{AgentRef, StartRun},
    event::{RunStatus, SessionDeleted},
    session_state::{SessionValues, values_of},
};
use tokio::sync::oneshot;

use super::SessionWork;
use crate::{
    admission::Ticket,
    answers::{Consumed, Told},
    api::{Accepted, Refusal, SubmitError},
    partition::{Proposal, Submission},
    run::{Context, RunCommand},
    run_actor::Entry,
    session::{self, Fields, NewRun},
};

/// A run that somebody asks for.
pub(super) struct Asked<'a> {
    pub(super) cause: &'a CommandId,
    pub(super) run_id: RunId,
    pub(super) user_id: Option<UserId>,
    pub(super) consumed: Option<&'a Consumed>,
}

impl SessionWork {
    pub(super) async fn start_run(
        &mut self,
        asked: Asked<'_>,
        start: StartRun,
    ) -> Result<Result<Accepted, SubmitError>, ActorProcessingErr> {
        if let Some(known) = self.known(&asked).await? {
            return Ok(known);
        }
        let agent = match self.agent_for(&start) {
            Ok(agent) => agent,
            Err(refusal) => return Ok(Err(refusal.into())),
        };
        let begins = match self.seat(&asked, &agent).await? {
            Ok(begins) => begins,
            Err(refused) => return Ok(Err(refused)),
        };
        let partition = self.partition().clone();
        let session = partition.states.session(self.id())?;
        let version = agent.version();
        let version_known = partition.states.agent(&version)?.is_some();
        let defaults = self.defaults(&agent)?;
        let context = Context { now: partition.shared.now(), agent };
        let (run_id, user_id) = (asked.run_id.clone(), asked.user_id.clone());
        let new = NewRun { run_id, user_id, start: &start, version, version_known, begins, defaults };
        let decided = session::start_run(&session, new, &context);
        self.enter(asked, begins, context.now, decided).await
    }

    /// The answer about a run that was accepted before, if it was.
    pub(super) async fn known(
        &mut self,
        asked: &Asked<'_>,
    ) -> Result<Option<Result<Accepted, SubmitError>>, ActorProcessingErr> {
        let states = self.partition().states.clone();
        if let Some(known) = states.run(&asked.run_id)? {
            if known.origin.session_id != *self.id() || !self.is_visible(asked.user_id.as_ref())? {
                return Ok(Some(Err(Refusal::RunNotFound.into())));
            }
            let run = Some((asked.run_id.clone(), known.told_status()));
            return self.repeat(run, true, asked.consumed).await.map(Some);
        }
        let deleted = states.was_deleted(&asked.run_id)?;
        Ok(deleted.then(|| Err(Refusal::RunNotFound.into())))
    }

    /// Takes a slot for a new run, or a place among those that wait; says whether it begins at once.
    pub(super) async fn seat(
        &mut self,
        asked: &Asked<'_>,
        agent: &AgentSpec,
    ) -> Result<Result<bool, SubmitError>, ActorProcessingErr> {
        let run_id = &asked.run_id;
        if let Err(refused) = self.make_way(run_id, asked.user_id.as_ref(), agent).await? {
            return Ok(Err(refused));
        }
        let partition = self.partition().clone();
        let number = partition.lease.partition;
        let session = partition.states.session(self.id())?;
        let owner = asked.user_id.clone().or_else(|| session.user_id.clone());
        let ticket = Ticket::of(self.id(), owner.as_ref(), agent, partition.shared.now());
        let may_begin = agent.queue.when_busy == WhenBusy::Parallel || !self.is_busy(&session)?;
        let begins = may_begin && partition.shared.admission().try_begin(number, run_id, &ticket);
        if begins {
            partition.shared.admission().begun(number, run_id, partition.shared.now());
        } else if let Err(full) = self.try_wait(run_id) {
            return Ok(Err(full));
        }
        Ok(Ok(begins))
    }

    /// Commits what accepts a run that has its seat, and lets it work; a refusal gives the seat back.
    pub(super) async fn enter(
        &mut self,
        asked: Asked<'_>,
        begins: bool,
        at: Timestamp,
        decided: Result<Vec<Event>, Refusal>,
    ) -> Result<Result<Accepted, SubmitError>, ActorProcessingErr> {
        let partition = self.partition().clone();
        let number = partition.lease.partition;
        let Asked { cause, run_id, user_id, consumed } = asked;
        let events = match decided {
            Ok(events) => events,
            Err(refusal) => {
                partition.shared.admission().release(number, &run_id);
                return Ok(Err(refusal.into()));
            }
        };
        let run = (run_id.clone(), if begins { RunStatus::Running } else { RunStatus::Pending });
        let told = || Told::of_session(self.id(), Some(run.clone()), false);
        let settles = consumed.map(|consumed| consumed.accepted(told));
        let (key, cause) = (StreamKey::session(self.id()), Some(cause.clone()));
        let proposal = |reply| Proposal { key, owner: user_id, cause, at, events, sends: Vec::new(), settles, reply };
        match partition.propose(proposal).await {
            Ok(receipt) => {
                if begins {
                    self.spawn(run_id, Entry::Begun).await?;
                } else {
                    self.due(&run_id)?;
                }
                Ok(Ok(self.accepted(receipt, Some(run))))
            }
            Err(error) => {
                let told = error.told()?;
                partition.shared.admission().release(number, &run_id);
                Ok(Err(told))
            }
        }
    }

    /// The keys that an agent gives the session's state and that it has not.
    pub(super) fn defaults(&self, agent: &AgentSpec) -> Result<SessionValues, ActorProcessingErr> {
        let Some(given) = &agent.session_state else { return Ok(SessionValues::new()) };
        let known = self.partition().states.session_values(self.id())?;
        Ok(values_of(given).into_iter().filter(|(key, _)| !known.contains_key(key)).collect())
    }

    /// Who answers, if what is asked of them can be.
    fn agent_for(&self, start: &StartRun) -> Result<Arc<AgentSpec>, Refusal> {
        let shared = &self.partition().shared;
        if let Some(schema) = &start.output_schema {
            shared.tools.steps.check_schema(schema).map_err(|reason| Refusal::OutputSchema(reason.into()))?;
        }
        shared.agent(&start.agent).ok_or(Refusal::AgentNotFound)
    }

    pub(super) async fn change(
        &mut self,
        cause: &CommandId,
        user: Option<UserId>,
        body: CommandBody,
        consumed: Option<&Consumed>,
    ) -> Result<Result<Accepted, SubmitError>, ActorProcessingErr> {
        let session = self.partition().states.session(self.id())?;
        let is_served = |agent: &AgentId| self.partition().shared.agent(&AgentRef::Named(agent.clone())).is_some();
        let decided = match body {
            CommandBody::CreateSession { agent_id: Some(agent), .. } if !is_served(&agent) => {
                Err(Refusal::AgentNotFound)
            }
            CommandBody::CreateSession { session_id, agent_id, name, state, metadata } => {
                let fields = Fields { name, state, metadata, summary: None };
                session::create(&session, &session_id, user.clone(), agent_id.as_ref(), fields)
            }
            CommandBody::UpdateSession { session_id, name, state, metadata, summary } => {
                let fields = Fields { name, state, metadata, summary };
                session::update(&session, &session_id, user.as_ref(), fields)
            }
            CommandBody::DeleteSession { session_id, runs, reason } => {
                session::delete(&session, SessionDeleted { session_id, reason }, runs, user.as_ref())
            }
            CommandBody::StartRun(_)
            | CommandBody::CancelRun { .. }
            | CommandBody::ContinueRun { .. }
            | CommandBody::RequeueRun { .. }
            | CommandBody::ForkRun(_)
            | CommandBody::ForkSession { .. }
            | CommandBody::Schedule(_) => Ok(Vec::new()),
        };
        let events = match decided {
            Ok(events) => events,
            Err(refusal) => return Ok(Err(refusal.into())),
        };
        let told = || Told::of_session(self.id(), None, false);
        let settles = consumed.map(|consumed| consumed.accepted(told));
        match self.propose(Some(cause.clone()), user, settles, events).await {
            Ok(receipt) => Ok(Ok(self.accepted(receipt, None))),
            Err(error) => Ok(Err(error.told()?)),
        }
    }

    /// Stops every run first; the deletion is decided when the last one has ended.
    pub(super) async fn delete(&mut self, submission: Submission, runs: Option<u64>) -> Result<(), ActorProcessingErr> {
        let session = self.partition().states.session(self.id())?;
        let user = submission.command.user_id.as_ref();
        if let Err(refusal) = session::may_delete(&session, self.id(), runs, user) {
            let Submission { reply, consumed, .. } = submission;
            return self.reply(reply, Err(refusal.into()), consumed).await;
        }
        for run_id in self.partition().states.open_runs(self.id())? {
            let (reply, _nobody) = oneshot::channel();
            let what = RunCommand::Cancel { reason: Some("the session is deleted".into()), partial: None };
            self.ask_run(submission.command.user_id.as_ref(), run_id, what, (None, None), reply).await?;
        }
        self.deletion = Some(submission);
        self.delete_if_quiet().await
    }

    pub(super) async fn delete_if_quiet(&mut self) -> Result<(), ActorProcessingErr> {
        if self.deletion.is_none() || !self.partition().states.open_runs(self.id())?.is_empty() {
            return Ok(());
        }
        if let Some(Submission { command, consumed, reply }) = self.deletion.take() {
            let answer = self.change(&command.id, command.user_id, command.body, consumed.as_ref()).await?;
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
}
