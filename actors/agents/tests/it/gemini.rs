//! Gemini's `streamGenerateContent` over a real socket.

use std::sync::Arc;

use reenact_actors::step::{ChatMessage, StepError};
use reenact_events::{
    MediaKind, MediaRef, RawJson,
    agent::{AgentSpec, ModelSpec},
    event::{ToolCallRequest, Usage},
};
use serde_json::{Value, json};

use crate::{
    stub::{Reply, gemini},
    support::{KEY, Watcher, World, model_at, user},
};

async fn sent(world: &World, messages: Vec<ChatMessage>) -> Value {
    world.model.otherwise(gemini::text("ok"));
    world.ask_as(world.agent_of("gemini"), messages).await.unwrap();
    let request = world.model.requests().pop().unwrap();
    assert_eq!(gemini::malformed(&request.body), None, "{:#}", request.body);
    request.body
}

async fn failing(reply: Reply) -> StepError {
    let world = World::new().await;
    world.model.push(reply);
    let error = world.ask_as(world.agent_of("gemini"), vec![user("hi")]).await.unwrap_err();
    assert_eq!(world.model.requests().len(), 1, "nothing below the runtime asks again");
    assert!(!error.failure.message.contains(KEY));
    error
}

fn of(error: &StepError) -> (&str, bool, Option<u16>) {
    (&error.failure.kind, error.retryable, error.failure.status)
}

#[tokio::test]
async fn a_request_names_the_model_in_its_path_and_carries_key_and_tools() {
    let world = World::new().await;
    world.model.push(gemini::text("ok"));
    let model = ModelSpec {
        provider: "gemini".into(),
        temperature_milli: Some(700),
        max_tokens: Some(9),
        ..model_at(&world.model.base_url())
    };
    let messages = vec![ChatMessage::System("Be brief.".into()), user("hi")];
    world.ask_as(AgentSpec { model, ..world.agent() }, messages).await.unwrap();
    let request = world.model.requests().pop().unwrap();
    assert_eq!(request.path, "/v1/models/a-model:streamGenerateContent?alt=sse");
    assert_eq!(request.headers["x-goog-api-key"], KEY);
    let body = &request.body;
    assert_eq!(body["systemInstruction"]["parts"][0]["text"], "Be brief.");
    assert_eq!(body["generationConfig"], json!({"temperature": 0.7, "maxOutputTokens": 9}));
    let declared = &body["tools"][0]["functionDeclarations"][0];
    assert_eq!(declared["name"], "calculator");
    assert_eq!(declared["parametersJsonSchema"]["required"], json!(["expression"]));
}

#[tokio::test]
async fn a_streamed_answer_is_seen_as_it_comes_and_is_whole_at_the_end() {
    let world = World::new().await;
    world.model.push(gemini::text("Hello there, you."));
    let watcher = Arc::new(Watcher::default());
    let reply = world.watch(world.agent_of("gemini"), vec![user("hi")], watcher.clone()).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.finish_reason.as_deref()), ("Hello there, you.", Some("STOP")));
    assert_eq!(*watcher.text.lock().unwrap(), ["Hello ", "there, ", "you."]);
    assert_eq!(reply.usage, Some(Usage { input_tokens: 10, output_tokens: 3, ..Usage::default() }));
}

#[tokio::test]
async fn thinking_is_told_apart_from_the_answer() {
    let world = World::new().await;
    let thought = gemini::piece(&[json!({"text": "hm", "thought": true})], None, 0);
    world.model.push(gemini::stream(&[thought, gemini::piece(&[json!({"text": "x"})], Some("STOP"), 1)]));
    let reply = world.ask_as(world.agent_of("gemini"), vec![user("hi")]).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.reasoning.as_deref()), ("x", Some("hm")));
}

