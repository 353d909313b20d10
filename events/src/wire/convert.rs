//! Between a command's body and the fields of its JSON.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{
    AgentId, CommandBody, Unreadable, decision,
    fields::{
        Blob, CancelRun, ContinueRun, CreateSession, DeleteSession, ForkSession, Media, Message, RequeueRun, StartRun,
        UpdateSession,
    },
    fork, invalid, named, object_of, schedule, take,
};
use crate::{
    BlobRef, MediaKind, MediaRef, RawJson, RunId, SessionId, Text, UserId,
    command::{self, AgentRef},
};

const SHA256_DIGITS: usize = 64;

/// How many partitions were asked already, in a command that the runtime hands round. Publishers know no such field.
const ASKED: &str = "asked";

/// The schedule that a run comes from, in a command that the runtime itself makes.
const SCHEDULED_BY: &str = "scheduled_by";

pub(super) fn body(
    kind: &str,
    mut fields: Map<String, Value>,
    is_handed_round: bool,
) -> Result<CommandBody, Unreadable> {
    let asked = if is_handed_round { take(&mut fields, ASKED)?.unwrap_or_default() } else { 0 };
    let scheduled_by = if is_handed_round { take(&mut fields, SCHEDULED_BY)? } else { None };
    Ok(match kind {
        "StartRun" => CommandBody::StartRun(Box::new(command::StartRun { scheduled_by, ..start_run(read(fields)?)? })),
        "CancelRun" => {
            let CancelRun { run_id, session_id, reason } = read(fields)?;
            CommandBody::CancelRun {
                session_id: session_id.as_deref().map(session).transpose()?,
                run_id: named("run_id", &run_id, RunId::parse)?,
                reason: reason.map(Into::into),
                asked,
            }
        }
        "ContinueRun" => {
            let ContinueRun { run_id, session_id, requirements, decided_by } = read(fields)?;
            if requirements.is_empty() {
                return Err(invalid("the field `requirements` is empty: decide about at least one tool call"));
            }
            CommandBody::ContinueRun {
                session_id: session_id.as_deref().map(session).transpose()?,
                run_id: named("run_id", &run_id, RunId::parse)?,
                decisions: requirements.into_iter().map(decision::read).collect::<Result<_, _>>()?,
                decided_by: decided_by.map(|user| named("decided_by", &user, UserId::parse)).transpose()?,
                asked,
            }
        }
        "RequeueRun" => {
            let RequeueRun { run_id, session_id } = read(fields)?;
            CommandBody::RequeueRun {
                session_id: session_id.as_deref().map(session).transpose()?,
                run_id: named("run_id", &run_id, RunId::parse)?,
                asked,
            }
        }
        "ForkRun" => CommandBody::ForkRun(Box::new(fork::read(read(fields)?, asked)?)),
        kind => match session_body(kind, &mut fields)? {
            Some(body) => body,
            None => {
                let unknown = || invalid(format!("there is no command `{kind}` for publishers"));
                CommandBody::Schedule(schedule::read(kind, fields, is_handed_round)?.ok_or_else(unknown)?)
            }
        },
    })
}

/// A command about a session; `None` when it is none.
fn session_body(kind: &str, fields: &mut Map<String, Value>) -> Result<Option<CommandBody>, Unreadable> {
    Ok(Some(match kind {
        "CreateSession" => {
            let CreateSession { session_id, agent_id, name, state, metadata } = read(std::mem::take(fields))?;
            CommandBody::CreateSession {
                session_id: session(&session_id)?,
                agent_id: agent_id.map(|agent| named("agent_id", &agent, AgentId::parse)).transpose()?,
                name,
                state: raw(state)?,
                metadata: raw(metadata)?,
            }
        }
        "UpdateSession" => {
            let UpdateSession { session_id, name, state, metadata, summary } = read(std::mem::take(fields))?;
            CommandBody::UpdateSession {
                session_id: session(&session_id)?,
                name,
                state: raw(state)?,
                metadata: raw(metadata)?,
                summary: raw(summary)?,
            }
        }
        "ForkSession" => {
            let ForkSession { session_id, name, metadata, summary } = read(std::mem::take(fields))?;
            let (session_id, metadata, summary) = (session(&session_id)?, raw(metadata)?, raw(summary)?);
            CommandBody::ForkSession { session_id, name, metadata, summary }
        }
        "DeleteSession" => {
            let DeleteSession { session_id, runs, reason } = read(std::mem::take(fields))?;
            let session_id = session(&session_id)?;
            CommandBody::DeleteSession { session_id, runs, reason: reason.map(Into::into) }
        }
        _ => return Ok(None),
    }))
}

