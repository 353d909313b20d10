//! Asking after one run: whether it costs more the more runs its session had.

use std::time::Instant;

use crate::{
    line,
    load::{Server, start},
    median,
    peer::Peer,
    wire::Wire,
};

/// Runs of the long session.
const MANY: usize = 3_000;
/// Questions in a round, and rounds, in which the sessions take turns.
const QUESTIONS: usize = 20;
const ROUNDS: usize = 10;
const AT_A_TIME: usize = 900;

pub(crate) async fn report(ours: &Server, theirs: Option<(&Server, &Peer)>) {
    let (short, long) = (grown(ours, "short", 1).await, grown(ours, "long", MANY).await);
    told("reenact", "<= 1.2", ours, &short, &long).await;
    if let Some((theirs, peer)) = theirs {
        let (short, long) = (grown(theirs, "short", 1).await, grown(theirs, "long", 1).await);
        peer.copy_run(&long.run, MANY - 1);
        told("AgentOS", "-", theirs, &short, &long).await;
    }
}

/// A run, and where it is read.
struct Polled {
    run: String,
    path: String,
}

/// A session of so many runs; its last.
async fn grown(server: &Server, session: &str, runs: usize) -> Polled {
    let mut wire = Wire::to(&server.address).await;
    let mut run = String::new();
    for number in 0..runs {
        run = start(&mut wire, session).await;
        // No more may wait than the queue is long.
        if number % AT_A_TIME == AT_A_TIME - 1 {
            completed(&mut wire, &path(session, &run)).await;
        }
    }
    let path = path(session, &run);
    completed(&mut wire, &path).await;
    Polled { run, path }
}

fn path(session: &str, run: &str) -> String {
    format!("/agents/bench/runs/{run}?session_id={session}")
}

async fn completed(wire: &mut Wire, path: &str) {
    loop {
        let answer = wire.get(path).await;
        if answer.status() == 200 && String::from_utf8_lossy(&answer.body).contains("COMPLETED") {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

async fn told(whose: &str, target: &str, server: &Server, short: &Polled, long: &Polled) {
    let (mut of_short, mut of_long) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut wire = Wire::to(&server.address).await;
        of_short.extend(questions(&mut wire, short).await);
        of_long.extend(questions(&mut wire, long).await);
    }
    let (short, long) = (median(of_short), median(of_long));
    line(&format!("polling a run, session of 3,000 / of one, {whose}"), long / short, target);
    println!("  ({:.2} ms and {:.2} ms)", long * 1e3, short * 1e3);
}

async fn questions(wire: &mut Wire, polled: &Polled) -> Vec<f64> {
    let mut took = Vec::new();
    for _ in 0..QUESTIONS {
        let began = Instant::now();
        wire.get(&polled.path).await.expect(200);
        took.push(began.elapsed().as_secs_f64());
    }
    took
}
