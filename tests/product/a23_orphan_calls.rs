//! A23: a crash or a cancel between the calls of one turn leaves calls without results, and the provider
//! refuses every later turn of the session.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::join_all;
use reenact_tests::stub::Reply;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    support::{PATIENCE, POLL, Product},
    world::{World, notes},
};

/// How many finished runs the model sees.
const WINDOWS: [u32; 3] = [1, 2, 3];
const CALLS: [&str; 3] = [r#"{"n":0}"#, r#"{"n":1}"#, r#"{"n":2}"#];

/// What may be assumed of the tool whose calls are interrupted.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Effect {
    Idempotent,
    AtMostOnce,
}

/// A session whose run stands between the first result of a turn and the others.
struct Interrupted {
    world: World,
    run: String,
    released: Arc<AtomicBool>,
}

impl Interrupted {
    async fn begin(window: u32, limits: &str, effect: Effect) -> Self {
        let world = World::with(&format!("[history]\nruns = {window}\n[limits]\n{limits}")).await;
        let tool = match effect {
            Effect::Idempotent => "note",
            Effect::AtMostOnce => "once",
        };
        let released = Arc::new(AtomicBool::new(false));
        let open = released.clone();
        // Only the first of the three answers until the others are released.
        world.ledger.rule(move |call| {
            let answers = call.body == CALLS[0] || open.load(Ordering::SeqCst);
            (!answers).then(|| Reply::raw(200, "text/plain", "late").delay(Duration::from_secs(3600)))
        });
        let calls: Vec<_> = ["a", "b", "c"].iter().zip(CALLS).map(|(id, arguments)| (*id, tool, arguments)).collect();
        world.turn("s", "before").await;
        world.model.push(Reply::calls(&calls));
        let run = world.product.begin("a", "s", "note three").await;
        let interrupted = Self { world, run, released };
        interrupted.first_result().await;
        interrupted
    }

    /// Waits until the first result is journaled and the other two calls are on their way.
    async fn first_result(&self) {
        self.world.ledger.wait_for(3).await;
        let began = Instant::now();
        loop {
            let run = self.world.product.get(&format!("/runs/{}", self.run)).await.expect(200).json();
            let tools = run["tools"].as_array().cloned().unwrap_or_default();
            if tools.iter().any(|tool| tool["result"] == "done") {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "no result comes: {run:#}");
            tokio::time::sleep(POLL).await;
        }
    }

    fn release(&self) {
        self.released.store(true, Ordering::SeqCst);
    }

    /// Checks that the session goes on, with calls in the turns that come into its window.
    async fn goes_on(&self) {
        self.release();
        for number in 0..4 {
            self.world.model.push(notes(&[&json!({"after": number}).to_string(), r#"{"n":0}"#]));
            self.world.turn("s", "go on").await;
            self.world.all_requests_are_well_formed();
        }
    }

    async fn settled(&self) -> Value {
        self.world.product.settled(&self.run).await
    }
}

#[tokio::test]
async fn a23_after_a_kill_between_results_the_run_ends_and_its_session_goes_on() {
    join_all(WINDOWS.map(async |window| {
        let mut interrupted = Interrupted::begin(window, "", Effect::Idempotent).await;
        interrupted.world.product.kill_hard();
        interrupted.release();
        interrupted.world.product.start().await;
        let run = interrupted.settled().await;
        assert_eq!(run["status"], "COMPLETED", "{run:#}");
        let results: Vec<_> = run["tools"].as_array().expect("tools").iter().map(|tool| &tool["result"]).collect();
        assert_eq!(results, ["done"; 3]);
        interrupted.goes_on().await;
    }))
    .await;
}

#[tokio::test]
async fn a23_after_a_kill_in_calls_that_are_in_doubt_the_session_goes_on_once_it_is_decided() {
    let cases = [(1, json!({"result": "by hand"})), (2, json!({"confirmed": false}))];
    join_all(cases.map(async |(window, decision)| {
        let mut interrupted = Interrupted::begin(window, "", Effect::AtMostOnce).await;
        interrupted.world.product.kill_hard();
        interrupted.release();
        interrupted.world.product.start().await;
        let run = interrupted.settled().await;
        assert_eq!(run["status"], "PAUSED", "{run:#}");
        let decide = |id: &str| {
            let mut call = decision.clone();
            call["tool_call_id"] = json!(id);
            call
        };
        let tools = json!([decide("b"), decide("c")]).to_string();
        let path = format!("/agents/a/runs/{}/continue", interrupted.run);
        let run = interrupted.world.product.post(&path, &[("tools", &tools), ("stream", "false")]).await.expect(200);
        assert_eq!(run.json()["status"], "COMPLETED", "{}", run.text());
        assert_eq!(interrupted.world.ledger.calls().len(), 3, "nothing was called again");
        interrupted.goes_on().await;
    }))
    .await;
}

#[tokio::test]
async fn a23_after_a_cancel_between_results_the_session_goes_on() {
    join_all(WINDOWS.map(async |window| {
        let interrupted = Interrupted::begin(window, "", Effect::Idempotent).await;
        let path = format!("/agents/a/runs/{}/cancel", interrupted.run);
        Product::ask(interrupted.world.product.request(Method::POST, &path)).await.expect(200);
        assert_eq!(interrupted.settled().await["status"], "CANCELLED");
        interrupted.goes_on().await;
    }))
    .await;
}

#[tokio::test]
async fn a23_after_a_time_out_between_results_the_session_goes_on() {
    // Side by side, as each waits for its time-out.
    join_all(WINDOWS.map(|window| async move {
        let interrupted = Interrupted::begin(window, "timeout_s = 5", Effect::Idempotent).await;
        let run = interrupted.settled().await;
        assert_eq!(run["status"], "ERROR");
        assert!(run["content"].as_str().expect("a reason").contains("timeout_s"), "{}", run["content"]);
        interrupted.goes_on().await;
    }))
    .await;
}

#[tokio::test]
async fn a23_a_paused_run_does_not_stop_its_session() {
    let mut interrupted = Interrupted::begin(3, "", Effect::AtMostOnce).await;
    interrupted.world.product.kill_hard();
    interrupted.world.product.start().await;
    assert_eq!(interrupted.settled().await["status"], "PAUSED");
    interrupted.goes_on().await;
}
