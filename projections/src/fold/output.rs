//! A run as AgentOS's RunOutput: the `run_data` of its row.
//!
//! Texts that are kept as blobs stand as `{"sha256", "bytes"}` and are put back at read by
//! [`crate::expand()`].

use reenact_events::{
    BlobRef, MediaKind, MediaRef, Text,
    agent::AgentSpec,
    event::{Fork, RunCompleted, StepResult},
};
use serde_json::{Map, Value, json};

use super::{
    json::{foreign, parse},
    messages::messages,
    run::{End, RunView},
    tools::{requirements, tools},
    usage::run_metrics,
};

/// Where the answer stands.
pub const CONTENT: &str = "content";
/// Where the reference to an answer stands that is JSON and kept as a blob.
pub const CONTENT_REF: &str = "content_ref";
/// What providers say of an answer that is whole.
const WHOLE: [&str; 7] =
    ["stop", "end_turn", "stop_sequence", "tool_calls", "tool_use", "function_call", "FINISH_REASON_UNSPECIFIED"];
/// AgentOS's word for an answer that is JSON.
pub const JSON_CONTENT: &str = "dict";

impl RunView {
    /// What is known when the run is accepted: the `run_data` of its row until it ends.
    #[must_use]
    pub fn short_output(&self) -> Map<String, Value> {
        let queued = &self.queued;
        let mut input = Map::from_iter([("input_content".to_owned(), text_value(&queued.input))]);
        put_media(&mut input, &queued.media, "audios");
        let mut map = Map::new();
        map.insert("run_id".to_owned(), json!(queued.run_id));
        map.insert("agent_id".to_owned(), json!(queued.agent_id));
        map.insert("session_id".to_owned(), json!(queued.session_id));
        map.insert("user_id".to_owned(), json!(queued.user_id));
        map.insert("input".to_owned(), Value::Object(input));
        if let Some(metadata) = &queued.metadata {
            map.insert("metadata".to_owned(), foreign(metadata));
        }
        if let Some(fork) = &queued.fork {
            put_fork(&mut map, fork);
        }
        map.insert("created_at".to_owned(), json!(self.created.seconds()));
        map.insert("status".to_owned(), json!(self.status.as_str()));
        map
    }

    /// All that is known of the run. `spec` is the agent as the run pinned it.
    #[must_use]
    pub fn output(&self, spec: Option<&AgentSpec>) -> Map<String, Value> {
        let mut map = self.short_output();
        map.insert("agent_name".to_owned(), json!(spec.map(|spec| &spec.name)));
        map.insert("metrics".to_owned(), run_metrics(self, spec.map(|spec| &spec.model)));
        let (model, provider) = match self.asked_last() {
            Some(asked) => (json!(asked.id), json!(asked.provider)),
            None => (json!(spec.map(|spec| &spec.model.id)), json!(spec.map(|spec| &spec.model.provider))),
        };
        map.insert("model".to_owned(), model);
        map.insert("model_provider".to_owned(), provider);
        if let Some(reason) = self.cut_by() {
            map.insert("model_provider_data".to_owned(), json!({ "finish_reason": reason }));
        }
        self.put_content(&mut map);
        map.insert("reasoning_content".to_owned(), self.reasoning());
        map.insert("messages".to_owned(), Value::Array(messages(self, spec)));
        map.insert("tools".to_owned(), Value::Array(tools(self)));
        put_media(&mut map, &self.returned_media(), "audio");
        self.put_end(&mut map);
        map
    }

    /// Why the model ended its answer, when it was not because that is whole.
    fn cut_by(&self) -> Option<&str> {
        let last = self.steps.values().rev().find_map(|step| match &step.result {
            Some(StepResult::Model { finish_reason, .. }) => Some(finish_reason.as_deref()),
            _ => None,
        });
        last.flatten().filter(|reason| !WHOLE.iter().any(|whole| reason.eq_ignore_ascii_case(whole)))
    }

    /// An answer in JSON stands as what it is, so its reference cannot stand in its place.
    fn put_content(&self, map: &mut Map<String, Value>) {
        let (kind, content) = match &self.end {
            Some(End::Completed(RunCompleted { content, json: true, .. })) => match content.as_inline() {
                Some(text) => (JSON_CONTENT, parse(text).unwrap_or_else(|| json!(text))),
                None => {
                    map.insert(CONTENT_REF.to_owned(), text_value(content));
                    (JSON_CONTENT, Value::Null)
                }
            },
            _ => ("str", self.content()),
        };
        map.insert(CONTENT.to_owned(), content);
        map.insert("content_type".to_owned(), json!(kind));
    }

    /// The answer; the words so far of a run that is at work or was stopped; the error's text.
    fn content(&self) -> Value {
        match &self.end {
            Some(End::Completed(completed)) => text_value(&completed.content),
            Some(End::Failed(failed)) => json!(failed.error.message),
            Some(End::Cancelled(cancelled)) if cancelled.partial.is_some() => json!(cancelled.partial),
            _ => self.last_of_model(|text, _| Some(text)),
        }
    }

    fn reasoning(&self) -> Value {
        self.last_of_model(|_, reasoning| reasoning)
    }

