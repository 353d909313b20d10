//! How an entry and the store's own facts look inside sled: checksums per value, and a summary of all of it.
//!
//! sled is known to come back from an abrupt stop with a page that is missing or old. A checksum per value
//! cannot see that, so the summary keeps a digest over all entries, written in the same batch as they are.

use reenact_events::{LogId, PartitionId};
use serde::{Deserialize, Serialize};

use crate::{Position, StoreError};

/// Where the [`Summary`] is. Entries have a 1 before their key, so no key of the caller meets it.
pub(crate) const SUMMARY_KEY: &[u8] = &[0];

const ENTRY: u8 = 1;
const CHECKSUM_BYTES: usize = 4;

/// The key inside sled of an entry.
pub(crate) fn inner_key(key: &[u8]) -> Vec<u8> {
    let mut inner = Vec::with_capacity(key.len() + 1);
    inner.push(ENTRY);
    inner.extend_from_slice(key);
    inner
}

/// The caller's key of an entry; `None` for the summary.
pub(crate) fn outer_key(inner: &[u8]) -> Option<&[u8]> {
    match inner.split_first() {
        Some((&ENTRY, key)) => Some(key),
        _ => None,
    }
}

/// A value with its checksum before it. The key is part of the checksum: a value under another's key is wrong.
pub(crate) fn seal(inner_key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(CHECKSUM_BYTES + value.len());
    sealed.extend_from_slice(&checksum(inner_key, value).to_le_bytes());
    sealed.extend_from_slice(value);
    sealed
}

/// The value, if it is what was sealed under this key.
pub(crate) fn unseal<'a>(inner_key: &[u8], sealed: &'a [u8]) -> Result<&'a [u8], StoreError> {
    let wrong = || StoreError::new(format!("the checksum of the value at key `{}` is wrong", inner_key.escape_ascii()));
    let (stored, value) = sealed.split_first_chunk::<CHECKSUM_BYTES>().ok_or_else(wrong)?;
    if u32::from_le_bytes(*stored) == checksum(inner_key, value) { Ok(value) } else { Err(wrong()) }
}

fn checksum(inner_key: &[u8], value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(inner_key);
    hasher.update(value);
    hasher.finalize()
}

/// Of which log, partition and program the values are: any difference makes them worthless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) log_id: LogId,
    pub(crate) partition: PartitionId,
    pub(crate) fingerprint: u64,
}

impl Identity {
    /// Refuses what was written for another log, partition or program.
    pub(crate) fn check(&self, stored: &Self) -> Result<(), StoreError> {
        if stored.log_id != self.log_id {
            return Err(StoreError::new(format!("it belongs to log `{}`, not `{}`", stored.log_id, self.log_id)));
        }
        if stored.partition != self.partition {
            let (theirs, ours) = (stored.partition, self.partition);
            return Err(StoreError::new(format!("it belongs to partition `{theirs}`, not `{ours}`")));
        }
        if stored.fingerprint != self.fingerprint {
            let (theirs, ours) = (stored.fingerprint, self.fingerprint);
            return Err(StoreError::new(format!("its shapes are `{theirs:016x}`, this program's are `{ours:016x}`")));
        }
        Ok(())
    }
}

/// Count, size and digest of a set of entries; the order in which they came does not matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    digest: u64,
}

impl Totals {
    /// Counts an entry in.
    pub(crate) fn add(&mut self, inner_key: &[u8], sealed: &[u8]) {
        self.entries = self.entries.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(size(inner_key, sealed));
        self.digest = self.digest.wrapping_add(weight(sealed));
    }

    /// Counts an entry out.
    pub(crate) fn remove(&mut self, inner_key: &[u8], sealed: &[u8]) {
        self.entries = self.entries.wrapping_sub(1);
        self.bytes = self.bytes.wrapping_sub(size(inner_key, sealed));
        self.digest = self.digest.wrapping_sub(weight(sealed));
    }
}

fn size(inner_key: &[u8], sealed: &[u8]) -> u64 {
    (inner_key.len() + sealed.len()) as u64
}

/// An entry's share of the digest: its checksum, which covers key and value, mixed as SplitMix64 does. Bare
/// checksums are linear, so their sum would miss two changes that cancel out.
fn weight(sealed: &[u8]) -> u64 {
    let checksum = sealed.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let mut mixed = u64::from(checksum).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// What a store says about itself, in the same batch as what it says it about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) identity: Identity,
    pub(crate) position: Option<Position>,
    pub(crate) totals: Totals,
}

impl Summary {
    /// The summary of an empty store.
    pub(crate) fn empty(identity: Identity) -> Self {
        Self { identity, position: None, totals: Totals::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_under_the_key_of_another_is_refused() {
        let sealed = seal(b"a", b"value");
        assert_eq!(unseal(b"a", &sealed).expect("as sealed"), b"value");
        assert!(unseal(b"b", &sealed).is_err());
        assert!(unseal(b"a", &sealed[..3]).is_err());
        let mut flipped = sealed.clone();
        flipped[6] ^= 1;
        assert!(unseal(b"a", &flipped).is_err());
    }

    #[test]
    fn totals_forget_the_order_but_not_an_entry() {
        let (one, two) = (seal(b"1", b"one"), seal(b"2", b"two"));
        let (mut forward, mut backward) = (Totals::default(), Totals::default());
        forward.add(b"1", &one);
        forward.add(b"2", &two);
        backward.add(b"2", &two);
        backward.add(b"1", &one);
        assert_eq!(forward, backward);
        forward.remove(b"1", &one);
        assert_ne!(forward, backward);
        forward.remove(b"2", &two);
        assert_eq!(forward, Totals::default());
    }
}
