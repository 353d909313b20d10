//! What goes wrong with models, and whether asking again is worth it.

use reenact_actors::step::StepError;
use reenact_events::agent::{AgentSpec, ModelSpec};
use serde_json::json;

use crate::{
    stub::Reply,
    support::{KEY, World, model_at, user},
};

const WORD: &str =
    r#"{"choices": [{"delta": {"content": "x"}}], "usage": {"prompt_tokens": 7, "completion_tokens": 1}}"#;

async fn failing(reply: Reply) -> StepError {
    let world = World::new().await;
    world.model.push(reply);
    let error = world.ask().await.unwrap_err();
    assert_eq!(world.model.requests().len(), 1, "nothing below the runtime asks again");
    assert!(!error.failure.message.contains(KEY));
    assert!(error.failure.message.len() < 1_000);
    error
}

fn of(error: &StepError) -> (&str, bool) {
    (&error.failure.kind, error.retryable)
}

#[tokio::test]
async fn a26_a_rate_limit_says_how_long_to_wait_if_it_does() {
    for (value, wait) in [
        (Some("2"), Some(2_000)),
        (Some("Sun, 06 Nov 1994 08:49:40 GMT"), Some(3_000)),
        (Some("0"), Some(0)),
        (Some("86400"), Some(86_400_000)),
        (Some("-5"), None),
        (Some("abc"), None),
        (None, None),
    ] {
        let reply = Reply::json(429, &json!({"error": {"message": "slow down"}}));
        let reply = value.map_or(reply.clone(), |value| reply.header("retry-after", value));
        let error = failing(reply).await;
        assert_eq!(of(&error), ("rate_limited", true));
        assert_eq!((error.retry_after_ms, error.failure.status), (wait, Some(429)), "{value:?}");
        let is_told = error.failure.message.contains("asks to wait 86400 s, a run waits 600 s at most");
        assert_eq!(is_told, value == Some("86400"), "{}", error.failure.message);
    }
}

#[tokio::test]
async fn a26_a_server_in_trouble_may_be_asked_again() {
    for status in [500, 502, 503, 504, 529] {
        let error = failing(Reply::raw(status, "text/html", "<h1>oops</h1>").header("retry-after", "1")).await;
        assert_eq!((of(&error), error.failure.status), (("model_unavailable", true), Some(status)));
        assert_eq!(error.retry_after_ms, Some(1_000));
    }
}

#[tokio::test]
async fn a26_an_error_in_mid_stream_is_told_with_what_it_cost() {
    let overloaded = r#"{"error": {"type": "overloaded_error", "message": "Overloaded"}}"#;
    for reported in [overloaded, r#"{"error": {"code": 529, "message": "Overloaded"}}"#] {
        let error = failing(Reply::events([WORD, reported])).await;
        assert_eq!((of(&error), error.failure.status), (("model_unavailable", true), Some(529)));
        assert_eq!(error.usage.map(|usage| usage.input_tokens), Some(7));
    }
    let whole = failing(Reply::json(200, &json!({"error": {"type": "rate_limit_error", "message": "no"}}))).await;
    assert_eq!(of(&whole), ("rate_limited", true));
}

#[tokio::test]
async fn a27_a_conversation_that_is_too_long_is_not_sent_again() {
    for text in [
        "This model's maximum context length is 8000 tokens.",
        "prompt is too long: 9000 tokens > 8000 maximum",
        "The input token count (9000) exceeds the maximum number of tokens allowed (8000).",
    ] {
        let error = failing(Reply::json(400, &json!({"error": {"message": text}}))).await;
        assert_eq!(of(&error), ("context_overflow", false));
        assert!(error.failure.message.contains(text), "{}", error.failure.message);
    }
    let streamed =
        r#"{"error": {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "no"}}"#;
    assert_eq!(of(&failing(Reply::events([streamed])).await), ("context_overflow", false));
}

