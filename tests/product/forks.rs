//! Runs that go on from a message of another one: what was done stays done, and neither run changes the other.

use reenact_tests::stub::Reply;
use serde_json::{Value, json};

use crate::{support::Answer, world::World};

/// Messages of a run of [`World::noted`]: what was said, the call, its result, the answer.
const MESSAGES: usize = 4;

fn texts(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["content"].as_str().unwrap_or("")).collect()
}

impl World {
    /// A run that has called the tool that may be called once, and has answered.
    async fn noted(&self) -> String {
        self.model.push(Reply::calls(&[("c", "once", "{}")]));
        self.model.push(Reply::text("noted"));
        let run = self.turn("s", "take a note").await;
        assert_eq!(run["messages"].as_array().map(Vec::len), Some(MESSAGES), "{run:#}");
        run["run_id"].as_str().expect("an id").to_owned()
    }

    async fn asks_to_go_on(&self, run: &str, fields: &[(&str, &str)]) -> Answer {
        let fields: Vec<_> = fields.iter().copied().chain([("session_id", "s"), ("stream", "false")]).collect();
        self.product.post(&format!("/agents/a/runs/{run}/continue"), &fields).await
    }

    async fn goes_on(&self, run: &str, fields: &[(&str, &str)]) -> Value {
        let other = self.asks_to_go_on(run, fields).await.expect(200).json();
        assert_eq!(other["status"], "COMPLETED", "{other:#}");
        other
    }

    async fn read(&self, run: &str) -> Value {
        self.product.get(&format!("/runs/{run}")).await.expect(200).json()
    }

    fn replays_as_recorded(&self, run: &Value) {
        let replayed = self.product.run(&["replay", run["run_id"].as_str().expect("an id")]);
        assert!(String::from_utf8_lossy(&replayed.stdout).contains("the same:"), "{replayed:?}");
    }

    /// What the model was shown last.
    fn shown(&self) -> Vec<Value> {
        self.model.requests().pop().expect("it was asked").messages().to_vec()
    }
}

#[tokio::test]
async fn a_completed_run_that_is_spoken_to_goes_on_as_another_one_and_calls_nothing_again() {
    let mut world = World::with("").await;
    let run = world.noted().await;
    let before = world.read(&run).await;
    let session = world.product.get("/sessions/s").await.expect(200).json()["total_tokens"].as_u64();
    let other = world.goes_on(&run, &[("input", "and now?")]).await;
    assert_ne!(other["run_id"], json!(run));
    assert_eq!((&other["forked_from_run_id"], &other["forked_from_message_index"]), (&json!(run), &json!(MESSAGES)));
    assert_eq!((&other["regenerated_from"], world.ledger.calls().len()), (&Value::Null, 1), "{other:#}");
    let messages = other["messages"].as_array().expect("messages");
    assert_eq!(texts(messages), ["take a note", "", "done", "noted", "and now?", "ok"]);
    assert_eq!(
        texts(&world.shown()),
        ["take a note", "", "done", "noted", "and now?"],
        "its source is no history to it"
    );
    assert_eq!(before, world.read(&run).await, "the other stays what it was");
    let spent = before["metrics"]["total_tokens"].as_u64().unwrap_or(0)
        + other["metrics"]["total_tokens"].as_u64().unwrap_or(0);
    let all = world.product.get("/sessions/s").await.expect(200).json()["total_tokens"].as_u64();
    assert_eq!(all.unwrap_or(0), spent, "what was taken over is counted once, {session:?} before");
    world.replays_as_recorded(&other);
    world.survives_a_rebuild(&["s"]).await;
}

