//! What cannot be served is refused at the start: exit status 1, one clear message, and nothing changed.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use rand::Rng;

use crate::{
    lost_stores::{Loss, everything, files},
    support::{PATIENCE, Product, dice},
};

/// Stands in an event of the log, so that the event can be found in the file.
const MARK: &str = "MARKED MESSAGE";
/// Single bytes that are changed, each in a log of its own.
const FLIPS: usize = 24;

/// Starts it and expects it to refuse; what it says.
async fn refused(product: &mut Product) -> String {
    let heard = product.said().len();
    product.spawn();
    let status = product.ended(PATIENCE).await;
    let said = product.said().split_off(heard);
    assert_eq!(status.code(), Some(1), "{said}");
    let errors: Vec<_> = said.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "one message: {said}");
    assert!(!said.contains(" ERROR ") && !said.contains(" WARN "), "nothing beside it: {said}");
    errors[0].to_owned()
}

type Contents = BTreeMap<PathBuf, Vec<u8>>;

/// The files of a folder with what is in them; of the link to the live views, where it leads.
fn contents(folder: &Path) -> Contents {
    let content = |file: &PathBuf| match std::fs::read_link(file) {
        Ok(target) => target.into_os_string().into_encoded_bytes(),
        Err(_) => std::fs::read(file).expect("it can be read"),
    };
    files(folder).into_iter().map(|file| (file.clone(), content(&file))).collect()
}

/// Puts a folder's files back to what they were.
fn put_back(folder: &Path, contents: &Contents) {
    std::fs::remove_dir_all(folder).expect("it can be deleted");
    for (file, bytes) in contents {
        std::fs::create_dir_all(file.parent().expect("a file is in a folder")).expect("it can be made");
        let written = match file.ends_with("views.db") {
            true => std::os::unix::fs::symlink(String::from_utf8_lossy(bytes).as_ref(), file),
            false => std::fs::write(file, bytes),
        };
        written.expect("it can be written");
    }
}

/// A log's bytes with one bit changed wherever the marked message is.
fn marks_changed(bytes: &[u8]) -> Vec<u8> {
    let marked: Vec<_> = bytes.windows(MARK.len()).enumerate().filter(|(_, found)| *found == MARK.as_bytes()).collect();
    assert!(!marked.is_empty());
    let mut changed = bytes.to_vec();
    marked.iter().for_each(|(at, _)| changed[*at] ^= 1);
    changed
}

/// A deployment that was stopped in order after a message.
async fn stopped() -> Product {
    let mut product = Product::new().started().await;
    assert_eq!(product.turn("demo", "s", MARK).await["status"], "COMPLETED");
    product.term();
    assert_eq!(product.ended(PATIENCE).await.code(), Some(0));
    product
}

#[tokio::test]
async fn a_port_that_is_taken_or_agents_that_cannot_be_read_are_told_before_anything_is_made() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it is bound");
    let mut product = Product::new().set("REENACT_LISTEN", address);
    let told = refused(&mut product).await;
    assert!(told.contains(&format!("cannot listen on `{address}`")) && told.contains("--listen"), "{told}");
    assert!(!product.data().exists());

    for (broken, wanted) in [
        ("id = \"a\"\nmodel = 5\n", "a.toml"),
        ("[model]\nprovider = \"demo\"\ncolour = \"red\"\n", "colour"),
        ("\u{0}", "a.toml"),
    ] {
        let mut product = Product::new().agent("a", broken);
        let told = refused(&mut product).await;
        assert!(told.contains("agents") && product.said().contains(wanted), "{}", product.said());
        assert!(!product.data().exists());
    }
}

#[tokio::test]
async fn a_data_directory_has_one_process_and_the_second_says_who_has_it() {
    let mut first = Product::new().started().await;
    first.turn("demo", "s", MARK).await;
    let mut second = Product::new().set("REENACT_DATA", first.data().display());
    let told = refused(&mut second).await;
    assert!(told.contains(&format!("in use by process {}", first.pid())), "{told}");
    assert_eq!(first.turn("demo", "s", "still there?").await["status"], "COMPLETED");
    // The one that was killed leaves nothing that would keep its successor out.
    first.kill_hard();
    second.start().await;
    assert_eq!(second.get("/runs").await.expect(200).json()["meta"]["total_count"], 2);
}

#[tokio::test]
async fn a_log_that_is_damaged_foreign_or_cut_is_refused_and_left_as_it_is() {
    let mut product = stopped().await;
    let log = product.data().join("log/log.db");
    let whole = contents(&product.data());
    let bytes = &whole[&log];
    for (what, damage, wanted) in [
        ("an event", marks_changed(bytes), "is damaged"),
        ("the end", bytes[..bytes.len() / 2].to_vec(), "is damaged"),
        ("the beginning", [&[0; 512], &bytes[512..]].concat(), "is not a log of reenact"),
        ("everything", b"something else".to_vec(), "is not a log of reenact"),
    ] {
        put_back(&product.data(), &whole);
        std::fs::write(&log, &damage).expect("it can be written");
        let before = contents(&product.data());
        let told = refused(&mut product).await;
        assert!(told.contains(wanted) && told.contains("log.db"), "{what}: {told}");
        let mut changed = contents(&product.data());
        changed.retain(|file, bytes| before.get(file) != Some(bytes));
        assert!(changed.is_empty(), "{what} is damaged, and these changed: {:?}", changed.keys());
    }
}

