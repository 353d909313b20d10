//! A tool call as AgentOS's ToolExecution, and its arguments.

use reenact_events::{
    Text, Timestamp,
    event::{StepCall, StepResult},
};
use serde_json::{Map, Value, json};

use super::{
    json::parse,
    output::text_value,
    run::{RunView, StepView},
    usage::message_metrics,
};

/// The `tools` of a run: every tool call, in the order they were requested.
#[must_use]
pub fn tools(run: &RunView) -> Vec<Value> {
    run.steps.values().filter_map(execution).collect()
}

/// What a paused run waits for: the steps in doubt, in the shape of AgentOS's RunRequirement with the step
/// and the reason beside.
#[must_use]
pub fn requirements(run: &RunView) -> Vec<Value> {
    let in_doubt = |(number, step): (&u32, &StepView)| {
        let (attempt, reason) = step.doubt.as_ref()?;
        Some(json!({
            "id": step.token.to_string(),
            "kind": "in_doubt",
            "created_at": step.requested.seconds(),
            "step": number,
            "attempt": attempt,
            "reason": reason,
            "tool_execution": execution(step),
        }))
    };
    run.steps.iter().filter_map(in_doubt).collect()
}

fn execution(step: &StepView) -> Option<Value> {
    let StepCall::Tool { call_id, name, arguments, .. } = &step.call else { return None };
    let mut map = Map::new();
    map.insert("tool_call_id".to_owned(), json!(call_id));
    map.insert("tool_name".to_owned(), json!(name));
    put_arguments(&mut map, arguments);
    if let Some(StepResult::Tool { content, error, .. }) = &step.result {
        map.insert("tool_call_error".to_owned(), json!(error));
        map.insert("result".to_owned(), text_value(content));
    }
    if step.doubt.is_some() {
        // AgentOS's clients find by this what a paused run waits for.
        map.insert("requires_confirmation".to_owned(), json!(true));
    }
    map.insert("metrics".to_owned(), message_metrics(None, duration_ms(step), None));
    map.insert("created_at".to_owned(), json!(step.requested.seconds()));
    Some(Value::Object(map))
}

/// The message that tells the model what a tool call brought; `None` while it has brought nothing.
#[must_use]
pub fn tool_message(step: &StepView) -> Option<(Map<String, Value>, Timestamp)> {
    let StepCall::Tool { call_id, name, arguments, .. } = &step.call else { return None };
    let Some(StepResult::Tool { content, error, .. }) = &step.result else { return None };
    let mut map = Map::new();
    map.insert("content".to_owned(), text_value(content));
    map.insert("tool_call_id".to_owned(), json!(call_id));
    map.insert("tool_name".to_owned(), json!(name));
    put_arguments(&mut map, arguments);
    map.insert("tool_call_error".to_owned(), json!(error));
    map.insert("metrics".to_owned(), message_metrics(None, duration_ms(step), None));
    Some((map, step.settled.unwrap_or(step.requested)))
}

fn duration_ms(step: &StepView) -> Option<u64> {
    step.attempts.values().next_back().and_then(|attempt| attempt.duration_ms)
}

/// Puts `tool_args` as the object that it is. Arguments kept as a blob stand as `tool_args_ref` beside a null
/// until [`crate::expand()`] puts them in: an object that looks like a reference may be what the model wrote.
fn put_arguments(map: &mut Map<String, Value>, arguments: &Text) {
    let value = match arguments {
        Text::Inline(text) => parse_arguments(text),
        Text::Blob(_) => {
            map.insert(ARGUMENTS_REF.to_owned(), text_value(arguments));
            Value::Null
        }
    };
    map.insert(ARGUMENTS.to_owned(), value);
}

/// Where arguments stand.
pub const ARGUMENTS: &str = "tool_args";
/// Where the reference to arguments stands that are kept as a blob.
pub const ARGUMENTS_REF: &str = "tool_args_ref";

/// Arguments as the object that they should be, or the text that the model wrote in its place.
#[must_use]
pub fn parse_arguments(text: &str) -> Value {
    parse(text).filter(Value::is_object).unwrap_or_else(|| Value::String(text.to_owned()))
}
