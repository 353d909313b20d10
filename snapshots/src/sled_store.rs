//! The contract on local disk: sled 0.34, trusted with nothing that the log cannot give back.
//!
//! Everything is in one tree, since sled's batches are atomic within one tree only: the entries, and a summary
//! with the position they stand for. After a crash sled comes back with some prefix of the batches, so the
//! position that it comes back with is the one of that prefix, and the log is folded from there.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use reenact_events::{LogId, PartitionId};

use crate::{
    Change, Discarded, Position, StateStore, StoreError, codec,
    opening::{Opened, caught, open_as_it_is, open_fresh, open_or_discard, remove_home},
    sealed::{Identity, SUMMARY_KEY, Summary, Totals, inner_key, outer_key, seal, unseal},
    store::{Entries, first_at_or_after},
};

/// A partition's state store in a directory.
#[derive(Debug)]
pub struct SledStore {
    home: PathBuf,
    live: RwLock<Live>,
}

/// The database in use, until [`StateStore::clear`] puts an empty one in its place.
#[derive(Debug)]
struct Live {
    opened: Opened,
    /// Set by the first error: what sled says after one is not to be believed.
    broken: AtomicBool,
}

impl SledStore {
    /// Opens the store of a partition below `dir`, checking all of it, or starts an empty one when what is
    /// there cannot be used: damaged, of another format, log or set of shapes, too large, or too slow to open.
    ///
    /// `fingerprint` stands for the shapes of all values ([`codec::fingerprint`]). The caller holds `dir` for
    /// itself: a store that another process has open would be taken from it.
    ///
    /// # Errors
    /// When not even an empty store can be made, as on a full or read-only disk.
    pub fn open(
        dir: &Path,
        log_id: LogId,
        partition: PartitionId,
        fingerprint: u64,
    ) -> Result<(Self, Option<Discarded>), StoreError> {
        let home = dir.join(format!("partition-{partition}"));
        let (opened, discarded) = open_or_discard(&home, Identity { log_id, partition, fingerprint })?;
        Ok((Self { home, live: RwLock::new(Live::new(opened)) }, discarded))
    }

    /// Opens the store of a partition to look at it, if there is one: what cannot be used is left as it is.
    ///
    /// # Errors
    /// When it cannot be used.
    pub fn look(
        dir: &Path,
        log_id: LogId,
        partition: PartitionId,
        fingerprint: u64,
    ) -> Result<Option<Self>, StoreError> {
        let home = dir.join(format!("partition-{partition}"));
        if !home.is_dir() {
            return Ok(None);
        }
        let opened = open_as_it_is(&home, Identity { log_id, partition, fingerprint })?;
        Ok(opened.map(|opened| Self { home, live: RwLock::new(Live::new(opened)) }))
    }

