//! One frame on its way to a reader.

use axum::response::sse;
use reenact_events::{BlobError, Blobs, Text, Timestamp};
use serde_json::{Map, Value, json};

use super::Identity;

/// What a text that is kept as a blob becomes in the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// A string.
    Text,
    /// The JSON object that it is.
    Object,
    /// The JSON that it is.
    Json,
}

/// A server-sent event: its name, its JSON and, unless it is a control frame, its index.
#[derive(Debug, Clone, PartialEq)]
pub struct WireFrame {
    /// Grows strictly within the run; control frames have none.
    pub index: Option<u64>,
    /// AgentOS's name of the event.
    pub name: &'static str,
    /// The JSON, complete but for what [`WireFrame::filled`] reads.
    pub data: Value,
    pub(super) blobs: Vec<(String, Text, Fill)>,
}

impl WireFrame {
    pub(super) fn new(index: Option<u64>, name: &'static str, at: Timestamp, who: &Identity) -> Self {
        let mut data = Map::from_iter([
            ("event".to_owned(), json!(name)),
            ("run_id".to_owned(), json!(who.run_id)),
            ("session_id".to_owned(), json!(who.session_id)),
            ("agent_id".to_owned(), json!(who.agent_id)),
            ("agent_name".to_owned(), json!(who.agent_name)),
            ("created_at".to_owned(), json!(at.seconds())),
        ]);
        if let Some(index) = index {
            data.insert("nested_depth".to_owned(), json!(0));
            data.insert("event_index".to_owned(), json!(index));
        }
        Self { index, name, data: Value::Object(data), blobs: Vec::new() }
    }

    /// A control frame: not about an event, without an index.
    #[must_use]
    pub fn control(name: &'static str, mut data: Value) -> Self {
        data["event"] = json!(name);
        Self { index: None, name, data, blobs: Vec::new() }
    }

    pub(super) fn with(mut self, field: &str, value: Value) -> Self {
        self.data[field] = value;
        self
    }

    /// The frame of a good end with what the session's state was then.
    #[must_use]
    pub fn with_session_state(self, state: Value) -> Self {
        self.with("session_state", state)
    }

    pub(super) fn with_model(self, who: &Identity) -> Self {
        self.with("model", json!(who.model)).with("model_provider", json!(who.provider))
    }

    /// Puts `text` at the JSON pointer `at`, whose parent exists; a blob is noted and filled in later.
    pub(super) fn text(mut self, at: &str, text: &Text, fill: Fill) -> Self {
        match text.as_inline() {
            Some(inline) => put(&mut self.data, at, value_of(inline, fill)),
            None => self.blobs.push((at.to_owned(), text.clone(), fill)),
        }
        self
    }

    /// The frame with its blobs read.
    ///
    /// # Errors
    /// When a blob cannot be read.
    pub async fn filled(mut self, blobs: &dyn Blobs) -> Result<Self, BlobError> {
        for (at, text, fill) in std::mem::take(&mut self.blobs) {
            let text = text.load(blobs).await?;
            put(&mut self.data, &at, value_of(&text, fill));
        }
        Ok(self)
    }

    /// As it goes over the wire.
    pub fn into_sse(self) -> sse::Event {
        let event = sse::Event::default().event(self.name).data(self.data.to_string());
        match self.index {
            Some(index) => event.id(index.to_string()),
            None => event,
        }
    }
}

fn value_of(text: &str, fill: Fill) -> Value {
    match fill {
        Fill::Text => json!(text),
        Fill::Json => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        // What is no object was never called with; it is shown as it was written.
        Fill::Object => serde_json::from_str(text).ok().filter(Value::is_object).unwrap_or(json!({"raw": text})),
    }
}

fn put(data: &mut Value, at: &str, value: Value) {
    let (parent, field) = at.rsplit_once('/').unwrap_or(("", at));
    if let Some(Value::Object(parent)) = data.pointer_mut(parent) {
        parent.insert(field.to_owned(), value);
    }
}
