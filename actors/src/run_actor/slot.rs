//! The run's slot: it has one while it works, and none while it only waits for a moment or for a person.

use ractor::ActorProcessingErr;
use reenact_events::event::RunStatus;

use super::RunWork;
use crate::{run::RunCommand, session_actor::SessionMessage};

impl RunWork {
    fn has_slot(&self) -> bool {
        self.partition.shared.admission().holds(self.partition.lease.partition, self.run.id())
    }

    /// The run has its turn. Without a slot, which was given back meanwhile, it asks for one.
    pub(super) async fn begin(&mut self) -> Result<(), ActorProcessingErr> {
        if !self.has_slot() {
            return self.ask_for_a_slot();
        }
        let wait_ms = self.wait_for_a_zombie_ms();
        if self.run.progress.status == RunStatus::Pending && wait_ms > 0 {
            // It was queued again so soon that an owner before this one might still begin what it had announced.
            self.recovery = Some(self.later(wait_ms, RunCommand::Begin));
            return Ok(());
        }
        if self.run.progress.status != RunStatus::Running {
            return self.act(RunCommand::Begin).await;
        }
        for step in std::mem::take(&mut self.due) {
            self.act(RunCommand::RetryDue { step }).await?;
        }
        Ok(())
    }

    /// A step's wait is over: it is asked again, as soon as the run has a slot.
    pub(super) async fn retry_due(&mut self, step: u32) -> Result<(), ActorProcessingErr> {
        if self.has_slot() {
            return self.act(RunCommand::RetryDue { step }).await;
        }
        self.due.push(step);
        self.ask_for_a_slot()
    }

    pub(super) fn ask_for_a_slot(&self) -> Result<(), ActorProcessingErr> {
        let due = SessionMessage::Due(self.run.id().clone());
        self.session.cast(due).map_err(|error| error.to_string().into())
    }

    /// After whatever happened: a run at work has a slot, and one that waits has none.
    pub(super) fn settle_slot(&mut self) -> Result<(), ActorProcessingErr> {
        let (partition, shared) = (self.partition.lease.partition, &self.partition.shared);
        let (status, rests) = (self.run.progress.status, self.run.rests());
        let (works, waits) = (status == RunStatus::Running && !rests, status == RunStatus::Paused || rests);
        if works && !self.has_slot() {
            let ticket = self.partition.ticket(&self.run)?;
            shared.admission().force(partition, self.run.id(), &ticket);
        } else if waits && self.has_slot() {
            shared.admission().give_back(partition, self.run.id());
            shared.call_next();
        }
        Ok(())
    }
}
