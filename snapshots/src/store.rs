//! The contract of a state store. One suite runs on every implementation.

use std::sync::Arc;

use reenact_events::{ChainHash, LogId, Offset, PartitionId, Term};
use serde::{Deserialize, Serialize};

/// The moment of the log that a store stands for: everything before `next_offset` is in it, nothing after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Of which log.
    pub log_id: LogId,
    /// Of which partition.
    pub partition: PartitionId,
    /// The first offset that is not in it.
    pub next_offset: Offset,
    /// The term of the last event in it.
    pub term: Term,
    /// The chain after the last event in it.
    pub chain: ChainHash,
}

/// One key's new content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Set.
    Put(Vec<u8>, Vec<u8>),
    /// Remove; absent is fine.
    Delete(Vec<u8>),
}

/// The store cannot be trusted or used any more. The only answer is to discard it and fold again.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the state store cannot be used: {reason}")]
pub struct StoreError {
    /// What is wrong.
    pub reason: Arc<str>,
}

impl StoreError {
    /// Says what is wrong.
    #[must_use]
    pub fn new(reason: impl Into<Arc<str>>) -> Self {
        Self { reason: reason.into() }
    }
}

/// Entries as `(key, value)`.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// State by key, with a position. Calls are short and may touch the page cache; none waits for a disk flush.
pub trait StateStore: Send + Sync {
    /// What the store stands for, `None` when it is empty.
    ///
    /// # Errors
    /// When the store cannot be used.
    fn position(&self) -> Result<Option<Position>, StoreError>;

    /// The value of a key.
    ///
    /// # Errors
    /// When the store cannot be used or the value's checksum is wrong.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Up to `limit` entries whose keys begin with `prefix` and are at or after `from`, in key order.
    ///
    /// # Errors
    /// As [`StateStore::get`].
    fn scan(&self, prefix: &[u8], from: &[u8], limit: usize) -> Result<Entries, StoreError>;

    /// Up to `limit` entries whose keys begin with `prefix`, from the last backwards.
    ///
    /// # Errors
    /// As [`StateStore::get`].
    fn scan_back(&self, prefix: &[u8], limit: usize) -> Result<Entries, StoreError>;

    /// Makes the changes and moves the position, all or nothing.
    ///
    /// # Errors
    /// When the store cannot be used; the changes may be partly in it then, so it must be discarded.
    fn apply(&self, changes: Vec<Change>, position: Position) -> Result<(), StoreError>;

    /// Puts entries into a store that is empty, or was until they began to come, and has no position: it goes on
    /// standing for nothing until [`StateStore::apply`] says what for.
    ///
    /// # Errors
    /// As [`StateStore::apply`].
    fn load(&self, entries: Entries) -> Result<(), StoreError>;

    /// Removes everything, the position too.
    ///
    /// # Errors
    /// When even that cannot be done.
    fn clear(&self) -> Result<(), StoreError>;

    /// Writes what it holds anew, so that nothing is left of what was removed from it. When that is cut short it may
    /// stand for nothing afterwards.
    ///
    /// # Errors
    /// When the store cannot be used.
    fn rewrite(&self) -> Result<(), StoreError>;
}

/// Where a scan begins: no key with the prefix is before the prefix itself.
pub(crate) fn first_at_or_after<'a>(prefix: &'a [u8], from: &'a [u8]) -> &'a [u8] {
    prefix.max(from)
}
