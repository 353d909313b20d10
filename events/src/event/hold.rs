//! What the events of held calls carry.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::StepCall;
use crate::{
    RunId, StepToken, Timestamp, UserId,
    hold::{Needs, OnExpiry, Verdict},
};

/// See [`RunEvent::StepHeld`](super::RunEvent::StepHeld).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepHeld {
    /// Of which run.
    pub run_id: RunId,
    /// Place among the run's steps, from 0, without gaps.
    pub step: u32,
    /// Names the step; its attempts have the same.
    pub token: StepToken,
    /// The call, always a tool's.
    pub call: StepCall,
    /// What it waits for.
    pub needs: Needs,
    /// When nobody is waited for any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// What happens then.
    #[serde(default, skip_serializing_if = "OnExpiry::is_usual")]
    pub on_expiry: OnExpiry,
}

/// See [`RunEvent::StepAnswered`](super::RunEvent::StepAnswered).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepAnswered {
    /// Of which run.
    pub run_id: RunId,
    /// Which step.
    pub step: u32,
    /// What was decided.
    pub verdict: Verdict,
    /// By whom, if known. When is in the envelope.
    pub by: Option<UserId>,
}

/// See [`RunEvent::StepExpired`](super::RunEvent::StepExpired).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepExpired {
    /// Of which run.
    pub run_id: RunId,
    /// Which step.
    pub step: u32,
}

/// Why a run is cancelled that was not to outlive a decision that nobody took.
#[must_use]
pub fn expiry_reason(tool: &str) -> Arc<str> {
    format!("nobody decided about the call of `{tool}` in time").into()
}
