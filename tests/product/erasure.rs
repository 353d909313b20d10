//! A user is erased by destroying their key: afterwards no file and no read has what they said, the chain verifies, and
//! the others have what they had.

use std::{fs, path::Path, time::Duration};

use rand::Rng;
use reenact_tests::{product::Product, stub::Reply};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    support::{PATIENCE, POLL, dice},
    world::{World, notes},
};

pub(crate) const MARKER: &str = "Mnemosyne-7731";
pub(crate) const OF_BOB: &str = "Thalia-2209";
const LARGE_BYTES: usize = 100_000;

async fn world() -> World {
    World::set("", |product| product.set("REENACT_CONTENT", "per_user_key").set("REENACT_BLOB_GRACE_S", 0)).await
}

/// The files below a folder that hold a text.
pub(crate) fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("lists") {
        let path = entry.expect("lists").path();
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if let Ok(bytes) = fs::read(&path)
            && bytes.windows(text.len()).any(|window| window == text.as_bytes())
        {
            found.push(path.display().to_string());
        }
    }
    found
}

async fn ask(world: &World, method: Method, path: &str, body: &Value) -> Value {
    let answer = Product::ask(world.product.request(method, path).json(body)).await;
    assert!((200..300).contains(&answer.status), "{path}: {}", answer.text());
    answer.json()
}

pub(crate) async fn say(world: &World, user: &str, session: &str, message: &str, more: &[(&str, &str)]) -> Value {
    let fields = [&[("message", message), ("session_id", session), ("user_id", user), ("stream", "false")], more];
    let run = world.product.post("/agents/a/runs", &fields.concat()).await.expect(200).json();
    assert_eq!(run["status"], "COMPLETED", "{run:#}");
    run
}

/// Has a text of a user's in every place that takes one.
pub(crate) async fn speak_everywhere(world: &World, user: &str, text: &str) {
    let (first, second) = (format!("{user}-1"), format!("{user}-2"));
    let object = json!({ "said": text }).to_string();
    world.model.push(notes(&[&object]));
    world.ledger.push(Reply::raw(200, "text/plain", text.to_owned()));
    world.model.push(Reply::text(text));
    let run = say(world, user, &first, text, &[("metadata", &object), ("session_state", &object)]).await;
    world.model.push(Reply::text(&format!("{text} {}", "long ".repeat(LARGE_BYTES / 5))));
    say(world, user, &second, &format!("{text} {}", "large ".repeat(LARGE_BYTES / 6)), &[]).await;
    let rename = format!("/sessions/{first}/rename?type=agent&user_id={user}");
    ask(world, Method::POST, &rename, &json!({ "session_name": text })).await;
    let schedule = json!({
        "name": text, "description": text, "endpoint": "/agents/a/runs", "on_demand": true,
        "payload": { "message": text },
    });
    ask(world, Method::POST, &format!("/schedules?user_id={user}"), &schedule).await;
    world.model.push(Reply::text("forked"));
    let run = run["run_id"].as_str().expect("an id");
    let fork = [("fork", "true"), ("input", text), ("instructions", text), ("user_id", user), ("stream", "false")];
    world.product.post(&format!("/agents/a/runs/{run}/continue"), &fork).await.expect(200);
}

pub(crate) fn said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
}

pub(crate) async fn finished(product: &Product, user: &str) -> Value {
    let began = std::time::Instant::now();
    loop {
        let report = product.get(&format!("/users/{user}/erasure")).await.expect(200).json();
        if !report["finished_at"].is_null() {
            return report;
        }
        assert!(began.elapsed() < PATIENCE, "{report:#}");
        tokio::time::sleep(POLL).await;
    }
}

