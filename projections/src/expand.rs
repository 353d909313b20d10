//! Puts the texts that are kept as blobs back into a run's output.
//!
//! A reference is known by its place, not by its looks: everywhere that a text stands, an object can only be
//! a reference. Arguments of tools are objects themselves, so theirs stands under a name of its own.
//! Metadata, state and files are never looked at.

use reenact_events::{BlobError, BlobRef, Blobs, Text};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::fold::{
    json::parse,
    output::{CONTENT, CONTENT_REF, JSON_CONTENT},
    tools::{ARGUMENTS, ARGUMENTS_REF, parse_arguments},
};

/// Replaces the references that stand in a `run_data` where a text may stand. A caller's own JSON is never
/// touched, whatever it looks like.
///
/// # Errors
/// When a blob is missing, damaged, or the store cannot be read; some texts may be replaced by then.
pub async fn expand(run_data: &mut Value, blobs: &dyn Blobs) -> Result<(), BlobError> {
    let Value::Object(run) = run_data else { return Ok(()) };
    if let Some(Value::Object(input)) = run.get_mut("input") {
        text_at(input, "input_content", blobs).await?;
    }
    content_at(run, blobs).await?;
    text_at(run, "reasoning_content", blobs).await?;
    for message in objects(run, "messages") {
        text_at(message, "content", blobs).await?;
        text_at(message, "reasoning_content", blobs).await?;
        arguments_at(message, blobs).await?;
        for call in objects(message, "tool_calls") {
            if let Some(Value::Object(function)) = call.get_mut("function") {
                text_at(function, "arguments", blobs).await?;
            }
        }
    }
    for tool in objects(run, "tools") {
        expand_tool(tool, blobs).await?;
    }
    for requirement in objects(run, "requirements") {
        expand_requirement(requirement, blobs).await?;
    }
    Ok(())
}

/// The same for the `data` of an approval.
///
/// # Errors
/// When a blob is missing, damaged, or the store cannot be read.
pub async fn expand_approval(data: &mut Value, blobs: &dyn Blobs) -> Result<(), BlobError> {
    if let Some(Value::Object(requirement)) = data.get_mut("requirement") {
        expand_requirement(requirement, blobs).await?;
    }
    if let Some(Value::Object(said)) = data.get_mut("resolution_data") {
        text_at(said, "arguments", blobs).await?;
        text_at(said, "result", blobs).await?;
    }
    Ok(())
}

/// An answer in JSON is never looked at: it may look like a reference.
async fn content_at(run: &mut Map<String, Value>, blobs: &dyn Blobs) -> Result<(), BlobError> {
    if run.get("content_type").is_none_or(|kind| kind != JSON_CONTENT) {
        return text_at(run, CONTENT, blobs).await;
    }
    let Some(reference) = run.get(CONTENT_REF) else { return Ok(()) };
    if let Some(text) = load(reference, blobs).await? {
        run.remove(CONTENT_REF);
        run.insert(CONTENT.to_owned(), parse(&text).unwrap_or(Value::String(text)));
    }
    Ok(())
}

async fn expand_requirement(requirement: &mut Map<String, Value>, blobs: &dyn Blobs) -> Result<(), BlobError> {
    match requirement.get_mut("tool_execution") {
        Some(Value::Object(tool)) => expand_tool(tool, blobs).await,
        _ => Ok(()),
    }
}

async fn expand_tool(tool: &mut Map<String, Value>, blobs: &dyn Blobs) -> Result<(), BlobError> {
    text_at(tool, "result", blobs).await?;
    arguments_at(tool, blobs).await
}

fn objects<'a>(parent: &'a mut Map<String, Value>, key: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let list = parent.get_mut(key).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

async fn text_at(parent: &mut Map<String, Value>, key: &str, blobs: &dyn Blobs) -> Result<(), BlobError> {
    let Some(value) = parent.get_mut(key) else { return Ok(()) };
    if let Some(text) = load(value, blobs).await? {
        *value = Value::String(text);
    }
    Ok(())
}

async fn arguments_at(parent: &mut Map<String, Value>, blobs: &dyn Blobs) -> Result<(), BlobError> {
    let Some(reference) = parent.get(ARGUMENTS_REF) else { return Ok(()) };
    if let Some(text) = load(reference, blobs).await? {
        parent.remove(ARGUMENTS_REF);
        parent.insert(ARGUMENTS.to_owned(), parse_arguments(&text));
    }
    Ok(())
}

async fn load(value: &Value, blobs: &dyn Blobs) -> Result<Option<String>, BlobError> {
    if !value.is_object() {
        return Ok(None);
    }
    let Ok(blob) = BlobRef::deserialize(value) else { return Ok(None) };
    Text::Blob(blob).load(blobs).await.map(|text| Some(text.as_ref().to_owned()))
}
