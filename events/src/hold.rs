//! Calls that wait for somebody before they are made, or are made by somebody else: what a tool says of it, and what
//! can be decided.
//!
//! A call is *held* from the moment its turn ended until somebody decides about it or its time is over. What stands
//! here is part of events: it is all that a run knows of a held call, weeks and versions later.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{RawJson, Text, event::StepResult};

/// That a tool's calls are held, as its agent declares it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldSpec {
    /// What a call waits for.
    pub needs: Needs,
    /// Seconds after which nobody is waited for any more; for ever without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_s: Option<u32>,
    /// What happens then.
    #[serde(default, skip_serializing_if = "OnExpiry::is_usual")]
    pub on_expiry: OnExpiry,
}

/// What a held call waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// That somebody says yes.
    Confirmation,
    /// That somebody fills in arguments, which the model is not asked for.
    Input {
        /// Which, at least one.
        fields: Vec<InputField>,
    },
    /// That somebody makes the call and says what came of it.
    Execution,
}

impl Needs {
    /// As AgentOS calls the kind of pause.
    #[must_use]
    pub fn pause_type(&self) -> &'static str {
        match self {
            Self::Confirmation => "confirmation",
            Self::Input { .. } => "user_input",
            Self::Execution => "external_execution",
        }
    }
}

/// An argument that a person fills in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputField {
    /// The argument's name.
    pub name: String,
    /// `str`, `int`, `float`, `bool`, `list` or `dict`, as AgentOS says it.
    pub field_type: String,
    /// What the tool's schema says of it. Always written: the state store's binary codec leaves out no field.
    pub description: Option<String>,
}

/// What becomes of a held call that nobody decided about in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExpiry {
    /// The model is told that the call was not made.
    #[default]
    Reject,
    /// The run is cancelled.
    Cancel,
}

impl OnExpiry {
    /// Whether it is what a tool has that says nothing: then it is not stored.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// What somebody decides about a call: about a held one, or about one of which nobody knows whether it happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Make it.
    Confirmed {
        /// With these arguments, a whole JSON object, where they are not the model's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Text>,
        /// What a person filled in, a JSON object.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<RawJson>,
    },
    /// Do not make it.
    Rejected {
        /// What the model is told beside that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<Arc<str>>,
    },
    /// It was made elsewhere, with this result.
    Result {
        /// What it brought.
        value: Text,
    },
    /// End the run with an error.
    Fail,
}

impl Verdict {
    /// A plain yes.
    #[must_use]
    pub fn yes() -> Self {
        Self::Confirmed { arguments: None, input: None }
    }

    /// A plain no.
    #[must_use]
    pub fn no() -> Self {
        Self::Rejected { note: None }
    }

    /// What it makes of a held call, as the model is told; `None` when the call is made, or the run ends.
    #[must_use]
    pub fn outcome(&self) -> Option<StepResult> {
        match self {
            Self::Confirmed { .. } | Self::Fail => None,
            Self::Rejected { note } => Some(not_made("the call was rejected and not made", note.as_deref())),
            Self::Result { value } => {
                Some(StepResult::Tool { content: value.clone(), error: false, media: Vec::new() })
            }
        }
    }
}

/// What becomes of a held call that nobody decided about in time, as the model is told.
#[must_use]
pub fn expired() -> StepResult {
    not_made("nobody decided about the call in time, so it was not made", None)
}

/// The result of a call that was not made.
pub(crate) fn not_made(text: &str, note: Option<&str>) -> StepResult {
    let said = note.map(|note| format!("{text}: {note}"));
    StepResult::Tool { content: Text::inline(said.as_deref().unwrap_or(text)), error: true, media: Vec::new() }
}
