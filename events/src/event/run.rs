//! What the events of a run carry.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Fork;
use crate::{
    AgentId, MediaRef, RawJson, RunId, SessionId, StepToken, Text, Timestamp, UserId,
    agent::{Effect, Guarded},
    schedule::ScheduledBy,
    session_state::StateChanges,
};

/// See [`RunEvent::Queued`](super::RunEvent::Queued).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunQueued {
    /// Which.
    pub run_id: RunId,
    /// In which session.
    pub session_id: SessionId,
    /// Whose.
    pub user_id: Option<UserId>,
    /// Place among the session's runs, from 0, without gaps.
    pub run_index: u64,
    /// Who answers.
    pub agent_id: AgentId,
    /// Which version of it, see [`ComponentRegistered`](super::ComponentRegistered).
    pub agent_version: Arc<str>,
    /// The message.
    pub input: Text,
    /// Files that came with the message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<MediaRef>,
    /// A JSON object for the caller's own use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RawJson>,
    /// The JSON Schema that the answer must fit, if the caller gave one; else the agent's counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<RawJson>,
    /// What changes in the session's state with it: what the caller set, and the agent's defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_state: Option<Box<StateChanges>>,
    /// The run that it goes on from, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Box<Fork>>,
    /// The schedule that asked for it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_by: Option<Box<ScheduledBy>>,
    /// The caller watches this run as a stream.
    pub stream: bool,
    /// The caller does not wait: the run outlives the connection.
    pub background: bool,
}

/// See [`RunEvent::Started`](super::RunEvent::Started).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStarted {
    /// Which.
    pub run_id: RunId,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepCall {
    /// Asks the model. What it is sent follows from the run's state.
    Model {
        /// The how-many-eth model call of the run, from 0.
        turn: u32,
    },
    /// Calls a tool.
    Tool {
        /// The model's name for this call.
        call_id: Arc<str>,
        /// Which tool.
        name: Arc<str>,
        /// Its arguments, a JSON object as the model wrote it.
        arguments: Text,
        /// What recovery may do.
        effect: Effect,
    },
    /// Asks a guardrail.
    Guardrail {
        /// Which.
        name: Arc<str>,
        /// About what.
        on: Guarded,
    },
}

/// See [`RunEvent::StepRequested`](super::RunEvent::StepRequested).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRequested {
    /// Of which run.
    pub run_id: RunId,
    /// Place among the run's steps, from 0, without gaps.
    pub step: u32,
    /// From 1; results of an attempt that is not the latest are dropped.
    pub attempt: u32,
    /// The same for every attempt of the step.
    pub token: StepToken,
    /// The attempt is not begun after this moment, so that who waits it out knows that nobody will.
    pub not_after: Timestamp,
    /// What is done.
    pub call: StepCall,
    /// Which model is asked, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<AskedModel>,
}

/// The model that an attempt asks. Events from before agents had several do not say: it was the first, with the whole
/// conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedModel {
    /// Its place among the agent's models; 0 is the agent's own, the fallbacks follow.
    pub place: u32,
    /// Its id at the provider.
    pub id: Arc<str>,
    /// Who serves it.
    pub provider: Arc<str>,
    /// How often the conversation was trimmed because a model found it too long.
    #[serde(default, skip_serializing_if = "is_untrimmed")]
    pub trims: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_untrimmed(trims: &u32) -> bool {
    *trims == 0
}

/// A tool call as a model asked for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallRequest {
    /// Unique in the run.
    pub id: Arc<str>,
    /// The tool's name as the model wrote it; it may not exist.
    pub name: Arc<str>,
    /// The arguments as the model wrote them; they may not be JSON.
    pub arguments: Text,
    /// Why the call cannot be made, as the model is told; `None` when the arguments fit the tool.
    #[serde(default)]
    pub refusal: Option<Arc<str>>,
}

/// Tokens as the provider counted them. Unknown is never written as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Read.
    pub input_tokens: u64,
    /// Written.
    pub output_tokens: u64,
    /// Read from the provider's cache, part of `input_tokens`.
    pub cache_read_tokens: u64,
    /// Written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Spent on thinking, part of `output_tokens`.
    pub reasoning_tokens: u64,
}

/// What an attempt brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepResult {
    /// A model's turn.
    Model {
        /// What it said; may be empty.
        text: Text,
        /// What it thought, if it told.
        reasoning: Option<Text>,
        /// The tools it wants called.
        tool_calls: Vec<ToolCallRequest>,
        /// Tokens, `None` when the provider did not say.
        usage: Option<Usage>,
        /// Why it stopped, as the provider says.
        finish_reason: Option<Arc<str>>,
        /// Milliseconds to the first byte of the answer.
        first_token_ms: Option<u64>,
    },
    /// A tool's result; also an error that the model is told and may act on.
    Tool {
        /// The result or the error's text.
        content: Text,
        /// It is an error.
        error: bool,
        /// Files that the tool returned.
        media: Vec<MediaRef>,
    },
    /// A guardrail's answer.
    Guardrail {
        /// Why it lets nothing pass; `None` when it does.
        blocked: Option<Blocked>,
    },
}