#[tokio::test]
async fn a_refused_key_names_the_variable() {
    for status in [401, 403] {
        let error = failing(Reply::json(status, &json!({"error": {"message": format!("bad key {KEY}")}}))).await;
        assert_eq!(of(&error), ("model_auth", false));
        assert!(error.failure.message.contains("`THE_KEY`"), "{}", error.failure.message);
    }
    let world = World::new().await;
    let bad = ModelSpec { api_key_env: Some("BAD_KEY".into()), ..model_at(&world.model.base_url()) };
    let error = world.ask_as(AgentSpec { model: bad, ..world.agent() }, vec![user("hi")]).await.unwrap_err();
    assert!(of(&error) == ("model_auth", false) && error.failure.message.contains("`BAD_KEY`"));
    assert!(world.model.requests().is_empty());
}

#[tokio::test]
async fn a_request_that_is_wrong_stays_wrong() {
    let error = failing(Reply::json(404, &json!({"error": {"message": "no such model"}}))).await;
    assert_eq!(of(&error), ("model_refused", false));
    assert!(error.failure.message.contains("`a-model`") && error.failure.message.contains("no such model"));
    assert_eq!(
        of(&failing(Reply::raw(302, "text/plain", "").header("location", "/x")).await),
        ("model_refused", false)
    );
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let world = World::new().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let agent = AgentSpec { model: model_at(&base_url), ..world.agent() };
    let error = world.ask_as(agent, vec![user("hi")]).await.unwrap_err();
    assert_eq!(of(&error), ("model_unreachable", true));
    assert!(error.failure.message.contains(&base_url), "{}", error.failure.message);
}

#[tokio::test]
async fn a_server_that_falls_silent_times_out() {
    for reply in [Reply::events([WORD]).hang(), Reply::text("x").delay(std::time::Duration::from_secs(60))] {
        let world = World::new().await;
        world.model.push(reply);
        let mut agent = world.agent();
        agent.model.timeout_s = 1;
        assert_eq!(of(&world.ask_as(agent, vec![user("hi")]).await.unwrap_err()), ("model_timeout", true));
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_answer() {
    let unmarked = Reply::events([WORD]);
    let half = Reply::raw(200, "text/event-stream", format!("data: {WORD}\n\ndata: {{\"choi"));
    for reply in [unmarked.clone(), unmarked.cut(), half, Reply::raw(200, "text/event-stream", "")] {
        let error = failing(reply.clone()).await;
        assert_eq!(of(&error), ("model_stream_cut", true), "{reply:?}");
    }
}

#[tokio::test]
async fn nonsense_is_shown_in_part() {
    let page = format!("<html>{}</html>", "blah ".repeat(10_000));
    for body in [page.as_str(), "{\"choices\": [", "{\"a\": 1}", "[]", "data: {nope}\n\ndata: x\n\n"] {
        let error = failing(Reply::raw(200, "text/html", body.to_owned())).await;
        assert_eq!(of(&error), ("model_nonsense", true), "{body:.40}");
        let shown = error.failure.message.contains(&body[..body.len().min(6)]) || body.starts_with("data");
        assert!(shown, "{}", error.failure.message);
    }
}

#[tokio::test]
async fn a21_an_answer_of_more_than_16_mib_is_refused() {
    let word = "x".repeat(1024 * 1024);
    let chunk = json!({"choices": [{"delta": {"content": word}}]}).to_string();
    let error = failing(Reply::events(std::iter::repeat_n(&chunk, 20))).await;
    assert_eq!(of(&error), ("model_answer_too_large", false));
    let whole = json!({"choices": [{"message": {"content": word.repeat(40)}}]});
    assert_eq!(of(&failing(Reply::json(200, &whole)).await), ("model_answer_too_large", false));
}

#[tokio::test]
async fn a21_an_answer_of_12_mib_is_taken() {
    let world = World::new().await;
    let text = "word ".repeat(12 * 1024 * 1024 / 5);
    world.model.push(Reply::json(200, &json!({"choices": [{"message": {"content": text}}]})));
    assert_eq!(world.ask().await.unwrap().text, text);
}
