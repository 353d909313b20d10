//! A client that watches a run through another node than the one that it is on.

use std::time::Duration;

use futures::StreamExt;
use reenact_tests::stub::{ModelStub, Reply};
use reqwest::{Client, multipart::Form};
use serde_json::Value;

use crate::{brokers::Turn, fleet::Fleet, support::agent_with_model};

const TEXT: &str = "one two three four five six seven eight nine ten";

/// One frame: its name and its data.
type Frame = (String, Value);

/// Takes the whole frames off the front of what was read.
fn frames(read: &mut String) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some(end) = read.find("\n\n") {
        let text: String = read.drain(..end + 2).collect();
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        if let (Some(name), Some(data)) = (field("event: "), field("data: ")) {
            frames.push((name.to_owned(), serde_json::from_str(data).expect("JSON")));
        }
    }
    frames
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a07_a_stream_through_another_node_goes_on_after_the_owners_death_and_voids_the_partial_answer() {
    let turn = Turn::take().await;
    let model = ModelStub::start().await;
    model.otherwise(Reply::text(TEXT).pause(Duration::from_millis(300)));
    let mut fleet = Fleet::new(turn.bootstrap(), "streams").agent("a", &agent_with_model(&model.base_url()));
    for node in ["a", "b"] {
        fleet.start(node).await;
    }
    fleet.is_balanced().await;
    let owner = fleet.owner("session").await;
    let other = fleet.others(&owner).remove(0);
    let form = Form::new().text("message", "say").text("session_id", "session").text("background", "true");
    let http = Client::builder().no_proxy().build().expect("a client");
    let url = format!("{}/agents/a/runs", fleet.of(&other).url());
    let response = http.post(url).multipart(form.text("stream", "true")).send().await.expect("it answers");
    assert_eq!(response.status(), 200);
    let (mut bytes, mut read, mut seen) = (response.bytes_stream(), String::new(), Vec::<Frame>::new());
    let mut is_killed = false;
    while let Some(chunk) = bytes.next().await {
        read += std::str::from_utf8(&chunk.expect("the stream goes on")).expect("UTF-8");
        seen.extend(frames(&mut read));
        let words = seen.iter().filter(|(name, _)| name == "RunContent").count();
        if words >= 3 && !is_killed {
            fleet.kill(&owner);
            is_killed = true;
        }
    }
    assert!(is_killed, "{seen:#?}");
    check(&seen);
}

fn check(seen: &[Frame]) {
    let names: Vec<_> = seen.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.last(), Some(&"RunCompleted"), "{seen:#?}");
    let indexes: Vec<_> = seen.iter().filter_map(|(_, data)| data["event_index"].as_u64()).collect();
    assert!(indexes.is_sorted_by(|a, b| a < b), "{indexes:?}");
    let void = seen.iter().rposition(|(_, data)| data.to_string().contains("attempt_restarted"));
    let void = void.unwrap_or_else(|| panic!("the partial answer is not declared void: {seen:#?}"));
    let words = seen[void..].iter().filter(|(name, _)| name == "RunContent");
    let text: String = words.filter_map(|(_, data)| data["content"].as_str()).collect();
    assert_eq!(text, TEXT, "what follows is the whole answer");
    assert_eq!(seen[seen.len() - 1].1["content"], TEXT);
}
