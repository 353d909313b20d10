//! A run with three steps: how often it commits and forces to disk, alone and among others.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
    time::Instant,
};

use crate::{Figures, client::Client, deployment::Deployment, line, median, part, steps::LOOK_UP};

const ROUNDS: usize = 5;
/// Runs of a round.
const ALONE: usize = 100;
const TOGETHER: usize = 1_600;
const AT_A_TIME: usize = 64;
/// Appends to the bare file in a round.
const BARE: usize = 500;
const IDLE_MS: u64 = 1_000;

pub(crate) fn report() {
    let alone = part::measure("alone", part::folder().path());
    line("commits per run of three steps, one run at a time", alone["commits"], "<= 5");
    line("runs per second / bare appends with fdatasync, same bytes a run", alone["rate"] / alone["bare rate"], "-");
    let together = part::measure("together", part::folder().path());
    line("commits per run, 64 runs in flight", together["commits"], "< 0.5");
    line(
        "runs per second / bare appends with fdatasync, same bytes a run",
        together["rate"] / together["bare rate"],
        "-",
    );
    line("runs per second, 64 in flight / one at a time", together["rate"] / alone["rate"], "-");
    match part::traced("together untimed", part::folder().path()) {
        Some((syncs, figures)) => {
            line("fsyncs per run, 64 in flight: all files, counted by strace", syncs / figures["runs"], "< 0.5");
        }
        None => println!("fsyncs are not counted: there is no strace"),
    }
    println!("  ({:.0} runs/s one at a time, {:.0} runs/s with 64 in flight)", alone["rate"], together["rate"]);
}

/// One run after another.
pub(crate) async fn alone(folder: &Path) -> Figures {
    Bench::open(folder).await.rounds(ALONE, 1).await
}

/// Many runs at a time.
pub(crate) async fn together(folder: &Path) -> Figures {
    Bench::open(folder).await.rounds(TOGETHER, AT_A_TIME).await
}

/// The same without the bare file, whose calls nobody wants to count.
pub(crate) async fn together_untimed(folder: &Path) -> Figures {
    let bench = Bench::open(folder).await;
    for round in 0..ROUNDS {
        bench.runs(round, TOGETHER, AT_A_TIME).await;
    }
    [("runs".to_owned(), (ROUNDS * TOGETHER) as f64)].into()
}

struct Bench {
    deployment: Deployment,
    bare: File,
}

impl Bench {
    async fn open(folder: &Path) -> Self {
        let bare = OpenOptions::new().append(true).create(true).open(folder.join("bare")).expect("a file");
        let deployment = Deployment::open(folder, IDLE_MS).await;
        // The first run of an agent has one more event.
        Client::of(&deployment).run("first", 0, LOOK_UP).await;
        Self { deployment, bare }
    }

    /// Runs take turns with appends to a bare file, so that a busy disk slows both.
    async fn rounds(mut self, runs: usize, at_a_time: usize) -> Figures {
        let before = self.deployment.counts.seen();
        let (mut rates, mut bare_rates) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            rates.push(self.runs(round, runs, at_a_time).await);
            let seen = self.deployment.counts.seen().since(before);
            bare_rates.push(self.bare_rate(seen.event_bytes / (runs * (round + 1)) as f64));
        }
        let commits = self.deployment.counts.seen().since(before).commits / (ROUNDS * runs) as f64;
        let named = [("commits", commits), ("rate", median(rates)), ("bare rate", median(bare_rates))];
        named.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// Does runs in new sessions, and says how many there were a second.
    async fn runs(&self, round: usize, runs: usize, at_a_time: usize) -> f64 {
        let start = Instant::now();
        Client::of(&self.deployment).run_in_each(round * runs..(round + 1) * runs, at_a_time, LOOK_UP).await;
        runs as f64 / start.elapsed().as_secs_f64()
    }

    /// Appends per second to a file that is forced to disk after each, of so many bytes.
    fn bare_rate(&mut self, bytes: f64) -> f64 {
        let payload = vec![b'x'; bytes as usize];
        let start = Instant::now();
        for _ in 0..BARE {
            self.bare.write_all(&payload).expect("writes");
            self.bare.sync_data().expect("syncs");
        }
        BARE as f64 / start.elapsed().as_secs_f64()
    }
}
