//! Goes on from one of the session's runs with another one.

use std::sync::Arc;

use ractor::ActorProcessingErr;
use reenact_events::{
    agent::AgentSpec,
    command::{AgentRef, ForkFrom, ForkRun},
};

use super::{SessionWork, accept::Asked};
use crate::{
    api::{Accepted, Refusal, SubmitError},
    run::{Context, RunState, fork},
    session::{self, NewFork},
};

/// The run to go on from, what the new one takes over, and who answers.
type Forked = (Arc<RunState>, fork::Cut, Arc<AgentSpec>);

impl SessionWork {
    pub(super) async fn fork_run(
        &mut self,
        asked: Asked<'_>,
        fork: ForkRun,
    ) -> Result<Result<Accepted, SubmitError>, ActorProcessingErr> {
        if let Some(known) = self.known(&asked).await? {
            return Ok(known);
        }
        let (source, cut, agent) = match self.forked(&asked, &fork)? {
            Ok(forked) => forked,
            Err(refusal) => return Ok(Err(refusal.into())),
        };
        let begins = match self.seat(&asked, &agent).await? {
            Ok(begins) => begins,
            Err(refused) => return Ok(Err(refused)),
        };
        let partition = self.partition().clone();
        let session = partition.states.session(self.id())?;
        let owner = asked.user_id.clone().or_else(|| session.user_id.clone());
        let own = fork.instructions.is_some();
        let version = if own { agent.version_of(owner.as_ref()) } else { agent.version() };
        let new = NewFork {
            run_id: asked.run_id.clone(),
            user_id: asked.user_id.clone(),
            source: &source,
            cut,
            input: fork.input,
            regenerates: fork.from == ForkFrom::Answer,
            replaces: fork.replaces,
            own,
            version_known: partition.states.agent(&version)?.is_some(),
            version,
            begins,
            defaults: self.defaults(&agent)?,
            stream: fork.stream,
            background: fork.background,
        };
        let context = Context { now: partition.shared.now(), agent };
        let decided = session::fork_run(&session, new, &context);
        let answer = self.enter(asked, begins, context.now, decided).await;
        // It has ended, and nobody works on it.
        if source.progress.status.is_end() {
            partition.states.release_run(source.id());
        }
        answer
    }

    /// What the command asks for, if it can be.
    fn forked(&self, asked: &Asked<'_>, fork: &ForkRun) -> Result<Result<Forked, Refusal>, ActorProcessingErr> {
        let partition = self.partition();
        let known = partition.states.run(&fork.run_id)?.filter(|run| run.origin.session_id == *self.id());
        let visible = self.is_visible(asked.user_id.as_ref())?;
        let Some(source) = known.filter(|_| visible) else { return Ok(Err(Refusal::RunNotFound)) };
        if source.progress.history_lost || partition.states.losses()? > source.progress.losses {
            let id = source.id();
            let text = format!("run `{id}` may have done more than is known, since events of the log were lost");
            return Ok(Err(Refusal::NotForked(text.into())));
        }
        let Some(served) = partition.shared.agent(&AgentRef::Named(source.origin.agent_id.clone())) else {
            return Ok(Err(Refusal::AgentNotFound));
        };
        let cut = fork::cut(&source, &*partition.agent(&source)?, fork.from, fork.input.is_some());
        Ok(cut.and_then(|cut| Ok((source, cut, fork::with(served, fork)?))))
    }
}
