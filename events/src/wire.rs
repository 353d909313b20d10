//! A command as JSON, as any program may publish it: [`decode`] reads what came, [`encode`] writes what is
//! sent on, [`schema`] says what is understood.
//!
//! Common to all kinds: `type`, `id` (the deduplication key), `user_id`, `reply_to`. `CloudEvents` attributes
//! in binary mode (`ce_type`, `ce_id`) stand in for the fields of the same meaning. An agent is named, never
//! described: what it is stands in the deployment's own files, so a publisher cannot bring tools of its own.

mod convert;
mod decision;
mod fields;
mod fork;
mod schedule;
#[cfg(test)]
mod tests;

use schemars::{JsonSchema, Schema, schema_for};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use crate::{AgentId, Command, CommandBody, CommandId, ReplyTo, UserId, command::KeyUse, ids::IdError};

/// A command may have this many bytes as JSON.
pub const COMMAND_BYTES_MAX: usize = 512 * 1024;

/// A correlation id may have this many bytes: it is kept until the command is answered.
pub const CORRELATION_BYTES_MAX: usize = 1024;

/// The kinds of command, by the word that stands in `type`.
pub const KINDS: [&str; 15] = [
    "StartRun",
    "CancelRun",
    "ContinueRun",
    "RequeueRun",
    "ForkRun",
    "CreateSession",
    "UpdateSession",
    "ForkSession",
    "DeleteSession",
    "CreateSchedule",
    "UpdateSchedule",
    "EnableSchedule",
    "DisableSchedule",
    "TriggerSchedule",
    "DeleteSchedule",
];

/// The idempotency key, in a command that the runtime hands on. Publishers know no such field: their command's id is
/// their key.
const KEY: &str = "key";

/// The whole command, sealed. Publishers know no such field either.
const SEALED: &str = "sealed";

/// `ce_type` is the kind's word between these.
const CE_PREFIX: &str = "dev.reenact.command.";
const CE_SUFFIX: &str = ".v1";

/// Why a record is no command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unreadable {
    /// For programs: `not_json`, `unknown_type`, `invalid` or `too_large`.
    pub code: &'static str,
    /// For people: what was wrong, where, and what to do.
    pub reason: String,
}

/// What comes beside a record's value: the `CloudEvents` attributes of binary mode, as far as they matter here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// `ce_type`: `StartRun`, or `dev.reenact.command.StartRun.v1`.
    pub kind: Option<&'a str>,
    /// `ce_id`.
    pub id: Option<&'a str>,
    /// The runtime itself hands this command on: then it may say how many partitions were asked already.
    pub is_handed_round: bool,
}

/// Reads a command.
///
/// # Errors
/// When it is none, with what is wrong with it.
pub fn decode(value: &[u8], attributes: Attributes<'_>) -> Result<Command, Unreadable> {
    if value.len() > COMMAND_BYTES_MAX {
        let bytes = value.len();
        let reason = format!(
            "the command has {bytes} bytes, at most {COMMAND_BYTES_MAX} are allowed: send large content over HTTP"
        );
        return Err(Unreadable { code: "too_large", reason });
    }
    let not_json = |error| Unreadable { code: "not_json", reason: format!("the value is not a JSON object: {error}") };
    let mut fields: Map<String, Value> = serde_json::from_slice(value).map_err(not_json)?;
    let kind = kind(attributes, &mut fields)?;
    let id = match attributes.id {
        Some(id) => {
            fields.remove("id");
            id.to_owned()
        }
        None => take::<String>(&mut fields, "id")?.ok_or_else(|| invalid("the field `id` is missing"))?,
    };
    let id = named("id", &id, CommandId::parse)?;
    let user_id = take::<String>(&mut fields, "user_id")?.map(|user| named("user_id", &user, UserId::parse));
    let user_id = user_id.transpose()?;
    let reply_to = take::<ReplyTo>(&mut fields, "reply_to")?;
    let correlation_bytes = reply_to.as_ref().map_or(0, |reply_to| reply_to.correlation_id.len());
    if correlation_bytes > CORRELATION_BYTES_MAX {
        return Err(invalid(format!(
            "`reply_to.correlation_id` has {correlation_bytes} bytes, at most {CORRELATION_BYTES_MAX} are allowed: \
             it comes back with the answer, so send a name and not a text"
        )));
    }
    let key = if attributes.is_handed_round { take::<Box<KeyUse>>(&mut fields, KEY)? } else { None };
    let sealed = if attributes.is_handed_round { take::<String>(&mut fields, SEALED)? } else { None };
    let body = convert::body(&kind, fields, attributes.is_handed_round)?;
    Ok(Command { id, user_id, reply_to, key, body, sealed: sealed.map(Into::into) })
}

