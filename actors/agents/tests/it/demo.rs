//! The built-in model and tools together, as a first-time user sees them.

use std::sync::Arc;

use reenact_actors::step::{ChatMessage, ModelReply, Steps};
use reenact_agents::demo_agent;
use reenact_events::event::ToolCallRequest;

use crate::support::{Watcher, World, user};

/// Plays the runtime: calls the tools that are asked for until there is an answer.
async fn converse(world: &World, message: &str) -> (ModelReply, Vec<String>) {
    let agent = demo_agent();
    let mut messages = vec![user(message)];
    let mut called = Vec::new();
    loop {
        let reply = world.ask_as(agent.clone(), messages.clone()).await.unwrap();
        if reply.tool_calls.is_empty() {
            return (reply, called);
        }
        let calls = reply.tool_calls.iter().map(|call| ToolCallRequest {
            id: call.id.as_str().into(),
            name: call.name.as_str().into(),
            arguments: call.arguments.as_str().into(),
            refusal: None,
        });
        messages.push(ChatMessage::Assistant { text: Some(reply.text.as_str().into()), tool_calls: calls.collect() });
        for call in &reply.tool_calls {
            let tool = agent.tool(&call.name).unwrap();
            let arguments = world.steps.check_arguments(tool, &call.arguments).unwrap();
            let result = world.call(tool.clone(), &arguments).await;
            assert!(!result.error, "{result:?}");
            let (call_id, name) = (call.id.as_str().into(), call.name.as_str().into());
            messages.push(ChatMessage::Tool { call_id, name, text: result.text.as_str().into(), media: vec![] });
        }
        called.push(reply.tool_calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>().join("+"));
    }
}

#[tokio::test]
async fn the_demo_model_answers_in_words_and_streams_them() {
    let world = World::new().await;
    let watcher = Arc::new(Watcher::default());
    let reply = world.watch(demo_agent(), vec![user("hello quickly")], watcher.clone()).await.unwrap();
    assert!(reply.text.starts_with("You said: hello quickly"));
    assert_eq!(watcher.text.lock().unwrap().concat(), reply.text);
    assert!(watcher.text.lock().unwrap().len() > 10);
    let usage = reply.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (2, reply.text.split_whitespace().count() as u64));
}

#[tokio::test]
async fn the_demo_model_uses_tools_side_by_side_and_one_after_another() {
    let world = World::new().await;
    let (reply, called) = converse(&world, "quickly tell the time and 17 * 23 then sleep 0.01 then (1+2)^3").await;
    assert_eq!(called, ["calculator+current_time", "sleep", "calculator"]);
    assert_eq!(
        reply.text,
        "calculator says: 391\ncurrent_time says: 1994-11-06T08:49:37Z\nsleep says: slept for 0.01 s\ncalculator says: 27"
    );
}

#[tokio::test]
async fn the_same_conversation_gets_the_same_answer() {
    let world = World::new().await;
    let first = converse(&world, "quickly count to 200").await.0;
    let second = converse(&world, "quickly count to 200").await.0;
    assert_eq!((&first.text, first.usage), (&second.text, second.usage));
    assert!(first.text.ends_with(" 200"));
}
