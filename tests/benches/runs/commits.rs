//! A run with three steps: how often it commits and forces to disk, alone and among others.

use std::{fs::OpenOptions, io::Write, path::Path, time::Instant};

use crate::{
    Figures,
    client::{Client, session_name},
    counted::Seen,
    deployment::Deployment,
    line, part,
    steps::LOOK_UP,
};

const ALONE: usize = 500;
const TOGETHER: usize = 16_000;
const AT_A_TIME: usize = 64;
const BARE: usize = 4_000;
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
    match part::traced("together", part::folder().path()) {
        Some((syncs, figures)) => {
            line("fsyncs per run, 64 in flight: all files, counted by strace", syncs / figures["runs"], "< 0.5");
        }
        None => println!("fsyncs are not counted: there is no strace"),
    }
    println!("  ({:.0} runs/s one at a time, {:.0} runs/s with 64 in flight)", alone["rate"], together["rate"]);
}

pub(crate) async fn alone(folder: &Path) -> Figures {
    let deployment = Deployment::open(folder, IDLE_MS).await;
    let client = Client::of(&deployment);
    client.run("first", 0, LOOK_UP).await;
    let (before, start) = (deployment.counts.seen(), Instant::now());
    for number in 0..ALONE {
        client.run(&session_name(number), 0, LOOK_UP).await;
    }
    let seconds = start.elapsed().as_secs_f64();
    figures(folder, ALONE, seconds, deployment.counts.seen().since(before))
}

pub(crate) async fn together(folder: &Path) -> Figures {
    let deployment = Deployment::open(folder, IDLE_MS).await;
    let client = Client::of(&deployment);
    client.run("first", 0, LOOK_UP).await;
    let (before, start) = (deployment.counts.seen(), Instant::now());
    client.run_in_each(TOGETHER, AT_A_TIME, LOOK_UP).await;
    let seconds = start.elapsed().as_secs_f64();
    figures(folder, TOGETHER, seconds, deployment.counts.seen().since(before))
}

fn figures(folder: &Path, runs: usize, seconds: f64, seen: Seen) -> Figures {
    let count = runs as f64;
    let bare = bare_rate(folder, seen.event_bytes / count);
    let named = [
        ("runs", count),
        ("commits", seen.commits / count),
        ("event bytes", seen.event_bytes / count),
        ("rate", count / seconds),
        ("bare rate", bare),
    ];
    named.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Appends per second to a file that is forced to disk after each, of so many bytes.
fn bare_rate(folder: &Path, bytes: f64) -> f64 {
    let mut file = OpenOptions::new().append(true).create(true).open(folder.join("bare")).expect("a file");
    let payload = vec![b'x'; bytes as usize];
    let start = Instant::now();
    for _ in 0..BARE {
        file.write_all(&payload).expect("writes");
        file.sync_data().expect("syncs");
    }
    BARE as f64 / start.elapsed().as_secs_f64()
}
