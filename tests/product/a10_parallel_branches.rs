//! A10: parallel branches shared one context: one was checked against the other's schema, and what came after them
//! saw only the last one's output. Branches are runs that work beside each other in one session here, and calls of one
//! turn; workflows do not exist yet.

use std::{sync::Mutex, time::Duration};

use rand::Rng;
use reenact_tests::stub::Reply;
use serde_json::{Value, json};

use crate::{
    support::dice,
    world::{World, notes},
};

const BRANCHES: usize = 8;
const ROUNDS: usize = 4;
const DELAY_MS_MAX: u64 = 100;

fn schema(branch: usize) -> Value {
    let key = format!("of{branch}");
    json!({"type": "object", "required": [key], "properties": {key: {"const": branch}}, "additionalProperties": false})
}

fn output(branch: usize) -> String {
    json!({format!("of{branch}"): branch}).to_string()
}

/// The branch that a message asks for.
fn branch(message: &Value) -> Option<usize> {
    message["content"].as_str()?.strip_prefix("branch ")?.parse().ok()
}

async fn world() -> World {
    let world = World::with("[history]\nruns = 8\n[queue]\nwhen_busy = \"parallel\"\n").await;
    let (of_model, of_tools) = (Mutex::new(dice("a10")), Mutex::new(dice("a10")));
    let delay = |dice: &Mutex<rand_chacha::ChaCha8Rng>| {
        Duration::from_millis(dice.lock().expect("the dice").random_range(0..DELAY_MS_MAX))
    };
    world.model.rule(move |request| {
        let branch = request.messages().iter().rfind(|message| message["role"] == "user").and_then(branch)?;
        Some(Reply::text(&output(branch)).delay(delay(&of_model)))
    });
    world.ledger.rule(move |call| Some(Reply::raw(200, "text/plain", call.body.clone()).delay(delay(&of_tools))));
    world
}

#[tokio::test]
async fn a10_runs_beside_each_other_fit_their_own_schemas_and_what_joins_them_sees_all_in_order() {
    let world = world().await;
    for round in 0..ROUNDS {
        let session = format!("s{round}");
        let mut runs = Vec::new();
        for branch in 0..BRANCHES {
            let (message, schema) = (format!("branch {branch}"), schema(branch).to_string());
            let fields = [
                ("message", message.as_str()),
                ("session_id", &session),
                ("output_schema", &schema),
                ("background", "true"),
                ("stream", "false"),
            ];
            let ticket = world.product.post("/agents/a/runs", &fields).await.expect(202).json();
            runs.push(ticket["run_id"].as_str().expect("a ticket names its run").to_owned());
        }
        for (branch, run) in runs.iter().enumerate() {
            let run = world.product.settled(run).await;
            assert_eq!(
                (&run["status"], &run["content"]),
                (&json!("COMPLETED"), &json!({format!("of{branch}"): branch}))
            );
        }
        world.turn(&session, "join").await;
        let joined = world.model.requests().pop().expect("it was asked");
        let said = joined.messages().iter().filter(|message| message["role"] == "assistant");
        let said: Vec<_> = said.map(|message| message["content"].as_str().expect("an answer").to_owned()).collect();
        assert_eq!(said, (0..BRANCHES).map(output).collect::<Vec<_>>(), "round {round}");
    }
    assert_eq!(world.model.requests().len(), ROUNDS * (BRANCHES + 1), "no answer was taken for another's");
}

#[tokio::test]
async fn a10_the_turn_after_parallel_calls_is_shown_every_result_in_the_order_of_the_calls() {
    let world = world().await;
    for round in 0..ROUNDS {
        let arguments: Vec<_> =
            (0..BRANCHES).map(|branch| json!({"branch": branch, "round": round}).to_string()).collect();
        world.model.push(notes(&arguments.iter().map(String::as_str).collect::<Vec<_>>()));
        world.turn(&format!("s{round}"), "fan out").await;
        let joined = world.model.requests().pop().expect("it was asked");
        let results = joined.messages().iter().filter(|message| message["role"] == "tool");
        let results: Vec<_> = results.map(|message| message["content"].as_str().expect("a result")).collect();
        assert_eq!(results, arguments, "round {round}");
    }
}
