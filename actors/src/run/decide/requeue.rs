//! The part of a run's decisions that is about being queued again after it has failed or was stopped.
//!
//! It goes on from its last completed step. What a step brought stays; what ended the run (a model or a guardrail that
//! failed, an answer that was not let pass or did not fit) is asked once more, as a further step. What was cut off by
//! the end is taken up as after a crash: again where that is harmless, in doubt where it is not. A call that was held,
//! and about which nobody has decided, is held again: the end was no answer.

use std::sync::Arc;

use reenact_events::{
    UserId,
    agent::Effect,
    event::{RunRequeued, RunStatus, StepInDoubt},
};

use super::Draft;
use crate::{
    api::Refusal,
    run::state::{RunState, StepState},
};

impl Draft<'_> {
    pub(super) fn requeue(&mut self, by: Option<UserId>) -> Result<(), Refusal> {
        let is_over = matches!(self.run.progress.status, RunStatus::Completed | RunStatus::Regenerated);
        if is_over || self.run.progress.history_lost {
            return Err(refused(&self.run, self.run.progress.history_lost));
        }
        self.push(RunRequeued { run_id: self.run_id(), by });
        Ok(())
    }

    /// Takes up the steps that the run's end left open. The shell asks the tools of `reconcile` steps.
    pub(super) fn take_up(&mut self) {
        let open: Vec<_> = self.run.open_steps().map(|(at, step)| (at, step.clone())).collect();
        for (at, step) in open {
            match (&step.state, step.effect()) {
                (StepState::Requested, Effect::AtMostOnce) => self.push(StepInDoubt {
                    run_id: self.run_id(),
                    step: at,
                    attempt: step.attempt,
                    reason: "the run ended while the call was being made".into(),
                }),
                (StepState::Requested, Effect::Reconcile) | (StepState::InDoubt, _) => {}
                (StepState::Held(hold), _) => self.hold_again(at, &step, hold),
                _ => self.again(at),
            }
        }
    }

    /// Whether a step is from before the run was last queued again.
    pub(super) fn is_old(&self, step: u32) -> bool {
        step < self.run.progress.old_steps
    }
}

/// Why a run is not queued again: what it has done may not be known, or it has not failed.
#[must_use]
pub fn refused(run: &RunState, lost: bool) -> Refusal {
    let (id, status) = (run.id(), run.told_status().as_str());
    let reason: Arc<str> = if lost {
        format!("run `{id}` may have done more than is known, since events of the log were lost: start a new run")
            .into()
    } else {
        format!("run `{id}` is {status}: only a run that failed or was cancelled can be queued again").into()
    };
    Refusal::NotRequeued(reason)
}
