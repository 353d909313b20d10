//! What must be refused, and what must not.

use axum::{
    body::Body,
    http::{Method, header::CONTENT_TYPE},
};

use crate::support::{Server, form, multipart, request};

const RUNS: &str = "/agents/demo/runs";

#[tokio::test]
async fn whatever_a_client_sends_is_refused_with_a_reason_and_never_a_500() {
    let server = Server::start().await;
    let cases: Vec<(u16, axum::http::Request<Body>)> = vec![
        (404, form("/agents/nobody/runs", &[("message", "x")])),
        (422, form(RUNS, &[])),
        (422, form(RUNS, &[("message", "")])),
        (422, form(RUNS, &[("message", "x"), ("stream", "perhaps")])),
        (422, form(RUNS, &[("message", "x"), ("session_id", "a\0b")])),
        (422, form(RUNS, &[("message", "x"), ("session_id", &"s".repeat(256))])),
        (422, form(RUNS, &[("message", "x"), ("user_id", "a\nb")])),
        (403, form(RUNS, &[("message", "x"), ("user_id", "sa:x")])),
        (422, form(RUNS, &[("message", "x"), ("metadata", "{\"a\":NaN}")])),
        (422, form(RUNS, &[("message", "x"), ("metadata", "{\"\\ud800\":1}")])),
        (422, form(RUNS, &[("message", "x"), ("metadata", "[1]")])),
        (422, form(RUNS, &[("message", "x"), ("session_state", "{\"a\":Infinity}")])),
        (422, form(RUNS, &[("message", "x"), ("session_state", "{")])),
        (422, form(RUNS, &[("message", "x"), ("output_schema", "[]")])),
        (422, form(RUNS, &[("message", "x"), ("output_schema", "{\"type\":\"text\"}")])),
        (422, form(RUNS, &[("message", "x"), ("images", "{}")])),
        (422, request(Method::POST, RUNS).header(CONTENT_TYPE, "application/json").body("{}".into()).unwrap()),
        (422, request(Method::POST, RUNS).body(Body::empty()).unwrap()),
        (405, request(Method::PUT, RUNS).body(Body::empty()).unwrap()),
        (404, request(Method::GET, "/no/such/route").body(Body::empty()).unwrap()),
        (422, request(Method::GET, "/sessions/%ff").body(Body::empty()).unwrap()),
        (422, request(Method::GET, "/sessions/a%00b").body(Body::empty()).unwrap()),
        (422, request(Method::GET, "/sessions?session_name=%ff").body(Body::empty()).unwrap()),
        (422, request(Method::GET, "/sessions?type=robot").body(Body::empty()).unwrap()),
        (422, request(Method::GET, "/sessions?sort_order=up").body(Body::empty()).unwrap()),
        (400, request(Method::GET, "/runs?status=ASLEEP").body(Body::empty()).unwrap()),
        (422, request(Method::GET, "/agents/demo/runs").body(Body::empty()).unwrap()),
        (404, request(Method::GET, "/agents/demo/runs?session_id=none").body(Body::empty()).unwrap()),
        (404, request(Method::GET, "/agents/demo/runs/none").body(Body::empty()).unwrap()),
        (404, request(Method::GET, "/sessions/none").body(Body::empty()).unwrap()),
        (404, form("/agents/demo/runs/none/cancel", &[])),
        (404, form("/agents/demo/runs/none/resume", &[])),
        (404, form("/agents/demo/runs/none/continue", &[("tools", "[]")])),
        (422, request(Method::GET, "/runs").header("reenact-position", "garbage!").body(Body::empty()).unwrap()),
        (422, request(Method::POST, RUNS).header("idempotency-key", "").body(Body::empty()).unwrap()),
    ];
    for (at, (status, request)) in cases.into_iter().enumerate() {
        let told = format!("case {at}: {} {}", request.method(), request.uri());
        let answer = server.ask(request).await;
        assert_eq!(answer.status, status, "{told}: {}", String::from_utf8_lossy(&answer.body));
        assert!(!answer.json()["detail"].is_null(), "{told}");
    }
    assert_eq!(server.get("/runs").await.json()["meta"]["total_count"], 0, "nothing was begun");
}

