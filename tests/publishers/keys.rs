//! A05 on several nodes: one idempotency key is one run, whatever node and session the repeats name.

use std::collections::BTreeSet;

use futures::future::join_all;

use crate::{
    deployment::Deployment,
    product::{Answer, Product},
};

fn asked(node: &Product, session: &str, message: &str) -> reqwest::RequestBuilder {
    node.background("demo", session, message).header("Idempotency-Key", "k")
}

fn run_of(answer: &Answer) -> String {
    answer.json()["run_id"].as_str().expect("a ticket names its run").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a05_one_key_is_one_run_whatever_node_and_session_its_requests_name_at_once() {
    let mut deployment = Deployment::start(2).await;
    let requests = (0..40).map(|turn| {
        let node = &deployment.nodes[turn % 2];
        Product::ask(asked(node, ["one", "two", "three"][turn % 3], "hello"))
    });
    let answers = join_all(requests).await;
    let taken: Vec<_> = answers.iter().filter(|answer| answer.status == 202).collect();
    let refused = answers.iter().filter(|answer| answer.status == 409).count();
    assert_eq!(taken.len() + refused, answers.len(), "{:?}", answers.iter().map(Answer::text).collect::<Vec<_>>());
    let runs: BTreeSet<_> = taken.iter().map(|answer| run_of(answer)).collect();
    let sessions: BTreeSet<_> = taken.iter().map(|answer| answer.json()["session_id"].to_string()).collect();
    assert_eq!((runs.len(), sessions.len()), (1, 1), "{runs:?} {sessions:?}");
    assert!(taken.len() >= 13, "all that name the first one's session are its repeats: {}", taken.len());

    let (run, session) = (run_of(taken[0]), taken[0].json()["session_id"].as_str().expect("it is named").to_owned());
    deployment.nodes.remove(0).kill_hard();
    let node = deployment.node();
    assert_eq!(run_of(&Product::ask(asked(node, &session, "hello")).await.expect(202)), run, "after a node has died");
    let other = Product::ask(asked(node, &session, "something else")).await.expect(409);
    assert!(!other.text().contains(&run), "{}", other.text());
    assert_eq!(node.settled(&run).await["status"], "COMPLETED");
    let accepted = deployment.lines(&["events", "list", "--json"]).into_iter();
    let accepted = accepted.filter(|event| event["type"] == "dev.reenact.run.queued.v1").count();
    assert_eq!(accepted, 1, "one run was accepted");
}
