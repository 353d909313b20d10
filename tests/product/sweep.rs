//! A run with two model calls and three tools is killed at random moments, over and over: it always ends, and
//! what it did outside it did as often as its tools allow. Kills at every boundary one by one are the
//! simulation's; these hit what no list of boundaries has.

use std::collections::BTreeMap;

use futures::future::join_all;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{
    support::{Product, dice},
    worker::{Decision, Worker, decide, moment},
};

const SIDE_BY_SIDE: usize = 3;
/// Runs of each deployment, one after another; each is killed once or more.
const RUNS: usize = 12;
/// How often a run is killed again after it came back.
const AGAIN: f64 = 0.4;
/// So many kills a run are enough: then it may end in peace.
const KILLS_MAX: usize = 5;

#[tokio::test]
async fn a_run_that_is_killed_at_random_moments_ends_and_does_nothing_twice() {
    let mut dice = dice("sweep");
    let worlds: Vec<_> = (0..SIDE_BY_SIDE).map(|_| ChaCha8Rng::from_rng(&mut dice)).collect();
    let seen = join_all(worlds.into_iter().map(world)).await;
    let (kills, decisions) = seen.iter().fold((0, 0), |sum, seen| (sum.0 + seen.0, sum.1 + seen.1));
    println!("{kills} kills, {decisions} decisions about calls in doubt");
    assert!(kills >= SIDE_BY_SIDE * RUNS);
}

/// How often the deployment was killed, and how often a run asked what to do.
async fn world(mut dice: ChaCha8Rng) -> (usize, usize) {
    let worker = Worker::start().await;
    let mut product = Product::new().agent("worker", &worker.toml()).started().await;
    let (mut kills, mut ended) = (0, BTreeMap::new());
    for number in 0..RUNS {
        let run = product.begin("worker", &format!("session {}", number % 3), "work").await;
        let (killed, decisions) = one_run(&mut product, &run, &mut dice).await;
        kills += killed;
        worker.check(&run, &decisions);
        ended.insert(run, decisions);
    }
    // Nothing that had ended was begun again by the later kills.
    for (run, decisions) in &ended {
        worker.check(run, decisions);
    }
    for request in worker.model.requests() {
        assert_eq!(request.malformed(), None, "{}", request.body);
    }
    (kills, ended.values().map(Vec::len).sum())
}

/// Kills a run until it is let be, decides whatever it asks, and waits for its end.
async fn one_run(product: &mut Product, run: &str, dice: &mut ChaCha8Rng) -> (usize, Vec<Decision>) {
    let (mut kills, mut decisions) = (0, Vec::new());
    loop {
        if kills == 0 || kills < KILLS_MAX && dice.random_bool(AGAIN) {
            tokio::time::sleep(moment(dice)).await;
            product.crash().await;
            kills += 1;
            continue;
        }
        let output = product.settled(run).await;
        if output["status"] != "PAUSED" {
            assert_eq!((output["status"].as_str(), output["content"].as_str()), (Some("COMPLETED"), Some("all done")));
            let results = output["tools"].as_array().expect("it called tools").iter();
            assert_eq!(results.filter(|tool| tool["result"].is_string()).count(), 3, "{output:#}");
            return (kills, decisions);
        }
        let decision = Decision::random(dice);
        decisions.push(decision);
        Product::ask(decide(product, &output, decision)).await.expect(202);
        if dice.random_bool(0.5) {
            tokio::time::sleep(moment(dice)).await;
            product.crash().await;
            kills += 1;
        }
    }
}