#[tokio::test]
async fn a_regenerated_answer_stands_in_place_of_the_first_unless_both_are_to_stay() {
    let mut world = World::with("[history]\nruns = 3").await;
    let run = world.noted().await;
    world.model.push(Reply::text("better"));
    let other = world.goes_on(&run, &[("regenerate", "true"), ("additional_instructions", "shorter")]).await;
    assert_eq!((&other["content"], &other["regenerated_from"]), (&json!("better"), &json!(run)), "{other:#}");
    assert_eq!(texts(&world.shown()), ["take a note", "", "done", "shorter"], "the answer is dropped");
    let first = world.read(&run).await;
    assert_eq!((&first["status"], &first["content"]), (&json!("REGENERATED"), &json!("noted")));
    let of_session = world.product.get("/sessions/s/runs").await.expect(200).json();
    assert_eq!(of_session[1]["regenerated_from"], json!(run), "{of_session:#}");
    let listed = world.product.get("/agents/a/runs?session_id=s&status=REGENERATED").await.expect(200).json();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed:#}");
    world.turn("s", "next").await;
    assert_eq!(texts(&world.shown()), ["take a note", "", "done", "shorter", "better", "next"]);
    // A run that was replaced is neither queued again nor cancelled.
    world.product.post(&format!("/queue/jobs/{run}/requeue"), &[]).await.expect(400);
    world.product.post(&format!("/agents/a/runs/{run}/cancel"), &[]).await.expect(200);
    assert_eq!(world.read(&run).await["status"], "REGENERATED");

    let kept = other["run_id"].as_str().expect("an id");
    let third = world.goes_on(kept, &[("regenerate", "true"), ("replace_original", "false")]).await;
    assert_eq!((&world.read(kept).await["status"], &third["regenerated_from"]), (&json!("COMPLETED"), &json!(kept)));
    assert_eq!(world.ledger.calls().len(), 1);
    for run in [&first, &other, &third] {
        world.replays_as_recorded(run);
    }
    world.survives_a_rebuild(&["s"]).await;
}

#[tokio::test]
async fn another_run_begins_after_any_whole_message_and_a_fork_of_a_fork_has_all_of_it() {
    let mut world = World::with("").await;
    let run = world.noted().await;
    let from_result = world.goes_on(&run, &[("continue_from", "3"), ("fork", "true")]).await;
    assert_eq!(texts(&world.shown()), ["take a note", "", "done"]);
    assert_eq!(from_result["forked_from_message_index"], 3);
    let anew = world.goes_on(&run, &[("continue_from", "last_user")]).await;
    assert_eq!(texts(&world.shown()), ["take a note"]);
    let again = world.goes_on(anew["run_id"].as_str().expect("an id"), &[("input", "more")]).await;
    let deeper = world.goes_on(again["run_id"].as_str().expect("an id"), &[("input", "and more")]).await;
    assert_eq!(texts(&world.shown()), ["take a note", "ok", "more", "ok", "and more"]);
    let back = world.goes_on(deeper["run_id"].as_str().expect("an id"), &[("continue_from", "3")]).await;
    assert_eq!(texts(&world.shown()), ["take a note", "ok", "more"]);
    assert_eq!(world.ledger.calls().len(), 1);
    for run in [&from_result, &again, &deeper, &back] {
        world.replays_as_recorded(run);
    }
    world.survives_a_rebuild(&["s"]).await;
}

#[tokio::test]
async fn a_run_at_work_is_forked_from_what_is_settled_and_works_on() {
    let world = World::with("[queue]\nwhen_busy = \"parallel\"").await;
    world.ledger.push(Reply::raw(200, "text/plain", "late").delay(std::time::Duration::from_secs(3_600)));
    world.model.push(Reply::calls(&[("c", "once", "{}")]));
    let run = world.product.begin("a", "s", "call it").await;
    world.ledger.wait_for(1).await;
    world.asks_to_go_on(&run, &[("input", "hello?")]).await.expect(409);
    let middle = world.asks_to_go_on(&run, &[("fork", "true"), ("continue_from", "2")]).await.expect(422);
    assert!(middle.text().contains("continue_from"), "{}", middle.text());
    let other = world.goes_on(&run, &[("fork", "true"), ("input", "without it")]).await;
    assert_eq!(texts(&world.shown()), ["call it", "without it"], "an open call is not taken over");
    assert_eq!(other["forked_from_message_index"], 1);
    assert_eq!(world.read(&run).await["status"], "RUNNING");
    world.product.post(&format!("/agents/a/runs/{run}/cancel"), &[]).await.expect(200);
    assert_eq!(world.product.settled(&run).await["status"], "CANCELLED");
}

