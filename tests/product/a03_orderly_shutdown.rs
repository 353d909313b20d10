//! A03: a shutdown leaves runs behind that read RUNNING for ever, or loses those that wait.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::{join, join_all};
use reenact_tests::stub::{ModelStub, Reply};

use crate::support::{PATIENCE, POLL, Product, agent_with_model};

const AT_WORK: usize = 4;
const WAITING: usize = 20;
const DRAIN_S: u64 = 1;
/// What a shutdown may take beyond the drain window.
const SLACK: Duration = Duration::from_secs(10);

/// A model that begins to answer and does not end until `released`.
fn never_ending(model: &ModelStub) -> Arc<AtomicBool> {
    let released = Arc::new(AtomicBool::new(false));
    let answers = released.clone();
    let half = r#"{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"half"}}]}"#;
    model.rule(move |_| (!answers.load(Ordering::SeqCst)).then(|| Reply::events([half]).hang()));
    model.otherwise(Reply::text("whole"));
    released
}

#[tokio::test]
async fn a03_what_a_shutdown_interrupts_goes_on_and_what_waits_is_done_at_the_next_start() {
    let model = ModelStub::start().await;
    let released = never_ending(&model);
    let agent = agent_with_model(&model.base_url());
    let product = Product::new().agent("a", &agent).set("REENACT_DRAIN_S", DRAIN_S);
    let mut product = product.set("REENACT_MAX_CONCURRENCY", AT_WORK).started().await;

    // Of those at work two have nobody waiting, one is watched, and one is waited for.
    for number in 0..AT_WORK - 2 {
        product.begin("a", &format!("s{number}"), "long").await;
    }
    let watched = tokio::spawn(Product::ask(product.form("/agents/a/runs", &[("message", "long")])));
    let fields = [("message", "long"), ("stream", "false")];
    let waited_for = tokio::spawn(Product::ask(product.form("/agents/a/runs", &fields)));
    model.wait_for(AT_WORK).await;
    // Some wait behind a run of their own session, some only for a place.
    let waiting = (0..WAITING).map(|number| format!("s{number}"));
    let waiting = join_all(waiting.map(|session| product.background("a", &session, "short")).map(Product::ask)).await;
    assert!(waiting.into_iter().all(|answer| answer.status == 202));

    product.term();
    let (late, told) = refused_while_leaving(&product).await;
    assert!(told.contains("shutting down"), "{told}");
    let waiting = WAITING + late;
    let status = product.ended(Duration::from_secs(DRAIN_S) + SLACK).await;
    assert_eq!(status.code(), Some(0), "{}", product.said());
    let (watched, waited_for) = join(watched, waited_for).await;
    assert!(
        !watched.expect("it ends").event_names().iter().any(|name| name == "RunCompleted" || name == "RunCancelled"),
        "it did not end"
    );
    waited_for.expect("it ends").expect(503);
    assert_eq!(model.requests().len(), AT_WORK, "nothing was begun on the way out");

    released.store(true, Ordering::SeqCst);
    product.start().await;
    let runs = product.get("/runs?limit=1000").await.expect(200).json();
    assert_eq!(runs["meta"]["total_count"], AT_WORK + waiting);
    for run in runs["data"].as_array().expect("a page") {
        let run = product.settled(run["run_id"].as_str().expect("an id")).await;
        assert_eq!((run["status"].as_str(), run["content"].as_str()), (Some("COMPLETED"), Some("whole")), "{run:#}");
    }
    assert_eq!(model.requests().len(), AT_WORK + AT_WORK + waiting, "each that was interrupted was asked once more");
    let open = product.get("/runs?status=running&status=pending").await.expect(200).json();
    assert_eq!(open["meta"]["total_count"], 0);
}

/// What a request is told between the signal and the end, and how many were accepted before the signal came.
async fn refused_while_leaving(product: &Product) -> (usize, String) {
    let began = Instant::now();
    for accepted in 0.. {
        let answer = Product::ask(product.background("a", "late", "too late")).await;
        if answer.status == 503 {
            assert!(answer.headers.contains_key("retry-after"));
            return (accepted, answer.text());
        }
        assert_eq!(answer.status, 202, "{}", answer.text());
        assert!(began.elapsed() < PATIENCE, "the signal does nothing");
        tokio::time::sleep(POLL).await;
    }
    unreachable!("it is accepted or refused")
}

#[tokio::test]
async fn a03_a_run_that_ends_within_the_drain_window_is_kept_and_not_done_again() {
    let model = ModelStub::start().await;
    model.push(Reply::text("just in time").pause(Duration::from_millis(100)));
    let agent = agent_with_model(&model.base_url());
    let mut product = Product::new().agent("a", &agent).set("REENACT_DRAIN_S", 60).started().await;
    let fields = [("message", "hello"), ("stream", "false")];
    let answer = tokio::spawn(Product::ask(product.form("/agents/a/runs", &fields)));
    model.wait_for(1).await;
    product.term();
    assert_eq!(product.ended(PATIENCE).await.code(), Some(0));
    let run = answer.await.expect("it ends").expect(200).json();
    assert_eq!(run["content"], "just in time");
    product.start().await;
    let again = product.settled(run["run_id"].as_str().expect("an id")).await;
    assert_eq!(again["content"], "just in time");
    assert_eq!(model.requests().len(), 1);
}
