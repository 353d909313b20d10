//! A session's state: a JSON object that its runs share, changed key by key.
//!
//! A run that writes the whole object would undo what another run wrote meanwhile. So an event holds only the keys that
//! it changes, and two runs that change different keys both keep what they did, in whatever order they are committed.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::RawJson;

/// The state's values, by key.
pub type SessionValues = BTreeMap<String, RawJson>;

/// What changes in a session's state, all of it at once.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateChanges {
    /// These keys have these values from now on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: SessionValues,
    /// These keys are there no more.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub delete: BTreeSet<String>,
    /// These keys have these values unless they have others already.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub default: SessionValues,
}

impl StateChanges {
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.delete.is_empty() && self.default.is_empty()
    }

    /// Makes the changes: a key that is both set and deleted is there afterwards.
    pub fn apply(&self, values: &mut SessionValues) {
        self.delete.iter().for_each(|key| drop(values.remove(key)));
        values.extend(self.set.clone());
        for (key, value) in &self.default {
            values.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
}

/// The values of a whole state; none when it is no object.
#[must_use]
pub fn values_of(state: &RawJson) -> SessionValues {
    serde_json::from_str(state.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(json: &str) -> SessionValues {
        values_of(&RawJson::parse(json).unwrap())
    }

    #[test]
    fn keys_are_changed_one_by_one_and_others_stay() {
        let mut state = values(r#"{"a":1,"b":{"deep":[1e2]},"c":3}"#);
        let changes = StateChanges {
            set: values(r#"{"a":2}"#),
            delete: ["c", "none"].map(str::to_owned).into(),
            default: values(r#"{"b":null,"d":"new"}"#),
        };
        changes.apply(&mut state);
        assert_eq!(state, values(r#"{"a":2,"b":{"deep":[1e2]},"d":"new"}"#));
    }

    #[test]
    fn what_is_no_object_has_no_values() {
        assert_eq!(values("[1]"), SessionValues::new());
    }
}
