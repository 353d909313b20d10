//! What a call waited for before it could be made, and how AgentOS shows it on a ToolExecution.

use reenact_events::{
    Timestamp, UserId,
    event::{StepAnswered, StepHeld},
    hold::{InputField, Needs, Verdict},
};
use serde_json::{Map, Value, json};

use super::{json::foreign, output::text_value};

/// A call that was held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// What it waits, or waited, for.
    pub needs: Needs,
    /// When nobody is waited for any more.
    pub expires_at: Option<Timestamp>,
    /// How the wait ended, once it did.
    pub release: Option<Release>,
}

/// How a wait for somebody ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// When.
    pub at: Timestamp,
    /// Who decided, if known.
    pub by: Option<UserId>,
    /// What was decided; `None` when nobody did in time.
    pub verdict: Option<Verdict>,
}

impl Held {
    /// A call that is held from now on.
    #[must_use]
    pub fn of(event: &StepHeld) -> Self {
        Self { needs: event.needs.clone(), expires_at: event.expires_at, release: None }
    }

    /// Whether somebody is still waited for.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.release.is_none()
    }

    /// The run was queued again: it asks anew, and for how long, when its turn comes.
    pub(super) fn stop_time(&mut self) {
        if self.waits() {
            self.expires_at = None;
        }
    }

    pub(super) fn release(&mut self, at: Timestamp, answer: Option<&StepAnswered>) {
        let (by, verdict) = answer.map(|answer| (answer.by.clone(), answer.verdict.clone())).unzip();
        self.release = Some(Release { at, by: by.flatten(), verdict });
    }

    fn verdict(&self) -> Option<&Verdict> {
        self.release.as_ref().and_then(|release| release.verdict.as_ref())
    }

    /// What AgentOS's clients look at: which flags stand, and what was said.
    pub(super) fn put_flags(&self, map: &mut Map<String, Value>) {
        let waits = self.waits();
        let mut put = |key: &str, value: Value| map.insert(key.to_owned(), value);
        match &self.needs {
            Needs::Confirmation => {
                put("requires_confirmation", json!(waits));
            }
            Needs::Input { .. } => {
                put("requires_user_input", json!(waits));
                put("user_input_schema", self.input_schema());
            }
            Needs::Execution => {
                put("external_execution_required", json!(waits));
            }
        }
        match self.verdict() {
            Some(Verdict::Confirmed { input, .. }) => {
                put("confirmed", json!(true));
                if input.is_some() {
                    put("answered", json!(true));
                }
            }
            Some(Verdict::Rejected { note }) => {
                put("confirmed", json!(false));
                put("confirmation_note", json!(note));
            }
            Some(Verdict::Result { .. } | Verdict::Fail) | None => {}
        }
        if let Some(Release { by, at, .. }) = &self.release {
            put("decided_by", json!(by));
            put("decided_at", json!(at.seconds()));
        }
    }

    /// The fields that a person fills in, with what was filled in.
    fn input_schema(&self) -> Value {
        let Needs::Input { fields } = &self.needs else { return Value::Null };
        let filled = match self.verdict() {
            Some(Verdict::Confirmed { input: Some(input), .. }) => foreign(input),
            _ => Value::Null,
        };
        let field = |field: &InputField| {
            json!({
                "name": field.name,
                "field_type": field.field_type,
                "description": field.description,
                "value": filled.get(&field.name),
            })
        };
        fields.iter().map(field).collect()
    }

    /// What a requirement says beside its ToolExecution.
    pub(super) fn put_requirement(&self, map: &mut Map<String, Value>) {
        map.insert("kind".to_owned(), json!(self.needs.pause_type()));
        if let Needs::Input { .. } = self.needs {
            map.insert("user_input_schema".to_owned(), self.input_schema());
        }
        if let Some(at) = self.expires_at {
            map.insert("expires_at".to_owned(), json!(at.seconds()));
        }
    }
}

/// What was said with a decision, for who reads the queue of approvals.
#[must_use]
pub fn resolution_data(verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Confirmed { arguments, input } => {
            let mut map = Map::new();
            if let Some(arguments) = arguments {
                map.insert("arguments".to_owned(), text_value(arguments));
            }
            if let Some(input) = input {
                map.insert("values".to_owned(), foreign(input));
            }
            Value::Object(map)
        }
        Verdict::Rejected { note } => json!({"note": note}),
        Verdict::Result { value } => json!({"result": text_value(value)}),
        Verdict::Fail => json!({"fail": true}),
    }
}
