//! The hash chain over a partition's committed events: `H(previous ‖ canonical(headers, value))`.
//!
//! A changed, removed or inserted event breaks every later link, so one head that was kept elsewhere proves
//! everything before it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{NewEvent, Term};

/// One link: BLAKE3, 32 bytes. The link before a partition's first event is all zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChainHash(pub [u8; 32]);

impl ChainHash {
    /// The link of `event`, appended under `term` after the event whose link this is.
    ///
    /// Every field is length-prefixed, so that no two different events have the same canonical bytes.
    #[must_use]
    pub fn link(&self, event: &NewEvent, term: Term) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0);
        let mut field = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        field(event.id.as_bytes());
        field(event.kind.as_bytes());
        field(event.key.as_str().as_bytes());
        field(&event.seq.to_le_bytes());
        field(&event.at.0.to_le_bytes());
        field(&term.0.to_le_bytes());
        field(event.cause.as_ref().map_or("", |cause| cause.as_str()).as_bytes());
        field(event.owner.as_ref().map_or("", |owner| owner.as_str()).as_bytes());
        field(event.subject.as_ref().map_or("", |run| run.as_str()).as_bytes());
        field(event.data.as_bytes());
        Self(*hasher.finalize().as_bytes())
    }
}

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
