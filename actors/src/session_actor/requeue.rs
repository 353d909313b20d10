//! A run that has failed or was stopped waits for its turn once more.
//!
//! It is the session that decides this: a run that has ended has no actor.

use ractor::ActorProcessingErr;
use reenact_events::{CommandId, Event, RunId, UserId, event::RunStatus};

use super::SessionWork;
use crate::{
    answers::{Consumed, Told},
    api::{Accepted, Refusal, SubmitError},
    run::{Context, RunCommand, decide, not_requeued},
};

impl SessionWork {
    pub(super) async fn requeue(
        &mut self,
        cause: &CommandId,
        user: Option<UserId>,
        run_id: RunId,
        consumed: Option<&Consumed>,
    ) -> Result<Result<Accepted, SubmitError>, ActorProcessingErr> {
        let partition = self.partition().clone();
        let known = partition.states.run(&run_id)?.filter(|run| run.origin.session_id == *self.id());
        let visible = self.is_visible(user.as_ref())?;
        let Some(run) = known.filter(|_| visible) else {
            return Ok(Err(Refusal::RunNotFound.into()));
        };
        if partition.states.losses()? > run.progress.losses {
            // It may have been queued again and done more, and nobody knows.
            return Ok(Err(not_requeued(&run, true).into()));
        }
        let context = Context { now: partition.shared.now(), agent: partition.agent(&run)? };
        let events: Vec<_> = match decide(&run, RunCommand::Requeue { by: user.clone() }, &context) {
            Ok(events) => events.into_iter().map(Event::from).collect(),
            Err(refusal) => return Ok(Err(refusal.into())),
        };
        // That it ended may still be on its way here: what it held is given back before it waits again.
        self.run_changed(&run_id, run.progress.status, 0).await?;
        if let Err(full) = self.try_wait(&run_id) {
            return Ok(Err(full));
        }
        let after = (run_id.clone(), RunStatus::Pending);
        let told = || Told::of_session(self.id(), Some(after.clone()), false);
        let settles = consumed.map(|consumed| consumed.accepted(told));
        match self.propose(Some(cause.clone()), user, settles, events).await {
            Ok(receipt) => {
                self.due(&run_id)?;
                Ok(Ok(self.accepted(receipt, Some(after))))
            }
            Err(error) => {
                let told = error.told()?;
                partition.shared.admission().release(partition.lease.partition, &run_id);
                Ok(Err(told))
            }
        }
    }
}
