//! A05: an idempotency key that was used again for something else returned the run of another agent, or began a
//! second run.

use std::collections::BTreeSet;

use futures::future::join_all;
use reenact_tests::stub::ModelStub;
use reqwest::RequestBuilder;

use crate::{
    ground,
    support::{Answer, PATIENCE, POLL, Product, agent_with_model},
};

fn asked(product: &Product, agent: &str, user: &str, message: &str, key: &str) -> RequestBuilder {
    let fields = [("message", message), ("user_id", user), ("background", "true"), ("stream", "false")];
    product.form(&format!("/agents/{agent}/runs"), &fields).header("Idempotency-Key", key)
}

fn run_of(answer: &Answer) -> String {
    answer.json()["run_id"].as_str().expect("a ticket names its run").to_owned()
}

/// The answer to a request that is repeated while its outcome is unknown, as whoever has a key may.
async fn answered(product: &Product, agent: &str, user: &str, message: &str, key: &str) -> Answer {
    let answer = async {
        loop {
            let answer = Product::ask(asked(product, agent, user, message, key)).await;
            if answer.status != 503 {
                return answer;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(PATIENCE, answer).await.expect("the outcome becomes known")
}

#[tokio::test]
async fn a05_one_key_is_one_run_of_one_user_and_of_one_request() {
    let model = ModelStub::start().await;
    let agent = agent_with_model(&model.base_url());
    let mut product = ground::product().agent("a", &agent).agent("b", &agent).started().await;
    let requests = (0..50).map(|_| answered(&product, "a", "alice", "hello", "k"));
    let answers = join_all(requests).await;
    let runs: BTreeSet<_> = answers.into_iter().map(|answer| run_of(&answer.expect(202))).collect();
    let [run] = &Vec::from_iter(runs)[..] else { panic!("one key has several runs") };
    assert_eq!(product.settled(run).await["status"], "COMPLETED");

    let other_agent = answered(&product, "b", "alice", "hello", "k").await.expect(409);
    let other_message = answered(&product, "a", "alice", "good bye", "k").await.expect(409);
    assert_eq!(other_agent.text(), other_message.text(), "nothing is told of the run that has the key");
    assert!(!other_agent.text().contains(run.as_str()) && !other_agent.text().contains("hello"), "{other_agent:?}");

    let bobs = run_of(&answered(&product, "a", "bob", "hello", "k").await.expect(202));
    assert_ne!(&bobs, run, "a key is its user's");
    assert_eq!(product.settled(&bobs).await["status"], "COMPLETED");

    product.crash().await;
    let again = answered(&product, "a", "alice", "hello", "k").await.expect(202);
    assert_eq!((&run_of(&again), &again.json()["status"]), (run, &"COMPLETED".into()));
    for (length, status) in [(512, 202), (513, 422)] {
        let answer = answered(&product, "a", "alice", "hello", &"k".repeat(length)).await.expect(status);
        if status == 202 {
            product.settled(&run_of(&answer)).await;
        }
    }
    assert_eq!(model.requests().len(), 3, "one call for each run");
}
