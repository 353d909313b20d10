//! A29: a cancel is ignored where nobody thought of it (while a run waits to try again, while it goes on after a pause),
//! loses the text that was there, or is told to have worked when it came too late.

use std::time::Duration;

use futures::future::{join, join_all};
use reenact_tests::stub::{LedgerStub, ModelRequest, ModelStub, Reply};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    ground,
    support::{POLL, Product, agent_with_model},
    world::World,
};

/// Longer than any test takes.
const NEVER: Duration = Duration::from_secs(3_600);
const HALF: &str = r#"{"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"so far"},"finish_reason":null}]}"#;

/// What a model does is what its run was asked for.
fn obey(request: &ModelRequest) -> Option<Reply> {
    let messages = request.messages();
    let asked = messages.iter().rev().find(|message| message["role"] == "user")?["content"].as_str()?;
    let goes_on = messages.last().is_some_and(|message| message["role"] == "tool");
    match (asked, goes_on) {
        ("say nothing", _) | ("pay, then say nothing", true) => Some(Reply::text("late").delay(NEVER)),
        ("say half", _) => Some(Reply::events([HALF]).hang()),
        ("call", false) => Some(Reply::calls(&[("c", "once", "{}")])),
        ("pay" | "pay, then say nothing", false) => Some(Reply::calls(&[("c", "pay", "{}")])),
        ("be patient", _) => Some(Reply::raw(429, "text/plain", "slow down").header("retry-after", "600")),
        ("fail", _) => Some(Reply::json(401, &json!({"error": {"message": "who"}}))),
        _ => None,
    }
}

/// An agent whose `once` never answers, and whose `pay` waits for a confirmation.
async fn desk(settings: impl FnOnce(Product) -> Product) -> World {
    let (model, ledger) = (ModelStub::start().await, LedgerStub::start().await);
    model.rule(obey);
    model.otherwise(Reply::text("done"));
    ledger.rule(|call| (call.path == "/once").then(|| Reply::default().hang()));
    let tool = |name: &str, more: &str| {
        let url = ledger.url(&format!("/{name}"));
        format!("[[tools]]\ntype = \"http\"\nname = \"{name}\"\nmethod = \"POST\"\nurl = \"{url}\"\n{more}\n")
    };
    let model_of = agent_with_model(&model.base_url()).replace("retries = 0", "retries = 1");
    let file = format!("{model_of}{}{}", tool("once", ""), tool("pay", "requires_confirmation = true"));
    let product = settings(ground::product().agent("a", &file)).started().await;
    World { model, ledger, product }
}

impl World {
    async fn cancel(&self, run: &str) -> String {
        let ticket = self.product.post(&format!("/agents/a/runs/{run}/cancel"), &[]).await.expect(200).json();
        ticket["status"].as_str().expect("a status").to_owned()
    }

