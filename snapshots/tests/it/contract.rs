//! What every state store promises.

use std::collections::BTreeMap;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reenact_events::{LogId, PartitionId};
use reenact_snapshots::{Change, SledStore, StateStore, store::Entries};
use uuid::Uuid;

use crate::support::{
    LOG, PARTITION, SHAPES, all, apply_batches, assert_is_a_prefix, on_each, open, position, put, reopen,
};

fn keys(entries: &Entries) -> Vec<&[u8]> {
    entries.iter().map(|(key, _)| key.as_slice()).collect()
}

#[test]
fn an_empty_store_stands_for_nothing() {
    on_each(|name, store| {
        assert_eq!(store.position().expect("position"), None, "{name}");
        assert_eq!(store.get(b"a").expect("get"), None, "{name}");
        assert!(all(store).is_empty(), "{name}");
        assert!(store.scan_back(b"", 9).expect("scans").is_empty(), "{name}");
    });
}

#[test]
fn changes_and_position_move_together() {
    on_each(|name, store| {
        store.apply(vec![put(b"a", b"1"), put(b"b", b"2")], position(5)).expect("applies");
        store.apply(vec![put(b"a", b"3"), Change::Delete(b"b".to_vec())], position(9)).expect("applies");
        assert_eq!(store.position().expect("position"), Some(position(9)), "{name}");
        assert_eq!(all(store), [(b"a".to_vec(), b"3".to_vec())], "{name}");
        store.apply(Vec::new(), position(10)).expect("a batch may only move the position");
        assert_eq!(store.position().expect("position"), Some(position(10)), "{name}");
    });
}

#[test]
fn the_last_change_of_a_key_counts() {
    on_each(|name, store| {
        let changes = vec![put(b"a", b"1"), Change::Delete(b"a".to_vec()), put(b"b", b"1"), put(b"b", b"2")];
        store.apply(changes, position(1)).expect("applies");
        assert_eq!(all(store), [(b"b".to_vec(), b"2".to_vec())], "{name}");
    });
}

#[test]
fn deleting_what_is_absent_is_fine() {
    on_each(|name, store| {
        store.apply(vec![Change::Delete(b"never".to_vec())], position(1)).expect("applies");
        assert!(all(store).is_empty(), "{name}");
    });
}

#[test]
fn empty_keys_and_values_are_kept() {
    on_each(|name, store| {
        store.apply(vec![put(b"", b"x"), put(b"y", b"")], position(1)).expect("applies");
        assert_eq!(store.get(b"").expect("get"), Some(b"x".to_vec()), "{name}");
        assert_eq!(store.get(b"y").expect("get"), Some(Vec::new()), "{name}");
        assert_eq!(keys(&all(store)), [&b""[..], b"y"], "{name}");
    });
}

#[test]
fn scans_keep_to_prefix_start_and_limit_in_key_order() {
    on_each(|name, store| {
        let stored: [&[u8]; 6] = [b"a", b"b:1", b"b:2", b"b:3", b"b:\xff", b"c"];
        store.apply(stored.iter().rev().map(|key| put(key, key)).collect(), position(1)).expect("applies");
        let scan = |prefix: &[u8], from: &[u8], limit| store.scan(prefix, from, limit).expect("scans");
        assert_eq!(keys(&scan(b"b:", b"", 9)), stored[1..5], "{name}");
        assert_eq!(keys(&scan(b"b:", b"a", 2)), stored[1..3], "{name}");
        assert_eq!(keys(&scan(b"b:", b"b:2", 9)), stored[2..5], "{name}");
        assert_eq!(keys(&scan(b"b:", b"b:2\0", 9)), stored[3..5], "{name}");
        assert!(scan(b"b:", b"c", 9).is_empty(), "{name}");
        assert!(scan(b"b:", b"", 0).is_empty(), "{name}");
        assert_eq!(keys(&scan(b"", b"b:3", 9)), stored[3..], "{name}");
    });
}

#[test]
fn scans_back_begin_at_the_last_key_with_the_prefix() {
    on_each(|name, store| {
        let stored: [&[u8]; 5] = [b"a", b"b:1", b"b:\xff", b"b:\xff\xff", b"c"];
        store.apply(stored.iter().map(|key| put(key, key)).collect(), position(1)).expect("applies");
        let back = |prefix: &[u8], limit| store.scan_back(prefix, limit).expect("scans");
        assert_eq!(keys(&back(b"b:", 9)), [stored[3], stored[2], stored[1]], "{name}");
        assert_eq!(keys(&back(b"b:", 1)), [stored[3]], "{name}");
        assert_eq!(keys(&back(b"b:\xff", 9)), [stored[3], stored[2]], "{name}");
        assert_eq!(keys(&back(b"", 2)), [stored[4], stored[3]], "{name}");
        assert!(back(b"bb", 9).is_empty(), "{name}");
        assert!(back(b"", 0).is_empty(), "{name}");
    });
}

