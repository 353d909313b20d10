//! An agent with several models: which of them answers, and that nothing forgets it.

use std::time::Duration;

use reenact_tests::stub::{ModelStub, Reply, anthropic, gemini};
use serde_json::{Value, json};

use crate::{ground, support::Product};

/// An agent whose own model is asked twice, and whose second one once.
struct Two {
    first: ModelStub,
    second: ModelStub,
    product: Product,
}

impl Two {
    async fn start() -> Self {
        let (first, second) = (ModelStub::start().await, ModelStub::start().await);
        let model = |id: &str, stub: &ModelStub, retries: u32| {
            let url = stub.base_url();
            format!("provider = \"openai\"\nid = \"{id}\"\nbase_url = \"{url}\"\nretries = {retries}\n")
        };
        let tool = "[[tools]]\ntype = \"builtin\"\nname = \"calculator\"\n";
        let file =
            format!("[model]\n{}[[model.fallbacks]]\n{}{tool}", model("one", &first, 1), model("two", &second, 0));
        let product = Product::new().agent("a", &file).started().await;
        second.otherwise(Reply::text("second"));
        Self { first, second, product }
    }

    fn asked(&self) -> (usize, usize) {
        (self.first.requests().len(), self.second.requests().len())
    }
}

fn error(status: u16, message: &str) -> Reply {
    Reply::json(status, &json!({"error": {"message": message}})).header("retry-after-ms", "0")
}

/// What the metrics say of each model: its id, the number of its calls, and whether they are repeats.
fn counted(run: &Value) -> Vec<(String, u64, bool)> {
    let entries = run["metrics"]["details"]["model"].as_array().expect("models");
    let of = |entry: &Value| {
        let calls = entry["calls"].as_u64().expect("a number");
        (entry["id"].as_str().expect("an id").to_owned(), calls, entry["retried"] == true)
    };
    entries.iter().map(of).collect()
}

