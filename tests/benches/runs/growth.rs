//! Whether a session's run costs more the more runs it had.

use std::{
    ops::Range,
    path::Path,
    time::{Duration, Instant},
};

use crate::{
    Figures,
    client::{Client, session_name},
    counted::Seen,
    deployment::Deployment,
    line, median, part,
    steps::LOOK_UP,
};

const IDLE_MS: u64 = 1_000;
/// The runs that are compared: those behind these,
const YOUNG: usize = 10;
const OLD: usize = 3_000;
/// so many at a time,
const WINDOW: usize = 50;
/// in so many rounds.
const ROUNDS: usize = 16;
/// The state store writes in the background twice a second.
const SETTLE: Duration = Duration::from_millis(700);

pub(crate) fn report() {
    let figures = part::measure("growth", part::folder().path());
    let ratio = |name: &str| figures[&format!("old {name}")] / figures[&format!("young {name}")];
    line("event bytes, run 3,000 / run 10 of one session", ratio("event bytes"), "<= 1.05");
    line("state bytes, run 3,000 / run 10 of one session", ratio("state bytes"), "<= 1.05");
    line("bytes written to all files, a session's run 3,000 / run 10", ratio("written"), "<= 1.05");
    line("latency, median, a session's run 3,000 / run 10", ratio("latency"), "<= 1.05");
    println!(
        "  (a run has {:.0} event bytes, writes {:.0} state bytes, and {:.0} bytes into files)",
        figures["young event bytes"], figures["young state bytes"], figures["young written"]
    );
}

/// Events and state are exact, so they are of one session's own runs. What is written to files comes in lumps
/// (checkpoints, pages) and more of it the larger the database is: an old session takes turns with young ones
/// in one database.
pub(crate) async fn grow(folder: &Path) -> Figures {
    let deployment = Deployment::open(folder, IDLE_MS).await;
    let bench = Bench { client: Client::of(&deployment), deployment: &deployment };
    let old = session_name(0);
    bench.runs(&old, 0..YOUNG).await;
    let first = bench.window(&old, YOUNG).await;
    bench.runs(&old, YOUNG + WINDOW..OLD).await;
    let last = bench.window(&old, OLD).await;
    let (mut of_old, mut of_young) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        let young = session_name(round);
        bench.runs(&young, 0..YOUNG).await;
        of_young.push(bench.window(&young, YOUNG).await);
        of_old.push(bench.window(&old, OLD + WINDOW * round).await);
    }
    let mut figures = Figures::new();
    for (age, exact, lumpy) in [("young", first, of_young), ("old", last, of_old)] {
        let written = lumpy.iter().map(|window| window.written).sum::<f64>() / (ROUNDS * WINDOW) as f64;
        let latency = median(lumpy.into_iter().flat_map(|window| window.latencies).collect());
        figures.insert(format!("{age} event bytes"), exact.seen.event_bytes / WINDOW as f64);
        figures.insert(format!("{age} state bytes"), exact.seen.state_bytes / WINDOW as f64);
        figures.insert(format!("{age} written"), written);
        figures.insert(format!("{age} latency"), latency);
    }
    figures
}

struct Bench<'a> {
    client: Client<'a>,
    deployment: &'a Deployment,
}

struct Window {
    seen: Seen,
    written: f64,
    latencies: Vec<f64>,
}

impl Bench<'_> {
    async fn runs(&self, session: &str, numbers: Range<usize>) {
        for number in numbers {
            self.client.run(session, number, LOOK_UP).await;
        }
    }

    /// Some runs of a session, with everything that they write.
    async fn window(&self, session: &str, first: usize) -> Window {
        self.settle().await;
        let (seen, written) = (self.deployment.counts.seen(), part::written_bytes());
        let mut latencies = Vec::new();
        for number in first..first + WINDOW {
            let start = Instant::now();
            self.client.run(session, number, LOOK_UP).await;
            latencies.push(start.elapsed().as_secs_f64());
        }
        self.settle().await;
        let seen = self.deployment.counts.seen().since(seen);
        Window { seen, written: part::written_bytes() - written, latencies }
    }

    /// Waits until what was written in passing is written.
    async fn settle(&self) {
        self.deployment.views_catch_up().await;
        tokio::time::sleep(SETTLE).await;
    }
}
