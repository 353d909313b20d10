//! Answers that must be JSON of a given schema: asked for, checked, repaired once, and JSON from then on.

use reenact_tests::stub::Reply;
use serde_json::{Value, json};

use crate::world::{World, notes};

const SCHEMA: &str = r#"{"type":"object","required":["city"],"properties":{"city":{"type":"string"}}}"#;
const FILE: &str =
    r#"output_schema = { type = "object", required = ["city"], properties = { city = { type = "string" } } }"#;

fn steps_of_model(world: &World) -> Vec<Value> {
    let of_model = |event: &Value| event["data"]["result"].get("model").is_some();
    world.product.events().into_iter().filter(of_model).map(|event| event["data"].clone()).collect()
}

#[tokio::test]
async fn an_answer_that_fits_is_json_wherever_it_is_shown_and_stays_so() {
    let mut world = World::headed(FILE, "").await;
    world.model.push(notes(&["{}"]));
    world.model.push(Reply::text("```json\n{\"city\": \"Rome\"}\n```"));
    let run = world.turn("s", "where to?").await;
    assert_eq!((&run["content"], &run["content_type"]), (&json!({"city": "Rome"}), &json!("dict")));
    let request = world.model.requests().pop().expect("it was asked");
    let schema: Value = serde_json::from_str(SCHEMA).expect("is JSON");
    assert_eq!(request.body["response_format"]["json_schema"]["schema"], schema);
    let listed = world.product.get("/sessions/s/runs").await.expect(200).json();
    assert_eq!((&listed[0]["content"], &listed[0]["run_response_format"]), (&json!({"city": "Rome"}), &json!("json")));
    assert_eq!(world.product.get("/agents/a").await.expect(200).json()["output_schema"], schema);
    world.model.otherwise(Reply::text(r#"{"city": "Oslo"}"#));
    world.survives_a_rebuild(&["s"]).await;
    let history = world.model.requests().pop().expect("it was asked").messages().to_vec();
    assert!(history.iter().any(|message| message["content"] == r#"{"city": "Rome"}"#), "{history:?}");
}

#[tokio::test]
async fn a_stream_ends_with_the_json_and_the_log_tells_no_other_answer() {
    let world = World::headed(FILE, "").await;
    world.model.push(Reply::text(r#"{"city": "Rome"}"#));
    let fields = [("message", "where to?"), ("session_id", "s"), ("stream", "true")];
    let stream = world.product.post("/agents/a/runs", &fields).await.expect(200).text();
    let mut frames = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    let last: Value = serde_json::from_str(frames.next_back().expect("frames")).expect("is JSON");
    assert_eq!((&last["event"], &last["content_type"]), (&json!("RunCompleted"), &json!("dict")));
    assert_eq!(last["content"], json!({"city": "Rome"}));
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_told_to_the_model_once() {
    let mut world = World::headed(FILE, "").await;
    for wrong in ["Rome", "", r#"{"city": 3}"#, r#"{"town": "Rome"}"#] {
        world.model.push(Reply::text(wrong));
        world.model.push(Reply::text(r#"{"city": "Rome"}"#));
        let run = world.turn("s", "where to?").await;
        assert_eq!(run["content"], json!({"city": "Rome"}), "{wrong}");
        let messages = world.model.requests().pop().expect("it was asked").messages().to_vec();
        let told = messages.last().expect("messages");
        assert_eq!(told["role"], "user", "{wrong}");
        assert!(told["content"].as_str().is_some_and(|text| text.contains("does not fit the JSON Schema")), "{told}");
        let shown = run["messages"].as_array().expect("messages");
        assert!(shown.iter().any(|message| message["content"] == told["content"]), "{wrong}: {shown:#?}");
        let unfit: Vec<_> =
            steps_of_model(&world).into_iter().rev().take(2).map(|step| step["unfit"].is_string()).collect();
        assert_eq!(unfit, [false, true], "{wrong}");
    }
    let history = world.model.requests().pop().expect("it was asked");
    let repairs = history.messages().iter().filter(|message| message.to_string().contains("does not fit the JSON"));
    assert_eq!(repairs.count(), 1, "later turns are shown the answers that fit");
    world.model.otherwise(Reply::text(r#"{"city": "Oslo"}"#));
    world.survives_a_rebuild(&["s"]).await;
}

#[tokio::test]
async fn a_run_whose_answer_does_not_fit_twice_ends_with_an_error_that_says_where() {
    let world = World::headed(FILE, "").await;
    world.model.otherwise(Reply::text(r#"{"city": 3}"#));
    let run = world.product.turn("a", "s", "where to?").await;
    assert_eq!((&run["status"], &run["error"]["kind"]), (&json!("ERROR"), &json!("output_invalid")), "{run:#}");
    assert!(run["content"].as_str().expect("a reason").contains("at `/city`"), "{}", run["content"]);
    assert_eq!(world.model.requests().len(), 2);
    let replayed = world.product.run(&["replay", run["run_id"].as_str().expect("an id")]);
    assert!(String::from_utf8_lossy(&replayed.stdout).contains("the same:"), "{replayed:?}");
}

#[tokio::test]
async fn a_request_may_bring_a_schema_of_its_own_and_one_that_cannot_be_used_is_refused() {
    let world = World::with("").await;
    world.model.otherwise(Reply::text(r#"{"city": "Rome"}"#));
    let ask = async |schema: &str| {
        let fields = [("message", "where to?"), ("session_id", "s"), ("stream", "false"), ("output_schema", schema)];
        world.product.post("/agents/a/runs", &fields).await
    };
    let run = ask(SCHEMA).await.expect(200).json();
    assert_eq!((&run["content"], &run["content_type"]), (&json!({"city": "Rome"}), &json!("dict")));
    for wrong in [r#"{"type": "text"}"#, "[]", "{", "3"] {
        let refused = ask(wrong).await.expect(422).json();
        assert_eq!(refused["detail"][0]["loc"], json!(["body", "output_schema"]), "{wrong}: {refused}");
    }
    let run = world.turn("s", "where to?").await;
    assert_eq!((&run["content"], &run["content_type"]), (&json!(r#"{"city": "Rome"}"#), &json!("str")));
    assert_eq!(world.model.requests().len(), 2);
}