#[tokio::test]
async fn the_next_model_answers_where_another_may_do_better() {
    let two = Two::start().await;
    let long = |reply: Reply| reply.header("retry-after", "86400");
    for (what, reply, times) in [
        ("a server in trouble", error(503, "down"), 2),
        ("an overloaded server", error(529, "overloaded"), 2),
        ("an overload in mid-stream", Reply::events([r#"{"error":{"type":"overloaded_error","code":529}}"#]), 2),
        ("a limit that is met twice", error(429, "slow down"), 2),
        ("a limit beyond what is waited for", long(Reply::json(429, &json!({"error": {"message": "slow"}}))), 1),
        ("an account without quota", error(402, "pay"), 1),
        ("a key that is not accepted", error(401, "who"), 1),
        ("a model that is not there", error(404, "no such model"), 1),
        ("an answer that is none", Reply::raw(200, "text/html", "<html>"), 2),
    ] {
        let before = two.asked();
        two.first.otherwise(reply);
        let run = two.product.turn("a", what, "hello").await;
        assert_eq!((&run["status"], &run["content"]), (&json!("COMPLETED"), &json!("second")), "{what}: {run:#}");
        assert_eq!((&run["model"], &run["model_provider"]), (&json!("two"), &json!("openai")), "{what}");
        assert_eq!((two.asked().0 - before.0, two.asked().1 - before.1), (times, 1), "{what}");
    }
}

#[tokio::test]
async fn what_each_model_was_asked_is_in_events_and_metrics_and_survives_a_rebuild() {
    let mut two = Two::start().await;
    two.first.otherwise(error(503, "down"));
    let run = two.product.turn("a", "s", "hello").await;
    let expected =
        [("one", 1, false), ("one", 1, true), ("two", 1, true)].map(|(id, n, again)| (id.to_owned(), n, again));
    assert_eq!(counted(&run), expected);
    let asked: Vec<Value> =
        two.product.events().iter().filter_map(|event| event["data"].get("model").cloned()).collect();
    let model = |place, id| json!({"place": place, "id": id, "provider": "openai"});
    assert_eq!(asked, [model(0, "one"), model(0, "one"), model(1, "two")]);
    two.product.kill_hard();
    std::fs::remove_dir_all(two.product.data().join("state")).expect("there is a state store");
    ground::forget_views(&two.product);
    two.product.start().await;
    let id = run["run_id"].as_str().expect("an id");
    let again = two.product.get(&format!("/runs/{id}")).await.expect(200).json();
    assert_eq!((&again["metrics"], &again["model"]), (&run["metrics"], &run["model"]));
}

#[tokio::test]
async fn a_stream_names_the_model_that_is_asked() {
    let two = Two::start().await;
    two.first.otherwise(error(401, "who"));
    let fields = [("message", "hello"), ("session_id", "s"), ("stream", "true")];
    let stream = two.product.post("/agents/a/runs", &fields).await.expect(200).text();
    let frames = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    let frames: Vec<Value> = frames.map(|data| serde_json::from_str(data).expect("JSON")).collect();
    let of = |name: &str| -> Vec<&str> {
        frames.iter().filter(|frame| frame["event"] == name).filter_map(|frame| frame["model"].as_str()).collect()
    };
    assert_eq!((of("ModelRequestStarted"), of("ModelRequestCompleted")), (vec!["one", "two"], vec!["two"]));
}

#[tokio::test]
async fn a_request_that_is_refused_for_what_it_says_is_not_passed_on() {
    let two = Two::start().await;
    two.first.otherwise(error(400, "the schema of a tool is wrong"));
    let run = two.product.turn("a", "s", "hello").await;
    assert_eq!((&run["status"], &run["error"]["kind"]), (&json!("ERROR"), &json!("model_refused")));
    assert_eq!(two.asked(), (1, 0));
}

#[tokio::test]
async fn a_run_stays_with_the_model_it_has_come_to_and_the_next_run_begins_anew() {
    let two = Two::start().await;
    two.first.push(error(401, "who"));
    two.second.push(Reply::calls(&[("c", "calculator", r#"{"expression":"1+1"}"#)]));
    let run = two.product.turn("a", "s", "count").await;
    assert_eq!((&run["content"], two.asked()), (&json!("second"), (1, 2)));
    let run = two.product.turn("a", "s", "hello").await;
    assert_eq!((&run["content"], &run["model"], two.asked()), (&json!("ok"), &json!("one"), (2, 2)));
    assert_eq!(two.first.requests().pop().and_then(|request| request.malformed()), None);
}

#[tokio::test]
async fn a_killed_run_goes_on_with_the_model_it_was_at() {
    let mut two = Two::start().await;
    two.first.otherwise(error(401, "who"));
    two.second.push(Reply::text("late").delay(Duration::from_secs(3_600)));
    let run = two.product.begin("a", "s", "hello").await;
    two.second.wait_for(1).await;
    two.product.crash().await;
    let run = two.product.settled(&run).await;
    assert_eq!((&run["content"], two.asked()), (&json!("second"), (1, 2)));
}

#[tokio::test]
async fn when_all_fail_the_error_names_each_model_and_its_reason_and_the_session_goes_on() {
    let two = Two::start().await;
    two.first.otherwise(error(503, "the first is down"));
    two.second.otherwise(error(401, "the second does not know us"));
    let run = two.product.turn("a", "s", "hello").await;
    assert_eq!((&run["status"], &run["error"]["kind"]), (&json!("ERROR"), &json!("models_failed")));
    let message = run["content"].as_str().expect("a reason");
    for part in
        ["`one`", "model_unavailable", "the first is down", "`two`", "model_auth", "the second does not know us"]
    {
        assert!(message.contains(part), "`{part}` in: {message}");
    }
    assert_eq!(two.asked(), (2, 1));
    two.first.otherwise(Reply::text("up again"));
    assert_eq!(two.product.turn("a", "s", "hello").await["content"], "up again");
}

#[tokio::test]
async fn a_run_goes_from_one_protocol_to_the_next_with_all_that_it_has_done() {
    let stubs = [ModelStub::start().await, ModelStub::start().await, ModelStub::start().await];
    let names = ["openai", "anthropic", "gemini"];
    let model = |(name, stub): (&str, &ModelStub)| {
        format!("provider = \"{name}\"\nid = \"of-{name}\"\nbase_url = \"{}\"\nretries = 0\n", stub.base_url())
    };
    let models: Vec<_> = names.into_iter().zip(&stubs).map(model).collect();
    let tool = "[[tools]]\ntype = \"builtin\"\nname = \"calculator\"\n";
    let file = format!("[model]\n{}{tool}", models.join("[[model.fallbacks]]\n"));
    let product = Product::new().agent("a", &file).started().await;
    let [first, second, third] = &stubs;
    let calls = [("same", "calculator", r#"{"expression":"1+1"}"#), ("c:2", "calculator", "{")];
    first.push(Reply::calls(&calls));
    first.push(error(503, "down"));
    second.push(anthropic::calls(&calls));
    second.push(anthropic::stream(&[anthropic::start(), anthropic::error("overloaded_error", "Overloaded")]));
    third.push(gemini::text("two"));
    let run = product.turn("a", "s", "count").await;
    assert_eq!((&run["content"], &run["model_provider"]), (&json!("two"), &json!("gemini")), "{run:#}");
    let asked =
        [("of-openai", 2, false), ("of-anthropic", 1, false), ("of-anthropic", 1, true), ("of-gemini", 1, true)];
    assert_eq!(counted(&run), asked.map(|(id, count, again)| (id.to_owned(), count, again)));
    assert!(second.requests().iter().all(|request| anthropic::malformed(&request.body).is_none()));
    let request = third.requests().pop().expect("it was asked");
    assert_eq!(gemini::malformed(&request.body), None, "{:#}", request.body);
    assert_eq!(run["tools"].as_array().map(Vec::len), Some(4));
}
