//! A16: providers report running totals in each chunk, and adding them up inflates what a run cost.

use reenact_tests::stub::{ModelStub, Reply};
use serde_json::{Value, json};

use crate::{ground, world::World};

const STOP: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;

fn usage(input: u64, output: u64) -> Value {
    json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output})
}

fn word(usage: Value) -> String {
    json!({"choices": [{"delta": {"content": "x"}}], "usage": usage}).to_string()
}

fn bill(usage: Value) -> String {
    json!({"choices": [], "usage": usage}).to_string()
}

/// The same answer of two words, with 7 tokens read and 2 written, in each style, and whether it says so.
fn styles() -> Vec<(&'static str, Reply, bool)> {
    let stream = |chunks: Vec<String>| Reply::events(chunks.into_iter().chain(["[DONE]".to_owned()]));
    let stop = || STOP.to_owned();
    let whole = json!({"choices": [{"message": {"content": "xx"}, "finish_reason": "stop"}], "usage": usage(7, 2)});
    vec![
        ("the final chunk only", stream(vec![word(Value::Null), word(Value::Null), stop(), bill(usage(7, 2))]), true),
        (
            "cumulative in every chunk",
            stream(vec![word(usage(7, 1)), word(usage(7, 2)), stop(), bill(usage(7, 2))]),
            true,
        ),
        (
            "start and stop both carry the input",
            stream(vec![bill(usage(7, 0)), word(Value::Null), word(Value::Null), stop(), bill(usage(7, 2))]),
            true,
        ),
        ("a plain body", Reply::json(200, &whole), true),
        ("none at all", stream(vec![word(Value::Null), word(Value::Null), stop()]), false),
    ]
}

fn tokens(metrics: &Value) -> (Value, Value, Value) {
    let of = |name: &str| metrics.get(name).cloned().unwrap_or_default();
    (of("input_tokens"), of("output_tokens"), of("total_tokens"))
}

#[tokio::test]
async fn a16_every_style_gives_the_true_number_for_run_and_session_streamed_or_not() {
    let mut world = World::with("").await;
    let mut sessions = Vec::new();
    for (style, reply, is_said) in styles() {
        let expected = if is_said { (json!(7), json!(2), json!(9)) } else { Default::default() };
        let twice = if is_said { (json!(14), json!(4), json!(18)) } else { Default::default() };
        world.model.push(reply.clone());
        let run = world.turn(style, "hello").await;
        assert_eq!((&run["content"], tokens(&run["metrics"])), (&json!("xx"), expected.clone()), "{style}");
        let calls = &run["metrics"]["details"]["model"][0];
        assert_eq!(calls["calls_without_usage"], json!(u8::from(!is_said)), "{style}");
        world.model.push(reply);
        let fields = [("message", "hello"), ("session_id", style), ("stream", "true")];
        let stream = world.product.post("/agents/a/runs", &fields).await.expect(200).text();
        let frames = stream.lines().filter_map(|line| line.strip_prefix("data: "));
        let frames: Vec<Value> = frames.map(|data| serde_json::from_str(data).expect("JSON")).collect();
        let end = frames.iter().find(|frame| frame["event"] == "RunCompleted").expect("an end");
        assert_eq!(tokens(&end["metrics"]), expected, "{style}, streamed");
        let session = world.product.get(&format!("/sessions/{style}")).await.expect(200).json();
        assert_eq!(tokens(&session["metrics"]), twice, "{style}: {session:#}");
        sessions.push(style);
    }
    world.survives_a_rebuild(&sessions).await;
}

#[tokio::test]
async fn a16_a_call_that_is_made_again_is_counted_and_marked() {
    let model = ModelStub::start().await;
    let url = model.base_url();
    let file = format!("[model]\nprovider = \"openai\"\nid = \"m\"\nbase_url = \"{url}\"\nretries = 1\n");
    let product = ground::product().agent("a", &file).started().await;
    let broken = r#"{"error":{"type":"overloaded_error","code":529,"message":"Overloaded"}}"#;
    model.push(Reply::events([word(usage(7, 1)), broken.to_owned()]));
    model.push(Reply::events([word(usage(7, 2)), STOP.to_owned(), "[DONE]".to_owned()]));
    let run = product.turn("a", "s", "hello").await;
    assert_eq!(tokens(&run["metrics"]), (json!(14), json!(3), json!(17)), "{run:#}");
    let calls = run["metrics"]["details"]["model"].as_array().expect("models");
    let said: Vec<_> = calls.iter().map(|call| (call["retried"].clone(), tokens(call))).collect();
    let first = (json!(7), json!(1), json!(8));
    assert_eq!(said, [(json!(false), first), (json!(true), (json!(7), json!(2), json!(9)))]);
}