/// Checks that nothing of the marked text is left, but all of the other's, and that the audit passes.
async fn is_erased(world: &mut World, of_bob: &std::collections::BTreeMap<String, Value>) {
    let left = holding(&world.product.data(), MARKER);
    assert_eq!(left, [] as [String; 0], "while it is up");
    assert_eq!(&world.everything(&["bob-1", "bob-2"]).await, of_bob);
    for path in ["/sessions?user_id=alice", "/schedules?user_id=alice", "/approvals?user_id=alice"] {
        assert!(!world.product.get(path).await.text().contains(MARKER), "{path}");
    }
    world.product.get("/sessions/alice-1").await.expect(404);
    let events = world.product.events();
    assert!(!json!(events).to_string().contains(MARKER) && json!(events).to_string().contains("[erased]"));
    assert!(json!(events).to_string().contains(OF_BOB));
    assert_eq!(events.iter().filter(|event| event["type"] == "dev.reenact.subject.erased.v1").count(), 1);
    world.product.term();
    world.product.ended(PATIENCE).await;
    assert_eq!(holding(&world.product.data(), MARKER), [] as [String; 0], "when it is stopped");
    let verified = world.product.run(&["audit", "verify"]);
    assert!(verified.status.success(), "{}", said(&verified));
    let exported = world.product.data().join("../exported");
    let exported = exported.to_str().expect("UTF-8");
    for command in [&["audit", "export", "--to", exported][..], &["projections", "rebuild", "--data", "data"]] {
        let done = world.product.run(command);
        assert!(done.status.success(), "{command:?}: {}", said(&done));
    }
    assert_eq!(holding(Path::new(exported), MARKER), [] as [String; 0]);
    assert_eq!(holding(&world.product.data(), MARKER), [] as [String; 0], "when it is folded anew");
    world.product.start().await;
    assert_eq!(&world.everything(&["bob-1", "bob-2"]).await, of_bob);
}

#[tokio::test]
async fn what_a_user_said_is_nowhere_once_they_are_erased() {
    let mut world = world().await;
    speak_everywhere(&world, "alice", MARKER).await;
    speak_everywhere(&world, "bob", OF_BOB).await;
    let of_bob = world.everything(&["bob-1", "bob-2"]).await;
    for folder in ["log", "blobs"].map(|folder| world.product.data().join(folder)) {
        let found = if folder.is_dir() { holding(&folder, MARKER) } else { Vec::new() };
        assert_eq!(found, [] as [String; 0], "it is sealed from the first");
    }
    assert!(json!(world.product.events()).to_string().contains(MARKER), "whoever has the keys reads it");
    world.product.crash().await;

    let would = world.product.run(&["users", "erase", "alice"]);
    assert!(would.status.success() && said(&would).contains("--yes"), "{}", said(&would));
    world.product.get("/sessions/alice-1").await.expect(200);
    let done = world.product.run(&["users", "erase", "alice", "--yes"]);
    assert!(done.status.success(), "{}", said(&done));
    for place in ["sessions", "keys", "log", "views", "states", "blobs", "elsewhere"] {
        assert!(said(&done).lines().any(|line| line.starts_with(place)), "{place}: {}", said(&done));
    }
    is_erased(&mut world, &of_bob).await;

    let report = world.product.run(&["users", "report", "alice", "--json"]);
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!(report["keys"].as_array().map(Vec::len), Some(1), "{report:#}");
    world.product.get("/users/bob/erasure").await.expect(404);
    say(&world, "alice", "alice-new", "I am back", &[]).await;
    world.rebuild().await;
    let again = world.product.get("/sessions/alice-new/runs").await.expect(200).json();
    assert!(again[0]["messages"].to_string().contains("I am back"), "{again:#}");
}

#[tokio::test]
async fn an_erasure_that_is_killed_in_its_middle_is_gone_on_with() {
    let mut dice = dice("an_erasure_that_is_killed_in_its_middle_is_gone_on_with");
    let mut world = world().await;
    speak_everywhere(&world, "alice", MARKER).await;
    speak_everywhere(&world, "bob", OF_BOB).await;
    let of_bob = world.everything(&["bob-1", "bob-2"]).await;
    let asked = Product::ask(world.product.request(Method::DELETE, "/users/alice")).await.expect(202).json();
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(dice.random_range(0..120))).await;
        world.product.crash().await;
    }
    let report = finished(&world.product, "alice").await;
    assert_eq!(report["asked_at"], asked["asked_at"]);
    is_erased(&mut world, &of_bob).await;
}
