//! The contract in memory: what the simulation runs on, and what every other implementation is compared to.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{
    Change, Position, StateStore, StoreError,
    store::{Entries, first_at_or_after},
};

/// A state store that ends with its process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    content: Mutex<Content>,
}

#[derive(Debug, Default)]
struct Content {
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    position: Option<Position>,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        // Nothing in this file can panic while it holds the lock, so a poisoned one is still whole.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn owned((key, value): (&Vec<u8>, &Vec<u8>)) -> (Vec<u8>, Vec<u8>) {
    (key.clone(), value.clone())
}

impl StateStore for MemoryStore {
    fn position(&self) -> Result<Option<Position>, StoreError> {
        Ok(self.content().position)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.content().entries.get(key).cloned())
    }

    fn scan(&self, prefix: &[u8], from: &[u8], limit: usize) -> Result<Entries, StoreError> {
        let content = self.content();
        let first = Bound::Included(first_at_or_after(prefix, from));
        let range = content.entries.range::<[u8], _>((first, Bound::Unbounded));
        Ok(range.take_while(|(key, _)| key.starts_with(prefix)).take(limit).map(owned).collect())
    }

    fn scan_back(&self, prefix: &[u8], limit: usize) -> Result<Entries, StoreError> {
        let content = self.content();
        let end = end_of(prefix);
        let last = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let range = content.entries.range::<[u8], _>((Bound::Included(prefix), last));
        Ok(range.rev().take(limit).map(owned).collect())
    }

    fn apply(&self, changes: Vec<Change>, position: Position) -> Result<(), StoreError> {
        let mut content = self.content();
        for change in changes {
            match change {
                Change::Put(key, value) => drop(content.entries.insert(key, value)),
                Change::Delete(key) => drop(content.entries.remove(&key)),
            }
        }
        content.position = Some(position);
        Ok(())
    }

    fn load(&self, entries: Entries) -> Result<(), StoreError> {
        self.content().entries.extend(entries);
        Ok(())
    }

    fn clear(&self) -> Result<(), StoreError> {
        *self.content() = Content::default();
        Ok(())
    }

    fn rewrite(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// The first key that is after every key with this prefix; `None` when there is no such key.
fn end_of(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(after) = last.checked_add(1) {
            end.push(after);
            return Some(end);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::end_of;

    #[test]
    fn the_end_of_a_prefix_is_after_all_its_keys() {
        assert_eq!(end_of(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(end_of(&[7, 0xff, 0xff]), Some(vec![8]));
        assert_eq!(end_of(&[0xff]), None);
        assert_eq!(end_of(b""), None);
    }
}
