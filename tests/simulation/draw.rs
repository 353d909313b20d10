//! What can happen to one run, drawn at random: outcomes in any order, late, repeated, of old attempts and of steps that
//! do not exist; decisions of every kind, and what only a crash makes likely.

use reenact_actors::{
    run::{ReconcileAnswer, RunCommand, RunState, StepState},
    step::StepError,
};
use reenact_events::{
    RawJson, Text,
    command::Decision,
    event::{Blocked, Failure, StepCall, StepResult, ToolCallRequest},
    hold::Verdict,
};

use crate::{faults::Dice, steps};

/// An attempt of a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) step: u32,
    pub(crate) attempt: u32,
}

/// Draws for one run.
pub(crate) struct Draw<'a> {
    pub(crate) dice: &'a Dice,
    pub(crate) run: &'a RunState,
}

impl Draw<'_> {
    /// Some attempt that may ever have been requested, or one that never was.
    fn attempt(&self) -> Attempt {
        if self.run.steps.is_empty() || self.dice.hits(50) {
            return Attempt { step: 9_999, attempt: 1 };
        }
        let at = self.dice.below(self.run.steps.len() as u64);
        let step = u32::try_from(at).expect("small");
        let latest = self.run.steps[usize::try_from(at).expect("small")].attempt;
        let is_old = latest > 1 && self.dice.hits(200);
        Attempt { step, attempt: if is_old { latest - 1 } else { latest } }
    }

    /// Anything that can happen to the run.
    pub(crate) fn any(&self) -> RunCommand {
        let Attempt { step, attempt } = self.attempt();
        match self.dice.below(24) {
            1 => RunCommand::StartedTooLate { step, attempt },
            2 => RunCommand::RetryDue { step },
            3 | 4 => RunCommand::Begin,
            5 => self.decide(step),
            6 | 7 => self.decide_what_waits(),
            8 => RunCommand::Reconciled { step, attempt, answer: self.answer() },
            9 => RunCommand::Requeue { by: None },
            10 => RunCommand::Expire,
            11 if self.dice.hits(200) => RunCommand::Fail(failure("timeout")),
            12 if self.dice.hits(200) => RunCommand::Cancel { reason: None, partial: None },
            _ => self.outcome(Attempt { step, attempt }),
        }
    }

    /// As an actor that comes to the run now.
    pub(crate) fn recover(&self) -> RunCommand {
        RunCommand::Recover { owed: self.run.open_steps().map(|(at, step)| (at, step.attempt)).collect() }
    }

    /// A decision about one of the calls that wait for one, if any does.
    pub(crate) fn decide_what_waits(&self) -> RunCommand {
        let waits: Vec<_> =
            self.run.open_steps().filter(|(_, step)| step.state.waits_for_somebody()).map(|(at, _)| at).collect();
        self.decide(if waits.is_empty() { 9_999 } else { *self.dice.pick(&waits) })
    }

    /// What brings an open step on.
    pub(crate) fn bring_on(&self, at: u32) -> RunCommand {
        let Some(step) = self.run.step(at) else { return RunCommand::Begin };
        match step.state {
            StepState::Waiting { .. } => RunCommand::RetryDue { step: at },
            StepState::InDoubt | StepState::Held(_) => self.decide(at),
            _ => self.outcome(Attempt { step: at, attempt: step.attempt }),
        }
    }

    fn decide(&self, step: u32) -> RunCommand {
        let tool_call_id = match self.run.step(step).map(|step| &step.call) {
            Some(StepCall::Tool { call_id, .. }) => call_id.clone(),
            _ => "no call".into(),
        };
        let decisions = vec![Decision { tool_call_id, verdict: self.verdict() }];
        RunCommand::Resolve { decisions, by: None, has_slot: self.dice.hits(500) }
    }

    fn verdict(&self) -> Verdict {
        let input = RawJson::parse(r#"{"who":"me"}"#).expect("is JSON");
        match self.dice.below(12) {
            0 => Verdict::Fail,
            1..=3 => Verdict::no(),
            4..=6 => Verdict::Result { value: Text::inline("") },
            7 | 8 => Verdict::Confirmed { arguments: Some(Text::inline(input.as_str())), input: Some(input) },
            9 => Verdict::Confirmed { arguments: Some(Text::inline(r#"{"less":1}"#)), input: None },
            _ => Verdict::yes(),
        }
    }

    fn answer(&self) -> ReconcileAnswer {
        match self.dice.below(3) {
            0 => ReconcileAnswer::DidNotHappen,
            1 => ReconcileAnswer::Unknown("silence".into()),
            _ => ReconcileAnswer::Happened(tool_result(), None),
        }
    }

    fn outcome(&self, Attempt { step, attempt }: Attempt) -> RunCommand {
        if matches!(self.run.step(step).map(|step| &step.call), Some(StepCall::Guardrail { .. })) {
            let blocked = self.dice.hits(50).then(|| Blocked { reason: "no".into(), trigger: "off_topic".into() });
            let outcome = if self.dice.hits(200) { Err(failure("simulated")) } else { Ok(blocked) };
            return RunCommand::Guarded { step, attempt, outcome, duration_ms: 1 };
        }
        if !matches!(self.run.step(step).map(|step| &step.call), Some(StepCall::Model { .. })) {
            return RunCommand::ToolReturned {
                step,
                attempt,
                result: tool_result(),
                session_state: None,
                duration_ms: 1,
            };
        }
        let outcome = if self.dice.hits(200) {
            let kind = self.dice.pick(&steps::FAILURES);
            Err(StepError { failure: failure(kind), retryable: self.dice.hits(900), retry_after_ms: None, usage: None })
        } else {
            Ok(self.turn())
        };
        RunCommand::ModelReturned {
            step,
            attempt,
            outcome,
            unfit: self.dice.hits(300).then(|| "it does not fit".into()),
            trim: self.trim(),
            duration_ms: 1,
        }
    }

    /// What the effect says can be left out; decisions do not take its word for it.
    fn trim(&self) -> Option<u32> {
        self.dice.hits(600).then(|| u32::try_from(self.dice.below(4)).expect("small"))
    }

    fn turn(&self) -> StepResult {
        let calls = if self.dice.hits(700) { self.dice.below(20) } else { 0 };
        let call = |_| ToolCallRequest {
            id: if self.dice.hits(500) { "same".into() } else { "".into() },
            name: if self.dice.hits(300) {
                self.dice.pick(&steps::held_tools()).0
            } else {
                self.dice.pick(&steps::TOOLS).0
            }
            .into(),
            arguments: Text::inline("{}"),
            refusal: self.dice.hits(100).then(|| "not an object".into()),
        };
        StepResult::Model {
            text: Text::inline(""),
            reasoning: None,
            tool_calls: (0..calls).map(call).collect(),
            usage: None,
            finish_reason: None,
            first_token_ms: None,
        }
    }
}

fn failure(kind: &str) -> Failure {
    Failure { kind: kind.into(), message: "simulated".into(), status: None }
}

fn tool_result() -> StepResult {
    StepResult::Tool { content: Text::inline("done"), error: false, media: Vec::new() }
}
