//! A store that can be read as it stood at one moment, while it goes on changing.
//!
//! sled has no such reading. So, while somebody reads, each change first remembers what its key held, unless the
//! reader has been there; the reader takes what is remembered instead of what stands there now. Nobody waits
//! longer than for one chunk.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{Change, Position, StateStore, StoreError, store::Entries};

/// Old values kept for one reader at most. A reader that is so slow is given up: the next one is faster, or the
/// store changes so fast that a snapshot of it is worth little.
const REMEMBERED_BYTES_MAX: usize = 128 << 20;

/// See the module.
pub struct ExportableStore {
    inner: Arc<dyn StateStore>,
    reading: Mutex<Reading>,
}

#[derive(Default)]
struct Reading {
    /// How many readers there were: only the latest goes on.
    number: u64,
    overlay: Option<Overlay>,
}

/// What has changed since the reader began, in what it has not read yet.
#[derive(Default)]
struct Overlay {
    /// What each key held; `None` for one that was not there.
    remembered: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    bytes: usize,
    /// The first key that was not read yet.
    from: Vec<u8>,
}

impl Overlay {
    fn remember(&mut self, change: &Change, store: &dyn StateStore) -> Result<(), StoreError> {
        let (Change::Put(key, _) | Change::Delete(key)) = change;
        if *key < self.from || self.remembered.contains_key(key) {
            return Ok(());
        }
        let held = store.get(key)?;
        self.bytes += key.len() + held.as_ref().map_or(0, Vec::len);
        self.remembered.insert(key.clone(), held);
        Ok(())
    }

    /// The next entries as they were. `None` when there are no more.
    fn next_chunk(&mut self, store: &dyn StateStore, limit: usize) -> Result<Option<Entries>, StoreError> {
        let present = store.scan(b"", &self.from, limit)?;
        let last = present.last().filter(|_| present.len() == limit).map(|(key, _)| key.clone());
        let is_end = last.is_none();
        let end = last.as_deref().map_or(Bound::Unbounded, Bound::Included);
        let changed: Vec<_> =
            self.remembered.range::<[u8], _>((Bound::Unbounded, end)).map(|(key, _)| key.clone()).collect();
        let mut then: BTreeMap<_, _> = present.into_iter().map(|(key, value)| (key, Some(value))).collect();
        for key in changed {
            if let Some(held) = self.remembered.remove(&key) {
                self.bytes -= key.len() + held.as_ref().map_or(0, Vec::len);
                then.insert(key, held);
            }
        }
        if let Some(mut last) = last {
            last.push(0);
            self.from = last;
        }
        let entries: Entries = then.into_iter().filter_map(|(key, held)| Some((key, held?))).collect();
        Ok(if is_end && entries.is_empty() { None } else { Some(entries) })
    }
}

impl ExportableStore {
    /// Makes a store exportable. Changes that pass it by are not seen.
    #[must_use]
    pub fn new(inner: Arc<dyn StateStore>) -> Self {
        Self { inner, reading: Mutex::default() }
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        // Only the store below can fail while this is held, and it says so by an error.
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to read the store as it is now; a reading that was going on is given up. `None` when it is empty.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn export(self: &Arc<Self>) -> Result<Option<Export>, StoreError> {
        let mut reading = self.reading();
        let Some(position) = self.inner.position()? else { return Ok(None) };
        reading.number += 1;
        reading.overlay = Some(Overlay::default());
        Ok(Some(Export { store: self.clone(), number: reading.number, position, ended: false }))
    }
}

impl StateStore for ExportableStore {
    fn position(&self) -> Result<Option<Position>, StoreError> {
        self.inner.position()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.get(key)
    }

    fn scan(&self, prefix: &[u8], from: &[u8], limit: usize) -> Result<Entries, StoreError> {
        self.inner.scan(prefix, from, limit)
    }

    fn scan_back(&self, prefix: &[u8], limit: usize) -> Result<Entries, StoreError> {
        self.inner.scan_back(prefix, limit)
    }

    fn apply(&self, changes: Vec<Change>, position: Position) -> Result<(), StoreError> {
        let mut reading = self.reading();
        if let Some(overlay) = &mut reading.overlay {
            for change in &changes {
                overlay.remember(change, &*self.inner)?;
            }
            if overlay.bytes > REMEMBERED_BYTES_MAX {
                reading.overlay = None;
            }
        }
        self.inner.apply(changes, position)
    }

    fn load(&self, entries: Entries) -> Result<(), StoreError> {
        self.reading().overlay = None;
        self.inner.load(entries)
    }

    fn clear(&self) -> Result<(), StoreError> {
        let mut reading = self.reading();
        reading.overlay = None;
        self.inner.clear()
    }

    fn rewrite(&self) -> Result<(), StoreError> {
        // What is read of it meanwhile stays the same.
        let _reading = self.reading();
        self.inner.rewrite()
    }
}

/// A reading of a store as it stood when this was made.
pub struct Export {
    store: Arc<ExportableStore>,
    number: u64,
    position: Position,
    ended: bool,
}

impl Export {
    /// What the entries stand for.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// The next entries in key order, about `limit` of them; `None` when there are no more.
    ///
    /// # Errors
    /// When the store cannot be used, or the reading was given up.
    pub fn next_chunk(&mut self, limit: usize) -> Result<Option<Entries>, StoreError> {
        if self.ended {
            return Ok(None);
        }
        let mut reading = self.store.reading();
        let is_latest = reading.number == self.number;
        let overlay = reading.overlay.as_mut().filter(|_| is_latest).ok_or_else(|| {
            StoreError::new("it was cleared, read by another, or changed too much while it was being read")
        })?;
        let from = overlay.from.clone();
        let chunk = overlay.next_chunk(&*self.store.inner, limit)?;
        // The end was reached when the reading does not move on.
        self.ended = overlay.from == from;
        if self.ended {
            reading.overlay = None;
        }
        Ok(chunk)
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        let mut reading = self.store.reading();
        if reading.number == self.number {
            reading.overlay = None;
        }
    }
}
