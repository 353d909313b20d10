//! A state store that breaks now and then, and stays broken until it is cleared, as sled's does.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use reenact_snapshots::{Change, MemoryStore, Position, StateStore, StoreError, store::Entries};

use crate::faults::{Dice, Weather};

pub(crate) struct FlakyStore {
    pub(crate) inner: Arc<MemoryStore>,
    pub(crate) weather: Arc<Weather>,
    pub(crate) dice: Dice,
    pub(crate) broken: AtomicBool,
}

impl FlakyStore {
    fn check(&self) -> Result<(), StoreError> {
        let breaks =
            !self.weather.calm.load(Ordering::SeqCst) && self.dice.below(20_000) < self.weather.rough_per_mille;
        if breaks {
            self.broken.store(true, Ordering::SeqCst);
        }
        if self.broken.load(Ordering::SeqCst) { Err(StoreError::new("simulated damage")) } else { Ok(()) }
    }
}

impl StateStore for FlakyStore {
    fn position(&self) -> Result<Option<Position>, StoreError> {
        self.check()?;
        self.inner.position()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.check()?;
        self.inner.get(key)
    }

    fn scan(&self, prefix: &[u8], from: &[u8], limit: usize) -> Result<Entries, StoreError> {
        self.check()?;
        self.inner.scan(prefix, from, limit)
    }

    fn scan_back(&self, prefix: &[u8], limit: usize) -> Result<Entries, StoreError> {
        self.check()?;
        self.inner.scan_back(prefix, limit)
    }

    fn apply(&self, changes: Vec<Change>, position: Position) -> Result<(), StoreError> {
        self.check()?;
        self.inner.apply(changes, position)
    }

    fn load(&self, entries: Entries) -> Result<(), StoreError> {
        self.check()?;
        self.inner.load(entries)
    }

    fn clear(&self) -> Result<(), StoreError> {
        self.broken.store(false, Ordering::SeqCst);
        self.inner.clear()
    }

    fn rewrite(&self) -> Result<(), StoreError> {
        self.check()?;
        self.inner.rewrite()
    }
}
