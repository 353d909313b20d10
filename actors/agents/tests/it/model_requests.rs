//! What is sent to a model.

use reenact_actors::step::ChatMessage;
use reenact_events::{
    BlobRef, MediaKind, MediaRef, RawJson, Text,
    agent::{AgentSpec, ModelSpec},
    event::ToolCallRequest,
};
use serde_json::{Value, json};

use crate::{
    stub::Reply,
    support::{World, model_at, user},
};

async fn sent(world: &World, messages: Vec<ChatMessage>) -> Vec<Value> {
    world.ask_as(world.agent(), messages).await.unwrap();
    let request = world.model.requests().pop().unwrap();
    assert_eq!(request.malformed(), None);
    request.messages().to_vec()
}

fn call(id: &str, name: &str, arguments: &str) -> ToolCallRequest {
    ToolCallRequest { id: id.into(), name: name.into(), arguments: arguments.into(), refusal: None }
}

fn result(call_id: &str, text: &str, media: Vec<MediaRef>) -> ChatMessage {
    ChatMessage::Tool { call_id: call_id.into(), name: "f".into(), text: text.into(), media }
}

#[tokio::test]
async fn a_request_asks_for_a_stream_with_usage_and_carries_key_and_tools() {
    let world = World::new().await;
    let model = ModelSpec { temperature_milli: Some(700), max_tokens: Some(9), ..model_at(&world.model.base_url()) };
    world.ask_as(AgentSpec { model, ..world.agent() }, vec![user("hi")]).await.unwrap();
    let request = world.model.requests().pop().unwrap();
    assert_eq!(request.headers["authorization"], "Bearer sk-very-secret");
    let body = &request.body;
    assert_eq!(body["model"], "a-model");
    assert_eq!((&body["stream"], &body["stream_options"]), (&json!(true), &json!({"include_usage": true})));
    assert_eq!((&body["temperature"], &body["max_tokens"]), (&json!(0.7), &json!(9)));
    let names: Vec<_> = body["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(names, ["calculator", "current_time", "sleep"]);
    assert_eq!(body["tools"][0]["function"]["parameters"]["required"], json!(["expression"]));
}

#[tokio::test]
async fn a_server_that_no_key_is_named_for_gets_none() {
    let world = World::new().await;
    let model = ModelSpec { api_key_env: None, ..model_at(&world.model.base_url()) };
    world.model.push(Reply::raw(401, "text/plain", "who are you?"));
    let error = world.ask_as(AgentSpec { model, ..world.agent() }, vec![user("hi")]).await.unwrap_err();
    assert!(error.failure.message.contains("`api_key_env`"), "{}", error.failure.message);
    assert!(!world.model.requests()[0].headers.contains_key("authorization"));
}

#[tokio::test]
async fn a23_results_follow_their_calls_and_files_follow_the_results() {
    let world = World::new().await;
    let picture =
        MediaRef { kind: MediaKind::Image, blob: world.put(b"png").await, mime: "image/png".into(), name: None };
    let messages = sent(
        &world,
        vec![
            ChatMessage::System("Be brief.".into()),
            user("go"),
            ChatMessage::Assistant { text: None, tool_calls: vec![call("a", "f", "{}"), call("b", "bad name!", "{")] },
            result("a", "", vec![picture]),
            result("b", "no such tool", vec![]),
            ChatMessage::Assistant { text: Some("done".into()), tool_calls: vec![] },
            user("thanks"),
        ],
    )
    .await;
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "user", "assistant", "user"]);
    assert_eq!(messages[3]["content"], "(no content)");
    assert_eq!(messages[5]["content"][1]["image_url"]["url"], "data:image/png;base64,cG5n");
    assert_eq!(messages[2]["tool_calls"][1]["function"]["name"], "bad_name_");
    assert_eq!(messages[2]["tool_calls"][1]["function"]["arguments"], r#"{"invalid_arguments":"{"}"#);
}

#[tokio::test]
async fn a22_files_are_sent_as_what_they_are() {
    let world = World::new().await;
    let blob = world.put(b"data").await;
    let file = |kind, mime: &str| MediaRef { kind, blob: blob.clone(), mime: mime.into(), name: Some("n.bin".into()) };
    let media = vec![
        file(MediaKind::Image, "image/jpeg"),
        file(MediaKind::Audio, "audio/mpeg"),
        file(MediaKind::File, "application/pdf"),
    ];
    let messages = sent(&world, vec![ChatMessage::User { text: "".into(), media }]).await;
    assert_eq!(
        messages[0]["content"],
        json!([
            {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,ZGF0YQ=="}},
            {"type": "input_audio", "input_audio": {"data": "ZGF0YQ==", "format": "mp3"}},
            {"type": "file", "file": {"filename": "n.bin", "file_data": "data:application/pdf;base64,ZGF0YQ=="}},
        ])
    );
}

#[tokio::test]
async fn a20_texts_reach_the_model_as_they_are_kept() {
    let world = World::new().await;
    let torture = "\0 \u{FFFE} \u{200F} 😀 e\u{301} \u{FFFD} NaN -0 1e400 9007199254740993 {\"\":1}";
    let long = Text::Blob(world.put(torture.as_bytes()).await);
    let messages = sent(&world, vec![user(torture), ChatMessage::User { text: long, media: vec![] }]).await;
    assert_eq!((&messages[0]["content"], &messages[1]["content"]), (&json!(torture), &json!(torture)));
}

#[tokio::test]
async fn a_part_of_the_conversation_that_is_lost_is_told() {
    let world = World::new().await;
    let lost = ChatMessage::User { text: Text::Blob(BlobRef::of(b"never stored")), media: vec![] };
    let error = world.ask_as(world.agent(), vec![lost]).await.unwrap_err();
    assert_eq!((&*error.failure.kind, error.retryable), ("blob_unavailable", false));
}

#[tokio::test]
async fn a_schema_for_the_answer_is_sent_as_the_protocol_has_it() {
    let world = World::new().await;
    let schema = RawJson::parse(r#"{"type":"object","required":["n"]}"#).unwrap();
    world.model.push(Reply::text("{}"));
    world.ask_for(world.agent(), vec![user("hi")], Some(schema.clone())).await.unwrap();
    let format = &world.model.requests().pop().unwrap().body["response_format"];
    assert_eq!(*format, json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema.value()}}));
    world.ask_as(world.agent(), vec![user("hi")]).await.unwrap();
    assert!(world.model.requests().pop().unwrap().body.get("response_format").is_none());
}
