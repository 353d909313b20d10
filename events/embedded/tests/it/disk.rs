//! A disk that is full or fails: clear answers, nothing half written, and work goes on when it can.

use std::{path::PathBuf, process::Command};

use futures::executor::block_on;
use reenact_embedded::{EmbeddedLog, Options};
use reenact_events::{CommitOutcome, EventLog, Lease, NodeId};
use tempfile::TempDir;

use crate::{
    killing::{DIRECTORY, spawn},
    support::{PARTITION, batch, claim, commit, open, options, replay},
};

/// Commits until something else than success is answered: how many were, and what came then.
fn fill(log: &EmbeddedLog, lease: &Lease) -> (u64, CommitOutcome) {
    let text = "x".repeat(10_000);
    for seq in 0.. {
        match block_on(log.commit(lease, &batch(seq, &text))) {
            CommitOutcome::Committed(_) => {}
            other => return (seq, other),
        }
    }
    unreachable!("a disk has an end")
}

#[test]
fn a_full_disk_refuses_the_batch_and_keeps_the_rest() {
    let directory = TempDir::new().expect("has a directory");
    let limited = Options { bytes_max: Some(1_000_000), ..options() };
    let log = EmbeddedLog::open(directory.path(), limited).expect("opens");
    let lease = claim(&log);
    let (written, outcome) = fill(&log, &lease);
    let CommitOutcome::Resend { reason } = outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("disk is full"), "{reason}");
    assert_eq!(block_on(log.resolve(&lease, batch(written, "").id)).expect("resolves"), None);
    // The lease is still good, and what is small may still fit.
    assert!(!matches!(block_on(log.commit(&lease, &batch(written, ""))), CommitOutcome::Fenced));
    drop(log);

    let log = open(directory.path());
    let before = replay(&log).expect("replays").len();
    let lease = claim(&log);
    commit(&log, &lease, &batch(before as u64 - 2, &"x".repeat(10_000)));
}

/// Under a limit of the operating system on the size of files: every write beyond it fails.
#[test]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let log = open(&directory);
    let lease = claim(&log);
    let (written, outcome) = fill(&log, &lease);
    let again = block_on(log.commit(&lease, &batch(written, "small")));
    let claimed = block_on(log.claim(PARTITION, NodeId::trusted("n"))).is_ok();
    println!("\nwritten {written} {} {} {claimed}", name(&outcome), name(&again));
}

fn name(outcome: &CommitOutcome) -> &'static str {
    match outcome {
        CommitOutcome::Committed(_) => "committed",
        CommitOutcome::Fenced => "fenced",
        CommitOutcome::Resend { .. } => "resend",
        CommitOutcome::Unknown { .. } => "unknown",
        CommitOutcome::Rejected { .. } => "rejected",
    }
}

#[cfg(unix)]
#[test]
fn a_failed_write_ends_the_connection_and_a_restart_finds_what_was_answered() {
    let directory = TempDir::new().expect("has a directory");
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 4096; exec \"$0\" \"$@\""]);
    limited.arg(std::env::current_exe().expect("has a path"));
    let (mut child, lines) = spawn(limited, "disk::child", directory.path());
    let said: Vec<String> = lines.map_while(Result::ok).filter(|line| line.starts_with("written ")).collect();
    child.wait().expect("ends");
    let words: Vec<&str> = said.first().expect("the child reports").split(' ').collect();
    let written: usize = words[1].parse().expect("is a number");
    assert_eq!(words[2], "unknown", "the commit itself failed: {said:?}");

    let log = open(directory.path());
    let events = replay(&log).expect("replays");
    let stored = events.iter().filter(|recorded| recorded.event.key.as_session().is_some()).count();
    assert!(stored >= written, "{stored} of {written} are there; {said:?}");
    let small = usize::from(words[3] == "committed");
    assert!(stored <= written + 1 + small, "{said:?}");
}
