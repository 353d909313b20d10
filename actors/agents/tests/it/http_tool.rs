//! Tools over HTTP.

use reenact_actors::step::{Reconciled, Steps, ToolReply};
use reenact_events::{Blobs, MediaKind, agent::ToolKind};

use crate::{
    stub::Reply,
    support::{World, context, tool_call},
};

async fn answered(reply: Reply) -> ToolReply {
    let world = World::new().await;
    world.ledger.push(reply);
    let reply = world.call(world.tool("POST", &[]), "{}").await;
    assert_eq!(world.ledger.calls().len(), 1, "one call is one request");
    reply
}

#[tokio::test]
async fn a_call_carries_token_ids_headers_and_the_arguments_untouched() {
    let world = World::new().await;
    let tool = world.tool("POST", &[("Authorization", "env:TOOL_KEY"), ("x-plain", "yes")]);
    let arguments = r#"{"order": 9007199254740993,  "n": -0, "s": "\u0000😀"}"#;
    assert_eq!(
        world.call(tool, arguments).await,
        ToolReply { text: "done".into(), error: false, media: vec![], session_state: None }
    );
    let [call] = &world.ledger.calls()[..] else { panic!("one call") };
    assert_eq!((call.method.as_str(), call.path.as_str(), call.body.as_str()), ("POST", "/refunds", arguments));
    assert_eq!(call.token(), context().token.to_string());
    for (name, value) in [
        ("content-type", "application/json"),
        ("authorization", "Bearer tool-secret"),
        ("x-plain", "yes"),
        ("x-reenact-run", "run-1"),
        ("x-reenact-session", "Zo%C3%AB%E2%80%99s%20session"),
        ("x-reenact-user", "alice"),
    ] {
        assert_eq!(call.header(name), value, "{name}");
    }
}

