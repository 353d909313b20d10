//! A19: the claim of a schedule was shorter than its run, so it was started again and again while it ran; and what a
//! kill, an absence or a second trigger did was left to chance.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use rand::Rng;
use reenact_tests::stub::{ModelStub, Reply};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    ground,
    support::{Answer, PATIENCE, POLL, Product, agent_with_model, dice},
};

const SCHEDULES: i64 = 8;
/// The kills come within the seconds in which the schedules are due.
const KILLS: usize = 6;
const KILL_WITHIN_MS: u64 = 600;

async fn ask(product: &Product, method: Method, path: &str, body: &Value) -> Answer {
    Product::ask(product.request(method, path).json(body)).await
}

async fn make(product: &Product, name: &str, more: Value) -> Value {
    let mut body = json!({"name": name, "endpoint": "/agents/a/runs", "payload": {"message": "hello"}});
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    ask(product, Method::POST, "/schedules?user_id=alice", &body).await.expect(201).json()
}

fn id(thing: &Value) -> String {
    thing["id"].as_str().expect("an id").to_owned()
}

/// What became of a schedule's due times, once all of it has ended.
async fn settled(product: &Product, schedule: &str, count: usize) -> Vec<Value> {
    let looked = async {
        loop {
            let listed = product.get(&format!("/schedules/{schedule}/runs")).await.expect(200).json();
            let rows = listed["data"].as_array().expect("a page").clone();
            let is_open = |row: &Value| row["status"] == "running" || row["status"] == "queued";
            if rows.len() >= count && !rows.iter().any(is_open) {
                return rows;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(PATIENCE, looked).await.expect("the runs of the schedule end")
}

#[tokio::test]
async fn a19_a_kill_between_due_and_run_neither_loses_nor_doubles_a_fire() {
    let model = ModelStub::start().await;
    let mut product = ground::product().agent("a", &agent_with_model(&model.base_url())).started().await;
    let mut latest = make(&product, "clock", json!({})).await;
    let mut schedules = Vec::new();
    for number in 0..SCHEDULES {
        let at = latest["created_at"].as_i64().expect("a time") + 3 + number % 3;
        latest = make(&product, &format!("once {number}"), json!({"at": at})).await;
        schedules.push(id(&latest));
    }
    let mut dice = dice("a19");
    for _ in 0..KILLS {
        tokio::time::sleep(Duration::from_millis(dice.random_range(0..=KILL_WITHIN_MS))).await;
        product.crash().await;
    }
    let mut runs = Vec::new();
    for schedule in &schedules {
        let rows = settled(&product, schedule, 1).await;
        let [row] = &rows[..] else { panic!("one due time has several rows: {rows:?}") };
        assert_eq!(row["status"], "success", "{row}");
        runs.push(row["run_id"].as_str().expect("a run").to_owned());
    }
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for event in product.events() {
        let kind = event["type"].as_str().expect("a type").to_owned();
        if kind.ends_with("schedule.fired.v1") || kind.ends_with("run.queued.v1") {
            *seen.entry(kind).or_default() += 1;
        }
    }
    assert!(seen.values().all(|count| *count == schedules.len()) && seen.len() == 2, "{seen:?}");
    for run in runs {
        let run = product.get(&format!("/runs/{run}")).await.expect(200).json();
        assert_eq!((&run["status"], &run["user_id"]), (&json!("COMPLETED"), &json!("alice")));
    }
}

#[tokio::test]
async fn a19_two_triggers_at_once_do_what_the_overlap_policy_says() {
    let model = ModelStub::start().await;
    model.rule(|_| Some(Reply::text("done").delay(Duration::from_secs(2))));
    let product = ground::product().agent("a", &agent_with_model(&model.base_url())).started().await;
    let outcomes = [
        ("skip", vec![200, 409], vec!["success"]),
        ("allow", vec![200, 200], vec!["success", "success"]),
        ("queue", vec![200, 200], vec!["success", "success"]),
        ("cancel_previous", vec![200, 200], vec!["cancelled", "success"]),
    ];
    for (overlap, answered, became) in outcomes {
        let schedule = id(&make(&product, overlap, json!({"overlap": overlap})).await);
        let path = format!("/schedules/{schedule}/trigger");
        let triggers = (0..2).map(|_| Product::ask(product.request(Method::POST, &path)));
        let mut statuses: Vec<_> = join_all(triggers).await.iter().map(|answer| answer.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, answered, "{overlap}");
        let rows = settled(&product, &schedule, became.len()).await;
        let mut ended: Vec<_> = rows.iter().map(|row| row["status"].as_str().expect("a status")).collect();
        ended.sort_unstable();
        assert_eq!(ended, became, "{overlap}");
    }
}

#[tokio::test]
async fn a19_one_key_is_one_fire() {
    let model = ModelStub::start().await;
    let product = ground::product().agent("a", &agent_with_model(&model.base_url())).started().await;
    let schedule = id(&make(&product, "by hand", json!({"overlap": "allow"})).await);
    let path = format!("/schedules/{schedule}/trigger");
    let ask = || Product::ask(product.request(Method::POST, &path).header("Idempotency-Key", "k"));
    let (first, again) = (ask().await.expect(200).json(), ask().await.expect(200).json());
    assert_eq!(first, again);
    assert_eq!(settled(&product, &schedule, 1).await.len(), 1);
}

#[tokio::test]
async fn a19_a_failed_run_is_made_again_as_another_run() {
    let model = ModelStub::start().await;
    model.push(Reply::json(400, &json!({"error": {"message": "no"}})));
    let product = ground::product().agent("a", &agent_with_model(&model.base_url())).started().await;
    let more = json!({"max_retries": 1, "retry_delay_seconds": 1});
    let schedule = id(&make(&product, "twice", more).await);
    let fired = ask(&product, Method::POST, &format!("/schedules/{schedule}/trigger"), &json!({})).await;
    assert_eq!(fired.expect(200).json()["status"], "failed");
    let rows = settled(&product, &schedule, 2).await;
    let told: Vec<_> = rows.iter().map(|row| (row["attempt"].as_u64(), row["status"].as_str())).collect();
    assert!(told.contains(&(Some(1), Some("failed"))) && told.contains(&(Some(2), Some("success"))), "{rows:?}");
    assert_ne!(rows[0]["run_id"], rows[1]["run_id"]);
}
