//! A36: a member that was busy, or stood still, for longer than the poll interval left the group unnoticed, and
//! went on as if it owned what others had taken over.

use std::time::Duration;

use reenact_tests::stub::Reply;

use crate::{
    brokers::Turn,
    fleet::Fleet,
    truth::Truth,
    work::{AGENT, STEPS, Work},
};

const POLL_INTERVAL: Duration = Duration::from_secs(8);
const LONG: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a36_a_long_step_leaves_no_group_and_a_node_that_stood_still_writes_nothing() {
    let turn = Turn::take().await;
    let work = Work::start(Duration::from_millis(20)).await;
    work.ledger.rule(|call| {
        let reply = Reply::raw(200, "text/plain", format!("did {}", call.body));
        Some(if call.body.contains("\"step\":1") { reply.delay(LONG) } else { reply })
    });
    let interval = POLL_INTERVAL.as_millis().to_string();
    let mut fleet =
        Fleet::new(turn.bootstrap(), "a36").agent(AGENT, &work.toml()).property("max.poll.interval.ms", &interval);
    for node in ["a", "b"] {
        fleet.start(node).await;
    }
    fleet.is_balanced().await;
    let terms = Truth::read(&turn.bootstrap(), &fleet.prefix).await.terms;
    let busy = fleet.front.begin(0, AGENT, "session", "busy", "busy").await;
    fleet.front.completed(&busy).await;
    assert_eq!(work.check(&busy), STEPS, "nothing was called twice");
    let truth = Truth::read(&turn.bootstrap(), &fleet.prefix).await;
    assert_eq!(truth.terms, terms, "a long step moves no partition");

    let frozen = fleet.owner("session").await;
    let run = fleet.front.begin(0, AGENT, "session", "frozen", "frozen").await;
    work.ledger.wait_for(STEPS + 2).await;
    fleet.of(&frozen).freeze();
    fleet.front.is_gone(&frozen);
    fleet.front.completed(&run).await;
    assert_ne!(fleet.owner("session").await, frozen);
    // Its answer from the tool has come meanwhile, and it believes that it owns the run.
    fleet.of(&frozen).thaw();
    fleet.front.serves(&frozen, fleet.of(&frozen).url());
    let told = fleet.front.ask(0, |http, _| http.get(format!("{}/runs/{run}", fleet.of(&frozen).url()))).await;
    assert_eq!(told.status, 200);
    let next = fleet.front.begin(0, AGENT, "session", "after", "after").await;
    fleet.front.completed(&next).await;
    for run in [&run, &next] {
        work.check(run);
    }
    let truth = Truth::read(&turn.bootstrap(), &fleet.prefix).await;
    assert_eq!(truth.runs.len(), 3);
    let said = fleet.of(&frozen).said();
    assert!(said.contains("lost") || said.contains("fenced"), "it notices that it was away:\n{said}");
}