#[tokio::test]
async fn get_and_delete_carry_their_arguments_in_the_query() {
    for method in ["GET", "DELETE"] {
        let world = World::new().await;
        world.call(world.tool(method, &[]), r#"{"a": "x y", "b": {"c": [1]}, "n": 1.50}"#).await;
        let call = world.ledger.calls().remove(0);
        assert_eq!((call.method.as_str(), call.body.as_str()), (method, ""));
        assert_eq!(call.query.as_deref(), Some("a=x+y&b=%7B%22c%22%3A+%5B1%5D%7D&n=1.50"));
    }
}

#[tokio::test]
async fn a_body_is_the_result_whatever_it_says() {
    for (body, text) in [
        (&b"{\"ok\": 1e400}"[..], "{\"ok\": 1e400}"),
        (b"null", "null"),
        (b"[]", "[]"),
        (b"\"\"", "\"\""),
        (b"", "(no content)"),
        (b" \n", "(no content)"),
        (b"a\xff\0\xf0\x9f\x98\x80", "a\u{FFFD}\0😀"),
    ] {
        let reply = answered(Reply::raw(200, "application/json", body)).await;
        assert_eq!((reply.text.as_str(), reply.error), (text, false));
    }
    assert_eq!(answered(Reply::raw(204, "text/plain", "")).await.text, "(no content)");
}

#[tokio::test]
async fn another_status_is_an_error_with_status_and_bounded_body() {
    for status in [400, 404, 409, 429, 500, 503] {
        let reply = answered(Reply::raw(status, "text/plain", "because ".repeat(100_000))).await;
        assert!(reply.error && reply.text.contains(&status.to_string()) && reply.text.contains("because"));
        assert!(reply.text.len() < 3_000);
    }
}

#[tokio::test]
async fn a_file_is_kept_and_named() {
    let world = World::new().await;
    world.ledger.push(Reply::raw(200, "image/png; charset=binary", &b"\x89PNG"[..]));
    let reply = world.call(world.tool("POST", &[]), "{}").await;
    let [file] = &reply.media[..] else { panic!("{reply:?}") };
    assert_eq!((file.kind, &*file.mime), (MediaKind::Image, "image/png"));
    assert_eq!(&*world.blobs.get(&file.blob).await.unwrap(), b"\x89PNG");
    assert!(reply.text.contains("image/png") && !reply.error);
}

#[tokio::test]
async fn a21_an_answer_of_more_than_16_mib_is_an_error_that_says_so() {
    let reply = answered(Reply::raw(200, "text/plain", "x".repeat(17 * 1024 * 1024))).await;
    assert!(reply.error && reply.text.contains("16 MiB"), "{:.200}", reply.text);
    let text = "x".repeat(12 * 1024 * 1024);
    assert_eq!(answered(Reply::raw(200, "text/plain", text.clone())).await.text, text);
}

#[tokio::test]
async fn silence_and_breaks_say_that_it_may_have_happened() {
    for reply in [Reply::raw(200, "text/plain", "x").hang(), Reply::default().delay(std::time::Duration::from_secs(60))]
    {
        let reply = answered(reply).await;
        assert!(
            reply.error && reply.text.contains("within 1 s") && reply.text.contains("may have happened"),
            "{reply:?}"
        );
    }
    let reply = answered(Reply::raw(200, "text/plain", "x").cut()).await;
    assert!(reply.error && reply.text.contains("broke off"), "{reply:?}");
}

#[tokio::test]
async fn a_tool_that_is_not_there_was_not_called() {
    let world = World::new().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let mut tool = world.tool("POST", &[]);
    tool.kind = ToolKind::Http { method: "POST".into(), url, headers: vec![] };
    let reply = world.call(tool, "{}").await;
    assert!(reply.error && reply.text.contains("nothing was sent"), "{reply:?}");
}

#[tokio::test]
async fn secrets_stay_here() {
    let world = World::new().await;
    let tool = || world.tool("POST", &[("authorization", "env:TOOL_KEY")]);
    world.ledger.push(Reply::raw(500, "text/plain", "bad token tool-secret (Bearer tool-secret)"));
    let reply = world.call(tool(), "{}").await;
    assert!(!reply.text.contains("tool-secret") && reply.text.contains("[secret]"), "{}", reply.text);
    let other = world.ledger.url("/").replace("127.0.0.1", "localhost");
    world.ledger.push(Reply::raw(307, "text/plain", "").header("location", &other));
    let reply = world.call(tool(), "{}").await;
    assert!(reply.error && reply.text.contains("307") && reply.text.contains("not followed"), "{}", reply.text);
    assert_eq!(world.ledger.calls().len(), 2);
    let reply = world.call(world.tool("POST", &[("authorization", "env:NOT_SET")]), "{}").await;
    assert!(reply.error && reply.text.contains("`NOT_SET`") && reply.text.contains("was not called"));
    assert_eq!(world.ledger.calls().len(), 2);
}

#[tokio::test]
async fn a_redirect_within_the_origin_is_followed() {
    let world = World::new().await;
    world.ledger.push(Reply::raw(307, "text/plain", "").header("location", "/elsewhere"));
    assert_eq!(world.call(world.tool("POST", &[]), "{}").await.text, "done");
    let call = world.ledger.calls().pop().unwrap();
    assert_eq!((call.path.as_str(), call.token()), ("/elsewhere", context().token.to_string().as_str()));
}

#[tokio::test]
async fn reconciling_believes_only_a_clear_answer() {
    for (status, expected) in
        [(200, "happened"), (404, "did not"), (201, "unknown"), (500, "unknown"), (403, "unknown")]
    {
        let world = World::new().await;
        world.ledger.push(Reply::raw(status, "text/plain", "refunded"));
        let answer = world.steps.reconcile(tool_call(world.tool("POST", &[]), r#"{"order": 1}"#)).await;
        let found = match &answer {
            Reconciled::Happened(reply) if reply.text == "refunded" => "happened",
            Reconciled::DidNotHappen => "did not",
            Reconciled::Unknown(reason) if !reason.is_empty() => "unknown",
            _ => "wrong",
        };
        assert_eq!(found, expected, "{status}: {answer:?}");
        let call = world.ledger.calls().remove(0);
        assert_eq!((call.method.as_str(), call.query.as_deref(), call.body.as_str()), ("GET", None, ""));
        assert_eq!(call.header("idempotency-key"), context().token.to_string());
    }
}