    /// By the command line; what it says.
    fn cancel_by_command(&self, run: &str) -> String {
        let output = self.product.run(&["runs", "cancel", run]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    }

    async fn confirm(&self, run: &str) -> u16 {
        let fields = [("tools", r#"[{"tool_call_id": "c", "confirmed": true}]"#), ("background", "true")];
        let fields = [&fields[..], &[("stream", "false")]].concat();
        self.product.post(&format!("/agents/a/runs/{run}/continue"), &fields).await.status
    }

    /// A run that has come to where it is to be stopped. Its session has the name of the message.
    async fn brought_to(&mut self, place: &str, message: &str) -> String {
        let (asked, called) = (self.model.requests().len(), self.ledger.calls().len());
        let run = self.product.begin("a", message, message).await;
        match place {
            "model" => self.model.wait_for(asked + 1).await,
            "stream" => self.said(&run, "so far").await,
            "tool" => self.ledger.wait_for(called + 1).await,
            "patience" => self.said_in_events("dev.reenact.run.step.failed.v1").await,
            "person" => assert_eq!(self.product.settled(&run).await["status"], "PAUSED"),
            "doubt" => {
                self.ledger.wait_for(called + 1).await;
                self.product.crash().await;
                assert_eq!(self.product.settled(&run).await["status"], "PAUSED");
            }
            "continued" => {
                assert_eq!(self.product.settled(&run).await["status"], "PAUSED");
                assert_eq!(self.confirm(&run).await, 202);
                self.model.wait_for(asked + 2).await;
            }
            other => panic!("there is no way to `{other}`"),
        }
        run
    }

    /// Until somebody who watches the run has seen these words.
    async fn said(&self, run: &str, words: &str) {
        let request = self.product.request(Method::POST, &format!("/agents/a/runs/{run}/resume"));
        let (mut stream, mut seen) = (request.send().await.expect("it is up"), String::new());
        while !seen.contains(words) {
            let chunk = stream.chunk().await.expect("it goes on").expect("it does not end");
            seen.push_str(&String::from_utf8_lossy(&chunk));
        }
    }

    async fn said_in_events(&self, kind: &str) {
        while !self.product.events().iter().any(|event| event["type"] == kind) {
            tokio::time::sleep(POLL).await;
        }
    }

    /// The types of the run's events.
    fn types_of(&self, run: &str) -> Vec<String> {
        let events = self.product.events();
        let of_run = events.iter().filter(|event| event["data"]["run_id"] == run);
        of_run.map(|event| event["type"].as_str().expect("a type").to_owned()).collect()
    }

    /// It was stopped once, and nothing came after that.
    fn was_stopped_once(&self, run: &str) {
        let types = self.types_of(run);
        let expected = ["dev.reenact.run.cancel_requested.v1", "dev.reenact.run.cancelled.v1"];
        let count = |kind: &str| types.iter().filter(|found| *found == kind).count();
        assert_eq!((&types[types.len() - 2..], expected.map(count)), (&expected.map(str::to_owned)[..], [1, 1]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a29_a_run_is_stopped_wherever_it_is_and_stays_so_after_a_kill_right_behind_the_answer() {
    let mut desk = desk(|product| product).await;
    let places = [
        ("model", "say nothing", "EXECUTING"),
        ("stream", "say half", "EXECUTING"),
        ("tool", "call", "EXECUTING"),
        ("patience", "be patient", "EXECUTING"),
        ("person", "pay", "PAUSED"),
        ("continued", "pay, then say nothing", "EXECUTING"),
    ];
    for (number, (place, message, stage)) in places.into_iter().enumerate() {
        let run = desk.brought_to(place, message).await;
        let done = (desk.model.requests().len(), desk.ledger.calls().len());
        if number % 2 == 0 {
            assert_eq!(desk.cancel(&run).await, "CANCELLED", "{place}");
        } else {
            assert_eq!(desk.cancel_by_command(&run), format!("run {run} is CANCELLED"), "{place}");
        }
        desk.product.crash().await;
        let output = desk.product.settled(&run).await;
        let expected = (&json!("CANCELLED"), &json!(stage));
        assert_eq!((&output["status"], &output["cancellation_stage"]), expected, "{place}: {output:#}");
        assert_eq!((desk.model.requests().len(), desk.ledger.calls().len()), done, "{place}: it went on");
        if place == "stream" {
            assert_eq!(output["content"], "so far", "{output:#}");
        }
        desk.was_stopped_once(&run);
        desk.turn(message, "next").await;
    }
    desk.survives_a_rebuild(&places.map(|(_, message, _)| message)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a29_a_run_in_doubt_is_stopped_and_its_call_is_not_made_again() {
    let mut desk = desk(|product| product).await;
    let run = desk.brought_to("doubt", "call").await;
    assert_eq!(desk.cancel(&run).await, "CANCELLED");
    desk.product.crash().await;
    let output = desk.product.settled(&run).await;
    assert_eq!((&output["status"], &output["cancellation_stage"]), (&json!("CANCELLED"), &json!("PAUSED")));
    assert_eq!((desk.confirm(&run).await, desk.ledger.calls().len()), (409, 1));
    desk.turn("call", "next").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a29_a_run_that_waits_for_its_turn_is_taken_out_and_nothing_of_it_is_asked() {
    let mut desk = desk(|product| product.set("REENACT_MAX_CONCURRENCY", 1)).await;
    let holds = desk.brought_to("model", "say nothing").await;
    let behind_it = desk.product.begin("a", "say nothing", "never asked").await;
    let in_line = desk.product.begin("a", "another", "never asked").await;
    let last = desk.product.begin("a", "last", "asked").await;
    for run in [&behind_it, &in_line] {
        assert_eq!(desk.cancel(run).await, "CANCELLED");
    }
    desk.product.crash().await;
    for run in [&behind_it, &in_line] {
        let output = desk.product.settled(run).await;
        assert_eq!((&output["status"], &output["cancellation_stage"]), (&json!("CANCELLED"), &json!("PENDING")));
        desk.was_stopped_once(run);
    }
    assert_eq!(desk.cancel(&holds).await, "CANCELLED");
    assert_eq!(desk.product.settled(&last).await["status"], "COMPLETED");
    let asks = |request: &ModelRequest| request.messages().last().is_some_and(|last| last["content"] == "never asked");
    assert!(!desk.model.requests().iter().any(asks));
    desk.turn("another", "next").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a29_a_run_that_has_ended_stays_as_it_is_and_the_answer_says_how() {
    let mut desk = desk(|product| product).await;
    let done = desk.product.turn("a", "done", "hello").await;
    let failed = desk.product.turn("a", "failed", "fail").await;
    let stopped = desk.brought_to("model", "say nothing").await;
    desk.cancel(&stopped).await;
    let id = |run: &Value| run["run_id"].as_str().expect("an id").to_owned();
    for (run, status) in [(id(&done), "COMPLETED"), (id(&failed), "ERROR"), (stopped, "CANCELLED")] {
        let before = desk.product.events().len();
        assert_eq!(desk.cancel(&run).await, status);
        assert_eq!(desk.cancel_by_command(&run), format!("run {run} is {status}"));
        assert_eq!(desk.product.get(&format!("/runs/{run}")).await.json()["status"], status);
        assert_eq!(desk.product.events().len(), before, "nothing was recorded");
    }
    let unknown = desk.product.run(&["runs", "cancel", "no-such-run"]);
    assert!(!unknown.status.success() && String::from_utf8_lossy(&unknown.stderr).contains("not found"), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a29_several_cancels_at_once_are_one() {
    let mut desk = desk(|product| product).await;
    let run = desk.brought_to("stream", "say half").await;
    let told = join_all((0..8).map(|_| desk.cancel(&run))).await;
    assert!(told.iter().all(|status| status == "CANCELLED"), "{told:?}");
    desk.was_stopped_once(&run);
    assert_eq!(desk.product.settled(&run).await["content"], "so far");
}

#[tokio::test(flavor = "multi_thread")]
async fn a29_a_cancel_that_meets_the_end_tells_which_of_them_it_was() {
    let desk = desk(|product| product).await;
    for number in 0..24_u64 {
        let run = desk.product.begin("a", &format!("s{number}"), "hello").await;
        tokio::time::sleep(Duration::from_millis(number)).await;
        let told = desk.cancel(&run).await;
        let output = desk.product.settled(&run).await;
        assert_eq!(output["status"], told, "{output:#}");
        let types = desk.types_of(&run);
        let ends = ["completed", "failed", "cancelled"].map(|end| format!("dev.reenact.run.{end}.v1"));
        assert_eq!(types.iter().filter(|kind| ends.contains(kind)).count(), 1, "{types:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a29_of_a_cancel_and_a_decision_one_wins_and_the_other_is_told() {
    let mut desk = desk(|product| product).await;
    for number in 0..12 {
        let run = desk.brought_to("person", "pay").await;
        let made = desk.ledger.calls().len();
        let cancel = async {
            tokio::time::sleep(Duration::from_millis(number % 3)).await;
            desk.cancel(&run).await
        };
        let (told, confirmed) = join(cancel, desk.confirm(&run)).await;
        let output = desk.product.settled(&run).await;
        assert_eq!(output["status"], told, "{output:#}");
        let was_answered = desk.types_of(&run).iter().any(|kind| kind == "dev.reenact.run.step.answered.v1");
        assert_eq!(confirmed, if was_answered { 202 } else { 409 }, "{output:#}");
        assert!(was_answered || desk.ledger.calls().len() == made, "a call was made that nobody confirmed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a29_a_call_that_waited_when_its_run_was_stopped_waits_again_with_it_and_is_made_once() {
    let mut desk = desk(|product| product).await;
    let run = desk.brought_to("person", "pay").await;
    let approvals = format!("/approvals?run_id={run}");
    let status_of_approval = async |desk: &World| {
        let page = desk.product.get(&approvals).await.expect(200).json();
        assert_eq!(page["data"].as_array().map(Vec::len), Some(1), "{page:#}");
        page["data"][0]["status"].as_str().expect("a status").to_owned()
    };
    assert_eq!(status_of_approval(&desk).await, "pending");
    assert_eq!(desk.cancel(&run).await, "CANCELLED");
    assert_eq!((status_of_approval(&desk).await.as_str(), desk.confirm(&run).await), ("cancelled", 409));

    desk.product.post(&format!("/queue/jobs/{run}/requeue"), &[]).await.expect(200);
    desk.rebuild().await;
    assert_eq!(desk.product.settled(&run).await["status"], "PAUSED");
    assert_eq!((status_of_approval(&desk).await.as_str(), desk.ledger.calls().len()), ("pending", 0));
    assert_eq!(desk.confirm(&run).await, 202);
    assert_eq!(desk.product.settled(&run).await["status"], "COMPLETED");
    assert_eq!((desk.confirm(&run).await, status_of_approval(&desk).await.as_str()), (409, "approved"));
    assert_eq!(desk.ledger.calls().iter().map(|call| call.path.as_str()).collect::<Vec<_>>(), ["/pay"]);
    let replay = desk.product.run(&["replay", &run]);
    assert!(String::from_utf8_lossy(&replay.stdout).contains("the same:"), "{replay:?}");
    desk.survives_a_rebuild(&["pay"]).await;
    assert_eq!(desk.ledger.calls().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a29_a_stopped_run_that_waits_for_its_turn_again_takes_decisions_meanwhile() {
    // Of two partitions, the one that is back first would get the only slot.
    let narrow = |product: Product| product.set("REENACT_MAX_CONCURRENCY", 1).set("REENACT_KAFKA_PARTITIONS", 1);
    let mut desk = desk(narrow).await;
    let run = desk.brought_to("person", "pay").await;
    desk.cancel(&run).await;
    let holds = desk.brought_to("model", "say nothing").await;
    desk.product.post(&format!("/queue/jobs/{run}/requeue"), &[]).await.expect(200);
    let shown = desk.product.get(&format!("/runs/{run}")).await.expect(200).json();
    assert_eq!((&shown["status"], &shown["requirements"][0]["kind"]), (&json!("PENDING"), &json!("confirmation")));
    assert_eq!(desk.confirm(&run).await, 202);
    desk.rebuild().await;
    let shown = desk.product.get(&format!("/runs/{run}")).await.expect(200).json();
    assert_eq!((&shown["status"], shown.get("requirements")), (&json!("PENDING"), None), "{shown:#}");
    assert_eq!((desk.confirm(&run).await, desk.ledger.calls().len()), (409, 0));
    desk.cancel(&holds).await;
    assert_eq!(desk.product.settled(&run).await["status"], "COMPLETED");
    assert_eq!(desk.ledger.calls().len(), 1);
}
