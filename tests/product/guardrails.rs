//! Guardrails: asked before the model and before the end, once each, and nothing passes that they have not let pass.

use reenact_tests::stub::{LedgerStub, ModelStub, Reply};
use serde_json::{Value, json};

use crate::support::{Product, agent_with_model};

struct Guarded {
    model: ModelStub,
    guards: LedgerStub,
    product: Product,
}

impl Guarded {
    async fn start() -> Self {
        let (model, guards) = (ModelStub::start().await, LedgerStub::start().await);
        let guardrail = |name: &str, on: &str| {
            let url = guards.url(&format!("/{name}"));
            format!("[[guardrails]]\nname = \"{name}\"\non = \"{on}\"\nurl = \"{url}\"\ntimeout_s = 5\nretries = 1\n")
        };
        let file = agent_with_model(&model.base_url()) + &guardrail("words", "input") + &guardrail("cards", "output");
        guards.otherwise(passes());
        let product = Product::new().agent("a", &file).started().await;
        Self { model, guards, product }
    }

    fn asked(&self) -> Vec<String> {
        self.guards.calls().into_iter().map(|call| call.path).collect()
    }
}

fn passes() -> Reply {
    Reply::json(200, &json!({"pass": true}))
}

fn blocks(reason: &str) -> Reply {
    Reply::json(200, &json!({"pass": false, "reason": reason, "trigger": "pii_detected"}))
}

fn frames(stream: &str) -> Vec<Value> {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).expect("is JSON")).collect()
}

#[tokio::test]
async fn what_passes_was_shown_to_both_once_also_after_a_kill_and_comes_out_the_same_when_reenacted() {
    let mut world = Guarded::start().await;
    world.model.push(Reply::text("late").delay(std::time::Duration::from_secs(3_600)));
    let run = world.product.begin("a", "s", "hello").await;
    world.model.wait_for(1).await;
    world.product.crash().await;
    let done = world.product.settled(&run).await;
    assert_eq!((&done["status"], &done["content"]), (&json!("COMPLETED"), &json!("ok")), "{done:#}");
    assert_eq!(world.asked(), ["/words", "/cards"]);
    let bodies: Vec<Value> =
        world.guards.calls().iter().map(|call| serde_json::from_str(&call.body).expect("is JSON")).collect();
    let said = |body: &Value| (body["on"].clone(), body["input"].clone(), body["output"].clone());
    assert_eq!(said(&bodies[0]), (json!("input"), json!("hello"), Value::Null));
    assert_eq!(said(&bodies[1]), (json!("output"), json!("hello"), json!("ok")));
    let replayed = world.product.run(&["replay", &run]);
    assert!(String::from_utf8_lossy(&replayed.stdout).contains("the same:"), "{replayed:?}");
    assert_eq!(world.asked().len(), 2);
}

#[tokio::test]
async fn a_message_that_is_blocked_is_shown_to_no_model_and_the_error_is_agentos_own() {
    let world = Guarded::start().await;
    world.guards.push(blocks("a card number"));
    let fields = [("message", "4111"), ("session_id", "s"), ("stream", "true")];
    let stream = world.product.post("/agents/a/runs", &fields).await.expect(200);
    assert_eq!(stream.event_names(), ["RunStarted", "PreHookStarted", "RunError"]);
    let last = frames(&stream.text()).pop().expect("frames");
    let told = ["content", "error_type", "error_id"].map(|field| last[field].clone());
    assert_eq!(told, ["a card number", "input_check_error", "pii_detected"].map(Value::from));
    let run = world.product.get(&format!("/runs/{}", last["run_id"].as_str().expect("an id"))).await.expect(200).json();
    assert_eq!((&run["status"], &run["error_id"]), (&json!("ERROR"), &json!("pii_detected")), "{run:#}");
    assert!(world.model.requests().is_empty());
    let run = world.product.turn("a", "s", "hello").await;
    assert_eq!(run["content"], "ok", "{run:#}");
    assert!(!world.model.requests()[0].body.to_string().contains("4111"), "it is no history either");
}

#[tokio::test]
async fn an_answer_that_is_blocked_is_not_the_runs() {
    let world = Guarded::start().await;
    world.guards.push(passes());
    world.guards.push(blocks("a secret"));
    let run = world.product.turn("a", "s", "hello").await;
    assert_eq!((&run["status"], &run["content"]), (&json!("ERROR"), &json!("a secret")), "{run:#}");
    assert_eq!(run["error"]["kind"], "output_check_error");
    let stream = world.product.post("/agents/a/runs", &[("message", "hi"), ("stream", "true")]).await.expect(200);
    let hooks: Vec<_> = stream.event_names().into_iter().filter(|name| name.contains("Hook")).collect();
    assert_eq!(hooks, ["PreHookStarted", "PreHookCompleted", "PostHookStarted", "PostHookCompleted"]);
}

#[tokio::test]
async fn a_guardrail_that_gives_no_answer_is_asked_again_and_then_nothing_passes() {
    let world = Guarded::start().await;
    world.guards.push(Reply::raw(503, "text/plain", "down"));
    assert_eq!(world.product.turn("a", "s", "hello").await["content"], "ok");
    for reply in
        [Reply::raw(503, "text/plain", "down"), Reply::raw(200, "text/plain", "sure"), Reply::json(200, &json!({}))]
    {
        let (asked, models) = (world.asked().len(), world.model.requests().len());
        world.guards.push(reply.clone());
        world.guards.push(reply);
        let run = world.product.turn("a", "s", "hello").await;
        assert_eq!(
            (&run["status"], &run["error"]["kind"]),
            (&json!("ERROR"), &json!("guardrail_unanswered")),
            "{run:#}"
        );
        assert!(run["content"].as_str().expect("a reason").contains("`words`"), "{run:#}");
        assert_eq!((world.asked().len() - asked, world.model.requests().len() - models), (2, 0));
    }
}
