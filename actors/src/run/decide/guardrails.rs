//! The part of a run's decisions that is about its guardrails.
//!
//! Those on the input are asked side by side before the first model call, those on the output once there is an answer
//! that would end the run. Each is a step, so what it said is not asked again. One that blocks ends the run, and so
//! does one that gives no answer after its retries: what nobody has let pass does not pass.

use std::sync::Arc;

use reenact_events::{
    agent::Guarded,
    event::{Blocked, Failure, RunFailed, StepCall, StepCompleted, StepFailed, StepResult},
};

use super::{Asked, BACKOFF_MS_MAX, Draft};
use crate::run::state::{Step, StepState};

impl Draft<'_> {
    /// Asks the model for the first time since somebody spoke, as soon as the message may be seen by it.
    pub(super) fn admit_input(&mut self, spoken_to_at: u32) {
        if self.passes(Guarded::Input, spoken_to_at) {
            self.request_model();
        }
    }

    /// Whether every guardrail has let pass what stands at step `from`. Those that were not asked are, and one that
    /// does not let it pass ends the run.
    pub(super) fn passes(&mut self, on: Guarded, from: u32) -> bool {
        let names: Vec<Arc<str>> = self
            .context
            .agent
            .guardrails
            .iter()
            .filter(|spec| spec.on == on)
            .map(|spec| spec.name.as_str().into())
            .collect();
        let mut all = true;
        for name in names {
            match self.said_by(&name, from) {
                Some((_, StepState::Done(StepResult::Guardrail { blocked: None }))) => continue,
                Some((at, StepState::Done(StepResult::Guardrail { blocked: Some(blocked) }))) if !self.is_old(at) => {
                    self.block(on, blocked);
                    return false;
                }
                Some((at, StepState::Failed(error))) if !self.is_old(at) => {
                    self.fail(unanswered(&name, &error));
                    return false;
                }
                Some((_, state)) if !state.is_settled() => {}
                _ => {
                    let call = StepCall::Guardrail { name, on };
                    self.request(self.run.progress.steps, 1, call, Asked::default());
                }
            }
            all = false;
        }
        all
    }

    /// What a guardrail said last from a step on, with the place of that.
    fn said_by(&self, name: &str, from: u32) -> Option<(u32, StepState)> {
        let is_it = |step: &Arc<Step>| matches!(&step.call, StepCall::Guardrail { name: of, .. } if **of == *name);
        let said = (0..).zip(&self.run.steps).skip(from as usize).filter(|(_, step)| is_it(step)).last();
        said.map(|(at, step)| (at, step.state.clone()))
    }

    pub(super) fn guarded(
        &mut self,
        step: u32,
        attempt: u32,
        outcome: Result<Option<Blocked>, Failure>,
        duration_ms: u64,
    ) {
        let Some(known) = self.run.awaits(step, attempt).cloned() else { return };
        let run_id = self.run_id();
        match outcome {
            Ok(blocked) => {
                let result = StepResult::Guardrail { blocked };
                let (unfit, session_state) = (None, None);
                self.push(StepCompleted { run_id, step, attempt, result, duration_ms, unfit, session_state });
            }
            Err(error) => {
                let retry_at = self.asked_again(&known).then(|| {
                    let pause = (500_i64 << known.failures.min(6)).min(BACKOFF_MS_MAX);
                    self.context.now.plus_ms(pause)
                });
                self.push(StepFailed { run_id, step, attempt, error, retry_at, usage: None });
            }
        }
        self.advance();
    }

    fn asked_again(&self, known: &Step) -> bool {
        let StepCall::Guardrail { name, .. } = &known.call else { return false };
        self.context.agent.guardrail(name).is_some_and(|spec| known.failures < spec.retries)
    }

    fn block(&mut self, on: Guarded, Blocked { reason, trigger }: Blocked) {
        let kind = match on {
            Guarded::Input => "input_check_error",
            Guarded::Output => "output_check_error",
        };
        let error = Failure { kind: kind.into(), message: reason, status: None };
        self.push(RunFailed { run_id: self.run_id(), error, error_id: Some(trigger) });
    }
}

fn unanswered(name: &str, error: &Failure) -> Failure {
    let message = format!("guardrail `{name}` gave no answer, so nothing passes: {}", error.message);
    Failure { kind: "guardrail_unanswered".into(), message: message.into(), status: None }
}
