//! Whatever a client or a model's server sends: an error that says what was wrong and what to do, nothing
//! lost, no other run touched, never a 500. A line that tells of a panic fails every test here.

use std::time::Duration;

use reenact_tests::stub::{ModelStub, Reply};
use reqwest::{Method, RequestBuilder};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    forms::Part,
    support::{Answer, Product, agent_with_model},
    world::{World, notes},
};

const RUNS: &str = "/agents/a/runs";
/// The beginning of an answer.
const HALF: &str = r#"{"choices":[{"delta":{"content":"half"}}]}"#;

/// Checks that an answer is the refusal that it should be, in words.
fn refused(answer: &Answer, status: u16, what: &str) {
    assert_eq!(answer.status, status, "{what}: {}", answer.text());
    let detail = &answer.json()["detail"];
    let words = detail.as_str().or_else(|| detail[0]["msg"].as_str()).unwrap_or_default();
    assert!(words.len() > 8, "{what} is refused without a reason: {}", answer.text());
}

/// A run that is at work while others are refused.
struct Witness(String);

impl Witness {
    async fn of(world: &World) -> Self {
        world.model.push(Reply::text("never").delay(Duration::from_secs(3600)));
        let run = world.product.begin("a", "witness", "be at work").await;
        world.model.wait_for(1).await;
        Self(run)
    }

    /// Checks that the run is the only one, and as it was.
    async fn saw_nothing(self, world: &World) {
        let runs = world.product.get("/runs").await.expect(200).json();
        let seen: Vec<_> = runs["data"].as_array().expect("a page").iter().map(|run| &run["run_id"]).collect();
        assert_eq!(seen, [&self.0]);
        assert_eq!(runs["data"][0]["status"], "RUNNING");
        assert_eq!(world.model.requests().len(), 1, "nobody else was asked");
        world.turn("other", "hello").await;
    }
}

/// A POST with a body as it stands.
fn post(product: &Product, path: &str, content_type: &str, body: impl Into<Vec<u8>>) -> RequestBuilder {
    product.request(Method::POST, path).header("content-type", content_type).body(body.into())
}

/// Forms that start no run.
fn bad_forms(product: &Product) -> Vec<(u16, &'static str, RequestBuilder)> {
    let form = |fields: &[(&str, &str)]| product.form(RUNS, fields);
    let with = |name: &str, value: &str| product.form(RUNS, &[("message", "x"), (name, value)]);
    let (long, huge) = ("s".repeat(256), "x".repeat(17 * 1024 * 1024));
    let urlencoded = "application/x-www-form-urlencoded";
    vec![
        (404, "an unknown agent", product.form("/agents/nobody/runs", &[("message", "x")])),
        (422, "an agent's id with a NUL", product.form("/agents/a%00/runs", &[("message", "x")])),
        (422, "no message", form(&[])),
        (422, "an empty message", form(&[("message", "")])),
        (413, "a message above its limit", form(&[("message", &huge)])),
        (422, "a stream that is no truth value", with("stream", "perhaps")),
        (422, "a background that is no truth value", with("background", "2")),
        (422, "a session's id with a line break", with("session_id", "a\nb")),
        (422, "a session's id above its length", with("session_id", &long)),
        (422, "a user's id with a NUL", with("user_id", "a\0b")),
        (403, "a user's id that is reserved", with("user_id", "__scheduler__")),
        (422, "metadata that is a list", with("metadata", "[1]")),
        (422, "metadata that is no JSON", with("metadata", "{")),
        (422, "a state that is a text", with("session_state", "\"x\"")),
        (422, "a field of a later version", with("dependencies", "{}")),
        (422, "images that are no list", with("images", "{}")),
        (422, "an image without bytes", with("images", "[{\"url\":\"http://127.0.0.1/x\"}]")),
        (422, "an image that is no base64", with("images", "[{\"content\":\"%\"}]")),
        (422, "bytes that are not UTF-8", post(product, RUNS, urlencoded, b"message=%ff")),
        (422, "JSON in place of a form", post(product, RUNS, "application/json", b"{\"message\":\"x\"}")),
        (422, "a form without its boundary", post(product, RUNS, "multipart/form-data", b"x")),
        (422, "a form that is cut", post(product, RUNS, "multipart/form-data; boundary=B", b"--B\r\ncontent-disp")),
        (422, "no body and no type", product.request(Method::POST, RUNS)),
        (422, "an empty idempotency key", with("stream", "false").header("idempotency-key", "")),
        (
            422,
            "an idempotency key above its length",
            with("stream", "false").header("idempotency-key", "k".repeat(513)),
        ),
    ]
}