#[tokio::test]
async fn a24_calls_keep_their_ids_and_their_arguments_as_they_were_written() {
    let world = World::new().await;
    let call = r#"{"functionCall": {"id": "g1", "name": "f", "args": {"n": 1e400}}}"#;
    let bare = r#"{"functionCall": {"name": "F"}}"#;
    let piece = format!(r#"{{"candidates": [{{"content": {{"parts": [{call}, {bare}]}}, "finishReason": "STOP"}}]}}"#);
    world.model.push(Reply::events([piece]));
    let reply = world.ask_as(world.agent_of("gemini"), vec![user("hi")]).await.unwrap();
    let read: Vec<_> =
        reply.tool_calls.iter().map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str())).collect();
    assert_eq!(read, [("g1", "f", r#"{"n": 1e400}"#), ("", "F", "{}")]);
}

#[tokio::test]
async fn a16_every_style_of_usage_gives_the_true_number() {
    let piece = |text: &str, end: bool, usage: Option<(u64, u64)>| {
        let mut piece = gemini::piece(&[json!({"text": text})], end.then_some("STOP"), 0);
        piece["usageMetadata"] = usage.map_or(Value::Null, |(input, output)| {
            json!({"promptTokenCount": input, "candidatesTokenCount": output, "totalTokenCount": input + output})
        });
        piece
    };
    let last = [piece("x", false, None), piece("x", true, Some((7, 2)))];
    let cumulative = [piece("x", false, Some((7, 1))), piece("x", true, Some((7, 2)))];
    let both_ends = [piece("x", false, Some((7, 0))), piece("x", true, Some((7, 2)))];
    let none = [piece("x", false, None), piece("x", true, None)];
    let known = Some(Usage { input_tokens: 7, output_tokens: 2, ..Usage::default() });
    for (style, usage) in [(last, known), (cumulative, known), (both_ends, known), (none, None)] {
        let world = World::new().await;
        world.model.push(gemini::stream(&style));
        let reply = world.ask_as(world.agent_of("gemini"), vec![user("hi")]).await.unwrap();
        assert_eq!((reply.text.as_str(), reply.usage), ("xx", usage), "{style:?}");
    }
}

#[tokio::test]
async fn a16_a_plain_body_in_place_of_a_stream_counts_the_same() {
    let whole = gemini::piece(&[json!({"text": "xx"})], Some("STOP"), 2);
    for body in [whole.clone(), json!([whole])] {
        let world = World::new().await;
        world.model.push(Reply::json(200, &body));
        let reply = world.ask_as(world.agent_of("gemini"), vec![user("hi")]).await.unwrap();
        assert_eq!((reply.text.as_str(), reply.usage.map(|usage| usage.output_tokens)), ("xx", Some(2)));
    }
}

#[tokio::test]
async fn a23_answers_stand_together_before_files_and_words() {
    let world = World::new().await;
    let picture =
        MediaRef { kind: MediaKind::Image, blob: world.put(b"png").await, mime: "image/png".into(), name: None };
    let call = |id: &str, name: &str, arguments: &str| ToolCallRequest {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
        refusal: None,
    };
    let result = |id: &str, name: &str, text: &str, media| ChatMessage::Tool {
        call_id: id.into(),
        name: name.into(),
        text: text.into(),
        media,
    };
    let body = sent(
        &world,
        vec![
            ChatMessage::User { text: "look".into(), media: vec![picture.clone()] },
            ChatMessage::Assistant { text: None, tool_calls: vec![call("a", "f", "{}"), call("b", "bad name!", "{")] },
            result("a", "f", "", vec![picture]),
            result("b", "bad name!", "no such tool", vec![]),
            user("and?"),
            ChatMessage::Assistant { text: Some(" ".into()), tool_calls: vec![] },
            user(" "),
        ],
    )
    .await;
    let contents = body["contents"].as_array().unwrap();
    let roles: Vec<_> = contents.iter().map(|content| content["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "model", "user", "model", "user"]);
    assert_eq!(contents[0]["parts"][1], json!({"inlineData": {"mimeType": "image/png", "data": "cG5n"}}));
    assert_eq!(contents[1]["parts"][1]["functionCall"]["args"], json!({"invalid_arguments": "{"}));
    assert_eq!(contents[1]["parts"][0]["thoughtSignature"], "skip_thought_signature_validator");
    assert_eq!(contents[2]["parts"][0]["functionResponse"]["response"], json!({"result": "(no content)"}));
    assert_eq!(contents[2]["parts"][2]["inlineData"]["mimeType"], "image/png");
}

#[tokio::test]
async fn a26_a_refusal_says_in_its_body_how_long_to_wait() {
    let limited = gemini::error(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", Some("34.07s"));
    for reply in [
        Reply::json(429, &limited),
        gemini::stream(std::slice::from_ref(&limited)),
        Reply::json(429, &json!([limited])),
    ] {
        let error = failing(reply).await;
        assert_eq!((of(&error), error.retry_after_ms), (("rate_limited", true, Some(429)), Some(34_070)));
        assert!(error.failure.message.contains("exceeded your current quota"), "{}", error.failure.message);
    }
    let error = failing(Reply::json(503, &gemini::error(503, "UNAVAILABLE", "overloaded", None))).await;
    assert_eq!((of(&error), error.retry_after_ms), (("model_unavailable", true, Some(503)), None));
}

#[tokio::test]
async fn a26_an_error_or_a_cut_in_mid_stream_is_no_answer_and_is_told_with_what_it_cost() {
    let word = gemini::piece(&[json!({"text": "x"})], None, 1);
    let error = failing(gemini::stream(&[word.clone(), gemini::error(503, "UNAVAILABLE", "overloaded", None)])).await;
    assert_eq!(of(&error), ("model_unavailable", true, Some(503)));
    assert_eq!(error.usage.map(|usage| usage.input_tokens), Some(10));
    for reply in [gemini::stream(std::slice::from_ref(&word)), gemini::stream(&[word]).cut()] {
        assert_eq!(of(&failing(reply).await), ("model_stream_cut", true, None));
    }
}

#[tokio::test]
async fn what_asking_again_does_not_help_is_told_apart() {
    let overflow = "The input token count (9000) exceeds the maximum number of tokens allowed (8000).";
    for (body, told) in [
        (gemini::error(400, "INVALID_ARGUMENT", overflow, None), "context_overflow"),
        (
            json!({"error": {"code": 400, "message": "API key not valid.", "details": [{"reason": "API_KEY_INVALID"}]}}),
            "model_auth",
        ),
        (gemini::error(404, "NOT_FOUND", "no such model", None), "model_refused"),
    ] {
        let status = u16::try_from(body["error"]["code"].as_u64().unwrap()).unwrap();
        assert_eq!(of(&failing(Reply::json(status, &body)).await), (told, false, Some(status)));
    }
    let blocked = failing(gemini::stream(&[json!({"promptFeedback": {"blockReason": "SAFETY"}})])).await;
    assert_eq!(of(&blocked), ("model_refused", false, None));
    assert!(blocked.failure.message.contains("SAFETY"), "{}", blocked.failure.message);
}

#[tokio::test]
async fn a25_an_answer_may_be_empty() {
    for piece in [json!({"candidates": [{"finishReason": "STOP"}]}), gemini::piece(&[], Some("STOP"), 0)] {
        let world = World::new().await;
        world.model.push(gemini::stream(&[piece]));
        let reply = world.ask_as(world.agent_of("gemini"), vec![user("hi")]).await.unwrap();
        assert!(reply.text.is_empty() && reply.tool_calls.is_empty());
    }
}

#[tokio::test]
async fn nonsense_is_no_answer() {
    for body in ["<html></html>", "{}", "data: {nope}\n\n", "[]"] {
        assert_eq!(of(&failing(Reply::raw(200, "text/html", body)).await), ("model_nonsense", true, None), "{body}");
    }
}

#[tokio::test]
async fn a_schema_for_the_answer_is_a_field_and_beside_tools_it_is_asked_for_in_words() {
    let world = World::new().await;
    world.model.otherwise(gemini::text("{}"));
    let schema = RawJson::parse(r#"{"type":"object"}"#).unwrap();
    let bare = AgentSpec { tools: Vec::new(), ..world.agent_of("gemini") };
    world.ask_for(bare, vec![user("hi")], Some(schema.clone())).await.unwrap();
    let body = world.model.requests().pop().unwrap().body;
    let wanted = json!({"responseMimeType": "application/json", "responseJsonSchema": schema.value()});
    assert_eq!((&body["generationConfig"], &body["systemInstruction"]), (&wanted, &Value::Null));
    world.ask_for(world.agent_of("gemini"), vec![user("hi")], Some(schema)).await.unwrap();
    let body = world.model.requests().pop().unwrap().body;
    assert_eq!(body["generationConfig"], json!({}));
    assert!(body["systemInstruction"]["parts"][0]["text"].as_str().unwrap().ends_with(r#"{"type":"object"}"#));
}
