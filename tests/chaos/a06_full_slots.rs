//! A06: marks of runs whose workers were dead went on counting, and nothing new was ever started.

use std::time::Duration;

use reenact_tests::stub::Reply;

use crate::{
    brokers::Turn,
    fleet::Fleet,
    truth::Truth,
    work::{AGENT, Work},
};

const SLOTS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a06_slots_of_nodes_that_died_are_free_again() {
    let turn = Turn::take().await;
    let work = Work::start(Duration::from_millis(20)).await;
    work.ledger.otherwise(Reply::default().hang());
    work.ledger.rule(|_| None);
    let mut fleet =
        Fleet::new(turn.bootstrap(), "a06").agent(AGENT, &work.toml()).set("REENACT_MAX_CONCURRENCY", SLOTS);
    for node in ["a", "b"] {
        fleet.start(node).await;
    }
    let mut runs = Vec::new();
    for number in 0..4 * SLOTS {
        let name = number.to_string();
        runs.push(fleet.front.begin(number, AGENT, &name, &name, &name).await);
    }
    // Every slot of both nodes is at its first two tools.
    work.ledger.wait_for(2 * 2 * SLOTS).await;
    for node in ["a", "b"] {
        fleet.kill(node);
    }
    work.ledger.otherwise(Reply::raw(200, "text/plain", "done"));
    for node in ["a", "b"] {
        fleet.start(node).await;
    }
    runs.push(fleet.front.begin(0, AGENT, "new", "new", "new").await);
    for run in &runs {
        fleet.front.completed(run).await;
        work.check(run);
    }
    let truth = Truth::read(&turn.bootstrap(), &fleet.prefix).await;
    assert_eq!(truth.runs.len(), runs.len());
}
