//! A21: a payload above what a broker takes is dropped without a word, or blocks what comes behind it.

use std::time::Duration;

use reenact_tests::stub::Reply;
use serde_json::{Value, json};

use crate::{
    support::Product,
    world::{World, notes},
};

/// Sizes around what stores and brokers take by default, up to near the limit.
const SIZES: [usize; 4] = [900_000, 1_100_000, 3_000_000, 12_000_000];
/// Above every limit.
const TOO_LARGE: usize = 64_000_000;
/// No history: what was said before would be sent again with every turn.
const FORGETFUL: &str = "[history]\nruns = 0\n[limits]\ntool_calls = 5000";

/// A text of `bytes` bytes in words of 60 kB, no two of which are alike.
fn long(bytes: usize) -> String {
    let word = "zoë🙂;".repeat(6_000);
    let mut text = String::with_capacity(bytes + word.len() + 20);
    for number in 0.. {
        text.push_str(&format!("{number}{word} "));
        if text.len() >= bytes {
            break;
        }
    }
    let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end)).expect("0 is one");
    text.truncate(end);
    text
}

/// Where a large text stands.
#[derive(Debug, Clone, Copy)]
enum Place {
    Message,
    Arguments,
    ToolResult,
    Answer,
}

const PLACES: [Place; 4] = [Place::Message, Place::Arguments, Place::ToolResult, Place::Answer];

impl Place {
    /// Runs a turn that has `text` at this place; the RunOutput.
    async fn turn(self, world: &World, session: &str, text: &str) -> Value {
        let arguments = json!({"text": if matches!(self, Self::Arguments) { text } else { "" }}).to_string();
        world.model.push(notes(&[&arguments]));
        world.ledger.push(Reply::raw(
            200,
            "text/plain",
            if matches!(self, Self::ToolResult) { text } else { "done" }.to_owned(),
        ));
        world.model.push(Reply::text(if matches!(self, Self::Answer) { text } else { "ok" }));
        world.turn(session, if matches!(self, Self::Message) { text } else { "hello" }).await
    }

    /// Checks that a run has `text` wherever it stands in the output.
    fn check(self, run: &Value, text: &str) {
        let messages: Vec<_> = run["messages"].as_array().expect("messages").iter().collect();
        let [person, calling, result, answer] = messages[..] else { panic!("{} messages", messages.len()) };
        let seen = match self {
            Self::Message => vec![&run["input"]["input_content"], &person["content"]],
            Self::Arguments => vec![&run["tools"][0]["tool_args"]["text"], &result["tool_args"]["text"]],
            Self::ToolResult => vec![&run["tools"][0]["result"], &result["content"]],
            Self::Answer => vec![&run["content"], &answer["content"]],
        };
        for (at, seen) in seen.into_iter().enumerate() {
            // Not `assert_eq`: a failure would print megabytes.
            assert!(seen == text, "{self:?} of {} bytes differs at its place {at}", text.len());
        }
        if matches!(self, Self::Arguments) {
            let sent = calling["tool_calls"][0]["function"]["arguments"].as_str().expect("a call has arguments");
            let sent: Value = serde_json::from_str(sent).expect("they are JSON");
            assert!(sent["text"] == text, "the arguments as the model wrote them differ");
        }
    }
}

#[tokio::test]
async fn a21_what_is_below_the_limit_comes_back_byte_for_byte_also_after_a_rebuild() {
    let mut world = World::with(FORGETFUL).await;
    let mut runs = Vec::new();
    for size in SIZES {
        let text = long(size);
        for place in PLACES {
            let large = place.turn(&world, "large", &text).await;
            place.check(&large, &text);
            runs.push((size, place, large["run_id"].as_str().expect("an id").to_owned()));
        }
    }
    let (requests, calls) = (world.model.requests(), world.ledger.calls());
    let sent: Vec<_> = requests.iter().filter_map(|request| request.messages()[0]["content"].as_str()).collect();
    for size in SIZES {
        let text = long(size);
        assert!(sent.contains(&&*text), "the model was not sent {size} bytes as they were");
        let arguments = json!({"text": text}).to_string();
        assert!(calls.iter().any(|call| call.body == arguments), "the tool did not get {size} bytes as they were");
    }
    world.rebuild().await;
    for (size, place, run) in runs {
        place.check(&world.product.get(&format!("/runs/{run}")).await.expect(200).json(), &long(size));
    }
    world.turn("large", "go on").await;
}

