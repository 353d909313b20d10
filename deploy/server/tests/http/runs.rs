//! Starting runs and reading them back.

use axum::{
    body::Body,
    http::{Method, Request},
};
use serde_json::json;

use crate::support::{Server, form, multipart, request};

const RUNS: &str = "/agents/demo/runs";

fn with_key(mut request: Request<Body>, key: &str) -> Request<Body> {
    request.headers_mut().insert("idempotency-key", key.parse().unwrap());
    request
}

#[tokio::test]
async fn a_blocking_run_answers_with_its_output_and_is_read_back_everywhere() {
    let server = Server::start().await;
    let fields = [("message", "What is 6*7?"), ("stream", "false"), ("session_id", "s"), ("metadata", "{\"k\":1}")];
    let answer = server.form(RUNS, &fields).await.expect(200);
    assert!(answer.headers.contains_key("reenact-position"));
    let run = answer.json();
    assert_eq!((&run["status"], &run["metadata"]), (&json!("COMPLETED"), &json!({"k": 1})));
    assert!(run["content"].as_str().unwrap().contains("42"));
    let id = run["run_id"].as_str().unwrap();
    assert_eq!(server.get(&format!("{RUNS}/{id}?session_id=s")).await.expect(200).json(), run);
    assert_eq!(server.get(&format!("{RUNS}?session_id=s")).await.expect(200).json()[0], run);
    assert_eq!(server.get(&format!("{RUNS}?session_id=s&status=error")).await.expect(200).json(), json!([]));
    server.get(&format!("{RUNS}/{id}?session_id=other")).await.expect(404);
    let listed = server.get("/sessions/s/runs?status=completed").await.expect(200).json();
    assert_eq!((&listed[0]["run_id"], &listed[0]["run_input"]), (&json!(id), &json!("What is 6*7?")));
    let session = server.get("/sessions/s/").await.expect(200).json();
    assert_eq!(session["session_name"], "What is 6*7?");
    assert_eq!(session["chat_history"].as_array().unwrap().len(), 4, "question, call, result, answer");
}

#[tokio::test]
async fn a_run_that_was_accepted_is_visible_at_once() {
    let server = Server::start().await;
    for at in 0..20 {
        let session = format!("s{at}");
        let run = server.background("demo", &[("message", "hi"), ("session_id", &session)]).await;
        server.get(&format!("/agents/demo/runs/{run}?session_id={session}")).await.expect(200);
        assert_eq!(server.get(&format!("/sessions/{session}/runs")).await.expect(200).json()[0]["run_id"], run);
        assert_eq!(server.get("/runs").await.json()["meta"]["total_count"], at + 1);
    }
}

#[tokio::test]
async fn a_token_makes_a_read_wait_and_says_so_when_it_waits_in_vain() {
    let server = Server::start().await;
    let answer = server.form(RUNS, &[("message", "hi"), ("stream", "false")]).await.expect(200);
    let token = answer.headers["reenact-position"].clone();
    let read = |token| request(Method::GET, "/runs").header("reenact-position", token).body(Body::empty()).unwrap();
    server.ask(read(token.clone())).await.expect(200);
    let mut later = reenact_events::Token::decode(token.to_str().unwrap()).unwrap();
    later.places[0].1.0 += 1_000_000;
    let late = server.ask(read(later.encode().parse().unwrap())).await.expect(425);
    assert!(late.headers.contains_key("retry-after"));
    assert_eq!(late.json()["error_id"], "views_lag");
    later.log_id.0 = uuid::Uuid::from_u128(1);
    server.ask(read(later.encode().parse().unwrap())).await.expect(422);
}

#[tokio::test]
async fn files_are_kept_and_named_in_the_run() {
    let server = Server::start().await;
    let png = b"\x89PNG\r\n\x1a\nrest";
    let files: [(&str, &str, &[u8]); 2] =
        [("../x.png", "application/octet-stream", png), ("a.pdf", "application/pdf", b"%PDF")];
    let run = server.ask(multipart(RUNS, &[("message", "look"), ("stream", "false")], &files)).await.expect(200).json();
    assert_eq!(run["input"]["images"][0]["mime_type"], "image/png");
    assert_eq!(run["input"]["files"][0]["mime_type"], "application/pdf");
    assert_eq!(
        server.ask(multipart(RUNS, &[("stream", "false")], &files)).await.status,
        200,
        "files alone are a message"
    );
}

