//! Whatever happened to its files, a store opens: as some state that it once had, or empty with a reason.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use reenact_snapshots::StateStore;

use crate::support::{apply_batches, assert_is_a_prefix, open, position, put, reopen};

const BATCHES: u64 = 120;
const SEEDS: u64 = 40;

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).expect("lists") {
        let path = entry.expect("entry").path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

fn copy(from: &Path, to: &Path) {
    for file in files_below(from) {
        let target = to.join(file.strip_prefix(from).expect("below"));
        fs::create_dir_all(target.parent().expect("has a parent")).expect("folder");
        fs::copy(&file, target).expect("copies");
    }
}

/// One way in which a disk, a person or a half-written page spoils a file.
fn damage(file: &Path, random: &mut ChaCha8Rng) -> &'static str {
    let mut bytes = fs::read(file).expect("reads");
    let at = random.random_range(0..bytes.len().max(1));
    let end = (at + random.random_range(1..4_096)).min(bytes.len());
    let what = match random.random_range(0..5) {
        0 => {
            fs::remove_file(file).expect("removes");
            return "removed";
        }
        1 => {
            bytes.truncate(at);
            "truncated"
        }
        2 => {
            bytes[at..end].fill(0);
            "zeroed"
        }
        3 => {
            random.fill(&mut bytes[at..end]);
            "overwritten"
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.random_range(0..8);
            }
            "one bit flipped"
        }
    };
    fs::write(file, bytes).expect("writes");
    what
}

#[test]
fn damaged_files_open_as_a_former_state_or_empty() {
    let sound = tempfile::tempdir().expect("temporary folder");
    apply_batches(&reopen(sound.path()), 1, BATCHES);
    let mut discards = 0;
    for seed in 0..SEEDS {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let dir = tempfile::tempdir().expect("temporary folder");
        copy(sound.path(), dir.path());
        let files = files_below(dir.path());
        let file = &files[random.random_range(0..files.len())];
        let what = damage(file, &mut random);
        let (store, discarded) = open(dir.path());
        let count = assert_is_a_prefix(&store, BATCHES);
        println!("seed {seed}: {} {what}: {count} batches, discarded: {discarded:?}", file.display());
        if discarded.is_some() {
            discards += 1;
            assert_eq!(count, 0, "what is discarded leaves nothing");
        }
        apply_batches(&store, count + 1, count + 5);
        drop(store);
        assert_eq!(assert_is_a_prefix(&reopen(dir.path()), count + 5), count + 5);
    }
    assert!(discards > 0, "the damage was never noticed");
}

#[test]
fn a_folder_that_is_emptied_opens_empty() {
    let dir = tempfile::tempdir().expect("temporary folder");
    apply_batches(&reopen(dir.path()), 1, 5);
    for file in files_below(dir.path()) {
        fs::remove_file(file).expect("removes");
    }
    let (store, discarded) = open(dir.path());
    assert_eq!(discarded.expect("discarded").reason, "it has no summary");
    assert_eq!(assert_is_a_prefix(&store, 0), 0);
}

#[test]
fn a_file_in_place_of_the_folder_is_discarded() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let home = dir.path().join("partition-3");
    fs::create_dir_all(&home).expect("folder");
    fs::write(home.join("format-1.1"), "not a folder").expect("writes");
    let (store, discarded) = open(dir.path());
    assert!(discarded.expect("discarded").reason.contains("format-1.1` cannot be used"));
    assert_eq!(assert_is_a_prefix(&store, 0), 0);
}

type Fault = fn(&sled::Db);

/// A process that another test is just starting may share the closed engine's lock for a moment.
fn open_once_it_is_left(home: &Path) -> sled::Db {
    for _ in 0..500 {
        match sled::open(home) {
            Err(sled::Error::Io(error)) if error.to_string().contains("could not acquire lock") => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            opened => return opened.expect("opens"),
        }
    }
    panic!("`{}` stays locked", home.display());
}

/// Opens the engine past the store, as a fault of the engine would change what is in it.
fn behind_its_back(dir: &Path, change: impl Fn(&sled::Db)) {
    let db = open_once_it_is_left(&dir.join("partition-3/format-1.1"));
    change(&db);
    db.flush().expect("flushes");
}

#[test]
fn an_entry_that_vanished_or_came_back_or_changed_is_noticed() {
    let changes: [(Fault, &str); 4] = [
        (|db| drop(db.remove(b"\x01a").expect("removes")), "its `1` entries are not the `2`"),
        (|db| drop(db.insert(b"\x01c", b"\0\0\0\0").expect("inserts")), "the checksum of the value"),
        (|db| drop(db.insert(b"\x01a", db.get(b"\x01b").expect("get").expect("b")).expect("inserts")), "the checksum"),
        (|db| drop(db.remove(b"\0").expect("removes")), "it has no summary"),
    ];
    for (change, reason) in changes {
        let dir = tempfile::tempdir().expect("temporary folder");
        let store = reopen(dir.path());
        store.apply(vec![put(b"a", b"1"), put(b"b", b"2")], position(1)).expect("applies");
        drop(store);
        behind_its_back(dir.path(), change);
        let told = open(dir.path()).1.expect("discarded").reason;
        assert!(told.contains(reason), "{told}");
    }
}