/// Requests about what is not there, or that say it wrongly.
fn bad_requests(product: &Product) -> Vec<(u16, &'static str, RequestBuilder)> {
    let get = |path: &str| product.request(Method::GET, path);
    let json = |method, path: &str, body: &'static str| {
        product.request(method, path).header("content-type", "application/json").body(body)
    };
    let form = |path: &str, fields: &[(&str, &str)]| product.form(path, fields);
    vec![
        (404, "an unknown path", get("/no/such/path")),
        (405, "a method that the path does not have", product.request(Method::PUT, RUNS)),
        (404, "an unknown agent", get("/agents/nobody")),
        (404, "an unknown run", get("/runs/none")),
        (404, "an unknown run of an agent", get("/agents/a/runs/none")),
        (422, "an agent's runs without their session", get(RUNS)),
        (404, "an unknown session's runs of an agent", get("/agents/a/runs?session_id=none")),
        (404, "an unknown session", get("/sessions/none")),
        (404, "an unknown session's runs", get("/sessions/none/runs")),
        (404, "an unknown session's short runs", get("/sessions/none/run-previews")),
        (404, "an unknown run of a session", get("/sessions/witness/runs/none")),
        (404, "a cancel of an unknown run", form("/agents/a/runs/none/cancel", &[])),
        (404, "a resume of an unknown run", form("/agents/a/runs/none/resume", &[])),
        (422, "a resume after no number", form("/agents/a/runs/none/resume", &[("last_event_index", "abc")])),
        (404, "a continue of an unknown run", form("/agents/a/runs/none/continue", &[("tools", "[]")])),
        (422, "a path that is not UTF-8", get("/sessions/%ff")),
        (422, "a query that is not UTF-8", get("/sessions?session_name=%ff")),
        (422, "a session's id with a NUL", get("/sessions/a%00b")),
        (422, "an unknown type of session", get("/sessions?type=robot")),
        (422, "an unknown order", get("/sessions?sort_order=up")),
        (400, "an unknown status", get("/runs?status=ASLEEP")),
        (422, "a time that is no number", get("/runs?created_after=today")),
        (422, "a token that is none", get("/runs").header("reenact-position", "garbage!")),
        (422, "a session's body that is no JSON", json(Method::POST, "/sessions", "{")),
        (422, "a session's body that is a list", json(Method::POST, "/sessions", "[]")),
        (422, "a session's id that is a number", json(Method::POST, "/sessions", "{\"session_id\":5}")),
        (400, "a session of a team", json(Method::POST, "/sessions?type=team", "{}")),
        (409, "a session's id that is taken", json(Method::POST, "/sessions", "{\"session_id\":\"witness\"}")),
        (422, "a rename to nothing", json(Method::POST, "/sessions/witness/rename", "{}")),
        (
            404,
            "a rename of an unknown session",
            json(Method::POST, "/sessions/none/rename", "{\"session_name\":\"x\"}"),
        ),
        (422, "a state that is a list", json(Method::PATCH, "/sessions/witness", "{\"session_state\":[]}")),
        (422, "a deletion of nothing", json(Method::DELETE, "/sessions", "{\"session_ids\":[],\"session_types\":[]}")),
    ]
}

#[tokio::test]
async fn requests_that_cannot_be_done_are_refused_with_a_reason_and_touch_nothing() {
    let world = World::with("").await;
    let witness = Witness::of(&world).await;
    for (status, what, request) in bad_forms(&world.product).into_iter().chain(bad_requests(&world.product)) {
        refused(&Product::ask(request).await, status, what);
    }
    let nameless = world.form_of(&[Part::Field("message", b"\xff\xfe")]).await;
    refused(&nameless, 422, "a message that is not UTF-8");
    witness.saw_nothing(&world).await;
}

#[tokio::test]
async fn pages_outside_the_list_of_pages_are_refused_on_every_list() {
    let world = World::with("").await;
    let witness = Witness::of(&world).await;
    for list in ["/sessions", "/runs", "/sessions/witness/runs", "/sessions/witness/run-previews"] {
        for bad in ["page=0", "page=-1", "page=abc", "page=1e3", "page=99999999999999999999"] {
            refused(&world.product.get(&format!("{list}?{bad}")).await, 422, &format!("{list}?{bad}"));
        }
        for bad in ["limit=0", "limit=-1", "limit=abc", "limit=1000000000", "limit=1001", "limit=5&page=0"] {
            refused(&world.product.get(&format!("{list}?{bad}")).await, 422, &format!("{list}?{bad}"));
        }
        world.product.get(&format!("{list}?limit=1000&page=1000000000000")).await.expect(200);
    }
    witness.saw_nothing(&world).await;
}

