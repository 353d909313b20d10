//! A09: of two runs that finish together on one session, one disappears.

use std::collections::BTreeSet;

use futures::future::join_all;
use reenact_tests::stub::{ModelStub, Reply};
use serde_json::Value;

use crate::support::{Answer, Product, agent_with_model};

const RUNS: usize = 40;

/// Watched, waited for, neither, and watched while it goes on without anybody.
const WISHES: [(&str, &str); 4] = [("true", "false"), ("false", "false"), ("false", "true"), ("true", "true")];

fn ask(product: &Product, number: usize) -> impl Future<Output = Answer> + use<> {
    let (stream, background) = WISHES[number % WISHES.len()];
    let message = message(number);
    let fields =
        [("message", message.as_str()), ("session_id", "shared"), ("stream", stream), ("background", background)];
    Product::ask(product.form("/agents/a/runs", &fields))
}

fn message(number: usize) -> String {
    format!("message {number};")
}

#[tokio::test]
async fn a09_forty_runs_at_once_on_one_session_are_all_there_with_their_messages() {
    let model = ModelStub::start().await;
    model.rule(|request| {
        let asked = request.messages().last().and_then(|last| last["content"].as_str()).unwrap_or_default();
        Some(Reply::text(&format!("answer to {asked}")))
    });
    let product = Product::new().agent("a", &agent_with_model(&model.base_url())).started().await;
    let answers = join_all((0..RUNS).map(|number| ask(&product, number))).await;
    for (number, answer) in answers.iter().enumerate() {
        let (stream, background) = WISHES[number % WISHES.len()];
        let ticket = background == "true" && stream == "false";
        assert_eq!(answer.status, if ticket { 202 } else { 200 }, "{}", answer.text());
        let ends = answer.event_names().iter().filter(|name| *name == "RunCompleted").count();
        assert_eq!(ends, usize::from(stream == "true"), "{}", answer.text());
    }
    let previews = product.get("/runs?session_id=shared&limit=1000").await.expect(200).json();
    for run in previews["data"].as_array().expect("a page") {
        product.settled(run["run_id"].as_str().expect("an id")).await;
    }
    let runs = product.get("/sessions/shared/runs").await.expect(200).json();
    check(&runs, &indices(&product));
}

/// The runs of the log by their index.
fn indices(product: &Product) -> Vec<(u64, String)> {
    let events = product.events().into_iter();
    let queued = events.filter(|event| event["type"].as_str().is_some_and(|kind| kind.contains("run.queued")));
    let mut indices: Vec<_> = queued
        .map(|event| {
            let index = event["data"]["run_index"].as_u64().expect("a run has an index");
            (index, event["run"].as_str().expect("a run's event names it").to_owned())
        })
        .collect();
    indices.sort();
    indices
}

fn check(runs: &Value, indices: &[(u64, String)]) {
    let runs = runs.as_array().expect("a list");
    assert_eq!(indices.iter().map(|(index, _)| *index).collect::<Vec<_>>(), (0..RUNS as u64).collect::<Vec<_>>());
    let ids: Vec<_> = runs.iter().map(|run| run["run_id"].as_str().expect("an id")).collect();
    assert_eq!(ids, indices.iter().map(|(_, id)| id.as_str()).collect::<Vec<_>>(), "in the order of their indices");
    let mut asked = BTreeSet::new();
    for run in runs {
        let input = run["run_input"].as_str().expect("a message");
        assert_eq!(run["status"], "COMPLETED", "{run:#}");
        assert_eq!(run["content"], format!("answer to {input}"));
        let said: Vec<_> =
            run["messages"].as_array().expect("messages").iter().map(|message| &message["content"]).collect();
        assert!(said.iter().any(|text| *text == input) && said.contains(&&run["content"]), "{run:#}");
        asked.insert(input.to_owned());
    }
    assert_eq!(asked, (0..RUNS).map(message).collect());
}