#[tokio::test]
async fn what_cannot_be_gone_on_from_is_refused_with_the_field_and_changes_nothing() {
    let world = World::with("").await;
    let run = world.noted().await;
    let before = world.product.get("/sessions/s/runs").await.expect(200).json();
    let bad: [(&[(&str, &str)], &str); 18] = [
        (&[("continue_from", "+1")], "continue_from"),
        (&[("continue_from", " 1")], "continue_from"),
        (&[("continue_from", "-1")], "continue_from"),
        (&[("continue_from", "5")], "continue_from"),
        (&[("continue_from", "0")], "continue_from"),
        (&[("continue_from", "2")], "continue_from"),
        (&[("continue_from", "4")], "input"),
        (&[("continue_from", "soon")], "continue_from"),
        (&[("continue_from", "1.0")], "continue_from"),
        (&[("continue_from", "99999999999999999999")], "continue_from"),
        (&[], "input"),
        (&[("fork", "perhaps")], "fork"),
        (&[("regenerate", "2")], "regenerate"),
        (&[("fork", "true"), ("regenerate", "true")], "fork"),
        (&[("replace_original", "true")], "replace_original"),
        (&[("regenerate", "true"), ("continue_from", "1")], "continue_from"),
        (&[("input", "a"), ("regenerate", "true"), ("additional_instructions", "b")], "additional_instructions"),
        (&[("input", "a"), ("tools", "[{\"tool_call_id\": \"c\", \"confirmed\": true}]")], "tools"),
    ];
    for (fields, named) in bad {
        let refused = world.asks_to_go_on(&run, fields).await.expect(422);
        assert!(refused.text().contains(named), "{fields:?}: {}", refused.text());
    }
    world.asks_to_go_on("nowhere", &[("input", "a")]).await.expect(404);
    world.asks_to_go_on(&run, &[("input", "a"), ("user_id", "stranger")]).await.expect(200);
    let fields = [("input", "a"), ("session_id", "another")];
    world.product.post(&format!("/agents/a/runs/{run}/continue"), &fields).await.expect(404);
    let after = world.product.get("/sessions/s/runs").await.expect(200).json();
    assert_eq!(after[0], before[0]);
    assert_eq!(after.as_array().map(Vec::len), Some(2), "only what was accepted is there");
}

#[tokio::test]
async fn a_kill_in_the_middle_of_a_fork_leaves_all_of_it_or_nothing_and_no_call_is_made_again() {
    let mut world = World::with("").await;
    let run = world.noted().await;
    for round in 0..6_u64 {
        let asked = world.product.form(
            &format!("/agents/a/runs/{run}/continue"),
            &[("input", "more"), ("background", "true"), ("stream", "false"), ("session_id", "s")],
        );
        let pause = std::time::Duration::from_micros(round * round * 400);
        let answer = tokio::time::timeout(pause, crate::support::Product::try_ask(asked)).await;
        world.product.kill_hard();
        world.product.start().await;
        let runs = world.product.get("/sessions/s/runs").await.expect(200).json();
        for run in runs.as_array().expect("a list") {
            let settled = world.product.settled(run["run_id"].as_str().expect("an id")).await;
            assert_eq!(settled["status"], "COMPLETED", "{settled:#}");
        }
        if let Ok(Ok(ticket)) = answer {
            let id = ticket.expect(202).json()["run_id"].as_str().expect("an id").to_owned();
            let told = world.read(&id).await;
            assert_eq!(
                texts(told["messages"].as_array().expect("messages"))[..4],
                ["take a note", "", "done", "noted"]
            );
        }
    }
    assert_eq!(world.ledger.times_by_token().into_values().collect::<Vec<_>>(), [1]);
    world.all_requests_are_well_formed();
    world.survives_a_rebuild(&["s"]).await;
}

#[tokio::test]
async fn a_copied_session_has_the_completed_runs_and_goes_its_own_way() {
    let mut world = World::with("[history]\nruns = 3").await;
    world.product.post("/agents/a/sessions/none/fork", &[]).await.expect(404);
    world
        .product
        .request(reqwest::Method::POST, "/sessions")
        .json(&json!({"session_id": "empty"}))
        .send()
        .await
        .expect("ok");
    world.product.post("/agents/a/sessions/empty/fork", &[]).await.expect(400);
    let run = world.noted().await;
    world.goes_on(&run, &[("regenerate", "true")]).await;
    world.turn("s", "next").await;
    let answer = world.product.post("/agents/a/sessions/s/fork", &[]).await.expect(200).json();
    let copy = answer["session_id"].as_str().expect("an id").to_owned();
    assert_eq!(answer["forked_from_session_id"], "s");
    let session = world.product.get(&format!("/sessions/{copy}")).await.expect(200).json();
    assert_eq!(session["total_tokens"].as_u64().unwrap_or(0), 0, "nothing is paid twice: {session:#}");
    let runs = world.product.get(&format!("/agents/a/runs?session_id={copy}")).await.expect(200).json();
    let runs = runs.as_array().expect("a list");
    assert_eq!(runs.len(), 2, "what was replaced is not copied: {runs:#?}");
    assert!(runs.iter().all(|run| run["status"] == "COMPLETED" && run["forked_from_session_id"] == "s"), "{runs:#?}");
    assert_eq!(texts(runs[0]["messages"].as_array().expect("messages")), ["take a note", "", "done", "ok"]);
    world.turn(&copy, "and you?").await;
    assert_eq!(texts(&world.shown()), ["take a note", "", "done", "ok", "next", "ok", "and you?"]);
    let again = world.product.post(&format!("/agents/a/sessions/{copy}/fork"), &[]).await.expect(200).json();
    let deeper = again["session_id"].as_str().expect("an id");
    let runs = world.product.get(&format!("/agents/a/runs?session_id={deeper}")).await.expect(200).json();
    let from: Vec<_> = runs.as_array().expect("a list").iter().map(|run| &run["forked_from_session_id"]).collect();
    assert_eq!(from, ["s", "s", &copy], "a run says where it was made");
    for run in runs.as_array().expect("a list") {
        world.replays_as_recorded(run);
    }
    world.product.request(reqwest::Method::DELETE, "/sessions/s").send().await.expect("it answers");
    assert_eq!(world.ledger.calls().len(), 1);
    world.survives_a_rebuild(&[&copy, deeper]).await;
}