pub(super) fn fields(body: &CommandBody) -> (&'static str, Map<String, Value>) {
    let id = |session: &Option<SessionId>| session.as_ref().map(ToString::to_string);
    match body {
        CommandBody::StartRun(start) => {
            let mut fields = object_of(&start_fields(start));
            if let Some(by) = &start.scheduled_by {
                fields.insert(SCHEDULED_BY.to_owned(), object_of(&**by).into());
            }
            ("StartRun", fields)
        }
        CommandBody::CancelRun { session_id, run_id, reason, asked } => {
            let reason = reason.as_ref().map(ToString::to_string);
            let fields = CancelRun { run_id: run_id.to_string(), session_id: id(session_id), reason };
            ("CancelRun", handed_round(object_of(&fields), *asked))
        }
        CommandBody::ContinueRun { session_id, run_id, decisions, decided_by, asked } => {
            let requirements = decisions.iter().map(decision::write).collect();
            let (run_id, session_id) = (run_id.to_string(), id(session_id));
            let decided_by = decided_by.as_ref().map(ToString::to_string);
            let fields = ContinueRun { run_id, session_id, requirements, decided_by };
            ("ContinueRun", handed_round(object_of(&fields), *asked))
        }
        CommandBody::RequeueRun { session_id, run_id, asked } => {
            let (run_id, session_id) = (run_id.to_string(), id(session_id));
            ("RequeueRun", handed_round(object_of(&RequeueRun { run_id, session_id }), *asked))
        }
        CommandBody::ForkRun(fork) => ("ForkRun", handed_round(object_of(&fork::write(fork)), fork.asked)),
        CommandBody::CreateSession { session_id, agent_id, name, state, metadata } => {
            let fields = CreateSession {
                session_id: session_id.to_string(),
                agent_id: agent_id.as_ref().map(ToString::to_string),
                name: name.clone(),
                state: object(state.as_ref()),
                metadata: object(metadata.as_ref()),
            };
            ("CreateSession", object_of(&fields))
        }
        CommandBody::UpdateSession { session_id, name, state, metadata, summary } => {
            let fields = UpdateSession {
                session_id: session_id.to_string(),
                name: name.clone(),
                state: object(state.as_ref()),
                metadata: object(metadata.as_ref()),
                summary: object(summary.as_ref()),
            };
            ("UpdateSession", object_of(&fields))
        }
        CommandBody::ForkSession { session_id, name, metadata, summary } => {
            let (metadata, summary) = (object(metadata.as_ref()), object(summary.as_ref()));
            let fields = ForkSession { session_id: session_id.to_string(), name: name.clone(), metadata, summary };
            ("ForkSession", object_of(&fields))
        }
        CommandBody::DeleteSession { session_id, runs, reason } => {
            let reason = reason.as_ref().map(ToString::to_string);
            let fields = DeleteSession { session_id: session_id.to_string(), runs: *runs, reason };
            ("DeleteSession", object_of(&fields))
        }
        CommandBody::Schedule(command) => schedule::write(command),
    }
}

fn handed_round(mut fields: Map<String, Value>, asked: u32) -> Map<String, Value> {
    if asked > 0 {
        fields.insert(ASKED.to_owned(), asked.into());
    }
    fields
}