/// Why a guardrail lets something not pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// For people.
    pub reason: Arc<str>,
    /// A stable word, in AgentOS one of `off_topic`, `input_not_allowed`, `output_not_allowed`, `validation_failed`,
    /// `prompt_injection` and `pii_detected`.
    pub trigger: Arc<str>,
}

/// See [`RunEvent::StepCompleted`](super::RunEvent::StepCompleted).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepCompleted {
    /// Of which run.
    pub run_id: RunId,
    /// Which step.
    pub step: u32,
    /// Which attempt of it.
    pub attempt: u32,
    /// What it brought.
    pub result: StepResult,
    /// Milliseconds that the attempt took.
    pub duration_ms: u64,
    /// Why the answer that a model gave does not fit the schema that was asked for, see [`crate::output`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfit: Option<Arc<str>>,
    /// What a tool changes in the session's state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_state: Option<Box<StateChanges>>,
}

/// What went wrong, for people and for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// A stable word, for example `rate_limited`, `context_overflow`, `models_failed`, `timeout`.
    pub kind: Arc<str>,
    /// What happened and what to do, for people.
    pub message: Arc<str>,
    /// The HTTP status that caused it, if one did.
    #[serde(default)]
    pub status: Option<u16>,
}

/// See [`RunEvent::StepFailed`](super::RunEvent::StepFailed).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepFailed {
    /// Of which run.
    pub run_id: RunId,
    /// Which step.
    pub step: u32,
    /// Which attempt of it.
    pub attempt: u32,
    /// Why.
    pub error: Failure,
    /// When the next attempt is due; `None` when there is none.
    pub retry_at: Option<Timestamp>,
    /// Tokens that the failed attempt cost, if the provider said.
    pub usage: Option<Usage>,
}

/// See [`RunEvent::StepInDoubt`](super::RunEvent::StepInDoubt).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepInDoubt {
    /// Of which run.
    pub run_id: RunId,
    /// Which step.
    pub step: u32,
    /// The attempt whose outcome is unknown.
    pub attempt: u32,
    /// Why it is unknown.
    pub reason: Arc<str>,
}

/// A decision about a step in doubt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// It did not happen: do it.
    Retry,
    /// It happened, with this result.
    Completed {
        /// What the tool returned.
        value: Text,
    },
    /// Tell the model that it was not done.
    Skip,
    /// End the run with an error.
    Fail,
}

/// See [`RunEvent::StepResolved`](super::RunEvent::StepResolved).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepResolved {
    /// Of which run.
    pub run_id: RunId,
    /// Which step.
    pub step: u32,
    /// What was decided.
    pub resolution: Resolution,
    /// By whom, if known.
    pub by: Option<UserId>,
    /// What the model is told beside [`Resolution::Skip`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Arc<str>>,
}

impl StepResolved {
    /// What the model is told of a call that is left out for a reason.
    #[must_use]
    pub fn outcome(&self) -> Option<StepResult> {
        let note = self.note.as_deref().filter(|_| self.resolution == Resolution::Skip)?;
        Some(crate::hold::not_made("it was decided not to make this call", Some(note)))
    }
}

/// See [`RunEvent::Paused`](super::RunEvent::Paused).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPaused {
    /// Which.
    pub run_id: RunId,
    /// What it waits for.
    pub reason: Arc<str>,
}

/// See [`RunEvent::Continued`](super::RunEvent::Continued).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunContinued {
    /// Which.
    pub run_id: RunId,
}

/// See [`RunEvent::CancelRequested`](super::RunEvent::CancelRequested).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCancelRequested {
    /// Which.
    pub run_id: RunId,
    /// Why, if somebody said.
    pub reason: Option<Arc<str>>,
}

/// See [`RunEvent::Completed`](super::RunEvent::Completed).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCompleted {
    /// Which.
    pub run_id: RunId,
    /// The answer.
    pub content: Text,
    /// It is JSON that fits the schema that was asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub json: bool,
}

/// See [`RunEvent::Failed`](super::RunEvent::Failed).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFailed {
    /// Which.
    pub run_id: RunId,
    /// Why.
    pub error: Failure,
    /// A word for what a guardrail found, if one ended the run, see [`Blocked::trigger`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_id: Option<Arc<str>>,
}

/// See [`RunEvent::Requeued`](super::RunEvent::Requeued).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRequeued {
    /// Which.
    pub run_id: RunId,
    /// By whom, if known.
    pub by: Option<UserId>,
}

/// How far a cancelled run had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum CancellationStage {
    /// It had not started.
    Pending,
    /// It was at work.
    Executing,
    /// It waited for a decision.
    Paused,
}

impl CancellationStage {
    /// As AgentOS spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Executing => "EXECUTING",
            Self::Paused => "PAUSED",
        }
    }
}

/// See [`RunEvent::Cancelled`](super::RunEvent::Cancelled).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCancelled {
    /// Which.
    pub run_id: RunId,
    /// How far it had come.
    pub stage: CancellationStage,
    /// What the model had said of its unfinished answer.
    pub partial: Option<Text>,
    /// Why, if somebody said.
    pub reason: Option<Arc<str>>,
}
