//! A tool's answer that says more than words: `{"content": …, "session_state": {"set": {…}, "delete": […]}}`.
//!
//! It has a media type of its own, so that what any other service answers is never taken for it.

use reenact_actors::step::ToolReply;
use reenact_events::{RawJson, session_state::StateChanges};
use serde::Deserialize;

use super::answered;

/// The media type of such an answer.
pub(super) const RESULT_TYPE: &str = "application/vnd.reenact.result+json";
/// What a tool may change at once: it becomes part of an event.
const CHANGES_BYTES_MAX: usize = 64 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolResult {
    content: RawJson,
    #[serde(default)]
    session_state: Option<Changed>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Changed {
    #[serde(default)]
    set: std::collections::BTreeMap<String, RawJson>,
    #[serde(default)]
    delete: std::collections::BTreeSet<String>,
}

/// Reads such an answer, or says what is wrong with it.
pub(super) fn read(body: &str) -> Result<ToolReply, String> {
    let read: ToolResult = serde_json::from_str(body).map_err(|error| {
        format!("the answer is not the JSON that its type `{RESULT_TYPE}` promises, and changed nothing: {error}")
    })?;
    let changes = read.session_state.map(|Changed { set, delete }| StateChanges { set, delete, ..Default::default() });
    let text = serde_json::from_str::<String>(read.content.as_str()).unwrap_or_else(|_| read.content.as_str().into());
    Ok(ToolReply { session_state: changes.map(bounded).transpose()?, ..answered(text) })
}

/// The changes, unless they are too large.
pub(super) fn bounded(changes: StateChanges) -> Result<StateChanges, String> {
    let set: usize = changes.set.iter().map(|(key, value)| key.len() + value.as_str().len()).sum();
    let bytes = set + changes.delete.iter().map(String::len).sum::<usize>();
    if bytes <= CHANGES_BYTES_MAX {
        return Ok(changes);
    }
    let kibibytes = CHANGES_BYTES_MAX / 1024;
    Err(format!("the change of the session's state has {bytes} bytes, more than {kibibytes} KiB, and was not made"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_words_and_changes() {
        let reply = read(r#"{"content": "done", "session_state": {"set": {"a": 1e2}, "delete": ["b"]}}"#).unwrap();
        let changes = reply.session_state.unwrap();
        assert_eq!((&*reply.text, changes.set["a"].as_str(), changes.delete.len()), ("done", "1e2", 1));
        let reply = read(r#"{"content": {"n": 12345678901234567890}}"#).unwrap();
        assert_eq!((&*reply.text, reply.session_state), (r#"{"n": 12345678901234567890}"#, None));
    }

    #[test]
    fn a_result_that_is_none_changes_nothing_and_says_why() {
        let large = format!(r#"{{"content": "", "session_state": {{"set": {{"a": "{}"}}}}}}"#, "x".repeat(70_000));
        for (body, because) in [
            ("{}", "missing field `content`"),
            ("done", "is not the JSON"),
            (r#"{"content": "", "state": {}}"#, "unknown field `state`"),
            (r#"{"content": "", "session_state": {"a": 1}}"#, "unknown field `a`"),
            (&large, "more than 64 KiB"),
        ] {
            let reason = read(body).unwrap_err();
            assert!(reason.contains(because), "{body}: {reason}");
        }
    }
}
