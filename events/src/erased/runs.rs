//! The events of runs, without what was said.

use super::Erase;
use crate::{
    RunEvent,
    event::{
        Blocked, Failure, Fork, Resolution, RunCancelRequested, RunCancelled, RunCompleted, RunFailed, RunPaused,
        RunQueued, Said, StepAnswered, StepCall, StepCompleted, StepFailed, StepHeld, StepInDoubt, StepRequested,
        StepResolved, StepResult, StepTakenOver, ToolCallRequest,
    },
    hold::Verdict,
};

impl Erase for RunEvent {
    fn erased(&self) -> Self {
        match self {
            Self::Queued(event) => event.erased().into(),
            Self::StepRequested(event) => event.erased().into(),
            Self::StepCompleted(event) => event.erased().into(),
            Self::StepFailed(event) => event.erased().into(),
            Self::StepInDoubt(event) => event.erased().into(),
            Self::StepResolved(event) => event.erased().into(),
            Self::StepHeld(event) => event.erased().into(),
            Self::StepAnswered(event) => event.erased().into(),
            Self::StepTakenOver(event) => event.erased().into(),
            Self::Paused(event) => event.erased().into(),
            Self::CancelRequested(event) => event.erased().into(),
            Self::Completed(event) => event.erased().into(),
            Self::Failed(event) => event.erased().into(),
            Self::Cancelled(event) => event.erased().into(),
            Self::Started(_) | Self::StepExpired(_) | Self::Continued(_) | Self::Requeued(_) | Self::Regenerated(_) => {
                self.clone()
            }
        }
    }
}

impl Erase for RunQueued {
    fn erased(&self) -> Self {
        let Self {
            run_id,
            session_id,
            user_id,
            run_index,
            agent_id,
            agent_version,
            input,
            media,
            metadata,
            output_schema,
            session_state,
            fork,
            scheduled_by,
            stream,
            background,
        } = self;
        Self {
            run_id: run_id.clone(),
            session_id: session_id.clone(),
            user_id: user_id.clone(),
            run_index: *run_index,
            agent_id: agent_id.clone(),
            agent_version: agent_version.clone(),
            input: input.erased(),
            media: media.erased(),
            metadata: metadata.erased(),
            output_schema: output_schema.erased(),
            session_state: session_state.erased(),
            fork: fork.erased(),
            scheduled_by: scheduled_by.clone(),
            stream: *stream,
            background: *background,
        }
    }
}

impl Erase for Fork {
    fn erased(&self) -> Self {
        let Self { run_id, message_index, steps, said, history_before, regenerates, session_id } = self;
        Self {
            run_id: run_id.clone(),
            message_index: *message_index,
            steps: *steps,
            said: said.iter().map(|Said { step, text }| Said { step: *step, text: text.erased() }).collect(),
            history_before: *history_before,
            regenerates: *regenerates,
            session_id: session_id.clone(),
        }
    }
}

impl Erase for StepCall {
    fn erased(&self) -> Self {
        match self {
            Self::Model { .. } | Self::Guardrail { .. } => self.clone(),
            Self::Tool { call_id, name, arguments, effect } => Self::Tool {
                call_id: call_id.clone(),
                name: name.clone(),
                arguments: arguments.erased(),
                effect: *effect,
            },
        }
    }
}

impl Erase for StepRequested {
    fn erased(&self) -> Self {
        let Self { run_id, step, attempt, token, not_after, call, model } = self;
        Self {
            run_id: run_id.clone(),
            step: *step,
            attempt: *attempt,
            token: *token,
            not_after: *not_after,
            call: call.erased(),
            model: model.clone(),
        }
    }
}

impl Erase for ToolCallRequest {
    fn erased(&self) -> Self {
        let Self { id, name, arguments, refusal } = self;
        Self { id: id.clone(), name: name.clone(), arguments: arguments.erased(), refusal: refusal.erased() }
    }
}

impl Erase for Blocked {
    fn erased(&self) -> Self {
        let Self { reason, trigger } = self;
        Self { reason: reason.erased(), trigger: trigger.clone() }
    }
}

impl Erase for StepResult {
    fn erased(&self) -> Self {
        match self {
            Self::Model { text, reasoning, tool_calls, usage, finish_reason, first_token_ms } => Self::Model {
                text: text.erased(),
                reasoning: reasoning.erased(),
                tool_calls: tool_calls.iter().map(ToolCallRequest::erased).collect(),
                usage: *usage,
                finish_reason: finish_reason.clone(),
                first_token_ms: *first_token_ms,
            },
            Self::Tool { content, error, media } => {
                Self::Tool { content: content.erased(), error: *error, media: media.erased() }
            }
            Self::Guardrail { blocked } => Self::Guardrail { blocked: blocked.erased() },
        }
    }
}

