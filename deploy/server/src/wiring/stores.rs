//! The state stores in the data directory.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use reenact_actors::{ForgetStore, OpenStore, keys::SHAPES};
use reenact_events::{EventLog, LogId, PartitionId};
use reenact_snapshots::{ExportableStore, SledStore, StateStore, StoreError, codec};

use crate::config::Config;

struct Stores {
    folder: PathBuf,
    log_id: LogId,
    fingerprint: u64,
    /// A partition that is restored again goes on with the store that is open: sled locks its folder.
    opened: Mutex<BTreeMap<PartitionId, Arc<ExportableStore>>>,
}

/// What opens them, and what forgets them.
pub(super) fn stores(config: &Config, log: &dyn EventLog) -> (OpenStore, ForgetStore) {
    let (folder, log_id, fingerprint) = (config.data.join("state"), log.log_id(), codec::fingerprint(SHAPES));
    let stores = Arc::new(Stores { folder, log_id, fingerprint, opened: Mutex::default() });
    let opening = stores.clone();
    (Arc::new(move |partition| opening.open(partition)), Arc::new(move |partition| stores.forget(partition)))
}

impl Stores {
    fn opened(&self) -> MutexGuard<'_, BTreeMap<PartitionId, Arc<ExportableStore>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, partition: PartitionId) -> Result<Arc<ExportableStore>, StoreError> {
        let mut opened = self.opened();
        if let Some(store) = opened.get(&partition) {
            return Ok(store.clone());
        }
        let (store, discarded) = SledStore::open(&self.folder, self.log_id, partition, self.fingerprint)?;
        if let Some(discarded) = discarded {
            tracing::warn!(%partition, reason = discarded.reason, "the state store is discarded and folded again");
        }
        let store = Arc::new(ExportableStore::new(Arc::new(store)));
        opened.insert(partition, store.clone());
        Ok(store)
    }

    /// One that is open is emptied, since its folder is locked; another one goes.
    fn forget(&self, partition: PartitionId) -> Result<(), StoreError> {
        match self.opened().get(&partition) {
            Some(store) => store.clear(),
            None => SledStore::remove(&self.folder, partition),
        }
    }
}

#[cfg(test)]
mod tests {
    use reenact_events::{ChainHash, Offset, Term};
    use reenact_snapshots::{Change, Position};

    use super::*;

    #[test]
    fn a_store_that_is_forgotten_leaves_nothing_whether_it_is_open_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let (log_id, partition) = (LogId(uuid::Uuid::from_u128(1)), PartitionId(3));
        let stores = || Stores { folder: folder.path().into(), log_id, fingerprint: 0, opened: Mutex::default() };
        let at = Position { log_id, partition, next_offset: Offset(1), term: Term(0), chain: ChainHash::default() };
        let filled = stores();
        for _ in 0..2 {
            let store = filled.open(partition).unwrap();
            store.apply(vec![Change::Put(b"a".to_vec(), b"1".to_vec())], at).unwrap();
            filled.forget(partition).unwrap();
            assert_eq!((store.get(b"a").unwrap(), store.position().unwrap()), (None, None));
        }
        drop(filled);
        let home = folder.path().join("partition-3");
        assert!(home.is_dir());
        for _ in 0..2 {
            stores().forget(partition).unwrap();
            assert!(!home.exists());
        }
    }
}
