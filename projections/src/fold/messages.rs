//! The conversation of a run as AgentOS's messages: instructions, the person's words, the model's turns, each
//! followed by what its tool calls brought.

use reenact_events::{
    Timestamp,
    agent::AgentSpec,
    event::{StepCall, StepResult, ToolCallRequest},
    ids,
    output::repair_request,
};
use serde_json::{Map, Value, json};

use super::{
    output::{put_media, text_value},
    run::{RunView, StepView},
    tools::tool_message,
    usage::message_metrics,
};

/// The `messages` of a run.
#[must_use]
pub fn messages(run: &RunView, spec: Option<&AgentSpec>) -> Vec<Value> {
    let mut list = List { run, messages: Vec::new() };
    if let Some(instructions) =
        spec.and_then(|spec| spec.instructions.as_deref()).filter(|text| !text.trim().is_empty())
    {
        list.push("system", content(json!(instructions)), run.created);
    }
    let mut person = content(text_value(&run.queued.input));
    put_media(&mut person, &run.queued.media, "audio");
    list.push("user", person, run.created);
    let mut said = run.queued.fork.iter().flat_map(|fork| &fork.said).peekable();
    for (at, step) in &run.steps {
        while let Some(said) = said.next_if(|said| said.step <= *at) {
            list.push("user", content(text_value(&said.text)), run.created);
        }
        match &step.call {
            StepCall::Model { .. } => {
                if let Some((message, at)) = model_message(step) {
                    list.push("assistant", message, at);
                    if let Some(unfit) = &step.unfit {
                        list.push("user", content(json!(repair_request(unfit))), at);
                    }
                }
            }
            StepCall::Guardrail { .. } => {}
            StepCall::Tool { .. } => {
                if let Some((message, at)) = tool_message(step) {
                    list.push("tool", message, at);
                }
            }
        }
    }
    for said in said {
        list.push("user", content(text_value(&said.text)), run.created);
    }
    list.messages
}

struct List<'a> {
    run: &'a RunView,
    messages: Vec<Value>,
}

impl List<'_> {
    /// Ids follow from run and place, so that a rebuild gives a message the id that it had.
    fn push(&mut self, role: &str, mut message: Map<String, Value>, at: Timestamp) {
        let place = self.messages.len().to_string();
        let id = ids::derived("message", &[self.run.queued.run_id.as_str(), &place]);
        message.insert("id".to_owned(), json!(id.to_string()));
        message.insert("role".to_owned(), json!(role));
        message.insert("created_at".to_owned(), json!(at.seconds()));
        self.messages.push(Value::Object(message));
    }
}

fn content(value: Value) -> Map<String, Value> {
    Map::from_iter([("content".to_owned(), value)])
}

fn model_message(step: &StepView) -> Option<(Map<String, Value>, Timestamp)> {
    let Some(StepResult::Model { text, reasoning, tool_calls, usage, first_token_ms, .. }) = &step.result else {
        return None;
    };
    let mut map = content(text_value(text));
    if let Some(reasoning) = reasoning {
        map.insert("reasoning_content".to_owned(), text_value(reasoning));
    }
    if !tool_calls.is_empty() {
        map.insert("tool_calls".to_owned(), tool_calls.iter().map(openai_call).collect());
    }
    let duration_ms = step.attempts.values().next_back().and_then(|attempt| attempt.duration_ms);
    map.insert("metrics".to_owned(), message_metrics(usage.map(Into::into), duration_ms, *first_token_ms));
    Some((map, step.settled.unwrap_or(step.requested)))
}

fn openai_call(call: &ToolCallRequest) -> Value {
    json!({
        "id": call.id,
        "type": "function",
        "function": { "name": call.name, "arguments": text_value(&call.arguments) },
    })
}