#[tokio::test]
async fn a21_what_is_above_the_limit_is_refused_or_told_and_nobody_else_is_touched() {
    let mut world = World::with(FORGETFUL).await;
    let text = long(TOO_LARGE);
    let refused = world.product.post("/agents/a/runs", &[("message", &text), ("session_id", "s")]).await.expect(413);
    assert!(refused.text().contains("max-message-bytes"), "{}", refused.text());
    let metadata = json!({"k": long(600_000)}).to_string();
    let refused = world.product.post("/agents/a/runs", &[("message", "x"), ("metadata", &metadata)]).await.expect(413);
    assert!(refused.text().contains("bytes"), "{}", refused.text());
    assert_eq!(world.product.get("/runs").await.json()["meta"]["total_count"], 0, "nothing was begun");

    world.model.push(Reply::text(&text));
    let run = world.product.turn("a", "s", "hello").await;
    assert_eq!(run["status"], "ERROR");
    assert!(run["content"].as_str().expect("a reason").contains("16 MiB"), "{}", run["content"]);
    world.model.push(notes(&[&json!({"text": text}).to_string()]));
    let run = world.product.turn("a", "s", "hello").await;
    assert_eq!(run["status"], "ERROR");
    assert!(run["content"].as_str().expect("a reason").contains("16 MiB"), "{}", run["content"]);
    world.model.push(notes(&["{}"]));
    world.ledger.push(Reply::raw(200, "text/plain", text));
    let run = world.turn("s", "hello").await;
    assert_eq!(run["tools"][0]["tool_call_error"], true);
    assert!(run["tools"][0]["result"].as_str().expect("a reason").contains("16 MiB"), "{}", run["tools"]);
    world.survives_a_rebuild(&["s"]).await;
}

#[tokio::test]
async fn a21_runs_of_other_sessions_go_on_beside_a_large_one() {
    let world = World::with(FORGETFUL).await;
    let text = long(12_000_000);
    let form = [("message", text.as_str()), ("session_id", "large"), ("background", "true"), ("stream", "false")];
    world.model.rule(|request| {
        let large = request.messages()[0]["content"].as_str().is_some_and(|content| content.len() > 1_000_000);
        Some(if large { Reply::text("large").delay(Duration::from_secs(3600)) } else { Reply::text("small") })
    });
    Product::ask(world.product.form("/agents/a/runs", &form)).await.expect(202);
    for number in 0..10 {
        assert_eq!(world.turn(&format!("small-{number}"), "hello").await["content"], "small");
    }
}

/// Calls of one turn that all have these arguments; how often the tool was called, and the run.
async fn many(world: &mut World, count: usize, arguments: impl Fn(usize) -> String) -> Value {
    let arguments: Vec<_> = (0..count).map(arguments).collect();
    world.model.push(notes(&arguments.iter().map(String::as_str).collect::<Vec<_>>()));
    let before = world.ledger.calls().len();
    let run = world.turn("s", "note them all").await;
    let mut called: Vec<_> = world.ledger.calls().split_off(before).into_iter().map(|call| call.body).collect();
    let mut wanted = arguments;
    called.sort();
    wanted.sort();
    assert!(called == wanted, "{} calls of {}", called.len(), wanted.len());
    assert!(world.ledger.times_by_token().values().all(|times| *times == 1));
    run
}

#[tokio::test]
async fn a21_two_thousand_calls_of_one_turn_are_each_made_once() {
    let mut world = World::with(FORGETFUL).await;
    let run = many(&mut world, 2_000, |number| json!({"n": number}).to_string()).await;
    assert_eq!(run["tools"].as_array().map(Vec::len), Some(2_000));
    world.survives_a_rebuild(&["s"]).await;
}

#[tokio::test]
async fn a21_calls_that_together_are_larger_than_an_event_are_each_made_once() {
    let mut world = World::with(FORGETFUL).await;
    // Each stands inline in an event for itself; together they are 1.2 MB.
    let run = many(&mut world, 60, |number| json!({"n": number, "text": long(20_000)}).to_string()).await;
    assert_eq!(run["tools"].as_array().map(Vec::len), Some(60));
    world.survives_a_rebuild(&["s"]).await;
}
