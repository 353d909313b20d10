//! Runs that failed or were cancelled and are queued again: they go on from their last completed step.

use std::time::Duration;

use reenact_tests::stub::Reply;
use serde_json::{Value, json};

use crate::world::{World, notes};

const HOUR: Duration = Duration::from_secs(3_600);

fn refused() -> Reply {
    Reply::json(401, &json!({"error": {"message": "who"}}))
}

impl World {
    /// A run that has called `note` and whose second turn failed.
    async fn failed_run(&self) -> String {
        self.model.push(notes(&["{}"]));
        self.model.push(refused());
        let run = self.product.turn("a", "s", "take a note").await;
        assert_eq!((&run["status"], &run["error"]["kind"]), (&json!("ERROR"), &json!("model_auth")), "{run:#}");
        run["run_id"].as_str().expect("an id").to_owned()
    }

    async fn requeue(&self, run: &str) -> Value {
        self.product.post(&format!("/queue/jobs/{run}/requeue"), &[]).await.expect(200).json()
    }

    async fn cancelled_in(&self, tool: &str) -> String {
        self.ledger.push(Reply::raw(200, "text/plain", "late").delay(HOUR));
        self.model.push(Reply::calls(&[("c", tool, "{}")]));
        let run = self.product.begin("a", "s", "call it").await;
        self.ledger.wait_for(1).await;
        self.product.post(&format!("/agents/a/runs/{run}/cancel"), &[]).await.expect(200);
        assert_eq!(self.product.settled(&run).await["status"], "CANCELLED");
        run
    }

    fn replays(&self, run: &str) {
        let replayed = self.product.run(&["replay", run]);
        assert!(String::from_utf8_lossy(&replayed.stdout).contains("the same:"), "{replayed:?}");
    }
}

#[tokio::test]
async fn a_failed_run_goes_on_behind_what_its_tools_did_and_everybody_tells_the_same_of_it() {
    let mut world = World::with("").await;
    let run = world.failed_run().await;
    let before = world.product.get("/sessions/s").await.expect(200).json()["total_tokens"].clone();
    let job = world.requeue(&run).await;
    assert_eq!((&job["id"], &job["completed_at"], &job["error"]), (&json!(run), &Value::Null, &Value::Null), "{job:#}");
    let done = world.product.settled(&run).await;
    assert_eq!((&done["status"], &done["content"]), (&json!("COMPLETED"), &json!("ok")), "{done:#}");
    assert_eq!((&done["error"], &done["cancellation_stage"]), (&Value::Null, &Value::Null));
    assert_eq!((world.ledger.calls().len(), world.model.requests().len()), (1, 3));
    world.all_requests_are_well_formed();
    assert_eq!(world.product.get(&format!("/queue/jobs/{run}")).await.expect(200).json()["status"], "completed");
    let stats = world.product.get("/queue/stats").await.expect(200).json();
    assert_eq!((&stats["counts"], &stats["slots_taken"]), (&json!({"completed": 1}), &json!(0)));
    let session = world.product.get("/sessions/s").await.expect(200).json();
    let spent = done["metrics"]["total_tokens"].as_u64();
    assert_eq!(session["total_tokens"].as_u64(), spent, "nothing counts twice, {before} before");
    world.replays(&run);
    let next = world.turn("s", "go on").await;
    assert!(next["run_id"] != done["run_id"]);
    let history = world.model.requests().pop().expect("it was asked");
    assert!(history.messages().iter().any(|message| message["content"] == "take a note"), "it is history now");
    world.survives_a_rebuild(&["s"]).await;
}

#[tokio::test]
async fn a_reader_of_the_stream_goes_on_where_the_error_was() {
    let world = World::with("").await;
    let run = world.failed_run().await;
    let resume = async |from: &str| {
        let fields = [("session_id", "s"), ("last_event_index", from)];
        world.product.post(&format!("/agents/a/runs/{run}/resume"), &fields).await.expect(200)
    };
    let first = resume("-1").await;
    let data = first.text().lines().rev().find_map(|line| line.strip_prefix("data: ").map(str::to_owned));
    let last: Value = serde_json::from_str(&data.expect("frames")).expect("is JSON");
    assert_eq!(last["event"], "RunError");
    world.requeue(&run).await;
    let index = last["event_index"].to_string();
    let names = resume(&index).await.event_names();
    let control = ["replay", "catch_up", "subscribed"];
    let names: Vec<_> = names.iter().map(String::as_str).filter(|name| !control.contains(name)).collect();
    assert_eq!((names.first(), names.last()), (Some(&"RunStarted"), Some(&"RunCompleted")), "{names:?}");
    world.product.settled(&run).await;
    let all = resume("-1").await.event_names();
    assert_eq!(all.iter().filter(|name| *name == "RunStarted").count(), 2, "{all:?}");
}

