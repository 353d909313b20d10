//! What a frame may hold, read as leniently as it can be without guessing.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// A chunk of a stream, or a whole completion.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk {
    pub(super) choices: Option<Vec<Choice>>,
    pub(super) usage: Option<Value>,
    pub(super) x_groq: Option<Groq>,
    pub(super) error: Option<Value>,
}

/// Where one provider puts its usage.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Groq {
    pub(super) usage: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice {
    pub(super) index: Option<u64>,
    pub(super) delta: Option<Message>,
    pub(super) message: Option<Message>,
    pub(super) finish_reason: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message {
    content: Option<Value>,
    refusal: Option<Value>,
    reasoning_content: Option<Value>,
    reasoning: Option<Value>,
    pub(super) tool_calls: Option<Vec<Fragment>>,
}

impl Message {
    /// The words of the answer; a refusal is one.
    pub(super) fn text(&self) -> String {
        words(self.content.as_ref()) + &words(self.refusal.as_ref())
    }

    /// The words of the thinking, under either of its names.
    pub(super) fn reasoning(&self) -> String {
        let reasoning = words(self.reasoning_content.as_ref());
        if reasoning.is_empty() { words(self.reasoning.as_ref()) } else { reasoning }
    }
}

/// A piece of a tool call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Fragment {
    pub(super) index: Option<u64>,
    pub(super) id: Option<Value>,
    pub(super) function: Option<Function>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Function {
    pub(super) name: Option<Value>,
    arguments: Option<Box<RawValue>>,
}

impl Function {
    /// The arguments' text. Some servers send the object itself: then it is its text, unread, so that its
    /// numbers keep their digits.
    pub(super) fn arguments(&self) -> String {
        let Some(raw) = &self.arguments else { return String::new() };
        serde_json::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
    }
}

/// A string, or the texts of a list of parts, or nothing.
pub(super) fn words(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
        _ => String::new(),
    }
}

/// An id, which some servers write as a number.
pub(super) fn id(value: Option<&Value>) -> String {
    match value {
        Some(Value::Number(number)) => number.to_string(),
        other => words(other),
    }
}