impl Erase for StepCompleted {
    fn erased(&self) -> Self {
        let Self { run_id, step, attempt, result, duration_ms, unfit, session_state } = self;
        Self {
            run_id: run_id.clone(),
            step: *step,
            attempt: *attempt,
            result: result.erased(),
            duration_ms: *duration_ms,
            unfit: unfit.erased(),
            session_state: session_state.erased(),
        }
    }
}

impl Erase for Failure {
    fn erased(&self) -> Self {
        let Self { kind, message, status } = self;
        Self { kind: kind.clone(), message: message.erased(), status: *status }
    }
}

impl Erase for StepFailed {
    fn erased(&self) -> Self {
        let Self { run_id, step, attempt, error, retry_at, usage } = self;
        Self {
            run_id: run_id.clone(),
            step: *step,
            attempt: *attempt,
            error: error.erased(),
            retry_at: *retry_at,
            usage: *usage,
        }
    }
}

impl Erase for StepInDoubt {
    fn erased(&self) -> Self {
        let Self { run_id, step, attempt, reason } = self;
        Self { run_id: run_id.clone(), step: *step, attempt: *attempt, reason: reason.erased() }
    }
}

impl Erase for Resolution {
    fn erased(&self) -> Self {
        match self {
            Self::Completed { value } => Self::Completed { value: value.erased() },
            Self::Retry | Self::Skip | Self::Fail => self.clone(),
        }
    }
}

impl Erase for StepResolved {
    fn erased(&self) -> Self {
        let Self { run_id, step, resolution, by, note } = self;
        Self {
            run_id: run_id.clone(),
            step: *step,
            resolution: resolution.erased(),
            by: by.clone(),
            note: note.erased(),
        }
    }
}

/// What it waits for is the agent's own.
impl Erase for StepHeld {
    fn erased(&self) -> Self {
        let Self { run_id, step, token, call, needs, expires_at, on_expiry } = self;
        Self {
            run_id: run_id.clone(),
            step: *step,
            token: *token,
            call: call.erased(),
            needs: needs.clone(),
            expires_at: *expires_at,
            on_expiry: *on_expiry,
        }
    }
}

impl Erase for Verdict {
    fn erased(&self) -> Self {
        match self {
            Self::Confirmed { arguments, input } => {
                Self::Confirmed { arguments: arguments.erased(), input: input.erased() }
            }
            Self::Rejected { note } => Self::Rejected { note: note.erased() },
            Self::Result { value } => Self::Result { value: value.erased() },
            Self::Fail => Self::Fail,
        }
    }
}

impl Erase for StepAnswered {
    fn erased(&self) -> Self {
        let Self { run_id, step, verdict, by } = self;
        Self { run_id: run_id.clone(), step: *step, verdict: verdict.erased(), by: by.clone() }
    }
}

impl Erase for StepTakenOver {
    fn erased(&self) -> Self {
        let Self { run_id, step, call, result, unfit } = self;
        Self {
            run_id: run_id.clone(),
            step: *step,
            call: call.erased(),
            result: result.erased(),
            unfit: unfit.erased(),
        }
    }
}

impl Erase for RunPaused {
    fn erased(&self) -> Self {
        let Self { run_id, reason } = self;
        Self { run_id: run_id.clone(), reason: reason.erased() }
    }
}

impl Erase for RunCancelRequested {
    fn erased(&self) -> Self {
        let Self { run_id, reason } = self;
        Self { run_id: run_id.clone(), reason: reason.erased() }
    }
}

impl Erase for RunCompleted {
    fn erased(&self) -> Self {
        let Self { run_id, content, json: _ } = self;
        Self { run_id: run_id.clone(), content: content.erased(), json: false }
    }
}

impl Erase for RunFailed {
    fn erased(&self) -> Self {
        let Self { run_id, error, error_id } = self;
        Self { run_id: run_id.clone(), error: error.erased(), error_id: error_id.clone() }
    }
}

impl Erase for RunCancelled {
    fn erased(&self) -> Self {
        let Self { run_id, stage, partial, reason } = self;
        Self { run_id: run_id.clone(), stage: *stage, partial: partial.erased(), reason: reason.erased() }
    }
}
