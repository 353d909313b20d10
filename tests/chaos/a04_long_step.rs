//! A04: a step that took longer than the lease was started again although its first attempt was alive.

use std::time::Duration;

use reenact_tests::stub::Reply;

use crate::{
    brokers::Turn,
    fleet::{Fleet, SESSION},
    truth::Truth,
    work::{AGENT, STEPS, Work, reply},
};

/// A round of tools waits for its slowest, so one slow call and one slow answer of the model are enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a04_a_step_of_five_times_the_session_time_out_is_started_once() {
    let turn = Turn::take().await;
    let work = Work::start(Duration::from_millis(20)).await;
    let long = 5 * SESSION;
    work.ledger.rule(move |call| {
        let is_long = call.body.contains("slow tool") && call.body.contains("\"step\":1");
        let reply = Reply::raw(200, "text/plain", format!("did {}", call.body));
        Some(if is_long { reply.delay(long) } else { reply })
    });
    work.model.rule(move |request| {
        let is_long = request.messages().iter().any(|message| message["content"] == "slow model");
        let reply = reply(request);
        Some(if is_long && request.messages().last()?["role"] == "user" { reply.delay(long) } else { reply })
    });
    let mut fleet = Fleet::new(turn.bootstrap(), "a04").agent(AGENT, &work.toml());
    for node in ["a", "b", "c"] {
        fleet.start(node).await;
    }
    fleet.is_balanced().await;
    let terms = Truth::read(&turn.bootstrap(), &fleet.prefix).await.terms;
    let tool = fleet.front.begin(0, AGENT, "one", "slow tool", "one").await;
    let model = fleet.front.begin(1, AGENT, "two", "slow model", "two").await;
    for run in [&tool, &model] {
        fleet.front.completed(run).await;
        assert_eq!(work.check(run), STEPS, "run `{run}` called each tool once");
    }
    let truth = Truth::read(&turn.bootstrap(), &fleet.prefix).await;
    assert!(truth.runs.values().all(|run| run.repeats == 0), "{:#?}", truth.runs);
    assert_eq!(truth.terms, terms, "no partition changed hands");
    let asked = work.model.requests().len();
    assert_eq!(asked, 2 * 3, "each run asked the model three times");
}
