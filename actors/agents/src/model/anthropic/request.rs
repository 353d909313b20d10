//! Writes the conversation as a messages request.
//!
//! The results of a turn's calls stand together in the one message after it, before anything else there. What
//! must not be sent as it stands is a matter of [`sendable`].

use base64::{Engine, engine::general_purpose::STANDARD};
use reenact_actors::step::{ChatMessage, ModelCall, StepError};
use reenact_events::{Blobs, MediaKind, MediaRef, RawJson, agent::ToolSpec, event::ToolCallRequest};
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

/// The protocol wants a bound; this one is within what every model since Claude 3.5 can write.
const MAX_TOKENS: u32 = 8_192;

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    system: String,
    messages: Vec<Message>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
}

#[derive(Serialize)]
struct Message {
    role: &'static str,
    content: Vec<Value>,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawJson,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolSpec) -> Self {
        Self { name: &tool.name, description: &tool.description, input_schema: &tool.parameters }
    }
}

/// The request's body.
///
/// # Errors
/// When a text or a file of the conversation cannot be read.
pub(super) async fn body(call: &ModelCall, blobs: &dyn Blobs) -> Result<Vec<u8>, StepError> {
    let mut conversation = Conversation::default();
    for message in &call.messages {
        conversation.take(message, blobs).await?;
    }
    if let Some(schema) = &call.output_schema {
        // Only the newer models take a schema as a field; all of them follow words.
        sendable::ask_for_json(&mut conversation.system, schema);
    }
    written(&Request {
        model: &call.model.id,
        max_tokens: call.model.max_tokens.unwrap_or(MAX_TOKENS),
        stream: true,
        system: conversation.system,
        messages: conversation.messages,
        tools: call.agent.tools.iter().map(Tool::of).collect(),
        // The protocol's scale ends at 1.
        temperature: call.model.temperature_milli.map(|milli| f64::from(milli.min(1_000)) / 1000.0),
    })
}

#[derive(Default)]
struct Conversation {
    system: String,
    messages: Vec<Message>,
}

impl Conversation {
    async fn take(&mut self, message: &ChatMessage, blobs: &dyn Blobs) -> Result<(), StepError> {
        match message {
            ChatMessage::System(text) if is_blank(text) => {}
            ChatMessage::System(text) => self.system.push_str(text),
            ChatMessage::User { text, media } => {
                let text = words_of(text, blobs).await?;
                let files = files(media, blobs).await?;
                let words = (files.is_empty() || !is_blank(&text)).then(|| text_block(sendable::message(&text)));
                self.say("user", words.into_iter().chain(files).collect());
            }
            ChatMessage::Assistant { text, tool_calls } => {
                let mut content = Vec::with_capacity(tool_calls.len() + 1);
                let text = match text {
                    Some(text) => words_of(text, blobs).await?,
                    None => "".into(),
                };
                if tool_calls.is_empty() || !is_blank(&text) {
                    content.push(text_block(sendable::content(&text)));
                }
                for call in tool_calls {
                    content.push(tool_use(call, &words_of(&call.arguments, blobs).await?));
                }
                self.say("assistant", content);
            }
            ChatMessage::Tool { call_id, text, media, .. } => {
                let text = words_of(text, blobs).await?;
                let mut content = vec![text_block(sendable::content(&text))];
                content.extend(files(media, blobs).await?);
                let result = json!({"type": "tool_result", "tool_use_id": sendable::id(call_id), "content": content});
                self.say("user", vec![result]);
            }
        }
        Ok(())
    }

    /// Two messages of one role in a row are one to the protocol.
    fn say(&mut self, role: &'static str, content: Vec<Value>) {
        match self.messages.last_mut().filter(|last| last.role == role) {
            Some(last) => last.content.extend(content),
            None => self.messages.push(Message { role, content }),
        }
    }
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn tool_use(call: &ToolCallRequest, arguments: &str) -> Value {
    let arguments = sendable::arguments(arguments);
    let input: Value = serde_json::from_str(&arguments)
        .unwrap_or_else(|_| json!({"invalid_arguments": text::preview(&arguments, sendable::QUOTED_CHARS_MAX)}));
    json!({"type": "tool_use", "id": sendable::id(&call.id), "name": sendable::name(&call.name), "input": input})
}

async fn files(media: &[MediaRef], blobs: &dyn Blobs) -> Result<Vec<Value>, StepError> {
    let mut files = Vec::with_capacity(media.len());
    for file in media {
        let bytes = blobs.get(&file.blob).await.map_err(|error| unreadable(&error))?;
        files.push(block(file, &bytes));
    }
    Ok(files)
}

/// A file as a block. Of what the protocol has no block for the model is told, because a refused block would stand
/// in the way of every later turn.
fn block(file: &MediaRef, bytes: &[u8]) -> Value {
    let base64 = || json!({"type": "base64", "media_type": &*file.mime, "data": STANDARD.encode(bytes)});
    match (file.kind, &*file.mime) {
        (MediaKind::Image, _) => json!({"type": "image", "source": base64()}),
        (_, "application/pdf") => json!({"type": "document", "source": base64()}),
        (MediaKind::File, mime) if mime.starts_with("text/") => {
            let source = json!({"type": "text", "media_type": "text/plain", "data": text::decode(bytes.to_vec())});
            json!({"type": "document", "source": source})
        }
        (_, mime) => {
            let name = file.name.as_deref().unwrap_or("file");
            text_block(&format!("(the file `{name}` of type `{mime}` cannot be shown to this model)"))
        }
    }
}
