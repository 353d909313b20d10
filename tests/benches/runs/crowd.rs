//! Very many sessions that nobody talks to: what they cost in memory, and how long a start takes with them.

use std::{hint::black_box, path::Path, time::Instant};

use futures::{StreamExt, stream};
use reenact_events::{EventLog, Offset};

use crate::{
    Figures,
    client::{Client, session_name},
    deployment::{Deployment, PARTITION, bench, open_log, open_state},
    line, median, part,
    steps::{ASK, HOLD},
};

const KNOWN: usize = 100_000;
const ACTIVE: usize = 1_000;
const AT_A_TIME: usize = 256;
/// Sessions are let go soon, so that a process of seconds shows what one of days looks like.
const IDLE_MS: u64 = 200;
const STARTS: usize = 3;

pub(crate) fn report() {
    let [none, half, crowd] = [part::folder(), part::folder(), part::folder()];
    part::measure("gather half", half.path());
    let gathered = part::measure("gather", crowd.path());
    cold_starts(crowd.path());
    let [none, half, crowd] = [none, half, crowd].map(|folder| part::measure("resident", folder.path()));
    let known = KNOWN as f64;
    idle("started, none active", "resident before", [&none, &half, &crowd]);
    idle("started, 1,000 active", "resident", [&none, &half, &crowd]);
    let grown = (gathered["resident"] - gathered["resident half"]) / (known / 2.0);
    line("resident bytes per idle session of the second 50,000, as made", grown, "< 200");
    let active = (none["resident"] - none["resident before"]) / ACTIVE as f64;
    println!(
        "  ({:.1} MB with no session, {active:.0} bytes per active one, {:.1} MB with both, {:.1} MB after all runs)",
        none["resident before"] / 1e6,
        crowd["resident"] / 1e6,
        gathered["resident"] / 1e6,
    );
    println!("  (mapped files, the program among them, are not counted: {:.1} MB)", crowd["mapped"] / 1e6);
    println!("  ({:.0} runs/s while the sessions were made)", known / gathered["seconds"]);
}

/// What idle sessions add to a process that does the same without them: all of them, with the caches that they fill
/// once, and the second half, which finds them full.
fn idle(when: &str, figure: &str, [none, half, crowd]: [&Figures; 3]) {
    // An active session is one of those that are known.
    let idle = if figure == "resident" { KNOWN - ACTIVE } else { KNOWN } as f64;
    let all = (crowd[figure] - none[figure]) / idle;
    line(&format!("resident bytes per idle session of 100,000, {when}"), all, "< 200");
    let further = (crowd[figure] - half[figure]) / (KNOWN as f64 / 2.0);
    line(&format!("resident bytes per further idle session, {when}"), further, "< 200");
}

fn cold_starts(folder: &Path) {
    let (mut stores, mut starts) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        stores.push(part::measure("open-store", folder)["seconds"]);
        starts.push(part::measure("start", folder)["seconds"]);
    }
    let (store, start) = (median(stores), median(starts));
    let replay = part::measure("replay", folder)["seconds"];
    std::fs::remove_dir_all(folder.join("state")).expect("removes the state store");
    let refold = part::measure("start", folder)["seconds"];
    line("start with 100,000 sessions / opening their state store alone", start / store, "~ 1");
    line("start with 100,000 sessions / replaying their log", start / replay, "< 1");
    line("start without the state store / replaying the log", refold / replay, "-");
    println!(
        "  (state store {store:.3} s, start {start:.3} s, replay {replay:.3} s, start without store {refold:.3} s)"
    );
}

/// Makes half of the sessions.
pub(crate) async fn gather_half(folder: &Path) -> Figures {
    let deployment = Deployment::open(folder, IDLE_MS).await;
    Client::of(&deployment).run_in_each(0..KNOWN / 2, AT_A_TIME, ASK).await;
    quiet(&deployment).await;
    deployment.close().await;
    Figures::new()
}

/// Makes the sessions.
pub(crate) async fn gather(folder: &Path) -> Figures {
    let deployment = Deployment::open(folder, IDLE_MS).await;
    let (client, start) = (Client::of(&deployment), Instant::now());
    client.run_in_each(0..KNOWN / 2, AT_A_TIME, ASK).await;
    let mut seconds = start.elapsed().as_secs_f64();
    quiet(&deployment).await;
    let (half, start) = (part::resident_bytes(), Instant::now());
    client.run_in_each(KNOWN / 2..KNOWN, AT_A_TIME, ASK).await;
    seconds += start.elapsed().as_secs_f64();
    quiet(&deployment).await;
    let after = part::resident_bytes();
    deployment.close().await;
    named([("seconds", seconds), ("resident half", half), ("resident", after)])
}

/// Opens the state store and reads all of it.
pub(crate) async fn open_store(folder: &Path) -> Figures {
    let log_id = open_log(folder).log_id();
    let start = Instant::now();
    let store = open_state(folder, log_id);
    let seconds = start.elapsed().as_secs_f64();
    drop(store);
    named([("seconds", seconds)])
}

/// Reads the whole log and decodes it.
pub(crate) async fn replay(folder: &Path) -> Figures {
    let log = open_log(folder);
    let lease = log.claim(PARTITION, bench()).await.expect("claims");
    let start = Instant::now();
    let mut replay = log.replay(&lease, Offset(0));
    while let Some(recorded) = replay.next().await {
        black_box(recorded.expect("reads").decode().expect("decodes"));
    }
    named([("seconds", start.elapsed().as_secs_f64())])
}

/// Starts a node and its views.
pub(crate) async fn start(folder: &Path) -> Figures {
    let start = Instant::now();
    let deployment = Deployment::open(folder, IDLE_MS).await;
    let seconds = start.elapsed().as_secs_f64();
    deployment.close().await;
    named([("seconds", seconds)])
}

/// Starts a node and begins a run in each of some sessions.
pub(crate) async fn resident(folder: &Path) -> Figures {
    let deployment = Deployment::open(folder, IDLE_MS).await;
    let before = part::resident_bytes();
    let client = &Client::of(&deployment);
    let begin = |name: String| async move { client.begin(&name, 1, HOLD).await };
    let names = (0..ACTIVE).map(session_name);
    stream::iter(names).map(begin).buffer_unordered(AT_A_TIME).map(drop).collect::<()>().await;
    quiet(&deployment).await;
    let after = part::resident_bytes();
    assert_eq!(deployment.node.load(), (ACTIVE, 0), "these many are at work, and nobody waits");
    deployment.close().await;
    named([("resident before", before), ("resident", after), ("mapped", part::mapped_bytes())])
}

/// Waits until idle sessions were let go and the views have caught up.
async fn quiet(deployment: &Deployment) {
    deployment.views_catch_up().await;
    tokio::time::sleep(std::time::Duration::from_millis(10 * IDLE_MS)).await;
}

fn named<const N: usize>(figures: [(&str, f64); N]) -> Figures {
    figures.map(|(name, value)| (name.to_owned(), value)).into()
}