#[tokio::test]
async fn cancelling_is_durable_and_harmless_when_repeated() {
    let server = Server::start().await;
    let run = server.background("demo", &[("message", "sleep 30"), ("session_id", "s")]).await;
    server.until(&run, "RUNNING").await;
    server.form(&format!("{RUNS}/{run}/cancel?session_id=s"), &[]).await.expect(200);
    server.until(&run, "CANCELLED").await;
    let again = server.form(&format!("{RUNS}/{run}/cancel"), &[]).await.expect(200).json();
    assert_eq!(again["status"], "CANCELLED");
    let next = server.form(RUNS, &[("message", "hi"), ("stream", "false"), ("session_id", "s")]).await;
    assert_eq!(next.expect(200).json()["status"], "COMPLETED", "the session takes the next run");
}

#[tokio::test]
async fn a_full_queue_is_429_with_advice() {
    let server = Server::with(&[], &[("max-concurrency", "1"), ("max-queue-depth", "1")]).await;
    for session in ["a", "b"] {
        server.background("demo", &[("message", "sleep 30"), ("session_id", session)]).await;
    }
    let fields = [("message", "x"), ("background", "true"), ("stream", "false")];
    let full = server.form(RUNS, &fields).await.expect(429);
    assert!(full.headers.contains_key("retry-after"));
    assert_eq!(full.json()["error_id"], "queue_full");
}

#[tokio::test]
async fn a05_all_that_a_run_is_asked_for_with_is_of_its_key_to_the_last_digit() {
    let server = Server::start().await;
    let plain = [("message", "hi"), ("background", "true"), ("stream", "false")];
    let with = |name, value| [&plain[..], &[(name, value)]].concat();
    server.ask(with_key(form(RUNS, &plain), "k")).await.expect(202);
    for (name, value) in [
        ("session_id", "s"),
        ("metadata", r#"{"a": 1}"#),
        ("session_state", r#"{"a": 1}"#),
        ("output_schema", r#"{"type": "object"}"#),
    ] {
        let refused = server.ask(with_key(form(RUNS, &with(name, value)), "k")).await;
        assert_eq!(refused.status, 409, "{name}");
    }
    // As floating-point numbers they would be one.
    let [long, longer] = [r#"{"long": 12345678901234567890123}"#, r#"{"long": 12345678901234567890124}"#];
    for (metadata, status) in [(long, 202), (long, 202), (longer, 409)] {
        let answer = server.ask(with_key(form(RUNS, &with("metadata", metadata)), "long")).await;
        assert_eq!(answer.status, status, "{metadata}");
    }
}

#[tokio::test]
async fn a05_one_key_is_one_run() {
    let server = Server::start().await;
    let fields = [("message", "hi"), ("background", "true"), ("stream", "false"), ("user_id", "alice")];
    let asked = (0..50).map(|_| server.ask(with_key(form(RUNS, &fields), "k")));
    let answers = futures::future::join_all(asked).await;
    let runs: std::collections::BTreeSet<_> =
        answers.iter().map(|answer| answer.json()["run_id"].to_string()).collect();
    assert!(answers.iter().all(|answer| answer.status == 202));
    assert_eq!(runs.len(), 1);
    assert_eq!(server.get("/runs").await.json()["meta"]["total_count"], 1);

    let other_message = [("message", "ho"), ("background", "true"), ("stream", "false"), ("user_id", "alice")];
    let refused = server.ask(with_key(form(RUNS, &other_message), "k")).await.expect(409);
    assert!(!String::from_utf8_lossy(&refused.body).contains("hi\""));
    let bob = [("message", "hi"), ("background", "true"), ("stream", "false"), ("user_id", "bob")];
    let his = server.ask(with_key(form(RUNS, &bob), "k")).await.expect(202).json()["run_id"].to_string();
    assert!(!runs.contains(&his));

    let server = server.restart().await;
    let after = server.ask(with_key(form(RUNS, &fields), "k")).await.expect(202).json();
    assert!(runs.contains(&after["run_id"].to_string()), "also after a restart");
    let streamed = [("message", "hi"), ("user_id", "alice")];
    let frames = server.whole_stream(with_key(form(RUNS, &streamed), "k")).await;
    assert_eq!(frames.last().unwrap().name, "RunCompleted");
    server.ask(with_key(form(RUNS, &fields), &"k".repeat(513))).await.expect(422);
}