/// The command as JSON; [`decode`] reads it back as one that is handed round. An agent is written by its name only.
#[must_use]
pub fn encode(command: &Command) -> String {
    let (kind, fields) = convert::fields(&command.body);
    let mut object = Map::new();
    object.insert("type".to_owned(), kind.into());
    object.insert("id".to_owned(), command.id.as_str().into());
    if let Some(user) = &command.user_id {
        object.insert("user_id".to_owned(), user.as_str().into());
    }
    if let Some(reply_to) = &command.reply_to {
        object.insert("reply_to".to_owned(), object_of(reply_to).into());
    }
    if let Some(key) = &command.key {
        object.insert(KEY.to_owned(), object_of(&**key).into());
    }
    if let Some(sealed) = &command.sealed {
        object.insert(SEALED.to_owned(), (**sealed).into());
    }
    object.extend(fields);
    Value::Object(object).to_string()
}

/// JSON Schema (2020-12) of a kind of command; `None` for a word that is none.
#[must_use]
pub fn schema(kind: &str) -> Option<Value> {
    let schema = match kind {
        "StartRun" => own::<fields::StartRun>(),
        "CancelRun" => own::<fields::CancelRun>(),
        "ContinueRun" => own::<fields::ContinueRun>(),
        "RequeueRun" => own::<fields::RequeueRun>(),
        "ForkRun" => own::<fields::ForkRun>(),
        "CreateSession" => own::<fields::CreateSession>(),
        "UpdateSession" => own::<fields::UpdateSession>(),
        "ForkSession" => own::<fields::ForkSession>(),
        "DeleteSession" => own::<fields::DeleteSession>(),
        "CreateSchedule" => own::<schedule::CreateSchedule>(),
        "UpdateSchedule" => own::<schedule::UpdateSchedule>(),
        "EnableSchedule" | "DisableSchedule" | "TriggerSchedule" | "DeleteSchedule" => own::<schedule::OneSchedule>(),
        _ => return None,
    };
    let mut schema = Value::from(schema);
    let text = |about: &str| json!({"type": "string", "minLength": 1, "maxLength": crate::ids::ID_BYTES_MAX, "description": about});
    let common = [
        ("type", json!({"const": kind})),
        ("id", text("names the request: a repeat has no further effect")),
        ("user_id", text("who asks; their things are invisible to others")),
        (
            "reply_to",
            json!({
                "type": "object",
                "description": "where the answer goes; without it there is none",
                "properties": {"topic": {"type": "string"}, "correlation_id": {"type": "string", "maxLength": CORRELATION_BYTES_MAX}},
                "required": ["correlation_id"],
                "additionalProperties": false,
            }),
        ),
    ];
    for (name, about) in common {
        schema["properties"][name] = about;
    }
    if let Some(required) = schema["required"].as_array_mut() {
        required.extend([json!("type"), json!("id")]);
    }
    Some(schema)
}

fn own<T: JsonSchema>() -> Schema {
    schema_for!(T)
}

fn kind(attributes: Attributes<'_>, fields: &mut Map<String, Value>) -> Result<String, Unreadable> {
    let word = match attributes.kind {
        Some(word) => {
            fields.remove("type");
            word.to_owned()
        }
        None => take::<String>(fields, "type")?.ok_or_else(|| invalid("the field `type` is missing"))?,
    };
    let inner = word.strip_prefix(CE_PREFIX).and_then(|rest| rest.strip_suffix(CE_SUFFIX)).unwrap_or(&word);
    if KINDS.contains(&inner) || (attributes.is_handed_round && [schedule::REPORT, schedule::ERASE].contains(&inner)) {
        return Ok(inner.to_owned());
    }
    let reason = format!("there is no command `{word}`; there are {}", KINDS.join(", "));
    Err(Unreadable { code: "unknown_type", reason })
}

fn invalid(reason: impl Into<String>) -> Unreadable {
    Unreadable { code: "invalid", reason: reason.into() }
}

fn take<T: DeserializeOwned>(fields: &mut Map<String, Value>, name: &str) -> Result<Option<T>, Unreadable> {
    match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => serde_json::from_value(value)
            .map(Some)
            .map_err(|error| invalid(format!("the field `{name}` cannot be used: {error}"))),
    }
}

fn named<T>(field: &str, text: &str, parse: fn(&str) -> Result<T, IdError>) -> Result<T, Unreadable> {
    parse(text).map_err(|error| invalid(format!("the field `{field}` cannot be used: {error}")))
}

/// A value that is written as a JSON object.
fn object_of<T: Serialize>(value: &T) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        _ => Map::new(),
    }
}
