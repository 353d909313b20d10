//! What a run may be asked for once its agent is not served any more, by whom, and with what.

use axum::http::Method;
use serde_json::json;

use crate::support::{Server, form};

const CAREFUL: &str = "[model]\nprovider = \"demo\"\n[[tools]]\ntype = \"builtin\"\nname = \"calculator\"\n\
                       requires_confirmation = true\n";
const PLAIN: &str = "[model]\nprovider = \"demo\"\n";

#[tokio::test]
async fn a_run_whose_agent_is_not_served_any_more_is_watched_decided_about_and_stopped_as_ever() {
    let server = Server::with(&[("careful", CAREFUL), ("plain", PLAIN)], &[]).await;
    let mut runs = Vec::new();
    for session in ["kept", "stopped"] {
        let run = server.background("careful", &[("message", "What is 6*7?"), ("session_id", session)]).await;
        server.until(&run, "PAUSED").await;
        runs.push(run);
    }
    let server = server.without_agent("careful").await;
    let path = |run: &str, what: &str| format!("/agents/careful/runs/{run}{what}");
    server.get(&path(&runs[0], "")).await.expect(200);
    let frames = server.whole_stream(form(&path(&runs[0], "/resume"), &[])).await;
    assert!(frames.iter().any(|frame| frame.name == "RunPaused" && frame.data["agent_id"] == "careful"));
    let calls = server.get(&path(&runs[0], "")).await.expect(200).json()["tools"].clone();
    let yes = json!([{"tool_call_id": calls[0]["tool_call_id"], "confirmed": true}]).to_string();
    let done = server.form(&path(&runs[0], "/continue"), &[("tools", &yes), ("stream", "false")]).await.expect(200);
    assert_eq!(done.json()["status"], "COMPLETED");
    let cancelled = server.json(Method::POST, &path(&runs[1], "/cancel"), "").await.expect(200);
    assert_eq!(cancelled.json()["status"], "CANCELLED");
    let new = server.form("/agents/careful/runs", &[("message", "hello")]).await.expect(404);
    assert_eq!(new.json()["error_id"], "agent_not_found");
    server.get(&path("no-such-run", "")).await.expect(404);
}

#[tokio::test]
async fn a_user_whom_the_query_of_a_form_names_is_who_asks() {
    let server = Server::start().await;
    let run = server.background("demo", &[("message", "hello"), ("user_id", "alice")]).await;
    server.until(&run, "COMPLETED").await;
    let resume = |user: &str| format!("/agents/demo/runs/{run}/resume{user}");
    server.form(&resume("?user_id=bob"), &[]).await.expect(404);
    server.form(&resume("?user_id=alice"), &[]).await.expect(200);
    let refused = server.form(&resume("?user_id=alice"), &[("user_id", "bob")]).await.expect(422);
    assert_eq!(refused.json()["detail"][0]["loc"], json!(["query", "user_id"]));
}

#[tokio::test]
async fn a_file_that_comes_as_a_text_is_refused_and_not_lost() {
    let server = Server::start().await;
    let fields = [("message", "look"), ("files", "http://127.0.0.1/x.png"), ("stream", "false")];
    let refused = server.form("/agents/demo/runs", &fields).await.expect(422);
    assert_eq!(refused.json()["detail"][0]["loc"], json!(["body", "files"]));
    assert_eq!(server.get("/runs").await.expect(200).json()["data"], json!([]));
}

#[tokio::test]
async fn an_index_beyond_the_end_of_a_run_that_has_ended_is_refused() {
    let server = Server::start().await;
    let run = server.background("demo", &[("message", "hello")]).await;
    server.until(&run, "COMPLETED").await;
    let path = format!("/agents/demo/runs/{run}/resume");
    let last = server.whole_stream(form(&path, &[])).await.iter().filter_map(|frame| frame.index()).max().unwrap();
    let rest = server.whole_stream(form(&path, &[("last_event_index", &last.to_string())])).await;
    assert!(rest.iter().all(|frame| frame.index().is_none()), "nothing is left: {rest:?}");
    let beyond = server.form(&path, &[("last_event_index", &(last + 1).to_string())]).await;
    let beyond = beyond.expect(422).json();
    assert_eq!(beyond["detail"][0]["loc"], json!(["body", "last_event_index"]));
}
