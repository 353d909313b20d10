//! Reads what an HTTP tool answers: words for the model, or a file that is stored.

use reenact_actors::step::{ToolCall, ToolReply};
use reenact_events::{Blobs, MediaKind, MediaRef};
use reqwest::{Response, StatusCode, header};

use super::{
    answered,
    result::{self, RESULT_TYPE},
};
use crate::{
    environment::Secrets,
    http::{self, ANSWER_BYTES_MAX, BodyError},
    text,
};

const ERROR_BODY_BYTES_MAX: usize = 64 * 1024;
const ERROR_BODY_CHARS_MAX: usize = 2_000;

/// How a tool answered.
pub(super) enum Answered {
    /// With a status of success.
    Well(u16, ToolReply),
    /// With another status.
    Refused(u16, String),
    /// With a body that could not be read or kept.
    Broken(String),
}

/// Reads the answer of a tool. Secrets that it echoes are blotted out.
pub(super) async fn read(call: &ToolCall, response: Response, secrets: &Secrets, blobs: &dyn Blobs) -> Answered {
    let name = &call.tool.name;
    let status = response.status();
    if !status.is_success() {
        return Answered::Refused(status.as_u16(), refusal(name, status, response, secrets).await);
    }
    let mime = media_type(&response);
    let body = match http::body(response, ANSWER_BYTES_MAX).await {
        Ok(body) => body,
        Err(BodyError::TooLarge) => {
            let mebibytes = ANSWER_BYTES_MAX / 1024 / 1024;
            return Answered::Broken(format!(
                "`{name}` answered with status {status}, but the answer has more than {mebibytes} MiB and was not taken"
            ));
        }
        Err(BodyError::Cut(error)) => {
            let reason = secrets.redact(http::explain(error));
            return Answered::Broken(format!(
                "`{name}` answered with status {status}, but the answer broke off: {reason}"
            ));
        }
    };
    if mime == RESULT_TYPE {
        return match result::read(&secrets.redact(text::decode(body))) {
            Ok(reply) => Answered::Well(status.as_u16(), reply),
            Err(reason) => Answered::Broken(format!("`{name}` answered with status {status}, but {reason}")),
        };
    }
    match media_kind(&mime) {
        Some(kind) if !body.is_empty() => match keep(call, kind, &mime, body, blobs).await {
            Ok(reply) => Answered::Well(status.as_u16(), reply),
            Err(reason) => Answered::Broken(reason),
        },
        _ => Answered::Well(status.as_u16(), words(body, secrets)),
    }
}

async fn refusal(name: &str, status: StatusCode, response: Response, secrets: &Secrets) -> String {
    let elsewhere = status.is_redirection() && response.headers().contains_key(header::LOCATION);
    let body = text::decode(http::beginning_of_body(response, ERROR_BODY_BYTES_MAX).await);
    let body = text::preview(body.trim(), ERROR_BODY_CHARS_MAX);
    let mut refusal = format!("`{name}` answered with status {status}");
    if elsewhere {
        refusal.push_str(" (a redirect to another place, which is not followed)");
    }
    if !body.is_empty() {
        refusal.push_str(&format!(": {body}"));
    }
    secrets.redact(refusal)
}

fn words(body: Vec<u8>, secrets: &Secrets) -> ToolReply {
    let text = secrets.redact(text::decode(body));
    answered(if text.trim().is_empty() { "(no content)".to_owned() } else { text })
}

fn media_type(response: &Response) -> String {
    let value = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// What a body of this type is to a model, if it is no text.
fn media_kind(mime: &str) -> Option<MediaKind> {
    match mime {
        // A drawing in XML is text to a model.
        "image/svg+xml" => None,
        "application/pdf" => Some(MediaKind::File),
        _ if mime.starts_with("image/") => Some(MediaKind::Image),
        _ if mime.starts_with("audio/") => Some(MediaKind::Audio),
        _ if mime.starts_with("video/") => Some(MediaKind::Video),
        _ => None,
    }
}

async fn keep(
    call: &ToolCall,
    kind: MediaKind,
    mime: &str,
    body: Vec<u8>,
    blobs: &dyn Blobs,
) -> Result<ToolReply, String> {
    let (name, bytes, owner) = (&call.tool.name, body.len(), call.context.user_id.as_ref());
    let blob = blobs
        .put(body.into(), owner)
        .await
        .map_err(|error| format!("the file that `{name}` returned was lost: {error}"))?;
    let media = MediaRef { kind, blob, mime: mime.into(), name: None };
    Ok(ToolReply {
        media: vec![media],
        ..answered(format!("`{name}` returned a file of type {mime} with {bytes} bytes."))
    })
}
