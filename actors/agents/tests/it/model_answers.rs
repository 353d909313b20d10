//! Answers in every shape that servers give them.

use std::sync::Arc;

use reenact_events::event::Usage;
use serde_json::json;

use crate::{
    stub::Reply,
    support::{Watcher, World, user},
};

fn chunk(delta: &str, rest: &str) -> String {
    format!(r#"{{"choices": [{{"index": 0, "delta": {delta}}}]{rest}}}"#)
}

const STOP: &str = r#"{"choices": [{"delta": {}, "finish_reason": "stop"}]}"#;

#[tokio::test]
async fn a_streamed_answer_is_seen_as_it_comes_and_is_whole_at_the_end() {
    let world = World::new().await;
    world.model.push(Reply::text("Hello there, you."));
    let watcher = Arc::new(Watcher::default());
    let reply = world.watch(world.agent(), vec![user("hi")], watcher.clone()).await.unwrap();
    assert_eq!(reply.text, "Hello there, you.");
    assert_eq!(*watcher.text.lock().unwrap(), ["Hello ", "there, ", "you."]);
    assert_eq!(reply.finish_reason.as_deref(), Some("stop"));
    assert!(reply.first_token_ms.is_some() && reply.reasoning.is_none() && reply.tool_calls.is_empty());
}

#[tokio::test]
async fn a16_every_style_of_usage_gives_the_true_number() {
    let usage =
        |input: u64, output: u64| format!(r#", "usage": {{"prompt_tokens": {input}, "completion_tokens": {output}}}"#);
    let word = |rest: &str| chunk(r#"{"content": "x"}"#, rest);
    let last = vec![word(""), word(r#", "usage": null"#), STOP.into(), format!(r#"{{"choices": []{}}}"#, usage(7, 2))];
    let cumulative =
        vec![word(&usage(7, 1)), word(&usage(7, 2)), STOP.into(), format!(r#"{{"choices": []{}}}"#, usage(7, 2))];
    let both_ends =
        vec![chunk("{}", &usage(7, 0)), word(""), word(""), STOP.replace("]}", &format!("]{}}}", usage(7, 2)))];
    let none = vec![word(""), word(""), STOP.into()];
    let known = Some(Usage { input_tokens: 7, output_tokens: 2, ..Usage::default() });
    for (style, usage) in [(last, known), (cumulative, known), (both_ends, known), (none, None)] {
        let world = World::new().await;
        world.model.push(Reply::events(style.iter().map(String::as_str).chain(["[DONE]"])));
        let reply = world.ask().await.unwrap();
        assert_eq!((reply.text.as_str(), reply.usage), ("xx", usage), "{style:?}");
    }
}

#[tokio::test]
async fn a16_a_plain_body_in_place_of_a_stream_counts_the_same() {
    let world = World::new().await;
    let call = json!({"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    world.model.push(Reply::json(200, &json!({
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "xx", "tool_calls": [call]}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 1},
            "prompt_tokens_details": {"cached_tokens": 5}}
    })));
    let watcher = Arc::new(Watcher::default());
    let reply = world.watch(world.agent(), vec![user("hi")], watcher.clone()).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.tool_calls.len()), ("xx", 1));
    let usage =
        Usage { input_tokens: 7, output_tokens: 2, cache_read_tokens: 5, reasoning_tokens: 1, ..Usage::default() };
    assert_eq!(reply.usage, Some(usage));
    assert_eq!(*watcher.text.lock().unwrap(), ["xx"]);
}

#[tokio::test]
async fn a20_text_from_a_model_changes_by_one_rule_only() {
    for (written, read) in [
        (r#"a\u0000b"#, "a\0b"),
        (r#"\ufffe\u200f"#, "\u{FFFE}\u{200F}"),
        (r#"\ud83d\ude00 😀 e\u0301"#, "😀 😀 e\u{301}"),
        (r#"a\ud83d"#, "a\u{FFFD}"),
        (r#"\ude00b"#, "\u{FFFD}b"),
    ] {
        let world = World::new().await;
        world.model.push(Reply::events([&chunk(&format!(r#"{{"content": "{written}"}}"#), ""), STOP, "[DONE]"]));
        assert_eq!(world.ask().await.unwrap().text, read, "{written}");
    }
    let world = World::new().await;
    let mut body = b"data: {\"choices\": [{\"delta\": {\"content\": \"a\xff\xf0\x9f".to_vec();
    body.extend_from_slice(b"\"}, \"finish_reason\": \"stop\"}]}\n\n");
    world.model.push(Reply::raw(200, "text/event-stream", body));
    assert_eq!(world.ask().await.unwrap().text, "a\u{FFFD}\u{FFFD}");
}

#[tokio::test]
async fn a24_arguments_arrive_as_the_model_wrote_them() {
    let world = World::new().await;
    let calls =
        [("a", "f", "{"), ("b", "", ""), ("b", "f", "null"), ("", "F", r#"{"n": 9007199254740993, "n": 1e400}"#)];
    world.model.push(Reply::calls(&calls));
    let reply = world.ask().await.unwrap();
    let read: Vec<_> =
        reply.tool_calls.iter().map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str())).collect();
    assert_eq!(read, calls);
    assert_eq!(reply.finish_reason.as_deref(), Some("tool_calls"));
}

#[tokio::test]
async fn a25_an_answer_may_be_empty_in_every_way() {
    for (delta, text) in
        [(r#"{"content": ""}"#, ""), (r#"{"content": null}"#, ""), (r#"{"content": " \n"}"#, " \n"), ("{}", "")]
    {
        let world = World::new().await;
        world.model.push(Reply::events([&chunk(delta, ""), STOP, "[DONE]"]));
        let reply = world.ask().await.unwrap();
        assert_eq!((reply.text.as_str(), reply.reasoning), (text, None), "{delta}");
    }
    let world = World::new().await;
    world.model.push(Reply::events(["[DONE]"]));
    assert_eq!(world.ask().await.unwrap().text, "");
    world.model.push(Reply::events([&chunk(r#"{"reasoning_content": "hm"}"#, ""), STOP]));
    let watcher = Arc::new(Watcher::default());
    let reply = world.watch(world.agent(), vec![user("hi")], watcher.clone()).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.reasoning.as_deref()), ("", Some("hm")));
    assert_eq!(*watcher.reasoning.lock().unwrap(), ["hm"]);
}

#[tokio::test]
async fn either_mark_of_the_end_is_enough() {
    for marks in [&[STOP][..], &["[DONE]"]] {
        let world = World::new().await;
        let first = chunk(r#"{"content": "x"}"#, "");
        world.model.push(Reply::events([first.as_str()].iter().chain(marks)));
        assert_eq!(world.ask().await.unwrap().text, "x", "{marks:?}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_hang_up_does_not_hold_the_answer() {
    let world = World::new().await;
    world.model.push(Reply::events([&chunk(r#"{"content": "x"}"#, ""), STOP, "[DONE]"]).hang());
    assert_eq!(world.ask().await.unwrap().text, "x");
    world.model.push(Reply::events([&chunk(r#"{"content": "y"}"#, ""), STOP]).cut());
    assert_eq!(world.ask().await.unwrap().text, "y", "the break came after the last word");
}
