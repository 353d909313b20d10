//! Writes the conversation as a `generateContent` request.
//!
//! The answers to a turn's calls stand together in the one content after it, as many as there were calls. What must
//! not be sent as it stands is a matter of [`sendable`].

use base64::{Engine, engine::general_purpose::STANDARD};
use reenact_actors::step::{ChatMessage, ModelCall, StepError};
use reenact_events::{Blobs, MediaRef, RawJson, agent::ToolSpec, event::ToolCallRequest};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    model::{
        protocol::written,
        sendable::{self, is_blank},
        unreadable, words_of,
    },
    text,
};

/// What the protocol takes in place of a thought's signature for a call that is not its own. From Gemini 3 on a
/// call without one is refused, and signatures are not journaled.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    contents: Vec<Content>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tools<'a>>,
    generation_config: Config<'a>,
}

#[derive(Serialize)]
struct Content {
    role: &'static str,
    parts: Vec<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    // `parameters` takes a dialect; this takes JSON Schema as it is.
    parameters_json_schema: &'a RawJson,
}

impl<'a> Declaration<'a> {
    fn of(tool: &'a ToolSpec) -> Self {
        Self { name: &tool.name, description: &tool.description, parameters_json_schema: &tool.parameters }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Config<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'a RawJson>,
}

/// The request's body.
///
/// # Errors
/// When a text or a file of the conversation cannot be read.
pub(super) async fn body(call: &ModelCall, blobs: &dyn Blobs) -> Result<Vec<u8>, StepError> {
    let mut conversation = Conversation { wants_signature: wants_signature(&call.model.id), ..Conversation::default() };
    for message in &call.messages {
        conversation.take(message, blobs).await?;
    }
    // Models before the third generation take a schema or tools, not both.
    let schema = call.output_schema.as_ref();
    let field = schema.filter(|_| call.agent.tools.is_empty());
    if let Some(schema) = schema.filter(|_| field.is_none()) {
        sendable::ask_for_json(&mut conversation.system, schema);
    }
    let function_declarations: Vec<_> = call.agent.tools.iter().map(Declaration::of).collect();
    written(&Request {
        system_instruction: (!conversation.system.is_empty())
            .then(|| json!({"parts": [{"text": conversation.system}]})),
        contents: conversation.contents,
        tools: (!function_declarations.is_empty()).then_some(Tools { function_declarations }).into_iter().collect(),
        generation_config: Config {
            temperature: call.model.temperature_milli.map(|milli| f64::from(milli) / 1000.0),
            max_output_tokens: call.model.max_tokens,
            response_mime_type: field.map(|_| "application/json"),
            response_json_schema: field,
        },
    })
}

/// Models before the third generation know no signatures.
fn wants_signature(id: &str) -> bool {
    let version = id.trim_start_matches("models/").strip_prefix("gemini-");
    !version.is_some_and(|version| version.starts_with(['1', '2']))
}

#[derive(Default)]
struct Conversation {
    wants_signature: bool,
    system: String,
    contents: Vec<Content>,
}

impl Conversation {
    async fn take(&mut self, message: &ChatMessage, blobs: &dyn Blobs) -> Result<(), StepError> {
        match message {
            ChatMessage::System(text) if is_blank(text) => {}
            ChatMessage::System(text) => self.system.push_str(text),
            ChatMessage::User { text, media } => {
                let text = words_of(text, blobs).await?;
                let files = files(media, blobs).await?;
                let words = (files.is_empty() || !is_blank(&text)).then(|| json!({"text": sendable::message(&text)}));
                self.say("user", words.into_iter().chain(files).collect());
            }
            ChatMessage::Assistant { text, tool_calls } => {
                let mut parts = Vec::with_capacity(tool_calls.len() + 1);
                let text = match text {
                    Some(text) => words_of(text, blobs).await?,
                    None => "".into(),
                };
                if tool_calls.is_empty() || !is_blank(&text) {
                    parts.push(json!({"text": sendable::content(&text)}));
                }
                for (index, call) in tool_calls.iter().enumerate() {
                    let mut part = function_call(call, &words_of(&call.arguments, blobs).await?);
                    // Of several calls side by side only the first has one.
                    if self.wants_signature && index == 0 {
                        part["thoughtSignature"] = json!(NO_SIGNATURE);
                    }
                    parts.push(part);
                }
                self.say("model", parts);
            }
            ChatMessage::Tool { call_id, name, text, media } => {
                let text = words_of(text, blobs).await?;
                let (id, name) = (sendable::id(call_id), sendable::name(name));
                let response = json!({"result": sendable::content(&text)});
                self.answer(json!({"functionResponse": {"id": id, "name": name, "response": response}}));
                let files = files(media, blobs).await?;
                self.say("user", files);
            }
        }
        Ok(())
    }

    /// An answer to a call stands before the files that answers before it brought.
    fn answer(&mut self, part: Value) {
        match self.contents.last_mut().filter(|last| last.role == "user") {
            Some(last) => {
                let answers = last.parts.iter().take_while(|part| part.get("functionResponse").is_some()).count();
                last.parts.insert(answers, part);
            }
            None => self.contents.push(Content { role: "user", parts: vec![part] }),
        }
    }

    /// Two contents of one role in a row are one to the protocol.
    fn say(&mut self, role: &'static str, parts: Vec<Value>) {
        if parts.is_empty() {
            return;
        }
        match self.contents.last_mut().filter(|last| last.role == role) {
            Some(last) => last.parts.extend(parts),
            None => self.contents.push(Content { role, parts }),
        }
    }
}

fn function_call(call: &ToolCallRequest, arguments: &str) -> Value {
    let arguments = sendable::arguments(arguments);
    let args: Value = serde_json::from_str(&arguments)
        .unwrap_or_else(|_| json!({"invalid_arguments": text::preview(&arguments, sendable::QUOTED_CHARS_MAX)}));
    json!({"functionCall": {"id": sendable::id(&call.id), "name": sendable::name(&call.name), "args": args}})
}

async fn files(media: &[MediaRef], blobs: &dyn Blobs) -> Result<Vec<Value>, StepError> {
    let mut files = Vec::with_capacity(media.len());
    for file in media {
        let bytes = blobs.get(&file.blob).await.map_err(|error| unreadable(&error))?;
        files.push(json!({"inlineData": {"mimeType": &*file.mime, "data": STANDARD.encode(&bytes)}}));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_models_that_know_signatures_are_sent_one() {
        assert!(wants_signature("gemini-3-pro-preview") && wants_signature("models/gemini-flash-latest"));
        assert!(!wants_signature("gemini-2.5-flash") && !wants_signature("models/gemini-1.5-pro"));
    }
}
