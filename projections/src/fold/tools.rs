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

/// What a paused run waits for: the calls that are held or in doubt, in the shape of AgentOS's RunRequirement with
/// the step and the kind of the wait beside.
#[must_use]
pub fn requirements(run: &RunView) -> Vec<Value> {
    run.steps.iter().filter_map(|(number, step)| requirement(*number, step)).collect()
}

/// What a step waits for, if somebody has to decide.
#[must_use]
pub fn requirement(number: u32, step: &StepView) -> Option<Value> {
    let mut map = Map::new();
    map.insert("id".to_owned(), json!(step.token.to_string()));
    map.insert("created_at".to_owned(), json!(step.requested.seconds()));
    map.insert("step".to_owned(), json!(number));
    match (&step.doubt, &step.held) {
        (Some((attempt, reason)), _) => {
            map.insert("kind".to_owned(), json!("in_doubt"));
            map.insert("attempt".to_owned(), json!(attempt));
            map.insert("reason".to_owned(), json!(reason));
        }
        (None, Some(held)) if held.waits() => held.put_requirement(&mut map),
        _ => return None,
    }
    map.insert("tool_execution".to_owned(), execution(step)?);
    Some(Value::Object(map))
}

/// What a wait for somebody is called in the queue of approvals: of one step there can be several, one after another.
#[must_use]
pub fn approval_id(step: &StepView) -> Option<String> {
    match (&step.doubt, &step.held) {
        (Some((attempt, _)), _) => Some(format!("{}-{attempt}", step.token)),
        (None, Some(_)) => Some(step.token.to_string()),
        (None, None) => None,
    }
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
    if let Some(held) = &step.held {
        held.put_flags(&mut map);
    }
    if step.doubt.is_some() {
        // AgentOS's clients find by this what a paused run waits for.
        map.insert("requires_confirmation".to_owned(), json!(true));
        map.insert("confirmed".to_owned(), Value::Null);
    }
    if let Some(id) = approval_id(step) {
        map.insert("approval_id".to_owned(), json!(id));
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