    /// Removes the store of a partition that nobody has open, if there is one.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(dir: &Path, partition: PartitionId) -> Result<(), StoreError> {
        remove_home(&dir.join(format!("partition-{partition}")))
    }

    // A panic of sled is caught below these locks, so a poisoned one can only be whole.
    fn read(&self) -> RwLockReadGuard<'_, Live> {
        self.live.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Live> {
        self.live.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live {
    fn new(opened: Opened) -> Self {
        Self { opened, broken: AtomicBool::new(false) }
    }

    /// Lets sled work, and lets it work no more once it failed.
    fn attempt<T>(&self, work: impl FnOnce(&sled::Db) -> Result<T, StoreError>) -> Result<T, StoreError> {
        if self.broken.load(Ordering::Acquire) {
            return Err(StoreError::new("an earlier call failed, so it is not used any more"));
        }
        caught(|| work(&self.opened.db)).inspect_err(|_| self.broken.store(true, Ordering::Release))
    }

    /// Makes changes, and says in the same batch what the store stands for afterwards.
    fn change(&mut self, changes: Vec<Change>, position: Option<Position>) -> Result<(), StoreError> {
        let before = self.opened.summary;
        self.opened.summary = self.attempt(|db| {
            let (mut batch, totals) = batch(db, changes, before.totals)?;
            let after = Summary { identity: before.identity, position, totals };
            batch.insert(SUMMARY_KEY, seal(SUMMARY_KEY, &codec::encode(&after)?));
            db.apply_batch(batch)?;
            Ok(after)
        })?;
        Ok(())
    }

    /// Closes a database whose directory has been given up. A sound one is closed here; one that failed may
    /// hang or panic in doing so, and does it on a thread that nobody waits for.
    fn retire(self) {
        if self.broken.load(Ordering::Acquire) {
            thread::spawn(move || drop(self));
        }
    }
}

impl StateStore for SledStore {
    fn position(&self) -> Result<Option<Position>, StoreError> {
        let live = self.read();
        live.attempt(|_| Ok(live.opened.summary.position))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let key = inner_key(key);
        self.read().attempt(|db| match db.get(&key)? {
            Some(sealed) => Ok(Some(unseal(&key, &sealed)?.to_vec())),
            None => Ok(None),
        })
    }

    fn scan(&self, prefix: &[u8], from: &[u8], limit: usize) -> Result<Entries, StoreError> {
        let first = inner_key(first_at_or_after(prefix, from));
        self.read().attempt(|db| entries(db.range(first..), prefix, limit))
    }

    fn scan_back(&self, prefix: &[u8], limit: usize) -> Result<Entries, StoreError> {
        self.read().attempt(|db| entries(db.scan_prefix(inner_key(prefix)).rev(), prefix, limit))
    }

    fn apply(&self, changes: Vec<Change>, position: Position) -> Result<(), StoreError> {
        self.write().change(changes, Some(position))
    }

    fn load(&self, entries: Entries) -> Result<(), StoreError> {
        let changes = entries.into_iter().map(|(key, value)| Change::Put(key, value)).collect();
        self.write().change(changes, None)
    }

    /// Starts an empty database in a new directory. sled would keep the space of what it removes, and this
    /// also works when the old database does not.
    fn clear(&self) -> Result<(), StoreError> {
        let mut live = self.write();
        let fresh = open_fresh(&self.home, live.opened.summary.identity)?;
        std::mem::replace(&mut *live, Live::new(fresh)).retire();
        Ok(())
    }

    fn rewrite(&self) -> Result<(), StoreError> {
        let mut live = self.write();
        let mut fresh = Live::new(open_fresh(&self.home, live.opened.summary.identity)?);
        let mut from = Vec::new();
        loop {
            let chunk = live.attempt(|db| entries(db.range(inner_key(&from)..), b"", REWRITTEN_AT_ONCE))?;
            let Some((last, _)) = chunk.last() else { break };
            from.clone_from(last);
            from.push(0);
            fresh.change(chunk.into_iter().map(|(key, value)| Change::Put(key, value)).collect(), None)?;
        }
        if let Some(position) = live.opened.summary.position {
            fresh.change(Vec::new(), Some(position))?;
        }
        std::mem::replace(&mut *live, fresh).retire();
        Ok(())
    }
}

/// Entries that are copied together.
const REWRITTEN_AT_ONCE: usize = 1_000;

/// Entries from `found` while they have the prefix, checked.
fn entries(
    found: impl Iterator<Item = sled::Result<(sled::IVec, sled::IVec)>>,
    prefix: &[u8],
    limit: usize,
) -> Result<Entries, StoreError> {
    let mut entries = Vec::new();
    for entry in found.take(limit) {
        let (inner, sealed) = entry?;
        match outer_key(&inner) {
            Some(key) if key.starts_with(prefix) => entries.push((key.to_vec(), unseal(&inner, &sealed)?.to_vec())),
            _ => break,
        }
    }
    Ok(entries)
}

/// What sled is to write for `changes`, and the totals after them. The last change of a key counts.
fn batch(db: &sled::Db, changes: Vec<Change>, mut totals: Totals) -> Result<(sled::Batch, Totals), StoreError> {
    let mut last = BTreeMap::new();
    for change in changes {
        match change {
            Change::Put(key, value) => last.insert(inner_key(&key), Some(value)),
            Change::Delete(key) => last.insert(inner_key(&key), None),
        };
    }
    let mut batch = sled::Batch::default();
    for (key, value) in last {
        if let Some(old) = db.get(&key)? {
            totals.remove(&key, &old);
        }
        match value {
            Some(value) => {
                let sealed = seal(&key, &value);
                totals.add(&key, &sealed);
                batch.insert(key, sealed);
            }
            None => batch.remove(key),
        }
    }
    Ok((batch, totals))
}

#[cfg(test)]
mod tests {
    use reenact_events::{ChainHash, Offset, Term};

    use super::*;

    #[test]
    fn after_a_wrong_checksum_nothing_is_believed_until_it_is_cleared() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let (log_id, partition) = (LogId(uuid::Uuid::from_u128(1)), PartitionId(0));
        let (store, _) = SledStore::open(dir.path(), log_id, partition, 0).expect("opens");
        let at = Position { log_id, partition, next_offset: Offset(1), term: Term(0), chain: ChainHash::default() };
        store.apply(vec![Change::Put(b"a".to_vec(), b"1".to_vec())], at).expect("applies");
        store.read().opened.db.insert(inner_key(b"b"), b"\0\0\0\0x").expect("inserts past the store");

        assert!(store.get(b"b").expect_err("wrong").to_string().contains("checksum"));
        assert!(store.get(b"a").is_err());
        assert!(store.position().is_err());
        assert!(store.apply(Vec::new(), at).is_err());

        store.clear().expect("clears");
        assert_eq!(store.position().expect("empty"), None);
        store.apply(Vec::new(), at).expect("applies");
        assert_eq!(store.position().expect("moved"), Some(at));
    }

    fn holds(folder: &Path, text: &[u8]) -> bool {
        std::fs::read_dir(folder).expect("lists").any(|entry| {
            let path = entry.expect("lists").path();
            match path.is_dir() {
                true => holds(&path, text),
                false => std::fs::read(path).expect("reads").windows(text.len()).any(|bytes| bytes == text),
            }
        })
    }

    #[test]
    fn what_was_removed_is_in_no_file_of_a_store_that_was_rewritten() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let (log_id, partition) = (LogId(uuid::Uuid::from_u128(1)), PartitionId(0));
        let (store, _) = SledStore::open(dir.path(), log_id, partition, 0).expect("opens");
        let at = Position { log_id, partition, next_offset: Offset(1), term: Term(0), chain: ChainHash::default() };
        let kept = (0..2_500_u32).map(|number| Change::Put(number.to_be_bytes().to_vec(), b"kept".to_vec()));
        let secret = Change::Put(b"secret".to_vec(), b"a text that is removed".to_vec());
        store.apply(kept.chain([secret]).collect(), at).expect("applies");
        store.read().opened.db.flush().expect("flushes");
        let at = Position { next_offset: Offset(2), ..at };
        store.apply(vec![Change::Delete(b"secret".to_vec())], at).expect("applies");
        assert!(holds(dir.path(), b"a text that is removed"), "sled keeps what it removes");

        store.rewrite().expect("rewrites");
        assert!(!holds(dir.path(), b"a text that is removed"));
        assert_eq!(store.scan(b"", b"", 10_000).expect("scans").len(), 2_500);
        drop(store);
        let (store, discarded) = SledStore::open(dir.path(), log_id, partition, 0).expect("opens");
        assert_eq!((store.position().expect("has one"), discarded), (Some(at), None));
    }
}
