//! Files of a form become blobs before the command is submitted: an event never waits for bytes.

use base64::{Engine, engine::general_purpose::STANDARD};
use reenact_events::{Blobs, MediaKind, MediaRef, UserId};
use serde_json::Value;

use super::{
    error::ApiError,
    fields::Fields,
    form::{Form, Upload},
};

const UNKNOWN: &str = "application/octet-stream";

/// The JSON fields in which AgentOS's client sends media, and what they hold.
const INLINE: [(&str, MediaKind); 4] = [
    ("images", MediaKind::Image),
    ("audio", MediaKind::Audio),
    ("videos", MediaKind::Video),
    ("input_files", MediaKind::File),
];

/// Stores the files of a form.
///
/// # Errors
/// 422 when a media field is malformed, 413 when a file is too large, 503 when the store does not work.
pub async fn store(
    form: &Form,
    file_bytes_max: usize,
    owner: Option<&UserId>,
    blobs: &dyn Blobs,
) -> Result<Vec<MediaRef>, ApiError> {
    let mut media = Vec::with_capacity(form.files.len());
    for upload in &form.files {
        let mime = mime_of(upload.mime.as_deref(), &upload.bytes);
        media.push(keep(kind_of(&mime), mime, upload, owner, blobs).await?);
    }
    for (field, kind) in INLINE {
        for upload in inline(&form.fields, field, file_bytes_max)? {
            let mime = mime_of(upload.mime.as_deref(), &upload.bytes);
            media.push(keep(kind, mime, &upload, owner, blobs).await?);
        }
    }
    Ok(media)
}

async fn keep(
    kind: MediaKind,
    mime: String,
    upload: &Upload,
    owner: Option<&UserId>,
    blobs: &dyn Blobs,
) -> Result<MediaRef, ApiError> {
    let blob = blobs.put(upload.bytes.to_vec().into(), owner).await?;
    Ok(MediaRef { kind, blob, mime: mime.into(), name: upload.name.as_deref().map(Into::into) })
}

/// What the sender says, unless it says nothing: then what the bytes look like.
fn mime_of(declared: Option<&str>, bytes: &[u8]) -> String {
    let declared = declared.map(str::trim).filter(|mime| !mime.is_empty() && *mime != UNKNOWN);
    let looks_like = || infer::get(bytes).map_or(UNKNOWN, |kind| kind.mime_type());
    declared.unwrap_or_else(looks_like).to_ascii_lowercase()
}

fn kind_of(mime: &str) -> MediaKind {
    match mime.split('/').next() {
        Some("image") => MediaKind::Image,
        Some("audio") => MediaKind::Audio,
        Some("video") => MediaKind::Video,
        _ => MediaKind::File,
    }
}

fn inline(fields: &Fields, name: &str, bytes_max: usize) -> Result<Vec<Upload>, ApiError> {
    let fault = |msg: &str| fields.fault(name, "media_invalid", format!("`{name}` {msg}"));
    let items = match fields.json(name)? {
        None | Some((Value::Null, _)) => return Ok(Vec::new()),
        Some((Value::Array(items), _)) => items,
        Some(_) => return Err(fault("should be a JSON list of media objects")),
    };
    let upload = |item: Value| {
        let text = |field: &str| item.get(field).and_then(Value::as_str).map(str::to_owned);
        let content = text("content")
            .ok_or_else(|| fault("must carry its bytes as base64 in `content`: addresses and paths are not read"))?;
        let bytes = STANDARD.decode(content.as_bytes()).map_err(|_| fault("has a `content` that is not base64"))?;
        if bytes.len() > bytes_max {
            let size = bytes.len();
            return Err(ApiError::too_large(format!("`{name}` has {size} bytes, at most {bytes_max} are allowed")));
        }
        Ok(Upload { name: text("filename").or_else(|| text("name")), mime: text("mime_type"), bytes: bytes.into() })
    };
    items.into_iter().map(upload).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_declared_counts_and_else_the_bytes() {
        assert_eq!(mime_of(Some("image/JPEG"), b"%PDF-1.4"), "image/jpeg");
        assert_eq!(mime_of(None, b"%PDF-1.4"), "application/pdf");
        assert_eq!(mime_of(Some(UNKNOWN), b"\x89PNG\r\n\x1a\n"), "image/png");
        assert_eq!(mime_of(None, b"hello"), UNKNOWN);
        assert_eq!(kind_of("audio/mpeg"), MediaKind::Audio);
        assert_eq!(kind_of("text/plain"), MediaKind::File);
    }

    #[test]
    fn media_fields_carry_their_bytes_or_are_refused() {
        let fields = |text: &str| Fields::of_body(vec![("images".into(), text.into())]);
        let good = fields("[{\"content\":\"aGk=\",\"mime_type\":\"image/png\",\"filename\":\"x\"}]");
        assert_eq!(&inline(&good, "images", 2).unwrap()[0].bytes[..], b"hi");
        assert_eq!(inline(&good, "images", 1).unwrap_err().status, 413);
        for bad in ["{}", "[{\"url\":\"http://x\"}]", "[{\"content\":\"%%\"}]", "[1]", "["] {
            assert_eq!(inline(&fields(bad), "images", 9).unwrap_err().status, 422, "{bad}");
        }
    }
}
