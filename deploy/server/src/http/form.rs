//! Forms as AgentOS's clients send them: `multipart/form-data` or `application/x-www-form-urlencoded`.

use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
    http::{HeaderMap, header::CONTENT_TYPE},
};

use tokio::sync::OwnedSemaphorePermit;

use super::{
    error::{ApiError, Fault},
    fields::Fields,
    state::App,
};
use crate::config::BodyLimits;

/// The most parts that a form may have.
const PARTS_MAX: usize = 1_000;

/// A file that came with a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// What the sender calls it.
    pub name: Option<String>,
    /// What the sender says it is.
    pub mime: Option<String>,
    /// What is in it.
    pub bytes: Bytes,
}

/// A form.
#[derive(Debug)]
pub struct Form {
    /// The fields that are texts.
    pub fields: Fields,
    /// The files of the field `files`.
    pub files: Vec<Upload>,
    /// The form's share of the memory for large bodies.
    pub room: Option<OwnedSemaphorePermit>,
}

impl FromRequest<App> for Form {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let limits = app.limits();
        let (parts, body) = request.into_parts();
        let taken = app.room().take(&parts.headers, body).await?;
        let form = read(&parts.headers, taken.bytes, limits).await?;
        Ok(Self { room: taken.room, ..form })
    }
}

async fn read(headers: &HeaderMap, bytes: Bytes, limits: BodyLimits) -> Result<Form, ApiError> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "multipart/form-data" => multipart(kind, bytes, limits).await,
        "application/x-www-form-urlencoded" => urlencoded(&bytes, limits),
        "" if bytes.is_empty() => Ok(Form { fields: Fields::of_body(Vec::new()), files: Vec::new(), room: None }),
        _ => Err(malformed(
            "send the fields as `multipart/form-data` or `application/x-www-form-urlencoded`; \
             the content type says something else",
        )),
    }
}

fn urlencoded(bytes: &[u8], limits: BodyLimits) -> Result<Form, ApiError> {
    let text = std::str::from_utf8(bytes).map_err(|_| not_utf8(""))?;
    let fields = Fields::parse("body", text)?;
    for (name, value) in fields.pairs() {
        check_field(name, value.len(), limits.message)?;
    }
    Ok(Form { fields, files: Vec::new(), room: None })
}

async fn multipart(kind: &str, bytes: Bytes, limits: BodyLimits) -> Result<Form, ApiError> {
    let boundary = multer::parse_boundary(kind).map_err(|error| broken(&error))?;
    let whole = futures::stream::once(async { Ok::<_, std::convert::Infallible>(bytes) });
    let mut parts = multer::Multipart::new(whole, boundary);
    let (mut fields, mut files) = (Vec::new(), Vec::new());
    while let Some(part) = parts.next_field().await.map_err(|error| broken(&error))? {
        if fields.len() + files.len() == PARTS_MAX {
            return Err(ApiError::too_large(format!("the form has more than {PARTS_MAX} parts: send fewer")));
        }
        let name = part.name().unwrap_or_default().to_owned();
        if part.file_name().is_some() {
            files.push(upload(part, limits.file).await?);
            continue;
        }
        let bytes = part.bytes().await.map_err(|error| broken(&error))?;
        check_field(&name, bytes.len(), limits.message)?;
        let value = String::from_utf8(bytes.into()).map_err(|_| not_utf8(&name))?;
        fields.push((name, value));
    }
    Ok(Form { fields: Fields::of_body(fields), files, room: None })
}

async fn upload(part: multer::Field<'_>, limit: usize) -> Result<Upload, ApiError> {
    let name = part.file_name().map(str::to_owned).filter(|name| !name.is_empty());
    let mime = part.content_type().map(|mime| mime.essence_str().to_owned());
    let bytes = part.bytes().await.map_err(|error| broken(&error))?;
    if bytes.len() > limit {
        let shown = name.as_deref().unwrap_or("without a name");
        return Err(ApiError::too_large(format!(
            "the file `{shown}` has {} bytes, at most {limit} are allowed (`max-file-bytes`)",
            bytes.len()
        )));
    }
    Ok(Upload { name, mime, bytes })
}

