//! What a model is told before the conversation: the agent's instructions, with values of the session's state in them.
//!
//! `{key}` stands for the value of that key, or of `{user_id}` for whose run it is; a string stands as it is, anything
//! else as JSON. Braces round anything else stay, since instructions hold JSON and code.

use std::borrow::Cow;

use reenact_events::{UserId, agent::AgentSpec, session_state::SessionValues};

/// The key that stands for the run's user, unless the session's state has one of this name.
const USER: &str = "user_id";

/// The system message, if there is anything to say.
#[must_use]
pub(super) fn of(agent: &AgentSpec, values: &SessionValues, user: Option<&UserId>) -> Option<String> {
    let said = agent.instructions.as_deref().filter(|text| !text.trim().is_empty());
    let mut text = said.map(|said| resolved(said, |key| value(values, user, key))).unwrap_or_default();
    if agent.add_session_state_to_context {
        let values = serde_json::to_string(values).unwrap_or_default();
        let between = if text.is_empty() { "" } else { "\n\n" };
        text.push_str(&format!("{between}<session_state>\n{values}\n</session_state>"));
    }
    (!text.is_empty()).then_some(text)
}

fn value<'a>(values: &'a SessionValues, user: Option<&'a UserId>, key: &str) -> Option<Cow<'a, str>> {
    let Some(value) = values.get(key) else {
        return user.filter(|_| key == USER).map(|user| user.as_str().into());
    };
    let json = value.as_str();
    Some(serde_json::from_str::<String>(json).map_or(Cow::Borrowed(json), Cow::Owned))
}

fn resolved<'a>(text: &str, value: impl Fn(&str) -> Option<Cow<'a, str>>) -> String {
    let (mut said, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(open) = rest.find('{') {
        let (before, from) = rest.split_at(open);
        said.push_str(before);
        let key = from[1..].split_once('}').map(|(key, _)| key);
        match key.and_then(|key| Some((key, value(key)?))) {
            Some((key, value)) => {
                said.push_str(&value);
                rest = &from[key.len() + 2..];
            }
            None => {
                said.push('{');
                rest = &from[1..];
            }
        }
    }
    said.push_str(rest);
    said
}

#[cfg(test)]
mod tests {
    use reenact_events::{RawJson, session_state::values_of};

    use super::*;

    fn told(text: &str, state: &str, user: Option<&str>) -> String {
        let values = values_of(&RawJson::parse(state).unwrap());
        let user = user.map(UserId::trusted);
        resolved(text, |key| value(&values, user.as_ref(), key))
    }

    #[test]
    fn a_key_in_braces_stands_for_its_value() {
        let state = r#"{"name": "Zo\u00eb", "list": [1, "x"], "n": 1.50, "two words": true}"#;
        assert_eq!(told("{name}: {list} {n}{two words}", state, None), r#"Zoë: [1, "x"] 1.50true"#);
    }

    #[test]
    fn other_braces_stay_and_values_are_not_looked_into() {
        let state = r#"{"a": "{b}", "b": "no"}"#;
        for text in ["{", "}", "{}", "{c}", "a {\"a\": 1}", "{ a }", "{a\n}"] {
            assert_eq!(told(text, state, None), text);
        }
        assert_eq!(told("{{a}} {c {b}", state, None), "{{b}} {c no");
    }

    #[test]
    fn the_user_has_a_key_of_its_own_unless_the_state_has_it() {
        assert_eq!(told("for {user_id}", "{}", Some("alice")), "for alice");
        assert_eq!(told("for {user_id}", r#"{"user_id": 3}"#, Some("alice")), "for 3");
        assert_eq!(told("for {user_id}", "{}", None), "for {user_id}");
    }
}