#[test]
fn clearing_leaves_nothing_and_the_store_goes_on() {
    on_each(|name, store| {
        apply_batches(store, 1, 20);
        store.clear().expect("clears");
        assert_eq!(store.position().expect("position"), None, "{name}");
        assert!(all(store).is_empty(), "{name}");
        apply_batches(store, 1, 5);
        assert_eq!(assert_is_a_prefix(store, 5), 5, "{name}");
    });
}

#[test]
fn random_calls_agree_with_a_sorted_map() {
    on_each(|name, store| {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let text = |random: &mut ChaCha8Rng| -> Vec<u8> {
            (0..random.random_range(0..4)).map(|_| [0, 1, b'a', 0xff][random.random_range(0..4)]).collect()
        };
        for round in 0..300 {
            let mut changes = Vec::new();
            for _ in 0..random.random_range(0..6) {
                let key = text(&mut random);
                if random.random_bool(0.3) {
                    model.remove(&key);
                    changes.push(Change::Delete(key));
                } else {
                    let value = text(&mut random);
                    model.insert(key.clone(), value.clone());
                    changes.push(Change::Put(key, value));
                }
            }
            store.apply(changes, position(round + 1)).expect("applies");
            let (prefix, from, limit) = (text(&mut random), text(&mut random), random.random_range(0..8));
            let under =
                || model.iter().filter(|(key, _)| key.starts_with(&prefix)).map(|(k, v)| (k.clone(), v.clone()));
            let forward: Entries = under().filter(|(key, _)| *key >= from).take(limit).collect();
            let mut back: Entries = under().collect();
            back.reverse();
            back.truncate(limit);
            assert_eq!(store.scan(&prefix, &from, limit).expect("scans"), forward, "{name} round {round}");
            assert_eq!(store.scan_back(&prefix, limit).expect("scans"), back, "{name} round {round}");
            assert_eq!(store.get(&from).expect("get"), model.get(&from).cloned(), "{name} round {round}");
        }
    });
}

#[test]
fn a_closed_store_opens_as_it_was_left() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for last in [10, 20, 30] {
        let store = reopen(dir.path());
        let first = assert_is_a_prefix(&store, last);
        assert_eq!(first, last - 10);
        apply_batches(&store, first + 1, last);
    }
    reopen(dir.path()).clear().expect("clears");
    assert_eq!(assert_is_a_prefix(&reopen(dir.path()), 0), 0);
}

#[test]
fn what_was_written_for_something_else_is_discarded_and_the_reason_told() {
    let other_log = LogId(Uuid::from_u128(8));
    for (log, shapes, reason) in [(other_log, SHAPES, "it belongs to log"), (LOG, 0xbeef, "this program's are")] {
        let dir = tempfile::tempdir().expect("temporary folder");
        apply_batches(&reopen(dir.path()), 1, 5);
        let (store, discarded) = SledStore::open(dir.path(), log, PARTITION, shapes).expect("opens");
        let told = discarded.expect("discarded").reason;
        assert!(told.contains(reason), "{told}");
        assert_eq!(assert_is_a_prefix(&store, 0), 0);
    }
}

#[test]
fn partitions_are_apart() {
    let dir = tempfile::tempdir().expect("temporary folder");
    apply_batches(&reopen(dir.path()), 1, 5);
    let (other, discarded) = SledStore::open(dir.path(), LOG, PartitionId(4), SHAPES).expect("opens");
    assert_eq!(discarded, None);
    assert!(all(&other).is_empty());
    assert_eq!(assert_is_a_prefix(&reopen(dir.path()), 5), 5);
}

#[test]
fn another_format_is_discarded_and_other_peoples_files_are_not() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let home = dir.path().join(format!("partition-{PARTITION}"));
    std::fs::create_dir_all(home.join("format-0.7")).expect("an old format");
    std::fs::write(home.join("notes.txt"), "mine").expect("a stranger");
    let (_, discarded) = open(dir.path());
    assert_eq!(discarded.expect("discarded").reason, "it has format `0`, this program writes `1`");
    let mut names: Vec<_> =
        std::fs::read_dir(&home).expect("lists").map(|entry| entry.expect("entry").file_name()).collect();
    names.sort();
    assert_eq!(names, ["format-1.8", "notes.txt"]);
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let file = dir.path().join("taken");
    std::fs::write(&file, "").expect("writes");
    let error = SledStore::open(&file, LOG, PARTITION, SHAPES).expect_err("not a folder");
    assert!(error.to_string().contains("taken/partition-3` cannot be used"), "{error}");
}
