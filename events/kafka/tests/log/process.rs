//! Members that are processes of their own, so that they can be frozen and killed.
//!
//! The test binary runs itself with one test chosen, which does nothing unless it is told to be a member.

use std::{
    env,
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc,
    thread,
};

use reenact_events::CommitOutcome;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::*;

const BROKERS: &str = "REENACT_MEMBER_BROKERS";
const PREFIX: &str = "REENACT_MEMBER_PREFIX";
/// Stands before what the member says; the test harness says things too.
const MARK: &str = "member: ";

/// Owns the only partition, commits one batch after another and says how each ended, until one is fenced.
#[test]
fn member() {
    let (Ok(brokers), Ok(prefix)) = (env::var(BROKERS), env::var(PREFIX)) else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let (member, lease) = Member::owner(&named(&brokers, &prefix, 1), "process").await;
        println!("{MARK}term {}", lease.term);
        for number in 0_u32.. {
            let text = format!("process {number}");
            match member.persist(&lease, &batch(&text)).await {
                Ok(_) => println!("{MARK}{text}"),
                Err(CommitOutcome::Fenced) => {
                    println!("{MARK}fenced");
                    break;
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    });
}

/// A member that runs as a process.
pub(crate) struct Process {
    child: Child,
    said: mpsc::Receiver<String>,
}

impl Process {
    pub(crate) fn start(brokers: &str, prefix: &str) -> Self {
        let mut command = Command::new(env::current_exe().expect("a path"));
        command.args(["--exact", "process::member", "--nocapture"]).env(BROKERS, brokers).env(PREFIX, prefix);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("starts");
        let stdout = child.stdout.take().expect("is piped");
        let (sender, said) = mpsc::sync_channel(100_000);
        thread::spawn(move || listen(stdout, &sender));
        Self { child, said }
    }

    /// What it says next.
    pub(crate) fn says(&self) -> String {
        self.said.recv_timeout(PATIENCE).expect("says something")
    }

    /// Everything it says up to this.
    pub(crate) fn says_until(&self, last: &str) -> Vec<String> {
        let mut said = vec![self.says()];
        while said.last().is_some_and(|said| said != last) {
            said.push(self.says());
        }
        said
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("is there");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        self.child.wait().expect("ends");
    }
}

fn listen(stdout: ChildStdout, said: &mpsc::SyncSender<String>) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        // The harness begins a line for the test's name and does not end it.
        let Some((_, text)) = line.split_once(MARK) else { continue };
        if said.send(text.to_owned()).is_err() {
            return;
        }
    }
}
