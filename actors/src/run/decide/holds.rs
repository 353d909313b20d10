//! The part of a run's decisions that is about people: calls that are held until somebody decides about them, calls of
//! which nobody knows whether they happened, and what somebody decides.
//!
//! One door takes all decisions, whatever a call waits for:
//!
//! | A call | confirmed | rejected | result | fail |
//! |---|---|---|---|---|
//! | held for a confirmation | made, also with other arguments | not made, the model is told | refused | the run fails |
//! | held for input | made, with what was filled in | not made, the model is told | refused | the run fails |
//! | held for execution elsewhere | refused | not made, the model is told | is the result | the run fails |
//! | in doubt | made again | not made, the model is told | it happened, with this result | the run fails |

use reenact_events::{
    StepToken, Timestamp, UserId,
    agent::Effect,
    command::Decision,
    content::INLINE_BYTES_MAX,
    event::{
        Failure, Resolution, RunPaused, RunStatus, StepAnswered, StepCall, StepExpired, StepHeld, StepResolved,
        ToolCallRequest, expiry_reason,
    },
    hold::{HoldSpec, Needs, OnExpiry, Verdict},
};

use super::{Draft, Step};
use crate::{
    api::Refusal,
    run::state::{Hold, StepState},
};

impl Draft<'_> {
    /// Puts a call of the latest turn where somebody decides about it.
    pub(super) fn hold(&mut self, call: &ToolCallRequest, effect: Effect, spec: &HoldSpec) {
        let step = self.run.progress.steps;
        let token = StepToken::of_step(self.run.id(), step);
        let (call_id, name, arguments) = (call.id.clone(), call.name.clone(), call.arguments.clone());
        self.push(StepHeld {
            run_id: self.run_id(),
            step,
            token,
            call: StepCall::Tool { call_id, name, arguments, effect },
            needs: spec.needs.clone(),
            expires_at: self.expires_at(spec.expires_in_s),
            on_expiry: spec.on_expiry,
        });
    }

    /// Asks once more about a call that nobody decided about before the run ended. Its time begins anew.
    pub(super) fn hold_again(&mut self, at: u32, step: &Step, hold: &Hold) {
        let StepCall::Tool { name, .. } = &step.call else { return };
        let spec = self.context.agent.tool(name).and_then(|tool| tool.hold.as_ref());
        let expires_in_s = spec.and_then(|spec| spec.expires_in_s);
        self.push(StepHeld {
            run_id: self.run_id(),
            step: at,
            token: step.token,
            call: step.call.clone(),
            needs: hold.needs.clone(),
            expires_at: self.expires_at(expires_in_s),
            on_expiry: hold.on_expiry,
        });
    }

    fn expires_at(&self, in_s: Option<u32>) -> Option<Timestamp> {
        in_s.map(|seconds| self.context.now.plus_ms(i64::from(seconds) * 1_000))
    }

    pub(super) fn pause_if_only_somebody_can_help(&mut self) {
        let open = self.run.progress.open as usize;
        let count = |is: fn(&StepState) -> bool| self.run.open_steps().filter(|(_, step)| is(&step.state)).count();
        let in_doubt = count(|state| *state == StepState::InDoubt);
        let held = count(|state| matches!(state, StepState::Held(_)));
        if self.run.progress.status != RunStatus::Running || open == 0 || in_doubt + held < open {
            return;
        }
        let reason = match (held, in_doubt) {
            (0, _) => "it is not known whether a tool call happened; decide about each step in doubt",
            (_, 0) => "a tool call waits for somebody: confirm it, fill it in or make it, as each requirement says",
            _ => "tool calls wait for somebody, and of others it is not known whether they happened; decide about each",
        };
        self.push(RunPaused { run_id: self.run_id(), reason: reason.into() });
    }

    /// Takes one decision.
    pub(super) fn decided(&mut self, decision: Decision, by: Option<&UserId>) -> Result<(), Refusal> {
        let is_meant = |step: &Step| step.call_id() == Some(&decision.tool_call_id) && step.state.waits_for_somebody();
        let Some((at, step)) = self.run.open_steps().find(|(_, step)| is_meant(step)) else {
            return Err(Refusal::not_in_doubt(self.run.id(), &[decision]));
        };
        self.check_size(&decision)?;
        let (run_id, by, fails) = (self.run_id(), by.cloned(), decision.verdict == Verdict::Fail);
        let kind = match &step.state {
            StepState::Held(hold) => {
                self.check(&decision, hold)?;
                self.push(StepAnswered { run_id, step: at, verdict: decision.verdict, by });
                "tool_call_refused"
            }
            _ => {
                let (resolution, note) = self.resolution(decision)?;
                self.push(StepResolved { run_id, step: at, resolution, by, note });
                "step_in_doubt"
            }
        };
        if fails {
            let message = match kind {
                "step_in_doubt" => format!("step {at} was in doubt and it was decided that the run fails"),
                _ => format!("step {at} waited for a decision and it was decided that the run fails"),
            };
            self.fail(Failure { kind: kind.into(), message: message.into(), status: None });
        }
        Ok(())
    }

    /// What stands in the event itself is small: an event that is too large would end the run.
    fn check_size(&self, decision: &Decision) -> Result<(), Refusal> {
        let (what, bytes) = match &decision.verdict {
            Verdict::Confirmed { input: Some(input), .. } => ("what is filled in", input.as_str().len()),
            Verdict::Rejected { note: Some(note) } => ("the note", note.len()),
            _ => return Ok(()),
        };
        if bytes <= INLINE_BYTES_MAX {
            return Ok(());
        }
        let why = format!("{what} has {bytes} bytes, at most {INLINE_BYTES_MAX} are allowed");
        Err(Refusal::unfit(self.run.id(), &decision.tool_call_id, &why))
    }

    /// Whether the decision is one that the held call can do with, in time.
    fn check(&self, decision: &Decision, hold: &Hold) -> Result<(), Refusal> {
        let (run, call) = (self.run.id(), &decision.tool_call_id);
        // While a run that was queued again waits for its turn, no time runs.
        let is_timed = self.run.progress.status != RunStatus::Pending;
        if is_timed && hold.expires_at.is_some_and(|at| at <= self.context.now) {
            return Err(Refusal::late(run, call));
        }
        let wants = match (&hold.needs, &decision.verdict) {
            (_, Verdict::Rejected { .. } | Verdict::Fail)
            | (Needs::Confirmation, Verdict::Confirmed { input: None, .. })
            | (Needs::Execution, Verdict::Result { .. }) => return Ok(()),
            (Needs::Input { fields }, Verdict::Confirmed { input: Some(input), arguments: Some(_) }) => {
                let given = input.value();
                let missing = fields.iter().find(|field| given.get(&field.name).is_none_or(serde_json::Value::is_null));
                let mut names = given.as_object().into_iter().flat_map(serde_json::Map::keys);
                let unasked = names.find(|name| !fields.iter().any(|field| field.name == **name));
                match (missing, unasked) {
                    (None, None) => return Ok(()),
                    (Some(field), _) => format!("the field `{}` is not filled in", field.name),
                    (None, Some(name)) => format!("the field `{name}` is not asked for"),
                }
            }
            (Needs::Confirmation, _) => "it waits for a confirmation: say `confirmed` true or false".to_owned(),
            (Needs::Input { fields }, _) => {
                let names: Vec<_> = fields.iter().map(|field| format!("`{}`", field.name)).collect();
                format!("it waits for values of {}: fill them in, or say `confirmed: false`", names.join(", "))
            }
            (Needs::Execution, _) => "it is made elsewhere: say its `result`, or `confirmed: false`".to_owned(),
        };
        Err(Refusal::unfit(run, call, &wants))
    }

    /// A decision as it is recorded of a call in doubt.
    fn resolution(&self, decision: Decision) -> Result<(Resolution, Option<std::sync::Arc<str>>), Refusal> {
        match decision.verdict {
            Verdict::Confirmed { arguments: None, input: None } => Ok((Resolution::Retry, None)),
            Verdict::Confirmed { .. } => {
                let why = "it was made perhaps, so it can be made again only with the same arguments";
                Err(Refusal::unfit(self.run.id(), &decision.tool_call_id, why))
            }
            Verdict::Rejected { note } => Ok((Resolution::Skip, note)),
            Verdict::Result { value } => Ok((Resolution::Completed { value }, None)),
            Verdict::Fail => Ok((Resolution::Fail, None)),
        }
    }

    /// Nobody is waited for any more where the time is over.
    pub(super) fn expire(&mut self) {
        let now = self.context.now;
        let is_over =
            |step: &Step| matches!(&step.state, StepState::Held(hold) if hold.expires_at.is_some_and(|at| at <= now));
        let over: Vec<_> =
            self.run.open_steps().filter(|(_, step)| is_over(step)).map(|(at, step)| (at, step.clone())).collect();
        if over.is_empty() {
            return;
        }
        for (at, step) in over {
            self.push(StepExpired { run_id: self.run_id(), step: at });
            let StepState::Held(Hold { on_expiry: OnExpiry::Cancel, .. }) = &step.state else { continue };
            let StepCall::Tool { name, .. } = &step.call else { continue };
            return self.cancel(Some(expiry_reason(name)), None);
        }
        self.go_on(false);
    }
}
