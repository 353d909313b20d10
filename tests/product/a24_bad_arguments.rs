//! A24: a model writes arguments that are no JSON, or names a tool that does not exist, and a run of many
//! minutes is aborted.

use reenact_tests::stub::Reply;
use serde_json::{Value, json};

use crate::world::World;

/// A tool that says what it takes.
const STRICT: &str = r#"
[limits]
turns = 20
[[tools]]
type = "builtin"
name = "sleep"
"#;
/// The longest that a model is told about one bad call.
const TOLD_BYTES_MAX: usize = 2_000;

/// Calls that cannot be made: the tool's name, the arguments, and what the model is told of it.
fn bad_calls() -> Vec<(&'static str, String, &'static str)> {
    let junk = "junk ".repeat(200_000);
    let of_note =
        ["{", "", "   ", "null", "[]", r#""x""#, r#"{"a":1,}"#, r#"{"a":1}{"a":2}"#, r#"{"a":1,"a":2}"#, &junk];
    let mut bad: Vec<_> = of_note.iter().map(|arguments| ("note", (*arguments).to_owned(), "note")).collect();
    let of_sleep = [r#"{"seconds":"one"}"#, r#"{"seconds":1,"extra":2}"#, "{}", r#"{"seconds":null}"#];
    bad.extend(of_sleep.iter().map(|arguments| ("sleep", (*arguments).to_owned(), "seconds")));
    bad.extend(["unknown", "", "NOTE", "note ", "no\0te"].map(|name| (name, "{}".to_owned(), "there is no tool")));
    bad
}

/// A bad call between two good ones; the RunOutput and the messages that the model was sent then.
async fn between_siblings(world: &World, name: &str, arguments: &str) -> (Value, Vec<Value>) {
    world.model.push(Reply::calls(&[
        ("first", "note", r#"{"sibling":1}"#),
        ("bad", name, arguments),
        ("last", "note", r#"{"sibling":2}"#),
    ]));
    world.model.push(Reply::text("understood"));
    let run = world.turn("s", "call three").await;
    let request = world.model.requests().pop().expect("it was asked again");
    (run, request.messages().to_vec())
}

#[tokio::test]
async fn a24_a_call_that_cannot_be_made_is_told_to_the_model_and_its_siblings_are_made_once() {
    let mut world = World::with(STRICT).await;
    for (name, arguments, wanted) in bad_calls() {
        let before = world.ledger.calls().len();
        let (run, messages) = between_siblings(&world, name, &arguments).await;
        let shown: String = arguments.chars().take(40).collect();
        let mut called: Vec<_> = world.ledger.calls().split_off(before).into_iter().map(|call| call.body).collect();
        called.sort();
        assert_eq!(called, [r#"{"sibling":1}"#, r#"{"sibling":2}"#], "`{name}` {shown}");
        let errors: Vec<_> =
            run["tools"].as_array().expect("tools").iter().map(|tool| &tool["tool_call_error"]).collect();
        assert_eq!(errors, [false, true, false], "`{name}` {shown}");
        let told = messages.iter().rfind(|message| message["tool_call_id"] == "bad").expect("it is answered");
        let told = told["content"].as_str().expect("in words");
        assert!(told.contains(wanted) && told.len() < TOLD_BYTES_MAX, "`{name}` {shown}: {told}");
        assert_eq!(run["content"], "understood");
    }
    world.survives_a_rebuild(&["s"]).await;
}

#[tokio::test]
async fn a24_a_model_that_never_gets_it_right_ends_at_the_turn_limit() {
    let mut world = World::with(STRICT).await;
    for (name, arguments) in [("note", "{"), ("nothing", "{}")] {
        let before = world.model.requests().len();
        world.model.otherwise(Reply::calls(&[("same", name, arguments)]));
        let run = world.product.turn("a", "s", "try").await;
        assert_eq!(run["status"], "ERROR");
        assert!(run["content"].as_str().expect("a reason").contains("limits.turns"), "{}", run["content"]);
        assert_eq!(world.model.requests().len() - before, 20);
        assert!(world.ledger.calls().is_empty(), "nothing was called with guessed arguments");
    }
    world.model.otherwise(Reply::text("ok"));
    world.survives_a_rebuild(&["s"]).await;
}

#[tokio::test]
async fn a24_calls_beyond_the_limit_are_answered_and_not_made() {
    let world = World::with("[limits]\ntool_calls = 2").await;
    let calls: Vec<_> = ["a", "b", "c", "d"].map(|id| (id, "note", "{}")).to_vec();
    world.model.push(Reply::calls(&calls));
    let run = world.turn("s", "call four").await;
    assert_eq!(world.ledger.calls().len(), 2);
    let errors: Vec<_> =
        run["tools"].as_array().expect("tools").iter().map(|tool| tool["tool_call_error"].clone()).collect();
    assert_eq!(errors, [json!(false), json!(false), json!(true), json!(true)]);
    world.all_requests_are_well_formed();
}
