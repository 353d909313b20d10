//! What events carry: texts that may be too large to stand inline, opaque JSON, references to bytes.
//!
//! An event stays small (the claim check): a text above [`INLINE_BYTES_MAX`] is stored as a blob first and
//! the event carries its [`BlobRef`]. An event never waits for a blob, so a reference never dangles.

use std::{fmt, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::UserId;

/// Texts longer than this many bytes are stored as blobs.
pub const INLINE_BYTES_MAX: usize = 32 * 1024;

/// Bytes that are kept outside the log, named by what they are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlobRef {
    /// SHA-256 of the bytes, 64 lower-case hexadecimal digits.
    pub sha256: Arc<str>,
    /// How many bytes.
    pub bytes: u64,
}

impl BlobRef {
    /// The reference to `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut hex = String::with_capacity(64);
        for byte in Sha256::digest(bytes) {
            fmt::Write::write_fmt(&mut hex, format_args!("{byte:02x}")).unwrap_or_default();
        }
        Self { sha256: hex.into(), bytes: bytes.len() as u64 }
    }
}

/// A text in an event: inline, or by reference when it is large.
///
/// In JSON it is a string, or `{"sha256": …, "bytes": …}`; a person's text is always the string, so the two
/// cannot be confused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    /// The text itself.
    Inline(Arc<str>),
    /// Where the text is kept.
    Blob(BlobRef),
}

impl Text {
    /// A text that is known to be short.
    #[must_use]
    pub fn inline(text: &str) -> Self {
        Self::Inline(text.into())
    }

    /// How many bytes the whole text has.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Inline(text) => text.len() as u64,
            Self::Blob(blob) => blob.bytes,
        }
    }

    /// The text, if it stands inline.
    #[must_use]
    pub fn as_inline(&self) -> Option<&str> {
        match self {
            Self::Inline(text) => Some(text),
            Self::Blob(_) => None,
        }
    }

    /// Stores `text` as a blob when it is long, and says how an event should carry it.
    ///
    /// # Errors
    /// When the blob cannot be stored; nothing refers to it then.
    pub async fn keep(text: &str, owner: Option<&UserId>, blobs: &dyn Blobs) -> Result<Self, BlobError> {
        if text.len() <= INLINE_BYTES_MAX {
            return Ok(Self::inline(text));
        }
        blobs.put(text.as_bytes().to_vec().into(), owner).await.map(Self::Blob)
    }

    /// The whole text, read from the blob store if need be.
    ///
    /// # Errors
    /// When the blob is missing, damaged, not UTF-8, or the store cannot be read.
    pub async fn load(&self, blobs: &dyn Blobs) -> Result<Arc<str>, BlobError> {
        match self {
            Self::Inline(text) => Ok(text.clone()),
            Self::Blob(blob) => {
                let bytes = blobs.get(blob).await?;
                let text =
                    std::str::from_utf8(&bytes).map_err(|_| BlobError::Damaged { sha256: blob.sha256.clone() })?;
                Ok(text.into())
            }
        }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::inline(text)
    }
}

#[derive(Serialize, Deserialize)]
enum BinaryText {
    Inline(Arc<str>),
    Blob(BlobRef),
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return match self.clone() {
                Self::Inline(text) => BinaryText::Inline(text),
                Self::Blob(blob) => BinaryText::Blob(blob),
            }
            .serialize(serializer);
        }
        match self {
            Self::Inline(text) => serializer.serialize_str(text),
            Self::Blob(blob) => blob.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Readable {
            Inline(String),
            Blob(BlobRef),
        }
        if deserializer.is_human_readable() {
            return Ok(match Readable::deserialize(deserializer)? {
                Readable::Inline(text) => Self::Inline(text.into()),
                Readable::Blob(blob) => Self::Blob(blob),
            });
        }
        Ok(match BinaryText::deserialize(deserializer)? {
            BinaryText::Inline(text) => Self::Inline(text),
            BinaryText::Blob(blob) => Self::Blob(blob),
        })
    }
}

/// JSON that passes through unread: byte for byte in the log, as text in the state store.
#[derive(Clone)]
pub struct RawJson(Arc<RawValue>);

impl RawJson {
    /// Takes a text that must be one JSON value.
    ///
    /// # Errors
    /// When it is not JSON (`NaN`, lone surrogates and trailing commas are not).
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<Box<RawValue>>(text).map(|value| Self(value.into()))
    }

    /// The JSON form of a value.
    ///
    /// # Errors
    /// When the value cannot be written as JSON.
    pub fn of<T: Serialize>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(|value| Self(value.into()))
    }

    /// The JSON as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The JSON as a tree.
    #[must_use]
    pub fn value(&self) -> serde_json::Value {
        serde_json::from_str(self.0.get()).unwrap_or_default()
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for RawJson {}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            self.0.serialize(serializer)
        } else {
            serializer.serialize_str(self.0.get())
        }
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return Box::<RawValue>::deserialize(deserializer).map(|value| Self(value.into()));
        }
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// What a media file is to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaKind {
    /// A picture.
    Image,
    /// A sound.
    Audio,
    /// A film.
    Video,
    /// Anything else, for example a PDF.
    File,
}

/// A file that belongs to a message or a tool's result, kept as a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediaRef {
    /// What it is to a model.
    pub kind: MediaKind,
    /// Where the bytes are.
    pub blob: BlobRef,
    /// Its media type, for example `image/jpeg`.
    pub mime: Arc<str>,
    /// What the sender called it, if anything; never used as a path.
    pub name: Option<Arc<str>>,
}

/// Why a blob could not be stored or read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BlobError {
    /// No such blob.
    #[error("blob `{sha256}` is missing from the object store")]
    Missing {
        /// Which.
        sha256: Arc<str>,
    },
    /// The bytes are not those that the name promises.
    #[error("blob `{sha256}` is damaged: its bytes have another SHA-256 or are not text")]
    Damaged {
        /// Which.
        sha256: Arc<str>,
    },
    /// The store could not be reached or written.
    #[error("the object store failed: {reason}")]
    Store {
        /// What it said.
        reason: Arc<str>,
    },
}

/// Whether any event that is not deleted refers to the blob of this SHA-256.
pub type IsReferenced = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Where large bytes are kept. Content-addressed: putting the same bytes twice is harmless.
///
/// When `put` returns, the bytes survive a crash of the process and of the machine.
pub trait Blobs: Send + Sync {
    /// Stores the bytes of a user, or of nobody, under the SHA-256 of what is stored.
    fn put<'a>(&'a self, bytes: Arc<[u8]>, owner: Option<&'a UserId>) -> BoxFuture<'a, Result<BlobRef, BlobError>>;
    /// Reads the bytes and checks them against their name.
    fn get<'a>(&'a self, blob: &'a BlobRef) -> BoxFuture<'a, Result<Arc<[u8]>, BlobError>>;
    /// Removes every blob that was last put before `older_than` ago and that nobody refers to, and says how
    /// many. The age keeps what was put for an event that is not committed yet: `put` makes a blob young again.
    fn sweep(&self, older_than: Duration, is_referenced: IsReferenced) -> BoxFuture<'_, Result<u64, BlobError>>;
}