#[tokio::test]
async fn a_call_that_was_cut_off_is_in_doubt_or_made_again_with_its_token() {
    let mut world = World::with("").await;
    let run = world.cancelled_in("once").await;
    world.requeue(&run).await;
    let paused = world.product.settled(&run).await;
    assert_eq!(paused["status"], "PAUSED", "{paused:#}");
    let tools = json!([{"tool_call_id": "c", "result": "it did"}]).to_string();
    let fields = [("tools", tools.as_str()), ("stream", "false")];
    let done = world.product.post(&format!("/agents/a/runs/{run}/continue"), &fields).await.expect(200).json();
    assert_eq!((&done["status"], world.ledger.calls().len()), (&json!("COMPLETED"), 1), "{done:#}");
    world.replays(&run);
    world.survives_a_rebuild(&["s"]).await;

    let world = World::with("").await;
    let run = world.cancelled_in("note").await;
    world.requeue(&run).await;
    assert_eq!(world.product.settled(&run).await["status"], "COMPLETED");
    assert_eq!(world.ledger.times_by_token().into_values().collect::<Vec<_>>(), [2]);
    world.replays(&run);
}

#[tokio::test]
async fn a_run_that_was_queued_again_survives_a_kill_and_may_fail_and_be_queued_again() {
    let mut world = World::with("").await;
    let run = world.failed_run().await;
    world.model.push(Reply::text("late").delay(HOUR));
    world.requeue(&run).await;
    world.model.wait_for(3).await;
    world.model.push(refused());
    world.product.crash().await;
    let failed = world.product.settled(&run).await;
    assert_eq!(failed["error"]["kind"], "model_auth", "{failed:#}");
    world.rebuild().await;
    let told = world.product.run(&["runs", "requeue", &run]);
    assert!(told.status.success(), "{told:?}");
    assert_eq!(world.product.settled(&run).await["content"], "ok");
    assert_eq!(world.ledger.calls().len(), 1);
    world.replays(&run);
}

#[tokio::test]
async fn only_a_run_that_failed_or_was_cancelled_is_queued_again() {
    let world = World::with("").await;
    let done = world.turn("s", "hello").await;
    let path = |run: &str| format!("/queue/jobs/{run}/requeue");
    let refusal = world.product.post(&path(done["run_id"].as_str().expect("an id")), &[]).await.expect(400).json();
    assert_eq!(refusal["error_id"], "not_requeued");
    assert!(refusal["detail"].as_str().expect("a reason").contains("COMPLETED"), "{refusal}");
    world.product.post(&path("none"), &[]).await.expect(404);
    world.model.push(Reply::text("late").delay(HOUR));
    let run = world.product.begin("a", "s", "wait").await;
    world.model.wait_for(2).await;
    world.product.post(&path(&run), &[]).await.expect(400);
    world.product.post(&format!("/agents/a/runs/{run}/cancel"), &[]).await.expect(200);
    world.product.post(&format!("{}?force=maybe", path(&run)), &[]).await.expect(422);
    assert_eq!(world.product.settled(&run).await["status"], "CANCELLED");
    world.requeue(&run).await;
    assert_eq!(world.product.settled(&run).await["content"], "ok");
    world.product.post(&path(&run), &[]).await.expect(400);
}

#[tokio::test]
async fn continuing_a_run_that_failed_queues_it_again_and_shows_what_follows() {
    let world = World::with("").await;
    let run = world.failed_run().await;
    let path = format!("/agents/a/runs/{run}/continue");
    let stream = world.product.post(&path, &[("session_id", "s"), ("stream", "true")]).await.expect(200);
    let names = stream.event_names();
    assert_eq!(
        (names.first().map(String::as_str), names.last().map(String::as_str)),
        (Some("RunStarted"), Some("RunCompleted"))
    );
    world.product.post(&path, &[("session_id", "s")]).await.expect(422);
    let run = world.failed_run().await;
    let path = format!("/agents/a/runs/{run}/continue");
    let fields = [("session_id", "s"), ("stream", "false"), ("tools", ""), ("continue_from", "end")];
    let done = world.product.post(&path, &fields).await.expect(200).json();
    assert_eq!((&done["content"], world.ledger.calls().len()), (&json!("ok"), 2), "{done:#}");
}