#[tokio::test]
async fn malformed_session_bodies_are_422_with_their_field() {
    let server = Server::start().await;
    for (method, path, body, field) in [
        (Method::POST, "/sessions", "{\"session_id\":5}", "session_id"),
        (Method::POST, "/sessions", "{\"session_id\":\"a\\u0000b\"}", "session_id"),
        (Method::POST, "/sessions", "{\"metadata\":[1]}", "metadata"),
        (Method::POST, "/sessions/s/rename", "{}", "session_name"),
        (Method::DELETE, "/sessions", "{\"session_ids\":[],\"session_types\":[]}", "session_ids"),
        (Method::DELETE, "/sessions", "{\"session_ids\":[\"a\"],\"session_types\":[\"robot\"]}", "session_types"),
    ] {
        let answer = server.json(method, path, body).await.expect(422);
        assert_eq!(answer.json()["detail"][0]["loc"][1], field, "{body}");
    }
    for body in ["", "[]", "{", "{\"session_state\":{\"a\":NaN}}", "{\"session_name\":\"\\udc00\"}"] {
        server.json(Method::POST, "/sessions", body).await.expect(422);
    }
    server.json(Method::POST, "/sessions?type=team", "{}").await.expect(400);
    server.json(Method::DELETE, "/sessions", "{\"session_ids\":[\"a\"],\"session_types\":[]}").await.expect(400);
}

#[tokio::test]
async fn a20_odd_texts_are_stored_equal() {
    let server = Server::start().await;
    let odd = "nul \0, \u{fffe}, \u{200f}right-to-left, 🙂, e\u{301}, \u{1}";
    let metadata = "{\"\":1,\"nul\":\"\\u0000\",\"big\":9007199254740993,\"deep\":{\"🙂\":[[[[-0.0]]]]}}";
    let fields = [("message", odd), ("stream", "false"), ("session_id", "odd"), ("metadata", metadata)];
    let run = server.form(RUNS, &fields).await.expect(200).json();
    assert_eq!(run["status"], "COMPLETED");
    assert_eq!(run["input"]["input_content"], odd);
    assert_eq!(run["metadata"]["big"], 9_007_199_254_740_993_u64);
    assert_eq!(run["metadata"]["nul"], "\0");
    let again = server.form(RUNS, &[("message", "go on"), ("stream", "false"), ("session_id", "odd")]).await;
    assert_eq!(again.expect(200).json()["status"], "COMPLETED", "the session still works");
}

#[tokio::test]
async fn a21_what_is_below_the_limit_is_stored_and_what_is_above_is_413() {
    let limits = [("max-message-bytes", "300000"), ("max-body-bytes", "500000"), ("max-file-bytes", "100000")];
    let server = Server::with(&[], &limits).await;
    let long = "zoë🙂".repeat(30_000);
    let fields = [("message", long.as_str()), ("stream", "false"), ("session_id", "s")];
    let run = server.ask(multipart(RUNS, &fields, &[])).await.expect(200).json();
    assert_eq!(run["input"]["input_content"].as_str().map(str::len), Some(long.len()));
    let read = server.get(&format!("/runs/{}", run["run_id"].as_str().unwrap())).await.json();
    assert_eq!(read["input"]["input_content"], long);
    let session = server.get("/sessions/s").await.json();
    assert_eq!(session["chat_history"][0]["content"], long);

    let big = "x".repeat(300_001);
    server.ask(multipart(RUNS, &[("message", &big)], &[])).await.expect(413);
    server.ask(multipart(RUNS, &[("message", &"x".repeat(600_000))], &[])).await.expect(413);
    server.ask(multipart(RUNS, &[("message", "x")], &[("f", "text/plain", &[b'x'; 100_001])])).await.expect(413);
    assert_eq!(server.get("/runs").await.json()["meta"]["total_count"], 1);
}

#[tokio::test]
async fn a32_totals_and_pages_fit_together_on_every_list() {
    let server = Server::start().await;
    for at in 0..23 {
        let body = format!("{{\"session_id\":\"s{at:02}\",\"session_name\":\"Name {}\"}}", at % 2);
        server.json(Method::POST, "/sessions", &body).await.expect(201);
    }
    for bad in ["page=0", "page=-1", "limit=0", "limit=-1", "limit=abc", "limit=1000000000"] {
        server.get(&format!("/sessions?{bad}")).await.expect(422);
        server.get(&format!("/runs?{bad}")).await.expect(422);
    }
    for limit in [1, 5, 20, 23, 1000] {
        let mut seen = std::collections::BTreeSet::new();
        for page in 1..=23_usize.div_ceil(limit) + 1 {
            let answer = server.get(&format!("/sessions?limit={limit}&page={page}")).await.expect(200).json();
            assert_eq!(answer["meta"]["total_count"], 23);
            for session in answer["data"].as_array().unwrap() {
                assert!(seen.insert(session["session_id"].to_string()), "each once");
            }
        }
        assert_eq!(seen.len(), 23);
    }
    let filtered = server.get("/sessions?session_name=name%201&limit=5").await.json();
    assert_eq!(filtered["meta"]["total_count"], 11);
    assert_eq!(
        server.get("/sessions?page=1000000000000&limit=1000").await.expect(200).json()["data"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
}