fn check_field(name: &str, bytes: usize, limit: usize) -> Result<(), ApiError> {
    if bytes <= limit {
        return Ok(());
    }
    Err(ApiError::too_large(format!(
        "the field `{name}` has {bytes} bytes, at most {limit} are allowed (`max-message-bytes`)"
    )))
}

fn not_utf8(name: &str) -> ApiError {
    ApiError::malformed(Fault::new("body", name, "string_unicode", "Input should be valid UTF-8"))
}

fn broken(error: &multer::Error) -> ApiError {
    malformed(&format!("the multipart form cannot be read: {error}"))
}

fn malformed(text: &str) -> ApiError {
    ApiError::malformed(Fault::new("body", "", "form_invalid", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: BodyLimits = BodyLimits { body: 10_000, message: 100, file: 50 };

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    fn form(kind: &str, body: &[u8]) -> Result<Form, ApiError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, kind.parse().unwrap());
        run(read(&headers, Bytes::copy_from_slice(body), LIMITS))
    }

    fn part(head: &str, body: &[u8]) -> Vec<u8> {
        let mut bytes = format!("--B\r\ncontent-disposition: form-data; {head}\r\n\r\n").into_bytes();
        bytes.extend_from_slice(body);
        bytes.extend_from_slice(b"\r\n--B--\r\n");
        bytes
    }

    #[test]
    fn both_kinds_of_form_are_read() {
        let encoded = form("application/x-www-form-urlencoded", b"message=a+%26+b%00&stream=false").unwrap();
        assert_eq!(encoded.fields.text("message"), Some("a & b\0"));
        let multi = form("multipart/form-data; boundary=B", &part("name=\"message\"", b"a & b\0")).unwrap();
        assert_eq!(multi.fields.text("message"), Some("a & b\0"));
    }

    #[test]
    fn files_keep_name_type_and_bytes() {
        let head = "name=\"files\"; filename=\"../Zoë.png\"\r\ncontent-type: image/png";
        let form = form("multipart/form-data; boundary=B", &part(head, b"\x89PNG\r\n")).unwrap();
        assert_eq!(form.files.len(), 1);
        assert_eq!(form.files[0].name.as_deref(), Some("../Zoë.png"));
        assert_eq!(form.files[0].mime.as_deref(), Some("image/png"));
        assert_eq!(&form.files[0].bytes[..], b"\x89PNG\r\n");
    }

    #[test]
    fn malformed_forms_are_422() {
        let cut = &part("name=\"message\"", b"hello")[..40];
        for (kind, body) in [
            ("application/json", b"{}".as_slice()),
            ("multipart/form-data", b"x"),
            ("multipart/form-data; boundary=B", b"not a form"),
            ("multipart/form-data; boundary=B", cut),
            ("multipart/form-data; boundary=B", &part("name=\"message\"", b"\xff\xfe")),
            ("application/x-www-form-urlencoded", b"message=\xff"),
            ("application/x-www-form-urlencoded", b"message=%ff%fe"),
            ("text/plain", b"hello"),
        ] {
            let error = form(kind, body).unwrap_err();
            assert_eq!(error.status, 422, "{kind} {body:?}");
        }
    }

    #[test]
    fn a21_a_field_or_file_above_its_limit_is_413() {
        let long = [b'x'; 101];
        let file = "name=\"files\"; filename=\"f\"";
        for (kind, body) in [
            ("application/x-www-form-urlencoded", [b"message=".as_slice(), &long].concat()),
            ("multipart/form-data; boundary=B", part("name=\"message\"", &long)),
            ("multipart/form-data; boundary=B", part(file, &long)),
        ] {
            assert_eq!(form(kind, &body).unwrap_err().status, 413, "{kind}");
        }
    }
}
