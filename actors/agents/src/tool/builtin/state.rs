//! The built-in tool that changes the session's state.

use std::collections::{BTreeMap, BTreeSet};

use reenact_actors::step::ToolReply;
use reenact_events::{RawJson, session_state::StateChanges};
use serde::Deserialize;

use crate::tool::{answered, result::bounded};

#[derive(Deserialize)]
struct Arguments {
    session_state_updates: BTreeMap<String, RawJson>,
    #[serde(default)]
    delete: BTreeSet<String>,
}

/// The change that the arguments ask for.
pub(super) fn update(arguments: &str) -> Result<ToolReply, String> {
    let Arguments { session_state_updates: set, delete } =
        serde_json::from_str(arguments).map_err(|error| format!("the arguments cannot be read: {error}"))?;
    let named = |keys: Vec<&String>| keys.into_iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
    let mut text = format!("Updated session state: set {}", named(set.keys().collect()));
    if !delete.is_empty() {
        text.push_str(&format!("; deleted {}", named(delete.iter().collect())));
    }
    let changes = bounded(StateChanges { set, delete, ..StateChanges::default() })?;
    Ok(ToolReply { session_state: Some(changes), ..answered(text) })
}