#[tokio::test]
async fn checkpoints_are_the_messages_after_which_another_run_can_begin() {
    let world = World::headed("instructions = \"Be brief.\"", "").await;
    world.model.push(Reply::calls(&[("c", "once", "{}"), ("d", "note", "{}")]));
    world.model.push(Reply::text("noted"));
    let run = world.turn("s", "take two").await;
    let id = run["run_id"].as_str().expect("an id");
    let path = format!("/agents/a/runs/{id}/checkpoints");
    let list = world.product.get(&format!("{path}?session_id=s")).await.expect(200).json();
    let marks = list["checkpoints"].as_array().expect("a list");
    let told: Vec<_> = marks.iter().map(|mark| (mark["message_index"].as_u64(), mark["reason"].as_str())).collect();
    let last = run["messages"].as_array().expect("messages").len() as u64;
    assert_eq!(told, [(Some(last - 1), Some("checkpoint")), (Some(last), Some("end"))], "{list:#}");
    for (index, kept) in [(last, last), (last - 1, last - 1), (last - 2, last - 4), (0, 0)] {
        let one = world.product.get(&format!("{path}/{index}?session_id=s")).await.expect(200).json();
        assert_eq!(one["snapshot"]["messages"].as_array().map(|kept| kept.len() as u64), Some(kept), "{one:#}");
        assert_eq!(one["checkpoint"]["message_index"], json!(index));
    }
    for (index, status) in [("99", 400), ("-1", 422), ("x", 422)] {
        world.product.get(&format!("{path}/{index}?session_id=s")).await.expect(status);
    }
    world.product.get(&path).await.expect(422);
    world.product.get("/agents/a/runs/nowhere/checkpoints?session_id=s").await.expect(404);
    // What is told is what can be done.
    world.goes_on(id, &[("continue_from", &(last - 1).to_string())]).await;
    assert_eq!(texts(&world.shown())[..2], ["Be brief.", "take two"]);
}

#[tokio::test]
async fn a_run_is_forked_at_a_step_from_the_command_line_with_another_model_and_prompt() {
    let world = World::with("").await;
    let run = world.noted().await;
    let fork = |arguments: &[&str]| {
        let all: Vec<_> = ["replay", &run, "--json"].into_iter().chain(arguments.iter().copied()).collect();
        world.product.run(&all)
    };
    let forked = fork(&["--from", "2", "--model", "another", "--instructions", "Be rude."]);
    let ticket: Value = serde_json::from_slice(&forked.stdout).unwrap_or_else(|error| panic!("{error}: {forked:?}"));
    let other = world.product.settled(ticket["run_id"].as_str().expect("an id")).await;
    assert_eq!((&other["status"], &other["model"]), (&json!("COMPLETED"), &json!("another")), "{other:#}");
    assert_eq!(texts(&world.shown()), ["Be rude.", "take a note", "", "done"]);
    assert_eq!(world.model.requests().pop().expect("it was asked").body["model"], "another");
    world.replays_as_recorded(&other);
    let refused = fork(&["--from", "1"]);
    assert!(!refused.status.success(), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("step 1"), "{refused:?}");
    assert_eq!(world.ledger.calls().len(), 1);
}
