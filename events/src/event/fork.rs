//! What the events of runs carry that go on from another run.
//!
//! What is taken over stands once more in the new run's own events, so that a run is whole by itself: whoever folds,
//! shows or re-enacts it needs no other run's events, and it outlives the deletion of the one that it came from.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{StepCall, StepResult};
use crate::{RunId, SessionId, Text};

/// Where a run goes on from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    /// From which run.
    pub run_id: RunId,
    /// How many of that run's messages it begins with.
    pub message_index: u32,
    /// How many steps it takes over: as many [`StepTakenOver`] follow.
    pub steps: u32,
    /// What a person said after the first message, those of this request included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<Said>,
    /// It sees as history the session's runs before this place: those that the first run of its line saw.
    pub history_before: u64,
    /// It answers anew what that run had answered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub regenerates: bool,
    /// The session that the whole of it was copied from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
}

/// A message of a person after a run's first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Before which step it was said.
    pub step: u32,
    /// The message.
    pub text: Text,
}

/// See [`RunEvent::StepTakenOver`](super::RunEvent::StepTakenOver).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepTakenOver {
    /// By which run.
    pub run_id: RunId,
    /// Place among that run's steps, from 0, without gaps.
    pub step: u32,
    /// What was done, with the arguments that the call was made with.
    pub call: StepCall,
    /// What it brought. The run that made the call counts what it cost.
    pub result: StepResult,
    /// Why the answer that a model gave does not fit the schema that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfit: Option<Arc<str>>,
}

/// See [`RunEvent::Regenerated`](super::RunEvent::Regenerated).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRegenerated {
    /// Which.
    pub run_id: RunId,
    /// The run that answers in its place.
    pub by: RunId,
}
