//! A version of an agent as the text that rows hold.

use reenact_events::{AgentId, agent::AgentSpec};

use crate::ViewError;

fn bad(agent: &AgentId, version: &str, error: &serde_json::Error) -> ViewError {
    ViewError::BadRow { row: format!("components {agent} {version}").into(), reason: error.to_string().into() }
}

/// The specification as JSON.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn write(version: &str, spec: &AgentSpec) -> Result<String, ViewError> {
    serde_json::to_string(spec).map_err(|error| bad(&spec.id, version, &error))
}

/// The specification that [`write()`] wrote.
///
/// # Errors
/// When the text is none.
pub fn read(agent: &AgentId, version: &str, json: &str) -> Result<AgentSpec, ViewError> {
    serde_json::from_str(json).map_err(|error| bad(agent, version, &error))
}
