//! Anthropic's messages protocol over a real socket.

use std::sync::Arc;

use reenact_actors::step::{ChatMessage, StepError};
use reenact_events::{
    MediaKind, MediaRef, RawJson,
    agent::{AgentSpec, ModelSpec},
    event::{ToolCallRequest, Usage},
};
use serde_json::{Value, json};

use crate::{
    stub::{Reply, anthropic},
    support::{KEY, Watcher, World, model_at, user},
};

async fn sent(world: &World, messages: Vec<ChatMessage>) -> Value {
    world.model.otherwise(anthropic::text("ok"));
    world.ask_as(world.agent_of("anthropic"), messages).await.unwrap();
    let request = world.model.requests().pop().unwrap();
    assert_eq!(anthropic::malformed(&request.body), None, "{:#}", request.body);
    request.body
}

async fn failing(reply: Reply) -> StepError {
    let world = World::new().await;
    world.model.push(reply);
    let error = world.ask_as(world.agent_of("anthropic"), vec![user("hi")]).await.unwrap_err();
    assert_eq!(world.model.requests().len(), 1, "nothing below the runtime asks again");
    assert!(!error.failure.message.contains(KEY));
    error
}

fn of(error: &StepError) -> (&str, bool, Option<u16>) {
    (&error.failure.kind, error.retryable, error.failure.status)
}

#[tokio::test]
async fn a_request_goes_to_messages_with_key_version_and_tools() {
    let world = World::new().await;
    world.model.push(anthropic::text("ok"));
    let model = ModelSpec {
        provider: "anthropic".into(),
        temperature_milli: Some(700),
        max_tokens: Some(9),
        ..model_at(&world.model.base_url())
    };
    let messages = vec![ChatMessage::System("Be brief.".into()), user("hi")];
    world.ask_as(AgentSpec { model, ..world.agent() }, messages).await.unwrap();
    let request = world.model.requests().pop().unwrap();
    assert_eq!(request.path, "/v1/messages");
    assert_eq!((&*request.headers["x-api-key"], &*request.headers["anthropic-version"]), (KEY, "2023-06-01"));
    assert!(!request.headers.contains_key("authorization"));
    let body = &request.body;
    assert_eq!(
        (&body["model"], &body["stream"], &body["system"]),
        (&json!("a-model"), &json!(true), &json!("Be brief."))
    );
    assert_eq!((&body["temperature"], &body["max_tokens"]), (&json!(0.7), &json!(9)));
    assert_eq!(body["tools"][0]["name"], "calculator");
    assert_eq!(body["tools"][0]["input_schema"]["required"], json!(["expression"]));
    assert_eq!(sent(&world, vec![user("hi")]).await["max_tokens"], 8_192, "the protocol wants a bound");
}

#[tokio::test]
async fn a_streamed_answer_is_seen_as_it_comes_and_is_whole_at_the_end() {
    let world = World::new().await;
    world.model.push(anthropic::text("Hello there, you."));
    let watcher = Arc::new(Watcher::default());
    let reply = world.watch(world.agent_of("anthropic"), vec![user("hi")], watcher.clone()).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.finish_reason.as_deref()), ("Hello there, you.", Some("end_turn")));
    assert_eq!(*watcher.text.lock().unwrap(), ["Hello ", "there, ", "you."]);
    assert_eq!(reply.usage, Some(Usage { input_tokens: 10, output_tokens: 3, ..Usage::default() }));
}

#[tokio::test]
async fn a24_calls_keep_their_ids_and_their_arguments_as_they_were_written() {
    let world = World::new().await;
    let calls =
        [("toolu_1", "f", r#"{"n": 9007199254740993}"#), ("toolu_2", "F", "{"), ("toolu_3", "f", r#"{"n":1e400}"#)];
    world.model.push(anthropic::calls(&calls));
    let reply = world.ask_as(world.agent_of("anthropic"), vec![user("hi")]).await.unwrap();
    let read: Vec<_> =
        reply.tool_calls.iter().map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str())).collect();
    assert_eq!(read, calls);
}