pub(super) fn read<T: DeserializeOwned>(fields: Map<String, Value>) -> Result<T, Unreadable> {
    serde_path_to_error::deserialize(Value::Object(fields)).map_err(|error| {
        let (path, inner) = (error.path().to_string(), error.inner().to_string());
        if path == "." { invalid(inner) } else { invalid(format!("the field `{path}` cannot be used: {inner}")) }
    })
}

pub(super) fn session(text: &str) -> Result<SessionId, Unreadable> {
    named("session_id", text, SessionId::parse)
}

pub(super) fn raw(object: Option<Map<String, Value>>) -> Result<Option<RawJson>, Unreadable> {
    object.map(|object| RawJson::of(&object).map_err(|error| invalid(error.to_string()))).transpose()
}

pub(super) fn object(raw: Option<&RawJson>) -> Option<Map<String, Value>> {
    match raw?.value() {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

fn start_run(fields: StartRun) -> Result<command::StartRun, Unreadable> {
    let start = command::StartRun {
        session_id: session(&fields.session_id)?,
        agent: AgentRef::Named(named("agent_id", &fields.agent_id, AgentId::parse)?),
        input: text("message", fields.message)?,
        media: fields.media.into_iter().map(media).collect::<Result<_, _>>()?,
        metadata: raw(fields.metadata)?,
        session_state: raw(fields.session_state)?,
        stream: fields.stream,
        background: fields.background,
        output_schema: raw(fields.output_schema)?,
        scheduled_by: None,
    };
    if start.is_empty() {
        return Err(invalid("the field `message` is empty: say something, or send files in `media`"));
    }
    Ok(start)
}

fn start_fields(start: &command::StartRun) -> StartRun {
    let media = |media: &MediaRef| Media {
        kind: kind_word(media.kind).to_owned(),
        blob: blob_fields(&media.blob),
        mime: media.mime.to_string(),
        name: media.name.as_ref().map(ToString::to_string),
    };
    StartRun {
        session_id: start.session_id.to_string(),
        agent_id: start.agent.id().to_string(),
        message: message(&start.input),
        media: start.media.iter().map(media).collect(),
        metadata: object(start.metadata.as_ref()),
        session_state: object(start.session_state.as_ref()),
        stream: start.stream,
        background: start.background,
        output_schema: object(start.output_schema.as_ref()),
    }
}

pub(super) fn text(field: &str, message: Message) -> Result<Text, Unreadable> {
    match message {
        Message::Text(text) => Ok(Text::Inline(text.into())),
        Message::Stored(stored) => Ok(Text::Blob(blob(field, stored)?)),
    }
}

pub(super) fn message(text: &Text) -> Message {
    match text {
        Text::Inline(text) => Message::Text(text.to_string()),
        Text::Blob(blob) => Message::Stored(blob_fields(blob)),
    }
}

fn blob(field: &str, blob: Blob) -> Result<BlobRef, Unreadable> {
    let is_digest =
        blob.sha256.len() == SHA256_DIGITS && blob.sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !is_digest {
        return Err(invalid(format!("`sha256` in the field `{field}` is not 64 lower-case hexadecimal digits")));
    }
    Ok(BlobRef { sha256: Arc::from(blob.sha256), bytes: blob.bytes })
}

fn blob_fields(blob: &BlobRef) -> Blob {
    Blob { sha256: blob.sha256.to_string(), bytes: blob.bytes }
}

fn media(file: Media) -> Result<MediaRef, Unreadable> {
    let kind = [MediaKind::Image, MediaKind::Audio, MediaKind::Video, MediaKind::File]
        .into_iter()
        .find(|kind| kind_word(*kind) == file.kind)
        .ok_or_else(|| invalid(format!("there is no media kind `{}`: image, audio, video or file", file.kind)))?;
    let blob = blob("media", file.blob)?;
    Ok(MediaRef { kind, blob, mime: file.mime.into(), name: file.name.map(Into::into) })
}

fn kind_word(kind: MediaKind) -> &'static str {
    match kind {
        MediaKind::Image => "image",
        MediaKind::Audio => "audio",
        MediaKind::Video => "video",
        MediaKind::File => "file",
    }
}
