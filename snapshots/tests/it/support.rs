//! Stores, positions, and batches that follow from a number.

use std::path::Path;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reenact_events::{ChainHash, LogId, Offset, PartitionId, Term};
use reenact_snapshots::{Change, Discarded, MemoryStore, Position, SledStore, StateStore, store::Entries};
use uuid::Uuid;

pub(crate) const LOG: LogId = LogId(Uuid::from_u128(7));
pub(crate) const PARTITION: PartitionId = PartitionId(3);
pub(crate) const SHAPES: u64 = 0xfeed;

pub(crate) fn position(next_offset: u64) -> Position {
    let (next_offset, term, chain) = (Offset(next_offset), Term(1), ChainHash([9; 32]));
    Position { log_id: LOG, partition: PARTITION, next_offset, term, chain }
}

pub(crate) fn put(key: &[u8], value: &[u8]) -> Change {
    Change::Put(key.to_vec(), value.to_vec())
}

pub(crate) fn open(dir: &Path) -> (SledStore, Option<Discarded>) {
    SledStore::open(dir, LOG, PARTITION, SHAPES).expect("an empty store can always be made in a temporary folder")
}

/// Opens a store that must be as it was left.
pub(crate) fn reopen(dir: &Path) -> SledStore {
    let (store, discarded) = open(dir);
    assert_eq!(discarded, None);
    store
}

/// Gives an empty store of each kind to `rule`.
pub(crate) fn on_each(rule: impl Fn(&str, &dyn StateStore)) {
    rule("memory", &MemoryStore::new());
    let dir = tempfile::tempdir().expect("temporary folder");
    rule("sled", &reopen(dir.path()));
}

pub(crate) fn all(store: &dyn StateStore) -> Entries {
    store.scan(b"", b"", usize::MAX).expect("scans")
}

/// The `number`th batch: always the same. Few keys, so that batches overwrite and delete what others wrote.
pub(crate) fn batch(number: u64) -> Vec<Change> {
    let mut random = ChaCha8Rng::seed_from_u64(number);
    let change = |random: &mut ChaCha8Rng| {
        let key = format!("{}:{}", ["run", "session", "timer"][random.random_range(0..3)], random.random_range(0..40));
        if random.random_bool(0.2) {
            return Change::Delete(key.into_bytes());
        }
        let mut value = vec![0; random.random_range(0..3_000)];
        random.fill(&mut value[..]);
        Change::Put(key.into_bytes(), value)
    };
    (0..random.random_range(1..12)).map(|_| change(&mut random)).collect()
}

/// What a store holds after the batches `1..=count`.
pub(crate) fn after_batches(count: u64) -> MemoryStore {
    let model = MemoryStore::new();
    apply_batches(&model, 1, count);
    model
}

/// Applies the batches `first..=last`, the position of each being its number.
pub(crate) fn apply_batches(store: &dyn StateStore, first: u64, last: u64) {
    for number in first..=last {
        store.apply(batch(number), position(number)).expect("applies");
    }
}

/// The store holds exactly what the batches up to its position wrote. Returns how many that are.
pub(crate) fn assert_is_a_prefix(store: &dyn StateStore, batches_max: u64) -> u64 {
    let at = store.position().expect("position");
    let count = at.map_or(0, |at| at.next_offset.0);
    assert!(count <= batches_max, "position {count} was never written, the last was {batches_max}");
    assert_eq!(at, (count > 0).then(|| position(count)));
    assert!(all(store) == all(&after_batches(count)), "the content is not that of position {count}");
    count
}
