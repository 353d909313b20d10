//! A process that is killed at any moment loses nothing that it had been answered.
//!
//! The child is this very test binary: [`child`] does its work when the parent has named a directory.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Lines},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

use futures::{StreamExt, executor::block_on, stream};
use rand::{Rng, SeedableRng, rngs::StdRng};
use reenact_events::{CommitOutcome, EventLog, Recorded, invariants::Watch};
use tempfile::TempDir;

use crate::support::{batch, claim, open, replay};

pub(crate) const DIRECTORY: &str = "REENACT_TEST_DIRECTORY";

const KILLS: usize = 20;

/// Commits without end, eight at a time, and says what was answered.
#[test]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let log = open(&directory);
    let first =
        replay(&log).expect("replays").iter().filter(|recorded| recorded.event.key.as_session().is_some()).count();
    let lease = claim(&log);
    let (log, lease) = (&log, &lease);
    println!();
    let commits = stream::iter(first as u64..).map(|seq| async move {
        let batch = batch(seq, &format!("{seq} {}", "x".repeat(usize::try_from(seq % 7).expect("is small") * 900)));
        (seq, log.commit(lease, &batch).await)
    });
    block_on(commits.buffered(8).for_each(|(seq, outcome)| async move {
        let CommitOutcome::Committed(committed) = outcome else { panic!("{outcome:?}") };
        println!("ack {seq} {} {}", committed.offsets[0], committed.chain[0]);
    }));
}

/// Starts this binary again with only the named test.
pub(crate) fn spawn(mut command: Command, test: &str, directory: &Path) -> (Child, Lines<BufReader<ChildStdout>>) {
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(DIRECTORY, directory).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("starts");
    let output = child.stdout.take().expect("is piped");
    (child, BufReader::new(output).lines())
}

fn acknowledged(line: std::io::Result<String>) -> Option<(u64, String)> {
    let line = line.ok()?;
    let (seq, place) = line.strip_prefix("ack ")?.split_once(' ')?;
    // The line that the kill cut short has no whole chain hash.
    (place.len() > 64).then(|| (seq.parse().expect("is a number"), place.to_owned()))
}

#[test]
fn every_acknowledged_batch_survives_sigkill() {
    let directory = TempDir::new().expect("has a directory");
    let mut random = StdRng::seed_from_u64(1);
    let mut acks = BTreeMap::new();
    for _ in 0..KILLS {
        let binary = Command::new(std::env::current_exe().expect("has a path"));
        let (mut child, lines) = spawn(binary, "killing::child", directory.path());
        let mut lines = lines.filter_map(acknowledged);
        acks.extend(lines.by_ref().take(random.random_range(1..120)));
        child.kill().expect("kills");
        acks.extend(lines);
        child.wait().expect("ends");

        let events = replay(&open(directory.path())).expect("replays");
        let mut watch = Watch::default();
        events.iter().for_each(|recorded| watch.see(recorded).expect("the chain is whole"));
        let stored: BTreeMap<u64, String> = events.iter().filter_map(place).collect();
        let lost: Vec<_> = acks.iter().filter(|(seq, place)| stored.get(seq) != Some(place)).collect();
        assert!(lost.is_empty(), "{lost:?}");
    }
    assert!(acks.len() >= KILLS);
}

fn place(recorded: &Recorded) -> Option<(u64, String)> {
    recorded.event.key.as_session()?;
    Some((recorded.event.seq, format!("{} {}", recorded.offset, recorded.chain)))
}
