//! What a message does whose session is busy, as its agent says.

use std::sync::Arc;

use ractor::ActorProcessingErr;
use reenact_events::{
    RunId, UserId,
    agent::{AgentSpec, WhenBusy},
};
use tokio::sync::oneshot;

use super::SessionWork;
use crate::{
    admission::Full,
    api::{Refusal, SubmitError},
    run::RunCommand,
    session::SessionState,
};

impl SessionWork {
    /// Whether a run that is accepted now must wait for another one of the session.
    pub(super) fn is_busy(&self, session: &SessionState) -> Result<bool, ActorProcessingErr> {
        Ok(!session.is_free() || self.is_held(session)?)
    }

    /// Refuses a new run, or cancels what it is not to wait for. Nothing is cancelled for a run that has no room.
    pub(super) async fn make_way(
        &mut self,
        run_id: &RunId,
        user: Option<&UserId>,
        agent: &AgentSpec,
    ) -> Result<Result<(), SubmitError>, ActorProcessingErr> {
        let session = self.partition().states.session(self.id())?;
        if !session.is_visible_to(user) || !self.is_busy(&session)? {
            return Ok(Ok(()));
        }
        match agent.queue.when_busy {
            WhenBusy::Queue | WhenBusy::Parallel => Ok(Ok(())),
            WhenBusy::Reject => Ok(Err(Refusal::SessionBusy(self.id().clone()).into())),
            WhenBusy::Interrupt => {
                if let Err(full) = self.try_wait(run_id) {
                    return Ok(Err(full));
                }
                for active in &session.active {
                    self.interrupt(active.clone(), run_id, user).await?;
                }
                Ok(Ok(()))
            }
        }
    }

    async fn interrupt(&mut self, active: RunId, by: &RunId, user: Option<&UserId>) -> Result<(), ActorProcessingErr> {
        let (reply, answer) = oneshot::channel();
        let reason: Arc<str> = format!("interrupted by run `{by}`").into();
        let what = RunCommand::Cancel { reason: Some(reason), partial: None };
        self.ask_run(user, active.clone(), what, (None, None), reply).await?;
        // Without an answer its actor has just failed: then the new run waits for it.
        if matches!(answer.await, Ok(Ok(_))) {
            let partition = self.partition();
            partition.shared.admission().give_back(partition.lease.partition, &active);
        }
        Ok(())
    }

    /// Takes a place among those that wait.
    pub(super) fn try_wait(&self, run_id: &RunId) -> Result<(), SubmitError> {
        let partition = self.partition();
        let limit = partition.shared.settings.bounds.waiting;
        let now = partition.shared.now();
        let taken = partition.shared.admission().try_wait(partition.lease.partition, run_id, now);
        taken.map_err(|Full { waiting, retry_after_s }| SubmitError::QueueFull {
            queued: waiting,
            limit,
            retry_after_s,
        })
    }
}
