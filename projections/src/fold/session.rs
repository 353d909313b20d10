//! A session's row: what was set, the first words that were said, and what all its runs cost.

use reenact_events::{
    RawJson, Timestamp,
    event::{RunQueued, SessionCreated, SessionUpdated},
    session_state::{StateChanges, values_of},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{json::foreign, usage::Tokens};
use crate::query::SessionRow;

/// How much of the first message names an unnamed session.
pub const FIRST_MESSAGE_CHARS_MAX: usize = 100;

const NAME: &str = "session_name";
const STATE: &str = "session_state";
const FORKED_FROM: &str = "forked_from_session_id";
const METRICS: &str = "session_metrics";

impl SessionRow {
    /// The row of a new session.
    #[must_use]
    pub fn created(event: &SessionCreated, at: Timestamp) -> Self {
        let mut data = Map::new();
        put(&mut data, NAME, event.name.as_ref().map(|name| json!(name)));
        put(&mut data, STATE, event.state.as_ref().map(foreign));
        put(&mut data, FORKED_FROM, event.forked_from_session_id.as_ref().map(|session| json!(session)));
        Self {
            session_id: event.session_id.clone(),
            session_type: "agent".to_owned(),
            agent_id: event.agent_id.as_ref().map(ToString::to_string),
            user_id: event.user_id.clone(),
            session_data: Value::Object(data),
            metadata: event.metadata.as_ref().map(foreign),
            summary: None,
            created_at: at.seconds(),
            updated_at: Some(at.seconds()),
            first_message: None,
        }
    }

    /// Replaces the fields that the event holds.
    pub fn update(&mut self, event: &SessionUpdated, at: Timestamp) {
        self.put_data(NAME, event.name.as_ref().map(|name| json!(name)));
        self.put_data(STATE, event.state.as_ref().map(foreign));
        self.metadata = event.metadata.as_ref().map(foreign).or_else(|| self.metadata.take());
        self.summary = event.summary.as_ref().map(foreign).or_else(|| self.summary.take());
        self.updated_at = Some(at.seconds());
    }

    /// Changes keys of the state.
    pub fn change_state(&mut self, changes: &StateChanges) {
        let state = match self.session_data.get(STATE) {
            // One that a row cannot hold stands there as its text.
            Some(Value::String(text)) => RawJson::parse(text).ok(),
            Some(state) => RawJson::of(state).ok(),
            None => None,
        };
        let mut values = state.as_ref().map(values_of).unwrap_or_default();
        changes.apply(&mut values);
        let state: Map<_, _> = values.iter().map(|(key, value)| (key.clone(), foreign(value))).collect();
        self.put_data(STATE, Some(Value::Object(state)));
    }

    /// The state that the session's runs share, if it has any.
    #[must_use]
    pub fn state(&self) -> Option<&Value> {
        self.session_data.get(STATE)
    }

    /// A run of the session was accepted.
    pub fn run_queued(&mut self, event: &RunQueued, at: Timestamp) {
        if self.first_message.is_none() {
            let text = event.input.as_inline();
            self.first_message = text.map(|text| text.chars().take(FIRST_MESSAGE_CHARS_MAX).collect());
        }
        if self.agent_id.is_none() {
            self.agent_id = Some(event.agent_id.to_string());
        }
        self.updated_at = Some(at.seconds());
    }

    /// A run of the session ended and cost `tokens`.
    pub fn run_ended(&mut self, tokens: Tokens, at: Timestamp) {
        // What stands there was written by the line below, or is not there yet.
        let before = self.session_data.get(METRICS).and_then(|metrics| Tokens::deserialize(metrics).ok());
        let total = before.unwrap_or_default().plus(tokens);
        self.put_data(METRICS, Some(Value::Object(total.to_map())));
        self.updated_at = Some(at.seconds());
    }

    /// What the session is called: its name, or the first words that were said in it.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        let name = self.session_data.get(NAME).and_then(Value::as_str).filter(|name| !name.is_empty());
        name.or(self.first_message.as_deref())
    }

    fn put_data(&mut self, key: &str, value: Option<Value>) {
        if let Value::Object(data) = &mut self.session_data {
            put(data, key, value);
        }
    }
}

fn put(data: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        data.insert(key.to_owned(), value);
    }
}
