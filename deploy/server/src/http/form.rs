//! Forms as AgentOS's clients send them: `multipart/form-data` or `application/x-www-form-urlencoded`.

use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
    http::{
        HeaderMap, HeaderValue,
        header::{CONTENT_DISPOSITION, CONTENT_TYPE},
    },
};
use percent_encoding::percent_decode_str;
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
        let query = Fields::parse("query", parts.uri.query().unwrap_or_default())?;
        let taken = app.room().take(&parts.headers, body).await?;
        let form = read(&parts.headers, taken.bytes, limits).await?;
        let fields = form.fields.with_user_of(&query)?;
        Ok(Self { fields, room: taken.room, ..form })
    }
}

async fn read(headers: &HeaderMap, bytes: Bytes, limits: BodyLimits) -> Result<Form, ApiError> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        // Some clients write a form without fields as nothing at all.
        "" | "multipart/form-data" if bytes.is_empty() => {
            Ok(Form { fields: Fields::of_body(Vec::new()), files: Vec::new(), room: None })
        }
        "multipart/form-data" => multipart(kind, bytes, limits).await,
        "application/x-www-form-urlencoded" => urlencoded(&bytes, limits),
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
        if let Some(file) = file_name(&part)? {
            files.push(upload(part, &file, limits.file).await?);
            continue;
        }
        let bytes = part.bytes().await.map_err(|error| broken(&error))?;
        check_field(&name, bytes.len(), limits.message)?;
        let value = String::from_utf8(bytes.into()).map_err(|_| not_utf8(&name))?;
        fields.push((name, value));
    }
    Ok(Form { fields: Fields::of_body(fields), files, room: None })
}

/// What the sender calls the file, if the part is one. The standard wants the name as it is, in UTF-8; some
/// clients percent-encode it under `filename*` all the same.
fn file_name(part: &multer::Field<'_>) -> Result<Option<String>, ApiError> {
    let field = part.name().unwrap_or_default();
    let head = part.headers().get(CONTENT_DISPOSITION).map(HeaderValue::as_bytes).unwrap_or_default();
    let head = std::str::from_utf8(head).map_err(|_| not_utf8(field))?;
    if let Some(name) = part.file_name() {
        return Ok(Some(name.to_owned()));
    }
    let Some((_, encoded)) = head.split_once("filename*=") else { return Ok(None) };
    let encoded = encoded.split(';').next().unwrap_or_default().trim();
    let (charset, rest) = encoded.split_once('\'').unwrap_or_default();
    let name = rest.split_once('\'').map(|(_, name)| name).filter(|_| charset.eq_ignore_ascii_case("utf-8"));
    let name = name.ok_or_else(|| malformed("a file's name under `filename*` must be written as `utf-8''NAME`"))?;
    let name = percent_decode_str(name).decode_utf8().map_err(|_| not_utf8(field))?;
    Ok(Some(name.into_owned()))
}

async fn upload(part: multer::Field<'_>, name: &str, limit: usize) -> Result<Upload, ApiError> {
    let name = Some(name.to_owned()).filter(|name| !name.is_empty());
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
        for nothing in [b"".as_slice(), b"--B--\r\n"] {
            assert_eq!(form("multipart/form-data; boundary=B", nothing).unwrap().fields.pairs().count(), 0);
        }
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
    fn a20_file_names_are_read_however_they_are_written() {
        let named = |head: &[u8]| {
            let body = [b"--B\r\ncontent-disposition: form-data; ", head, b"\r\n\r\nx\r\n--B--\r\n"].concat();
            let form = form("multipart/form-data; boundary=B", &body).map_err(|error| error.status.as_u16())?;
            Ok(form.files.into_iter().map(|file| file.name).collect::<Vec<_>>())
        };
        let zoe = Ok(vec![Some("Zoë;.png".to_owned())]);
        assert_eq!(named("name=\"files\"; filename=\"Zoë;.png\"".as_bytes()), zoe);
        assert_eq!(named(b"name=\"files\"; filename*=utf-8''Zo%C3%AB%3b.png"), zoe);
        assert_eq!(named(b"name=\"files\"; filename=\"\""), Ok(vec![None]));
        for bad in [b"filename=\"a\xff\"".as_slice(), b"filename*=utf-8''%ff", b"filename*=latin1''a", b"filename*=a"] {
            assert_eq!(named(&[b"name=\"files\"; ", bad].concat()), Err(422));
        }
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
