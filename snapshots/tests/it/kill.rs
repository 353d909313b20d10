//! SIGKILL in the middle of writing: what comes back is a prefix of the batches with its own position.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
};

use reenact_snapshots::StateStore;

use crate::support::{apply_batches, assert_is_a_prefix, batch, open, position, reopen};

/// Set for the child process only: the folder that it writes to.
const CHILD_DIR: &str = "REENACT_SNAPSHOTS_CHILD_DIR";
const KILLS: u64 = 12;

/// Not a rule: the child that the other test kills. It writes batches for ever and tells each one's number.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let (store, _) = open(Path::new(&dir));
    let first = store.position().expect("position").map_or(0, |at| at.next_offset.0) + 1;
    let mut out = std::io::stderr().lock();
    for number in first.. {
        // Told before it is applied: the parent's count is never behind what may be on disk.
        writeln!(out, "batch {number}").expect("the parent listens");
        store.apply(batch(number), position(number)).expect("applies");
    }
}

fn spawn_child(dir: &Path) -> Child {
    Command::new(std::env::current_exe().expect("this test's binary"))
        .args(["--exact", "kill::child_that_writes_until_it_is_killed", "--nocapture"])
        .env(CHILD_DIR, dir)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts")
}

/// Lets the child write `count` batches, kills it, and returns the last number that it told.
fn kill_after(mut child: Child, count: usize) -> u64 {
    let lines = BufReader::new(child.stderr.take().expect("piped")).lines().map(|line| line.expect("text"));
    let mut numbers =
        lines.filter_map(|line| line.strip_prefix("batch ").map(|number| number.parse().expect("number")));
    let told = numbers.nth(count).expect("the child goes on until it is killed");
    child.kill().expect("kills");
    child.wait().expect("ends");
    // What it told between the count and its death is still in the pipe.
    numbers.last().unwrap_or(told)
}

#[test]
fn a_killed_writer_leaves_a_prefix_of_its_batches() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for round in 0..KILLS {
        let last = kill_after(spawn_child(dir.path()), usize::try_from(37 * round + 11).expect("small"));
        let (store, discarded) = open(dir.path());
        let count = assert_is_a_prefix(&store, last);
        println!("round {round}: {count} of {last} batches are there, discarded: {discarded:?}");
    }
}

#[test]
fn a_killed_writer_loses_nothing_of_the_last_clean_close() {
    let dir = tempfile::tempdir().expect("temporary folder");
    apply_batches(&reopen(dir.path()), 1, 50);
    let last = kill_after(spawn_child(dir.path()), 100);
    let (store, discarded) = open(dir.path());
    let count = assert_is_a_prefix(&store, last);
    assert!(discarded.is_some() || count >= 50, "{count} batches are there");
}
