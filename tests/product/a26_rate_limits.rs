//! A26: a model that asks to wait ends the run at once, makes it wait for ever, or is asked far too often.

use std::{
    collections::BTreeSet,
    sync::Mutex,
    time::{Duration, Instant, SystemTime},
};

use futures::future::join_all;
use reenact_tests::stub::{ModelRequest, ModelStub, Reply};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    ground,
    support::{PATIENCE, POLL, Product},
};

/// A product whose agent's model is asked again `retries` times.
async fn product(model: &ModelStub, retries: u32) -> Product {
    let url = model.base_url();
    let file = format!("[model]\nprovider = \"openai\"\nid = \"m\"\nbase_url = \"{url}\"\nretries = {retries}\n");
    ground::product().agent("a", &file).started().await
}

fn refusal(status: u16) -> Reply {
    Reply::json(status, &json!({"error": {"message": "not now"}}))
}

fn said(request: &ModelRequest) -> String {
    let last = request.messages().last().expect("a message");
    last["content"].as_str().expect("words").to_owned()
}

fn requests_of(model: &ModelStub, message: &str) -> Vec<ModelRequest> {
    model.requests().into_iter().filter(|request| said(request) == message).collect()
}

/// Waits until the failure of a run's attempt is journaled.
async fn failure(product: &Product, run: &str) -> Value {
    let began = Instant::now();
    loop {
        let mut events = product.events().into_iter();
        let failed = |event: &Value| {
            event["type"] == "dev.reenact.run.step.failed.v1" && event["data"]["run_id"].as_str() == Some(run)
        };
        if let Some(event) = events.find(failed) {
            return event["data"].clone();
        }
        assert!(began.elapsed() < PATIENCE, "no failure is journaled");
        tokio::time::sleep(POLL).await;
    }
}

/// A date as `Retry-After` has it, between two and three seconds from now: it holds whole seconds.
#[expect(clippy::disallowed_methods, reason = "a server's dates are those of the wall")]
fn soon() -> String {
    httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(3))
}

#[tokio::test]
async fn a26_a_call_is_made_again_no_earlier_than_the_model_asks() {
    let model = ModelStub::start().await;
    let cases = [("2", 2_000), ("a date", 2_000), ("0", 0), ("-5", 500), ("abc", 500), ("nothing", 500)];
    let seen: Mutex<BTreeSet<String>> = Mutex::default();
    model.rule(move |request| {
        let form = said(request);
        let first = seen.lock().expect("what was seen").insert(form.clone());
        first.then(|| match form.as_str() {
            "nothing" => refusal(429),
            "a date" => refusal(429).header("retry-after", &soon()),
            form => refusal(429).header("retry-after", form),
        })
    });
    let product = product(&model, 1).await;
    let runs = join_all(cases.iter().map(|(form, _)| product.turn("a", form, form))).await;
    for ((form, wait_ms), run) in cases.iter().zip(runs) {
        assert_eq!(run["status"], "COMPLETED", "`{form}`: {run:#}");
        let requests = requests_of(&model, form);
        let [first, second] = &requests[..] else { panic!("`{form}`: {} calls", requests.len()) };
        assert!(second.at.duration_since(first.at) >= Duration::from_millis(*wait_ms), "`{form}`");
    }
}

#[tokio::test]
async fn a26_a_wait_beyond_the_policy_ends_the_run_with_the_reason() {
    let model = ModelStub::start().await;
    let product = product(&model, 5).await;
    model.push(refusal(429).header("retry-after", "86400"));
    let run = product.turn("a", "s", "hello").await;
    assert_eq!((&run["status"], &run["error"]["kind"]), (&json!("ERROR"), &json!("rate_limited")), "{run:#}");
    assert_eq!(model.requests().len(), 1);
    assert_eq!(product.turn("a", "s", "again").await["status"], "COMPLETED");
}

#[tokio::test]
async fn a26_a_model_is_asked_as_often_as_its_file_says() {
    let model = ModelStub::start().await;
    let product = product(&model, 2).await;
    let now = |reply: Reply| reply.header("retry-after-ms", "0");
    let overload = Reply::events([
        r#"{"choices":[{"delta":{"content":"half of it"}}]}"#,
        r#"{"error":{"type":"overloaded_error","code":529,"message":"Overloaded"}}"#,
    ]);
    for (what, reply, kind) in [
        ("a limit", now(refusal(429)), "rate_limited"),
        ("a server in trouble", now(refusal(503)), "model_unavailable"),
        ("an overload in mid-stream", overload, "model_unavailable"),
    ] {
        model.otherwise(reply);
        let run = product.turn("a", what, what).await;
        assert_eq!((&run["status"], &run["error"]["kind"]), (&json!("ERROR"), &json!(kind)), "{what}: {run:#}");
        assert_eq!(requests_of(&model, what).len(), 3, "{what}");
    }
}

#[tokio::test]
async fn a26_a_wait_is_visible_and_can_be_cancelled() {
    let model = ModelStub::start().await;
    let product = product(&model, 1).await;
    model.push(refusal(429).header("retry-after", "600"));
    let run = product.begin("a", "s", "hello").await;
    let failed = failure(&product, &run).await;
    assert!(failed["retry_at"].as_i64().is_some(), "{failed:#}");
    Product::ask(product.request(Method::POST, &format!("/agents/a/runs/{run}/cancel"))).await.expect(200);
    assert_eq!(product.settled(&run).await["status"], "CANCELLED");
    assert_eq!(product.turn("a", "s", "again").await["status"], "COMPLETED");
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test]
async fn a26_a_wait_survives_a_restart() {
    let model = ModelStub::start().await;
    let mut product = product(&model, 1).await;
    model.push(refusal(429).header("retry-after", "8"));
    let run = product.begin("a", "s", "hello").await;
    failure(&product, &run).await;
    product.crash().await;
    assert_eq!(product.settled(&run).await["status"], "COMPLETED");
    let requests = model.requests();
    let [first, second] = &requests[..] else { panic!("{} calls", requests.len()) };
    assert!(second.at.duration_since(first.at) >= Duration::from_secs(8), "the restart does not shorten the wait");
}
