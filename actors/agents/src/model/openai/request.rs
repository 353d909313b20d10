//! Writes the conversation as a chat completions request.
//!
//! What must not be sent as it stands is a matter of [`sendable`].

use base64::{Engine, engine::general_purpose::STANDARD};
use reenact_actors::step::{ChatMessage, ModelCall, StepError};
use reenact_events::{Blobs, MediaKind, MediaRef, RawJson, agent::ToolSpec, event::ToolCallRequest};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::model::{
    protocol::written,
    sendable::{self, is_blank},
    unreadable, words_of,
};

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    messages: Vec<Value>,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    // OpenAI's newer models refuse the first name, most other servers do not know the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
}

/// Not `strict`: that refuses most schemas that are legal, and the answer is checked here anyway.
#[derive(Serialize)]
struct ResponseFormat<'a> {
    r#type: &'static str,
    json_schema: NamedSchema<'a>,
}

#[derive(Serialize)]
struct NamedSchema<'a> {
    name: &'static str,
    schema: &'a RawJson,
}

impl<'a> ResponseFormat<'a> {
    fn of(schema: &'a RawJson) -> Self {
        Self { r#type: "json_schema", json_schema: NamedSchema { name: "answer", schema } }
    }
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a RawJson,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolSpec) -> Self {
        let function = Function { name: &tool.name, description: &tool.description, parameters: &tool.parameters };
        Self { r#type: "function", function }
    }
}

/// The request's body.
///
/// # Errors
/// When a text or a file of the conversation cannot be read.
pub(super) async fn body(call: &ModelCall, blobs: &dyn Blobs) -> Result<Vec<u8>, StepError> {
    let model = &call.model;
    let own_server = model.base_url.is_some();
    let request = Request {
        model: &model.id,
        messages: messages(&call.messages, blobs).await?,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        tools: call.agent.tools.iter().map(Tool::of).collect(),
        response_format: call.output_schema.as_ref().map(ResponseFormat::of),
        temperature: model.temperature_milli.map(|milli| f64::from(milli) / 1000.0),
        max_tokens: model.max_tokens.filter(|_| own_server),
        max_completion_tokens: model.max_tokens.filter(|_| !own_server),
    };
    written(&request)
}

async fn messages(conversation: &[ChatMessage], blobs: &dyn Blobs) -> Result<Vec<Value>, StepError> {
    let mut messages = Vec::with_capacity(conversation.len());
    // Results hold texts only; files follow as a person's message, after the last result of the turn,
    // because nothing may stand between a call and its result.
    let mut files = Vec::new();
    for message in conversation {
        if !matches!(message, ChatMessage::Tool { .. }) {
            push_files(&mut messages, &mut files);
        }
        match message {
            ChatMessage::System(text) if is_blank(text) => {}
            ChatMessage::System(text) => messages.push(json!({"role": "system", "content": &**text})),
            ChatMessage::User { text, media } => {
                let text = words_of(text, blobs).await?;
                messages.push(user(&text, parts(media, blobs).await?));
            }
            ChatMessage::Assistant { text, tool_calls } => {
                let text = match text {
                    Some(text) => words_of(text, blobs).await?,
                    None => "".into(),
                };
                messages.push(assistant(&text, calls(tool_calls, blobs).await?));
            }
            ChatMessage::Tool { call_id, name, text, media } => {
                let text = words_of(text, blobs).await?;
                let content = sendable::content(&text);
                messages.push(json!({"role": "tool", "tool_call_id": &**call_id, "content": content}));
                if !media.is_empty() {
                    files.push(text_part(&format!("Files that the tool `{name}` returned for call `{call_id}`:")));
                    files.extend(parts(media, blobs).await?);
                }
            }
        }
    }
    push_files(&mut messages, &mut files);
    Ok(messages)
}

fn push_files(messages: &mut Vec<Value>, files: &mut Vec<Value>) {
    if !files.is_empty() {
        messages.push(json!({"role": "user", "content": std::mem::take(files)}));
    }
}

fn user(text: &str, mut parts: Vec<Value>) -> Value {
    if parts.is_empty() {
        return json!({"role": "user", "content": sendable::message(text)});
    }
    if !is_blank(text) {
        parts.insert(0, text_part(text));
    }
    json!({"role": "user", "content": parts})
}

fn assistant(text: &str, tool_calls: Vec<Value>) -> Value {
    let mut message = Map::from_iter([("role".to_owned(), json!("assistant"))]);
    if !is_blank(text) {
        message.insert("content".to_owned(), json!(text));
    } else if tool_calls.is_empty() {
        message.insert("content".to_owned(), json!(sendable::content(text)));
    }
    if !tool_calls.is_empty() {
        message.insert("tool_calls".to_owned(), Value::Array(tool_calls));
    }
    Value::Object(message)
}

async fn calls(tool_calls: &[ToolCallRequest], blobs: &dyn Blobs) -> Result<Vec<Value>, StepError> {
    let mut calls = Vec::with_capacity(tool_calls.len());
    for call in tool_calls {
        let arguments = words_of(&call.arguments, blobs).await?;
        let function = json!({"name": sendable::name(&call.name), "arguments": sendable::arguments(&arguments)});
        calls.push(json!({"id": &*call.id, "type": "function", "function": function}));
    }
    Ok(calls)
}

async fn parts(media: &[MediaRef], blobs: &dyn Blobs) -> Result<Vec<Value>, StepError> {
    let mut parts = Vec::with_capacity(media.len());
    for file in media {
        let bytes = blobs.get(&file.blob).await.map_err(|error| unreadable(&error))?;
        parts.push(part(file, &STANDARD.encode(&bytes)));
    }
    Ok(parts)
}

fn part(file: &MediaRef, base64: &str) -> Value {
    let data_url = || format!("data:{};base64,{base64}", file.mime);
    match file.kind {
        MediaKind::Image => json!({"type": "image_url", "image_url": {"url": data_url()}}),
        MediaKind::Audio => {
            json!({"type": "input_audio", "input_audio": {"data": base64, "format": audio_format(&file.mime)}})
        }
        MediaKind::Video | MediaKind::File => {
            let name = file.name.as_deref().unwrap_or("file");
            json!({"type": "file", "file": {"filename": name, "file_data": data_url()}})
        }
    }
}

fn audio_format(mime: &str) -> &str {
    match mime {
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/wav" | "audio/x-wav" | "audio/wave" | "audio/vnd.wave" => "wav",
        other => other.rsplit('/').next().unwrap_or(other),
    }
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a25_no_message_is_empty() {
        for message in [user(" ", vec![]), assistant("", vec![]), assistant("\n", vec![])] {
            assert!(!is_blank(message["content"].as_str().unwrap()), "{message}");
        }
        let calling = assistant(" ", vec![json!({"id": "a"})]);
        assert!(calling.get("content").is_none());
        assert_eq!(user("", vec![text_part("x")])["content"].as_array().unwrap().len(), 1);
    }
}
