//! The state that a session's runs share: given, changed by tools key by key, shown to the model and to everybody.

use futures::future::join_all;
use reenact_tests::stub::{LedgerStub, Reply};
use serde_json::{Value, json};

use crate::world::{World, notes};

const HEAD: &str = r#"
instructions = "The customer is {name}, the cart is {cart}; keep {this}."
add_session_state_to_context = true
session_state = { cart = [], name = "nobody" }
"#;
const BUILTIN: &str = "[[tools]]\ntype = \"builtin\"\nname = \"update_session_state\"\n";
const RESULT: &str = "application/vnd.reenact.result+json";

async fn state_of(world: &World, session: &str) -> Value {
    world.product.get(&format!("/sessions/{session}")).await.expect(200).json()["session_state"].clone()
}

fn told(world: &World) -> String {
    let request = world.model.requests().pop().expect("it was asked");
    request.messages()[0]["content"].as_str().expect("instructions").to_owned()
}

fn update(arguments: &str) -> Reply {
    Reply::calls(&[("c", "update_session_state", arguments)])
}

#[tokio::test]
async fn the_state_is_given_by_agent_and_caller_changed_by_tools_and_told_to_the_model() {
    let mut world = World::headed(HEAD, BUILTIN).await;
    world.model.push(update(r#"{"session_state_updates":{"cart":["tea"],"n":1}}"#));
    let fields = [("message", "buy"), ("session_id", "s"), ("stream", "false"), ("session_state", r#"{"name":"Ada"}"#)];
    let run = world.product.post("/agents/a/runs", &fields).await.expect(200).json();
    let state = json!({"cart": ["tea"], "n": 1, "name": "Ada"});
    assert_eq!((&run["session_state"], &state_of(&world, "s").await), (&state, &state), "{run:#}");
    let told_now = told(&world);
    assert!(told_now.starts_with(r#"The customer is Ada, the cart is ["tea"]; keep {this}."#), "{told_now}");
    let shown = "<session_state>\n{\"cart\":[\"tea\"],\"n\":1,\"name\":\"Ada\"}\n</session_state>";
    assert!(told_now.ends_with(shown), "{told_now}");
    world.model.push(update(r#"{"session_state_updates":{},"delete":["n","name"]}"#));
    world.turn("s", "forget me").await;
    world.rebuild().await;
    assert_eq!(state_of(&world, "s").await, json!({"cart": ["tea"]}));
    world.turn("s", "who am I?").await;
    assert!(told(&world).starts_with("The customer is nobody"), "{}", told(&world));
}

#[tokio::test]
async fn a_caller_of_an_existing_session_sets_keys_and_an_update_replaces_the_whole() {
    let world = World::with("").await;
    let say = async |state: &str| {
        let fields = [("message", "go"), ("session_id", "s"), ("stream", "false"), ("session_state", state)];
        world.product.post("/agents/a/runs", &fields).await
    };
    say(r#"{"a":1,"b":1}"#).await.expect(200);
    say(r#"{"b":2,"c":{"deep":[1]}}"#).await.expect(200);
    assert_eq!(state_of(&world, "s").await, json!({"a": 1, "b": 2, "c": {"deep": [1]}}));
    let body = json!({"session_state": {"d": 4}});
    let patch = world.product.request(reqwest::Method::PATCH, "/sessions/s").json(&body);
    assert_eq!(crate::support::Product::ask(patch).await.expect(200).json()["session_state"], json!({"d": 4}));
    world.turn("s", "go on").await;
    assert_eq!(state_of(&world, "s").await, json!({"d": 4}));
    for wrong in ["[]", "{", "3"] {
        say(wrong).await.expect(422);
    }
}

#[tokio::test]
async fn a_stream_ends_with_the_state_as_it_was_then() {
    let world = World::with("").await;
    let completed = |stream: crate::support::Answer| -> Value {
        let text = stream.expect(200).text();
        let frame = text.split("\n\n").find(|frame| frame.starts_with("event: RunCompleted")).map(str::to_owned);
        let frame = frame.unwrap_or_else(|| panic!("{text}"));
        let data = frame.lines().find_map(|line| line.strip_prefix("data: ")).expect("data");
        serde_json::from_str(data).expect("is JSON")
    };
    let say = async |state: &str| {
        let fields = [("message", "go"), ("session_id", "s"), ("stream", "true"), ("session_state", state)];
        completed(world.product.post("/agents/a/runs", &fields).await)
    };
    let first = say(r#"{"a":1}"#).await;
    assert_eq!(first["session_state"], json!({"a": 1}), "{first:#}");
    assert_eq!(say(r#"{"b":2}"#).await["session_state"], json!({"a": 1, "b": 2}));
    let path = format!("/agents/a/runs/{}/resume", first["run_id"].as_str().expect("an id"));
    assert_eq!(completed(world.product.post(&path, &[("last_event_index", "-1")]).await), first);
    let without = [("message", "go"), ("session_id", "without"), ("stream", "true")];
    let without = completed(world.product.post("/agents/a/runs", &without).await);
    assert_eq!(without.get("session_state"), None, "{without:#}");
}

// The program is waited for here, and asks the model that is served here.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_gives_state_metadata_and_schema() {
    let world = World::with("").await;
    world.model.push(Reply::text(r#"{"n": 1}"#));
    std::fs::write(world.product.data().join("n.json"), r#"{"type": "object"}"#).expect("the folder is writable");
    let schema = world.product.data().join("n.json").display().to_string();
    let arguments = ["run", "a", "go", "--session", "s", "--no-stream", "--session-state", r#"{"a": 1}"#, "--metadata"];
    let told = world.product.run(&[&arguments[..], &[r#"{"source": "cli"}"#, "--output-schema", &schema]].concat());
    assert!(told.status.success(), "{told:?}");
    assert_eq!(serde_json::from_slice::<Value>(&told.stdout).expect("is JSON"), json!({"n": 1}));
    assert_eq!(state_of(&world, "s").await, json!({"a": 1}));
    let runs = world.product.get("/sessions/s/runs").await.expect(200).json();
    assert_eq!((&runs[0]["metadata"], &runs[0]["session_state"]), (&json!({"source": "cli"}), &json!({"a": 1})));
}

#[tokio::test]
async fn an_http_tool_changes_keys_by_the_type_of_its_answer_alone() {
    let world = World::with("").await;
    let changes = json!({"content": "done", "session_state": {"set": {"a": 1}, "delete": ["b"]}}).to_string();
    let cases = [("application/json", Value::Null), (RESULT, json!({"a": 1})), (RESULT, json!({"a": 1}))];
    for (kind, state) in cases {
        world.ledger.push(Reply::raw(200, kind, changes.clone()));
        world.model.push(notes(&["{}"]));
        world.turn("s", "go").await;
        assert_eq!(state_of(&world, "s").await, state, "{kind}");
    }
    world.ledger.push(Reply::raw(200, RESULT, "{}"));
    world.model.push(notes(&["{}"]));
    let run = world.turn("s", "go").await;
    assert_eq!(run["tools"][0]["tool_call_error"], true);
    assert!(run["tools"][0]["result"].as_str().expect("a reason").contains("`content`"), "{run:#}");
}

#[tokio::test]
async fn a09_runs_that_work_beside_each_other_lose_no_key_also_when_they_are_killed() {
    let mut world = World::with("[queue]\nwhen_busy = \"parallel\"\n").await;
    answer_with_keys(&world.ledger);
    world.model.rule(|request| {
        let messages = request.messages();
        let last = messages.last().and_then(|last| last["content"].as_str()).unwrap_or_default();
        Some(match last.strip_prefix("set ") {
            Some(number) => notes(&[&format!(r#"{{"key":"{number}"}}"#)]),
            None => Reply::text("ok"),
        })
    });
    let runs =
        join_all((0..20).map(async |number| world.product.begin("a", "s", &format!("set {number}")).await)).await;
    world.ledger.wait_for(3).await;
    world.product.crash().await;
    for run in &runs {
        assert_eq!(world.product.settled(run).await["status"], "COMPLETED");
    }
    let state = state_of(&world, "s").await;
    assert_eq!(state.as_object().map(serde_json::Map::len), Some(20), "{state}");
    world.rebuild().await;
    assert_eq!(state_of(&world, "s").await, state);
}

/// Each call sets the key that it names.
fn answer_with_keys(ledger: &LedgerStub) {
    ledger.rule(|call| {
        let arguments: Value = serde_json::from_str(&call.body).ok()?;
        let key = arguments["key"].as_str()?.to_owned();
        let body = json!({"content": "done", "session_state": {"set": {key: true}}});
        Some(Reply::raw(200, RESULT, body.to_string()))
    });
}
