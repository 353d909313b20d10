//! A25: a turn without words and calls is stored as an empty block, and the provider refuses it on every later
//! turn.
//!
//! The rule: an empty answer completes the run with empty content and is left out of later history; what was
//! asked stays. A tool's empty result is shown to the model as words in brackets.

use reenact_tests::stub::Reply;
use serde_json::{Value, json};

use crate::world::{World, notes};

fn streamed(deltas: &[Value]) -> Reply {
    let chunk =
        |delta: &Value, reason: Value| json!({"choices": [{"delta": delta, "finish_reason": reason}]}).to_string();
    let chunks = deltas.iter().map(|delta| chunk(delta, Value::Null));
    Reply::events(chunks.chain([chunk(&json!({}), json!("stop")), "[DONE]".to_owned()]))
}

/// Answers that say nothing.
fn empty_answers() -> Vec<(&'static str, Reply)> {
    let whole = |message: Value| Reply::json(200, &json!({"choices": [{"message": message, "finish_reason": "stop"}]}));
    vec![
        ("an empty text", streamed(&[json!({"role": "assistant", "content": ""})])),
        ("whitespace", streamed(&[json!({"content": " \n\t "})])),
        ("a space that is not ASCII", streamed(&[json!({"content": "\u{a0}\u{2003}"})])),
        ("null", streamed(&[json!({"content": null})])),
        ("an empty list", streamed(&[json!({"content": []})])),
        ("thinking only", streamed(&[json!({"reasoning_content": "Let me see."})])),
        ("no calls", streamed(&[json!({"tool_calls": []})])),
        ("a stop with no chunk before it", streamed(&[])),
        ("an end with no chunk before it", Reply::events(["[DONE]"])),
        ("no delta at all", Reply::events([r#"{"choices":[{"finish_reason":"stop"}]}"#, "[DONE]"])),
        ("an empty message that came whole", whole(json!({"role": "assistant", "content": ""}))),
        ("a null message that came whole", whole(json!({"role": "assistant", "content": null}))),
    ]
}

/// A turn with words and a result, after which whatever came before is in the history.
async fn next_turn_is_accepted(world: &World, what: &str) {
    world.model.push(notes(&["{}"]));
    world.model.push(Reply::text("words"));
    assert_eq!(world.turn("s", "go on").await["content"], "words", "after {what}");
    world.all_requests_are_well_formed();
}

#[tokio::test]
async fn a25_an_empty_answer_completes_its_run_and_is_left_out_of_history() {
    let mut world = World::with("").await;
    for (what, reply) in empty_answers() {
        world.model.push(reply);
        let run = world.turn("s", "say nothing").await;
        assert!(run["content"].as_str().is_none_or(|content| content.trim().is_empty()), "{what}: {}", run["content"]);
        next_turn_is_accepted(&world, what).await;
        let request = world.model.requests().pop().expect("it was asked");
        let asked = request.messages().iter().any(|message| message["content"] == "say nothing");
        assert!(asked, "{what}: what was asked stays in the history");
    }
    world.survives_a_rebuild(&["s"]).await;
}

#[tokio::test]
async fn a25_an_empty_answer_after_calls_keeps_the_calls() {
    let mut world = World::with("").await;
    for (what, reply) in empty_answers() {
        world.model.push(notes(&["{}"]));
        world.model.push(reply);
        world.turn("s", "note and say nothing").await;
        next_turn_is_accepted(&world, what).await;
    }
    world.survives_a_rebuild(&["s"]).await;
}

#[tokio::test]
async fn a25_an_empty_result_is_told_in_words() {
    let mut world = World::with("").await;
    for body in ["", " ", "\n", "null", "[]", "{}", r#""""#] {
        world.model.push(notes(&["{}"]));
        world.ledger.push(Reply::raw(200, "application/json", body));
        world.turn("s", "note").await;
        let request = world.model.requests().pop().expect("it was asked");
        let told = request.messages().last().expect("messages")["content"].as_str().expect("words").to_owned();
        assert!(if body.trim().is_empty() { told.starts_with('(') } else { told == body }, "{body:?}: {told}");
        next_turn_is_accepted(&world, body).await;
    }
    world.model.push(notes(&["{}"]));
    world.ledger.push(Reply::raw(204, "text/plain", ""));
    world.turn("s", "note").await;
    world.survives_a_rebuild(&["s"]).await;
}

#[tokio::test]
async fn a25_a_body_without_any_answer_is_an_error_with_a_reason_and_the_session_goes_on() {
    let mut world = World::with("").await;
    for (status, body) in [(200, ""), (200, "\n\n"), (204, ""), (200, "{}"), (200, r#"{"choices":[]}"#)] {
        world.model.push(Reply::raw(status, "text/event-stream", body));
        let run = world.product.turn("a", "s", "say nothing").await;
        assert_eq!(run["status"], "ERROR", "{status} {body:?}");
        assert!(!run["content"].as_str().expect("a reason").is_empty());
        next_turn_is_accepted(&world, body).await;
    }
    world.survives_a_rebuild(&["s"]).await;
}
