//! A state store's content as one object, so that another machine starts from there and not from the first event.
//!
//! A snapshot is as disposable as the store that it was taken from: whatever is wrong with one, the next older is
//! tried, and in the end the log is folded from its beginning.
//!
//! ```text
//! one line of JSON ([`Header`])
//! zstd of (key length, value length: u32 little endian; key; value)*
//! SHA-256 of all bytes before it
//! ```
//!
//! Both ways go piece by piece, so that neither side ever holds more than some entries in memory.
//!
//! Reading order: [`mod@header`], [`mod@write`], [`mod@read`], [`mod@shelf`].

pub mod header;
pub mod read;
pub mod shelf;
pub mod write;

use std::sync::Arc;

pub use header::{Header, Origin, SnapshotName};
pub use read::Incoming;
pub use shelf::{MemoryShelf, Pieces, Shelf, ShelfError};
pub use write::pieces;

use crate::{StoreError, codec::VALUE_BYTES_MAX};

/// Bytes of the digest at the end.
const DIGEST_BYTES: usize = 32;
/// What stands before each entry: two lengths.
const LENGTHS_BYTES: usize = 8;

/// The longest key; longer ones are neither written nor read.
const KEY_BYTES_MAX: usize = 1 << 20;

/// Why a snapshot was not made or not used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SnapshotError {
    /// It could not be read from where it is.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    /// It is not what it should be.
    #[error("it cannot be used: {0}")]
    Unfit(Arc<str>),
    /// The state store does not take or give its entries.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SnapshotError {
    fn unfit(reason: impl Into<Arc<str>>) -> Self {
        Self::Unfit(reason.into())
    }
}

/// Refuses lengths that no entry has, before anything is allocated for them.
fn check_lengths(key: usize, value: usize) -> Result<(), SnapshotError> {
    if key > KEY_BYTES_MAX || value > VALUE_BYTES_MAX {
        return Err(SnapshotError::unfit(format!("an entry has {key} and {value} bytes")));
    }
    Ok(())
}
