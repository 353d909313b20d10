//! A snapshot is the store as it stood when it was begun, or it is nothing.

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, executor::block_on, stream};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reenact_events::{LogId, PartitionId};
use reenact_snapshots::{
    ExportableStore, MemoryStore, Shelf, SnapshotError, StateStore,
    snapshot::{Header, Incoming, MemoryShelf, Origin, pieces},
    store::Entries,
};
use uuid::Uuid;

use crate::support::{LOG, PARTITION, SHAPES, after_batches, all, apply_batches, batch, on_each, open, position, put};

const ORIGIN: Origin = Origin { log_id: LOG, partition: PARTITION, partitions: 6, fingerprint: SHAPES };

/// The snapshot of a store, as one object.
fn snapshot(store: Arc<dyn StateStore>) -> Vec<u8> {
    let export = Arc::new(ExportableStore::new(store)).export().expect("reads").expect("it is not empty");
    let header = Header::new(&ORIGIN, export.position());
    let shelf = MemoryShelf::default();
    block_on(shelf.put("a", pieces(export, &header).expect("begins"))).expect("puts");
    let object = shelf.objects().get("a").cloned();
    object.expect("it was put")
}

/// Loads an object that comes in pieces of this size.
fn load(object: &[u8], size: usize, store: &dyn StateStore) -> Result<u64, SnapshotError> {
    let pieces: Vec<_> = object.chunks(size).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    block_on(async {
        let incoming = Incoming::begin(stream::iter(pieces).boxed()).await?;
        incoming.header().check(&ORIGIN)?;
        incoming.load_into(store).await
    })
}

#[test]
fn a_store_loaded_from_a_snapshot_is_the_store_it_was_taken_from() {
    let object = snapshot(Arc::new(after_batches(200)));
    let model = after_batches(200);
    for size in [1, 7, 1_000, usize::MAX] {
        on_each(|name, store| {
            store.apply(vec![put(b"older", b"content")], position(1)).expect("applies");
            let count = load(&object, size, store).expect("loads");
            assert_eq!(all(store), all(&model), "{name}, pieces of {size} bytes");
            assert_eq!(count, all(&model).len() as u64, "{name}");
            assert_eq!(store.position().expect("position"), Some(position(200)), "{name}");
            apply_batches(store, 201, 210);
            assert_eq!(all(store), all(&after_batches(210)), "{name} goes on from there");
        });
    }
}

#[test]
fn what_was_loaded_into_sled_is_still_there_after_it_was_opened_again() {
    let (object, dir) = (snapshot(Arc::new(after_batches(50))), tempfile::tempdir().expect("temporary folder"));
    let (store, _) = open(dir.path());
    load(&object, 100, &store).expect("loads");
    drop(store);
    let (store, discarded) = open(dir.path());
    assert_eq!(discarded, None);
    assert_eq!(all(&store), all(&after_batches(50)));
}

#[test]
fn a_snapshot_with_a_flipped_bit_leaves_an_empty_store() {
    let object = snapshot(Arc::new(after_batches(20)));
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for _ in 0..300 {
        let mut damaged = object.clone();
        let at = random.random_range(0..damaged.len());
        damaged[at] ^= 1 << random.random_range(0..8);
        assert_useless(&damaged, &format!("byte {at} flipped"));
    }
}

#[test]
fn a_snapshot_that_is_cut_off_or_goes_on_leaves_an_empty_store() {
    let object = snapshot(Arc::new(after_batches(20)));
    for end in (0..object.len()).step_by(97).chain([object.len() - 1]) {
        assert_useless(&object[..end], &format!("cut at {end}"));
    }
    assert_useless(&[&object[..], b"x"].concat(), "one byte more");
    assert_useless(&vec![b'x'; 1 << 20], "no header");
}

fn assert_useless(object: &[u8], how: &str) {
    let store = MemoryStore::new();
    assert!(load(object, 500, &store).is_err(), "{how}");
    assert_eq!((store.position().expect("position"), all(&store)), (None, Vec::new()), "{how}");
}

#[test]
fn a_snapshot_of_something_else_is_refused_by_name() {
    let header = Header::new(&ORIGIN, position(9));
    header.check(&ORIGIN).expect("it is our own");
    for (other, told) in [
        (Origin { log_id: LogId(Uuid::from_u128(8)), ..ORIGIN }, "log"),
        (Origin { partition: PartitionId(4), ..ORIGIN }, "partition"),
        (Origin { partitions: 7, ..ORIGIN }, "number of partitions"),
        (Origin { fingerprint: 1, ..ORIGIN }, "fingerprint"),
    ] {
        let error = header.check(&other).expect_err("it is another's").to_string();
        assert!(error.contains(&format!("its {told} ")) || error.contains(&format!("its {told} of")), "{error}");
    }
}

#[test]
fn an_export_gives_the_store_as_it_was_when_it_began_whatever_happens_meanwhile() {
    for seed in 0..300 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let store = Arc::new(ExportableStore::new(Arc::new(MemoryStore::new())));
        let mut number = random.random_range(1..60);
        apply_batches(&*store, 1, number);
        let then = all(&*store);
        let mut export = store.export().expect("reads").expect("it is not empty");
        assert_eq!(export.position(), position(number));
        let mut exported = Entries::new();
        while let Some(chunk) = export.next_chunk(random.random_range(1..9)).expect("reads") {
            exported.extend(chunk);
            for _ in 0..random.random_range(0..4) {
                number += 1;
                store.apply(batch(number), position(number)).expect("applies");
            }
        }
        assert_eq!(exported, then, "seed {seed}");
        assert_eq!(all(&*store), all(&after_batches(number)), "the store itself went on, seed {seed}");
    }
}

#[test]
fn an_export_that_was_overtaken_or_whose_store_was_cleared_says_so() {
    let store = Arc::new(ExportableStore::new(Arc::new(after_batches(30))));
    let mut first = store.export().expect("reads").expect("it is not empty");
    let mut second = store.export().expect("reads").expect("it is not empty");
    assert!(first.next_chunk(5).is_err());
    drop(first);
    second.next_chunk(5).expect("the end of the first does not end the second");
    store.clear().expect("clears");
    assert!(second.next_chunk(5).is_err());
    assert!(store.export().expect("reads").is_none(), "there is nothing to read");
}
