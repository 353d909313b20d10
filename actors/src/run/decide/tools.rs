//! The part of a run's decisions that is about tool calls.

use reenact_events::{
    Text,
    agent::Effect,
    event::{Resolution, StepCall, StepCompleted, StepInDoubt, StepResolved, StepResult, ToolCallRequest},
    session_state::StateChanges,
};

use super::{Asked, Draft, PARALLEL_TOOLS_MAX, ReconcileAnswer, StepState};

impl Draft<'_> {
    /// Requests tool calls of the latest turn until enough run side by side; calls that cannot be made are
    /// answered at once, so that every call has exactly one result.
    pub(super) fn request_tools(&mut self, last_turn: u32, calls: &[ToolCallRequest]) {
        let made = calls.len().min((self.run.progress.steps - last_turn - 1) as usize);
        for call in &calls[made..] {
            if self.at_work() >= PARALLEL_TOOLS_MAX as usize {
                return;
            }
            self.request_tool(call);
        }
    }

    /// Open steps, without those that wait for somebody's first decision.
    fn at_work(&self) -> usize {
        self.run.open_steps().filter(|(_, step)| !matches!(step.state, StepState::Held(_))).count()
    }

    fn request_tool(&mut self, call: &ToolCallRequest) {
        let step = self.run.progress.steps;
        let refusal = self.refusal_of(call);
        let tool = self.context.agent.tool(&call.name);
        let effect = tool.map_or(Effect::ReadOnly, |tool| tool.effect);
        if let (None, Some(hold)) = (&refusal, tool.and_then(|tool| tool.hold.as_ref())) {
            return self.hold(call, effect, hold);
        }
        let (call_id, name, arguments) = (call.id.clone(), call.name.clone(), call.arguments.clone());
        self.request(step, 1, StepCall::Tool { call_id, name, arguments, effect }, Asked::default());
        if let Some(text) = refusal {
            self.tool_error(step, 1, &text);
        }
    }

    fn refusal_of(&self, call: &ToolCallRequest) -> Option<String> {
        let limit = self.context.agent.limits.tool_calls;
        let own = self.run.steps.iter().skip(self.run.origin.taken_over as usize);
        let made = own.filter(|step| matches!(step.call, StepCall::Tool { .. })).count();
        if made >= limit as usize {
            return Some(format!(
                "this run may call tools {limit} times at most, and has; answer without further calls"
            ));
        }
        if self.context.agent.tool(&call.name).is_none() {
            let known: Vec<_> = self.context.agent.tools.iter().map(|tool| tool.name.as_str()).collect();
            let name: String = call.name.chars().take(64).collect();
            return Some(format!("there is no tool `{name}`; the tools are: {}", known.join(", ")));
        }
        call.refusal.as_ref().map(ToString::to_string)
    }

    fn tool_error(&mut self, step: u32, attempt: u32, text: &str) {
        let result = StepResult::Tool { content: Text::inline(text), error: true, media: Vec::new() };
        self.push(StepCompleted {
            run_id: self.run_id(),
            step,
            attempt,
            result,
            duration_ms: 0,
            unfit: None,
            session_state: None,
        });
    }

    pub(super) fn tool_returned(
        &mut self,
        step: u32,
        attempt: u32,
        (result, session_state): (StepResult, Option<Box<StateChanges>>),
        duration_ms: u64,
    ) {
        if self.run.awaits(step, attempt).is_some() {
            self.push(StepCompleted {
                run_id: self.run_id(),
                step,
                attempt,
                result,
                duration_ms,
                unfit: None,
                session_state,
            });
            self.advance();
        }
    }

    pub(super) fn reconciled(&mut self, step: u32, attempt: u32, answer: ReconcileAnswer) {
        if self.run.awaits(step, attempt).is_none_or(|known| known.effect() != Effect::Reconcile) {
            return;
        }
        match answer {
            ReconcileAnswer::Happened(result, state) => self.tool_returned(step, attempt, (result, state), 0),
            ReconcileAnswer::DidNotHappen => self.again(step),
            ReconcileAnswer::Unknown(reason) => {
                self.push(StepInDoubt { run_id: self.run_id(), step, attempt, reason });
                self.advance();
            }
        }
    }

    pub(super) fn started_too_late(&mut self, step: u32, attempt: u32) {
        let Some(known) = self.run.awaits(step, attempt) else { return };
        match known.effect() {
            // Nobody has to be asked: whoever reports this knows that the call was never begun.
            Effect::AtMostOnce => {
                self.push(StepResolved {
                    run_id: self.run_id(),
                    step,
                    resolution: Resolution::Retry,
                    by: None,
                    note: None,
                });
                self.again(step);
            }
            Effect::ReadOnly | Effect::Idempotent | Effect::Reconcile => self.again(step),
        }
    }
}