#[tokio::test]
async fn a16_every_style_of_usage_gives_the_true_number() {
    let begin = |usage: Value| json!({"type": "message_start", "message": {"usage": usage}});
    let word = |usage: Value| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}, "usage": usage});
    let delta = |usage: Value| json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage});
    let stop = json!({"type": "message_stop"});
    let all = |output: u64| json!({"input_tokens": 7, "output_tokens": output});
    let last = [begin(json!({})), word(Value::Null), delta(all(2)), stop.clone()];
    let cumulative = [begin(all(0)), word(all(1)), delta(all(2)), stop.clone()];
    let both_ends = [begin(all(1)), word(Value::Null), delta(json!({"output_tokens": 2})), stop.clone()];
    let none = [begin(Value::Null), word(Value::Null), delta(Value::Null), stop];
    let known = Some(Usage { input_tokens: 7, output_tokens: 2, ..Usage::default() });
    for (style, usage) in [(last, known), (cumulative, known), (both_ends, known), (none, None)] {
        let world = World::new().await;
        world.model.push(anthropic::stream(&style));
        let reply = world.ask_as(world.agent_of("anthropic"), vec![user("hi")]).await.unwrap();
        assert_eq!((reply.text.as_str(), reply.usage), ("x", usage), "{style:?}");
    }
}

#[tokio::test]
async fn a16_a_plain_body_in_place_of_a_stream_counts_the_same() {
    let world = World::new().await;
    let content = json!([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "xx"},
        {"type": "tool_use", "id": "a", "name": "f", "input": {}}]);
    world.model.push(Reply::json(
        200,
        &json!({"type": "message", "role": "assistant", "content": content,
        "stop_reason": "tool_use", "usage": {"input_tokens": 7, "output_tokens": 2}}),
    ));
    let reply = world.ask_as(world.agent_of("anthropic"), vec![user("hi")]).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.reasoning.as_deref()), ("xx", Some("hm")));
    assert_eq!(reply.tool_calls[0].arguments, "{}");
    assert_eq!(reply.usage.map(|usage| (usage.input_tokens, usage.output_tokens)), Some((7, 2)));
}

#[tokio::test]
async fn a23_results_stand_together_before_files_and_words() {
    let world = World::new().await;
    let picture =
        MediaRef { kind: MediaKind::Image, blob: world.put(b"png").await, mime: "image/png".into(), name: None };
    let sound = MediaRef { kind: MediaKind::Audio, mime: "audio/mpeg".into(), ..picture.clone() };
    let call = |id: &str, name: &str, arguments: &str| ToolCallRequest {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
        refusal: None,
    };
    let result = |id: &str, text: &str, media| ChatMessage::Tool {
        call_id: id.into(),
        name: "f".into(),
        text: text.into(),
        media,
    };
    let body = sent(
        &world,
        vec![
            ChatMessage::User { text: "look".into(), media: vec![picture.clone(), sound] },
            user("go"),
            ChatMessage::Assistant { text: None, tool_calls: vec![call("a", "f", "{}"), call("b!", "bad name!", "{")] },
            result("a", "", vec![picture]),
            result("b!", "no such tool", vec![]),
            user(" "),
            ChatMessage::Assistant { text: Some(" ".into()), tool_calls: vec![] },
            user("thanks"),
        ],
    )
    .await;
    let messages = body["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"]);
    assert_eq!(
        messages[0]["content"][1]["source"],
        json!({"type": "base64", "media_type": "image/png", "data": "cG5n"})
    );
    assert!(messages[0]["content"][2]["text"].as_str().unwrap().contains("`audio/mpeg` cannot be shown"));
    assert_eq!(messages[1]["content"][1]["input"], json!({"invalid_arguments": "{"}));
    assert_eq!(messages[2]["content"][0]["content"][0]["text"], "(no content)");
    assert_eq!(messages[2]["content"][0]["content"][1]["type"], "image");
}