/// What the server answers to bytes on a connection of their own; empty when it only closes it.
async fn answer_to(product: &Product, bytes: &[u8]) -> String {
    let address = product.url().replace("http://", "");
    let mut socket = TcpStream::connect(address).await.expect("it listens");
    // It may close before everything is written.
    socket.write_all(bytes).await.ok();
    socket.shutdown().await.ok();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(30), socket.read_to_end(&mut answer)).await;
    // A reset is an end, too.
    read.expect("it closes the connection").ok();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn bytes_that_are_no_request_are_refused_or_dropped() {
    let world = World::with("").await;
    let witness = Witness::of(&world).await;
    let long_header = format!("GET / HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(2_000_000));
    let cut = "POST /agents/a/runs HTTP/1.1\r\nhost: x\r\ncontent-type: multipart/form-data; boundary=B\r\n\
               content-length: 1000\r\n\r\n--B\r\n";
    let endless = "POST /agents/a/runs HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n";
    let tls = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    for bytes in [b"\0\0\0\0".as_slice(), b"hello\r\n\r\n", tls, long_header.as_bytes(), cut.as_bytes(), b""] {
        let answer = answer_to(&world.product, bytes).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    let answer = answer_to(&world.product, endless.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    witness.saw_nothing(&world).await;
}

/// Answers of a model's server that are none, with the kind of the error and a word of its text.
fn nonsense() -> Vec<(Reply, &'static str, &'static str)> {
    let error = |status, text: &str| {
        Reply::raw(status, "application/json", format!("{{\"error\":{{\"message\":\"{text}\"}}}}"))
    };
    vec![
        (Reply::raw(200, "text/html", "<html>welcome</html>"), "model_nonsense", "welcome"),
        (Reply::raw(200, "application/json", "{\"ok\":true}"), "model_nonsense", "choices"),
        (Reply::raw(200, "application/json", "[1,2"), "model_nonsense", "[1,2"),
        (Reply::events(["{\"choices\":5}"]), "model_nonsense", "choices"),
        (Reply::raw(200, "text/event-stream", b"\xff\xfe\0".to_vec()), "model_nonsense", "no chat completion"),
        (Reply::events([HALF]).cut(), "model_stream_cut", "broke off"),
        (error(500, "it broke"), "model_unavailable", "it broke"),
        (error(400, "no such field"), "model_refused", "no such field"),
        (error(404, "no such model"), "model_refused", "scripted"),
        (error(401, "who are you?"), "model_auth", "api_key_env"),
        (error(429, "slow down"), "rate_limited", "slow down"),
        (error(400, "maximum context length is 8000 tokens"), "context_overflow", "history.runs"),
        (Reply::raw(302, "text/plain", "over there").header("location", "http://127.0.0.1:1/"), "model_refused", "302"),
    ]
}

/// Checks that a run has ended with an error that says what and why.
fn failed(run: &Value, kind: &str, wanted: &str) {
    assert_eq!(run["status"], "ERROR", "{run:#}");
    assert_eq!(run["error"]["kind"], kind, "{run:#}");
    let words = run["content"].as_str().expect("a reason");
    assert!(words.contains(wanted), "`{wanted}` is not in: {words}");
}

#[tokio::test]
async fn a_model_that_answers_nonsense_fails_its_run_with_the_cause() {
    let world = World::with("").await;
    for (reply, kind, wanted) in nonsense() {
        world.model.otherwise(reply);
        failed(&world.product.turn("a", "s", "hello").await, kind, wanted);
        world.model.otherwise(Reply::text("ok"));
        world.turn("s", "go on").await;
    }
    // Bad calls of tools are not errors of the run.
    for reply in [Reply::raw(500, "text/plain", "it broke"), Reply::text("").cut(), Reply::raw(404, "text/html", "<p>")]
    {
        world.model.push(notes(&["{}"]));
        world.ledger.push(reply);
        let run = world.turn("s", "note").await;
        assert_eq!(run["tools"][0]["tool_call_error"], true);
    }
    world.all_requests_are_well_formed();
}

#[tokio::test]
async fn a_model_that_is_down_or_silent_fails_its_runs_and_no_others() {
    let (good, silent) = (ModelStub::start().await, ModelStub::start().await);
    silent.otherwise(Reply::events([HALF]).hang());
    let slow = agent_with_model(&silent.base_url()) + "timeout_s = 1\n";
    let product = Product::new()
        .agent("a", &agent_with_model(&good.base_url()))
        .agent("down", &agent_with_model("http://127.0.0.1:1/v1"))
        .agent("slow", &slow);
    let product = product.started().await;
    for (agent, kind, wanted) in
        [("down", "model_unreachable", "http://127.0.0.1:1/v1"), ("slow", "model_timeout", "`timeout_s`")]
    {
        let (bad, fine) = tokio::join!(product.turn(agent, agent, "hello"), product.turn("a", "s", "hello"));
        failed(&bad, kind, wanted);
        assert_eq!(fine["status"], "COMPLETED");
        let stream = product.post(&format!("/agents/{agent}/runs"), &[("message", "hello")]).await.expect(200);
        assert_eq!(stream.event_names().last().map(String::as_str), Some("RunError"));
        assert!(stream.text().contains(kind), "{}", stream.text());
        let told = product.run(&["run", agent, "hello"]);
        assert_eq!(told.status.code(), Some(1));
        let told = String::from_utf8_lossy(&told.stderr).into_owned();
        assert!(told.contains(wanted), "{told}");
    }
}
