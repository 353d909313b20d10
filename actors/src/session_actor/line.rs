//! Which of the session's runs stands in the node's line, and what happens when it is called.

use std::sync::Arc;

use ractor::ActorProcessingErr;
use reenact_events::{RunId, agent::WhenBusy, event::RunStatus};

use super::SessionWork;
use crate::{
    run::RunState,
    run_actor::{Entry, RunMessage},
    session::SessionState,
};

impl SessionWork {
    pub(super) fn has_slot(&self, run_id: &RunId) -> bool {
        let partition = self.partition();
        partition.shared.admission().holds(partition.lease.partition, run_id)
    }

    /// The run that the session would let work next: one that was paused and may go on, else the first that waits.
    fn next_run(&self) -> Result<Option<Arc<RunState>>, ActorProcessingErr> {
        let states = &self.partition().states;
        let session = states.session(self.id())?;
        if !session.active.is_empty() {
            return Ok(None);
        }
        for paused in &session.paused {
            if let Some(run) = states.run(paused)?.filter(|run| run.may_continue()) {
                return Ok(Some(run));
            }
        }
        if session.waiting == 0 || self.is_held(&session)? {
            return Ok(None);
        }
        match states.first_waiting(self.id())? {
            Some(first) => Ok(states.run(&first)?),
            None => Ok(None),
        }
    }

    /// Whether a paused run lets no later one begin.
    pub(super) fn is_held(&self, session: &SessionState) -> Result<bool, ActorProcessingErr> {
        for paused in &session.paused {
            if let Some(run) = self.partition().states.run(paused)?
                && self.partition().agent(&run)?.queue.paused_holds_session
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Puts the session's next run in line, if there is one, and lets the node call whoever is next.
    pub(super) fn line_up(&self) -> Result<(), ActorProcessingErr> {
        if let Some(next) = self.next_run()? {
            self.stand_in_line(&next)?;
        }
        self.partition().shared.call_next();
        Ok(())
    }

    pub(super) fn stand_in_line(&self, run: &RunState) -> Result<(), ActorProcessingErr> {
        let partition = self.partition();
        let ticket = partition.ticket(run)?;
        partition.shared.admission().stand_in_line(partition.lease.partition, run.id(), ticket);
        Ok(())
    }

    /// A run could work: one that is at work and rests, or that works beside others, needs only a slot for it; any
    /// other one has its turn in the session.
    pub(super) fn due(&self, run_id: &RunId) -> Result<(), ActorProcessingErr> {
        if let Some(run) = self.partition().states.run(run_id)?
            && (run.rests() || self.is_parallel(&run)?)
        {
            self.stand_in_line(&run)?;
        }
        self.line_up()
    }

    /// Whether the run waits, and not for the others of its session.
    pub(super) fn is_parallel(&self, run: &RunState) -> Result<bool, ActorProcessingErr> {
        let waits = run.progress.status == RunStatus::Pending;
        Ok(waits && self.partition().agent(run)?.queue.when_busy == WhenBusy::Parallel)
    }

    /// Takes a slot for a paused run that somebody decides about, if it could go on now.
    pub(super) fn try_continue(&self, run_id: &RunId) -> Result<bool, ActorProcessingErr> {
        let partition = self.partition();
        let is_free = partition.states.session(self.id())?.active.is_empty();
        let paused = partition.states.run(run_id)?.filter(|run| run.progress.status == RunStatus::Paused);
        let Some(run) = paused.filter(|run| is_free && run.origin.session_id == *self.id()) else {
            return Ok(false);
        };
        let ticket = partition.ticket(&run)?;
        Ok(partition.shared.admission().try_begin(partition.lease.partition, run_id, &ticket))
    }

    /// The run has a slot: it works with it, or gives it back.
    pub(super) async fn admit(&mut self, run_id: &RunId) -> Result<(), ActorProcessingErr> {
        let partition = self.partition().clone();
        let goes = match partition.states.run(run_id)? {
            Some(run) if run.progress.status == RunStatus::Running => self.runs.contains_key(run_id),
            Some(run) if run.progress.status.is_end() => false,
            Some(run) => self.is_parallel(&run)? || self.next_run()?.is_some_and(|next| next.id() == run_id),
            None => false,
        };
        if !goes {
            partition.shared.admission().give_back(partition.lease.partition, run_id);
            return self.line_up();
        }
        partition.shared.admission().begun(partition.lease.partition, run_id, partition.shared.now());
        if self.runs.contains_key(run_id) {
            self.tell(run_id, RunMessage::Begin);
            return Ok(());
        }
        self.spawn(run_id.clone(), Entry::Called).await
    }
}