#[tokio::test]
async fn a26_a_refusal_says_how_long_to_wait() {
    let limited = Reply::json(429, &anthropic::error("rate_limit_error", "slow down"));
    let error = failing(limited.clone().header("retry-after", "2")).await;
    assert_eq!((of(&error), error.retry_after_ms), (("rate_limited", true, Some(429)), Some(2_000)));
    let error = failing(limited.header("anthropic-ratelimit-tokens-reset", "1994-11-06T08:49:40Z")).await;
    assert_eq!(error.retry_after_ms, Some(3_000));
    let error = failing(Reply::json(529, &anthropic::error("overloaded_error", "Overloaded"))).await;
    assert_eq!((of(&error), error.retry_after_ms), (("model_unavailable", true, Some(529)), None));
}

#[tokio::test]
async fn a26_an_error_or_a_cut_in_mid_stream_is_no_answer_and_is_told_with_what_it_cost() {
    let word = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}});
    let overloaded = [anthropic::start(), word.clone(), anthropic::error("overloaded_error", "Overloaded")];
    let error = failing(anthropic::stream(&overloaded)).await;
    assert_eq!(of(&error), ("model_unavailable", true, Some(529)));
    assert_eq!(error.usage.map(|usage| usage.input_tokens), Some(10));
    for reply in
        [anthropic::stream(&[anthropic::start(), word.clone()]), anthropic::stream(&[anthropic::start(), word]).cut()]
    {
        assert_eq!(of(&failing(reply).await), ("model_stream_cut", true, None));
    }
}

#[tokio::test]
async fn what_asking_again_does_not_help_is_told_apart() {
    for (status, kind, message, told) in [
        (400, "invalid_request_error", "prompt is too long: 9000 tokens > 8000 maximum", "context_overflow"),
        (413, "request_too_large", "Request exceeds the maximum size", "context_overflow"),
        (400, "invalid_request_error", "Your credit balance is too low", "quota_exhausted"),
        (401, "authentication_error", "invalid x-api-key", "model_auth"),
        (404, "not_found_error", "model: a-model", "model_refused"),
    ] {
        let whole = failing(Reply::json(status, &anthropic::error(kind, message))).await;
        assert_eq!(of(&whole), (told, false, Some(status)));
        let streamed = failing(anthropic::stream(&[anthropic::error(kind, message)])).await;
        assert_eq!((&*streamed.failure.kind, streamed.retryable), (told, false), "{kind}");
    }
}

#[tokio::test]
async fn a25_an_answer_may_be_empty() {
    let world = World::new().await;
    world.model.push(anthropic::text(""));
    let reply = world.ask_as(world.agent_of("anthropic"), vec![user("hi")]).await.unwrap();
    assert!(reply.text.is_empty() && reply.tool_calls.is_empty());
}

#[tokio::test]
async fn nonsense_is_no_answer() {
    for body in ["<html></html>", "{}", "data: {nope}\n\n", r#"{"type": "completion"}"#] {
        assert_eq!(of(&failing(Reply::raw(200, "text/html", body)).await), ("model_nonsense", true, None), "{body}");
    }
}

#[tokio::test]
async fn a_schema_for_the_answer_is_asked_for_in_words() {
    let world = World::new().await;
    world.model.push(anthropic::text("{}"));
    let messages = vec![ChatMessage::System("Be brief.".into()), user("hi")];
    let schema = RawJson::parse(r#"{"type":"object"}"#).unwrap();
    world.ask_for(world.agent_of("anthropic"), messages, Some(schema)).await.unwrap();
    let system = world.model.requests().pop().unwrap().body["system"].as_str().unwrap().to_owned();
    assert!(system.starts_with("Be brief.\n\nAnswer with one JSON value") && system.ends_with(r#"{"type":"object"}"#));
}