    fn last_of_model<'a>(&'a self, pick: impl Fn(&'a Text, Option<&'a Text>) -> Option<&'a Text>) -> Value {
        let mut turns = self.steps.values().rev().filter_map(|step| match &step.result {
            Some(StepResult::Model { text, reasoning, .. }) => pick(text, reasoning.as_ref()),
            _ => None,
        });
        turns.find(|text| text.bytes() > 0).map_or(Value::Null, text_value)
    }

    fn returned_media(&self) -> Vec<MediaRef> {
        let of_step = |step: &super::run::StepView| match &step.result {
            Some(StepResult::Tool { media, .. }) => media.clone(),
            _ => Vec::new(),
        };
        self.steps.values().flat_map(of_step).collect()
    }

    fn put_end(&self, map: &mut Map<String, Value>) {
        match &self.end {
            Some(End::Failed(failed)) => {
                map.insert("error".to_owned(), json!(failed.error));
                if let Some(id) = &failed.error_id {
                    map.insert("error_id".to_owned(), json!(id));
                }
            }
            Some(End::Cancelled(cancelled)) => {
                map.insert("cancellation_stage".to_owned(), json!(cancelled.stage.as_str()));
                if let Some(reason) = &cancelled.reason {
                    map.insert("cancellation_reason".to_owned(), json!(reason));
                }
            }
            Some(End::Completed(_)) => {}
            None => self.put_pause(map),
        }
    }

    fn put_pause(&self, map: &mut Map<String, Value>) {
        if let Some(reason) = &self.pause {
            map.insert("pause_reason".to_owned(), json!(reason));
        }
        // Calls wait also while others of their turn are made, and while their run waits for its turn once more.
        let requirements = requirements(self);
        if !requirements.is_empty() {
            map.insert("requirements".to_owned(), Value::Array(requirements));
        }
    }
}

/// Where a run comes from, under AgentOS's names. The copy of a whole session's run has the session only.
fn put_fork(map: &mut Map<String, Value>, fork: &Fork) {
    if let Some(session) = &fork.session_id {
        map.insert("forked_from_session_id".to_owned(), json!(session));
        return;
    }
    map.insert("forked_from_run_id".to_owned(), json!(fork.run_id));
    map.insert("forked_from_message_index".to_owned(), json!(fork.message_index));
    if fork.regenerates {
        map.insert("regenerated_from".to_owned(), json!(fork.run_id));
    }
}

/// A text as it stands in `run_data`: a string, or the reference to where it is kept.
#[must_use]
pub fn text_value(text: &Text) -> Value {
    match text {
        Text::Inline(text) => json!(text),
        Text::Blob(blob) => blob_value(blob),
    }
}

fn blob_value(blob: &BlobRef) -> Value {
    json!({ "sha256": blob.sha256, "bytes": blob.bytes })
}

/// Puts files under `images`, `videos`, `files` and the name that this place has for sounds.
pub fn put_media(map: &mut Map<String, Value>, media: &[MediaRef], sounds: &str) {
    for file in media {
        let place = match file.kind {
            MediaKind::Image => "images",
            MediaKind::Video => "videos",
            MediaKind::File => "files",
            MediaKind::Audio => sounds,
        };
        let list = map.entry(place).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(list) = list {
            list.push(media_value(file));
        }
    }
}

/// The types that AgentOS's client takes for a file; with another one it refuses to read the whole run.
const FILE_TYPES: [&str; 22] = [
    "application/pdf",
    "application/json",
    "application/x-javascript",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/msword",
    "application/vnd.ms-powerpoint",
    "application/vnd.ms-excel",
    "application/vnd.ms-outlook",
    "application/zip",
    "message/rfc822",
    "text/javascript",
    "application/x-python",
    "text/x-python",
    "text/plain",
    "text/html",
    "text/css",
    "text/markdown",
    "text/csv",
    "text/xml",
    "text/rtf",
];

fn media_value(file: &MediaRef) -> Value {
    let mut map = Map::new();
    map.insert("id".to_owned(), json!(file.blob.sha256));
    if file.kind != MediaKind::File || FILE_TYPES.contains(&&*file.mime) {
        map.insert("mime_type".to_owned(), json!(file.mime));
    }
    if let Some((_, format)) = file.mime.split_once('/') {
        map.insert("format".to_owned(), json!(format));
    }
    if file.kind == MediaKind::File {
        map.insert("size".to_owned(), json!(file.blob.bytes));
    }
    if let Some(name) = &file.name {
        map.insert("name".to_owned(), json!(name));
        map.insert("filename".to_owned(), json!(name));
    }
    map.insert("media_reference".to_owned(), media_reference(file));
    Value::Object(map)
}

/// AgentOS's `MediaReference`: where the bytes are, and what they are.
fn media_reference(file: &MediaRef) -> Value {
    let sha256 = &file.blob.sha256;
    let mut reference = json!({
        "media_id": sha256,
        "storage_key": sha256,
        "storage_backend": "reenact",
        "content_hash": sha256,
        "size": file.blob.bytes,
        "mime_type": file.mime,
        "media_type": file.kind,
    });
    if let Some(name) = &file.name {
        reference["filename"] = json!(name);
    }
    reference
}
