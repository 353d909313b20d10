//! Sessions, and whose they are.

use axum::http::Method;
use serde_json::json;

use crate::support::Server;

#[tokio::test]
async fn a_session_is_made_read_changed_and_deleted() {
    let server = Server::start().await;
    let body =
        r#"{"session_id":"s","session_name":"One","session_state":{"a":1.10},"metadata":{"m":1},"agent_id":"demo"}"#;
    let made = server.json(Method::POST, "/sessions", body).await.expect(201).json();
    assert_eq!((&made["session_name"], &made["agent_session_id"]), (&json!("One"), &json!("s")));
    server.json(Method::POST, "/sessions", body).await.expect(409);
    let for_nobody = server.json(Method::POST, "/sessions", r#"{"agent_id":"nobody"}"#).await.expect(404).json();
    assert!(for_nobody.to_string().contains("Agent not found"), "{for_nobody}");

    let renamed = server.json(Method::POST, "/sessions/s/rename", r#"{"session_name":"Two"}"#).await.expect(200).json();
    assert_eq!(renamed["session_name"], "Two");
    let patch = r#"{"session_state":{"b":[]},"summary":{"text":"short"}}"#;
    let patched = server.json(Method::PATCH, "/sessions/s", patch).await.expect(200).json();
    assert_eq!(patched["session_state"], json!({"b": []}), "a field is replaced whole");
    assert_eq!((&patched["session_name"], &patched["metadata"]), (&json!("Two"), &json!({"m": 1})));
    assert_eq!(patched["session_summary"], json!({"text": "short"}));

    server.delete("/sessions/s").await.expect(204);
    server.delete("/sessions/s").await.expect(204);
    server.get("/sessions/s").await.expect(404);
    server.get("/sessions/s/runs").await.expect(404);
}

#[tokio::test]
async fn several_sessions_are_deleted_at_once() {
    let server = Server::start().await;
    for id in ["a", "b", "c"] {
        server.json(Method::POST, "/sessions", &format!("{{\"session_id\":\"{id}\"}}")).await.expect(201);
    }
    let body = r#"{"session_ids":["a","none","c"],"session_types":["agent","agent","agent"]}"#;
    server.json(Method::DELETE, "/sessions", body).await.expect(204);
    let left = server.get("/sessions").await.json();
    assert_eq!(
        left["data"].as_array().unwrap().iter().map(|session| &session["session_id"]).collect::<Vec<_>>(),
        ["b"]
    );
}

#[tokio::test]
async fn a13_what_is_anothers_is_as_if_it_did_not_exist() {
    let server = Server::start().await;
    let fields = [("message", "secret"), ("stream", "false"), ("session_id", "s"), ("user_id", "alice")];
    let run = server.form("/agents/demo/runs", &fields).await.expect(200).json();
    let run = run["run_id"].as_str().unwrap();
    for path in [
        "/sessions/s".to_owned(),
        "/sessions/s/runs".to_owned(),
        "/sessions/s/run-previews".to_owned(),
        format!("/sessions/s/runs/{run}"),
        format!("/runs/{run}"),
        format!("/agents/demo/runs/{run}?session_id=s"),
        "/agents/demo/runs?session_id=s".to_owned(),
    ] {
        let joint = if path.contains('?') { '&' } else { '?' };
        let theirs = server.get(&format!("{path}{joint}user_id=bob")).await.expect(404);
        let nothing = server.get(&format!("{}{joint}user_id=bob", path.replace("/s", "/x").replace(run, "x"))).await;
        assert_eq!(nothing.status, 404);
        assert!(!String::from_utf8_lossy(&theirs.body).contains("alice"));
        server.get(&format!("{path}{joint}user_id=alice")).await.expect(200);
    }
    for list in ["/sessions", "/runs"] {
        assert_eq!(server.get(&format!("{list}?user_id=bob")).await.json()["meta"]["total_count"], 0);
    }
    let bob = [("user_id", "bob")];
    server.form(&format!("/agents/demo/runs/{run}/cancel?user_id=bob"), &[]).await.expect(404);
    server.form(&format!("/agents/demo/runs/{run}/resume"), &bob).await.expect(404);
    let decide = [("user_id", "bob"), ("tools", "[{\"tool_call_id\":\"c\",\"confirmed\":true}]")];
    server.form(&format!("/agents/demo/runs/{run}/continue"), &decide).await.expect(404);
    server.json(Method::PATCH, "/sessions/s?user_id=bob", "{\"session_name\":\"x\"}").await.expect(404);
    server.json(Method::POST, "/sessions/s/rename?user_id=bob", "{\"session_name\":\"x\"}").await.expect(404);
    server.delete("/sessions/s?user_id=bob").await.expect(204);
    let fields = [("message", "mine"), ("stream", "false"), ("session_id", "s"), ("user_id", "bob")];
    server.form("/agents/demo/runs", &fields).await.expect(404);
    let session = server.get("/sessions/s?user_id=alice").await.expect(200).json();
    assert_eq!((&session["session_name"], &session["user_id"]), (&json!("secret"), &json!("alice")));
}