#[tokio::test]
async fn damage_that_is_met_while_everything_is_folded_again_ends_the_start() {
    let mut product = Product::new().started().await;
    product.turn("demo", "s", MARK).await;
    // The end of the log is always looked at: the damage is to be before it.
    for _ in 0..20 {
        product.turn("demo", "s", "hello").await;
    }
    product.term();
    assert_eq!(product.ended(PATIENCE).await.code(), Some(0));
    let log = product.data().join("log/log.db");
    std::fs::write(&log, marks_changed(&contents(&product.data())[&log])).expect("it can be written");
    for loss in [Loss::State, Loss::Views, Loss::Both] {
        // What was folded before the damage is still there, and goes on.
        product.start().await;
        assert_eq!(product.turn("demo", "s", "hello").await["status"], "COMPLETED");
        product.term();
        assert_eq!(product.ended(PATIENCE).await.code(), Some(0));
        let whole = contents(&product.data());
        loss.happen(&product.data());
        product.spawn();
        assert_eq!(product.ended(PATIENCE).await.code(), Some(1), "after {loss:?}");
        let said = product.said();
        let told = said.lines().rfind(|line| line.starts_with("error: ")).expect("it says why");
        assert!(told.contains("is damaged in partition 0 at offset") && told.contains("from a backup"), "{told}");
        put_back(&product.data(), &whole);
    }
}

#[tokio::test]
async fn a_changed_byte_of_the_log_is_refused_or_changes_nothing_that_is_read() {
    let mut dice = dice("refused_starts");
    let mut product = stopped().await;
    let log = product.data().join("log/log.db");
    product.start().await;
    let before = everything(&product).await;
    product.term();
    assert_eq!(product.ended(PATIENCE).await.code(), Some(0));
    let whole = contents(&product.data());
    let (mut refusals, mut harmless) = (0, 0);
    for _ in 0..FLIPS {
        put_back(&product.data(), &whole);
        std::fs::remove_dir_all(product.data().join("state")).expect("it can be deleted");
        let mut bytes = whole[&log].clone();
        let (at, bit) = (dice.random_range(0..bytes.len()), dice.random_range(0..8));
        bytes[at] ^= 1 << bit;
        std::fs::write(&log, bytes).expect("it can be written");
        let heard = product.said().len();
        product.spawn();
        if product.ready_or_ended().await {
            harmless += 1;
            assert_eq!(everything(&product).await, before, "bit {bit} of byte {at} was changed");
            product.kill_hard();
        } else {
            refusals += 1;
            assert_eq!(product.ended(PATIENCE).await.code(), Some(1));
            let said = product.said().split_off(heard);
            assert!(said.contains("data/log"), "bit {bit} of byte {at} was changed: {said}");
        }
    }
    println!("{refusals} changes were refused, {harmless} were harmless");
}

/// Starts it and expects it to refuse, whatever it tells beside the reason.
async fn refused_for(product: &mut Product, reason: &str) {
    let heard = product.said().len();
    product.spawn();
    let status = product.ended(PATIENCE).await;
    let said = product.said().split_off(heard);
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains(reason), "it says `{reason}`: {said}");
}

#[tokio::test]
async fn a_log_that_is_older_than_what_was_acknowledged_is_refused() {
    let mut product = stopped().await;
    let folder = product.data().join("log");
    let backup = contents(&folder);
    product.start().await;
    assert_eq!(product.turn("demo", "s", "a turn that the backup does not have").await["status"], "COMPLETED");
    product.term();
    assert_eq!(product.ended(PATIENCE).await.code(), Some(0));
    put_back(&folder, &backup);
    // Refused at every start, though each claims the partition and so appends to the log.
    for _ in 0..3 {
        refused_for(&mut product, "acknowledged events are lost").await;
    }
    std::fs::remove_dir_all(product.data().join("state")).expect("it can be deleted");
    for file in ["views.db", "views.db-wal", "views.db-shm"] {
        std::fs::remove_file(product.data().join(file)).unwrap_or_default();
    }
    product.start().await;
    assert_eq!(product.get("/sessions/s/runs").await.expect(200).json().as_array().expect("a list").len(), 1);
}

#[tokio::test]
async fn a_log_that_has_vanished_is_not_replaced_by_an_empty_one() {
    let mut product = stopped().await;
    std::fs::remove_dir_all(product.data().join("log")).expect("it can be deleted");
    for _ in 0..2 {
        refused_for(&mut product, "is not the one that this data directory was made with").await;
    }
}
