//! What a model wrote wrong, written so that a provider takes it back.
//!
//! **Nothing empty is sent**, since providers refuse it on every later turn: a text without a visible character is
//! left out, or stands as a word in brackets where the protocol wants one. A tool's name keeps to the characters
//! that names may have, and arguments that are no JSON object are quoted in one. The tool's answer tells the model
//! what was wrong.

use std::borrow::Cow;

use reenact_events::RawJson;
use serde_json::{json, value::RawValue};

use crate::text::preview;

/// The longest name of a tool that providers take.
const NAME_CHARS_MAX: usize = 64;
/// How much of what is no JSON object is quoted.
pub(super) const QUOTED_CHARS_MAX: usize = 200;

/// The words, or what stands for none of a person's.
pub(super) fn message(text: &str) -> &str {
    if is_blank(text) { "(empty message)" } else { text }
}

/// The words, or what stands for none of a tool's or a model's.
pub(super) fn content(text: &str) -> &str {
    if is_blank(text) { "(no content)" } else { text }
}

/// Asks in words for an answer that fits a schema, where it cannot be asked for otherwise.
pub(super) fn ask_for_json(system: &mut String, schema: &RawJson) {
    if !system.is_empty() {
        system.push_str("\n\n");
    }
    let schema = schema.as_str();
    system.push_str(&format!("Answer with one JSON value that fits this JSON Schema, and nothing else: {schema}"));
}

/// A name that providers take.
pub(super) fn name(name: &str) -> Cow<'_, str> {
    let legal = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    if name.is_empty() {
        return "unnamed".into();
    }
    if name.chars().count() <= NAME_CHARS_MAX && name.chars().all(legal) {
        return name.into();
    }
    name.chars().take(NAME_CHARS_MAX).map(|character| if legal(character) { character } else { '_' }).collect()
}

/// A JSON object.
pub(super) fn arguments(arguments: &str) -> Cow<'_, str> {
    let is_object = arguments.trim_start().starts_with('{') && serde_json::from_str::<&RawValue>(arguments).is_ok();
    if is_object {
        return arguments.into();
    }
    json!({"invalid_arguments": preview(arguments, QUOTED_CHARS_MAX)}).to_string().into()
}

/// An id of a call that every provider takes. Another model may have given it, so what is not legal is spelled out:
/// two ids stay two.
pub(super) fn id(id: &str) -> Cow<'_, str> {
    let legal = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    if id.chars().all(legal) && !id.is_empty() {
        return id.into();
    }
    let spelled = |character: char| match character {
        _ if legal(character) => character.to_string(),
        _ => format!("_{:x}_", u32::from(character)),
    };
    format!("call_{}", id.chars().map(spelled).collect::<String>()).into()
}

/// Whether nobody would see anything of it.
pub(super) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a24_what_a_model_wrote_wrong_can_be_sent_back() {
        assert_eq!(name(""), "unnamed");
        assert_eq!(name("look up!"), "look_up_");
        assert_eq!(name(&"x".repeat(100)).len(), NAME_CHARS_MAX);
        assert_eq!(arguments(r#"{"n": 1e400}"#), r#"{"n": 1e400}"#);
        assert_eq!(arguments("{"), r#"{"invalid_arguments":"{"}"#);
        assert_eq!(arguments(""), r#"{"invalid_arguments":""}"#);
        assert_eq!(arguments("[1]"), r#"{"invalid_arguments":"[1]"}"#);
        assert!(arguments(&"x".repeat(1_000_000)).len() < 1_000);
    }
}
