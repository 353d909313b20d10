//! Each kind of command, published to the topic: what it does and what its publisher is told.

use std::time::Duration;

use reenact_tests::stub::{LedgerStub, Reply};
use serde_json::{Value, json};

use crate::{
    deployment::{Deployment, GetAt},
    publisher::{Record, start_run},
};

/// The outcome of an answer, with its code when it has one.
pub(crate) fn outcome(answer: &Value) -> (&str, &str) {
    (answer["outcome"].as_str().unwrap_or_default(), answer["code"].as_str().unwrap_or_default())
}

const ACCEPTED: (&str, &str) = ("accepted", "");
const DUPLICATE: (&str, &str) = ("duplicate", "");

#[tokio::test(flavor = "multi_thread")]
async fn a_command_takes_effect_once_also_across_a_restart() {
    let mut deployment = Deployment::start(1).await;
    let mut publisher = deployment.publisher();
    // The same at the same time: they may be decided in one batch.
    let command = || start_run("once", "s", "hello");
    let asked: Vec<_> = (0..5).map(|_| publisher.tell(command())).collect();
    let answers: Vec<_> = asked.iter().map(|asked| publisher.answer_to(asked)).collect();
    let accepted = answers.iter().filter(|answer| outcome(answer) == ACCEPTED).count();
    let repeated = answers.iter().filter(|answer| outcome(answer) == DUPLICATE).count();
    assert_eq!((accepted, repeated), (1, 4), "{answers:#?}");
    let run = deployment.settled(&answers[0]).await;
    for restart in [false, true] {
        if restart {
            deployment.nodes[0].crash().await;
        }
        let again = publisher.ask(command());
        assert_eq!((outcome(&again), &again["run_id"]), (DUPLICATE, &run["run_id"]), "{again}");
        assert_eq!(again["status"], "COMPLETED", "{again}");
    }
    let runs = deployment.node().get("/sessions/s/runs").await.expect(200).json();
    assert_eq!(runs.as_array().map(Vec::len), Some(1), "{runs:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_refused_says_why_with_a_stable_word() {
    let deployment = Deployment::start(1).await;
    let mut publisher = deployment.publisher();
    let mut stranger = start_run("1", "s", "hello");
    stranger["agent_id"] = json!("nobody");
    let nowhere = json!([{"tool_call_id": "c", "confirmed": true}]);
    let for_nobody = json!({"type": "CreateSession", "id": "0", "session_id": "for-nobody", "agent_id": "nobody"});
    for (command, code) in [
        (for_nobody, "agent_not_found"),
        (stranger, "agent_not_found"),
        (json!({"type": "CancelRun", "id": "2", "run_id": "nowhere"}), "run_not_found"),
        (json!({"type": "CancelRun", "id": "3", "run_id": "nowhere", "session_id": "s"}), "run_not_found"),
        (json!({"type": "ContinueRun", "id": "4", "run_id": "nowhere", "requirements": nowhere}), "run_not_found"),
        (json!({"type": "RequeueRun", "id": "9", "run_id": "nowhere"}), "run_not_found"),
        (json!({"type": "UpdateSession", "id": "5", "session_id": "nowhere", "name": "n"}), "session_not_found"),
        (json!({"type": "DeleteSession", "id": "6", "session_id": "nowhere"}), "session_not_found"),
    ] {
        let answer = publisher.ask(command.clone());
        assert_eq!(outcome(&answer), ("rejected", code), "{command}: {answer}");
        assert!(answer["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{answer}");
        assert_eq!(answer["command_id"], command["id"]);
    }
    // What was refused was not taken: the same id may be used for what can be done.
    assert_eq!(outcome(&publisher.ask(start_run("1", "s", "hello"))), ACCEPTED);
    // Who is not the owner learns nothing.
    let mut foreign = start_run("7", "owned", "hello");
    foreign["user_id"] = json!("alice");
    assert_eq!(outcome(&publisher.ask(foreign.clone())), ACCEPTED);
    (foreign["id"], foreign["user_id"]) = (json!("8"), json!("bob"));
    let answer = publisher.ask(foreign);
    assert_eq!(outcome(&answer), ("rejected", "session_not_found"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_cancelled_by_its_id_alone_wherever_the_command_lands() {
    let deployment = Deployment::start(2).await;
    let mut publisher = deployment.publisher();
    for (key, session) in ["a", "b", "c", "d"].iter().zip(["w", "x", "y", "z"]) {
        let started = publisher.ask(start_run(&format!("start {session}"), session, "sleep 600"));
        assert_eq!(outcome(&started), ACCEPTED, "{started}");
        let run = started["run_id"].as_str().expect("a start names its run");
        let command = json!({"type": "CancelRun", "id": format!("cancel {run}"), "run_id": run,
            "reason": "no longer wanted", "reply_to": {"correlation_id": run}});
        publisher.put(&Record::of(command.to_string()).key(key.as_bytes()));
        let answer = publisher.answer_to(run);
        assert_eq!((outcome(&answer), &answer["run_id"]), (ACCEPTED, &started["run_id"]), "{answer}");
        assert_eq!(answer["session_id"], session, "{answer}");
        assert_eq!(deployment.settled(&answer).await["status"], "CANCELLED");
        let again = publisher.ask(command);
        assert_eq!((outcome(&again), &again["status"]), (DUPLICATE, &json!("CANCELLED")), "{again}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_is_queued_again_by_its_id_alone_once_wherever_the_command_lands() {
    let deployment = Deployment::start(2).await;
    let mut publisher = deployment.publisher();
    for (key, session) in ["a", "b"].iter().zip(["v", "u"]) {
        let started = publisher.ask(start_run(&format!("start {session}"), session, "sleep 600"));
        let run = started["run_id"].as_str().expect("a start names its run");
        let cancel = |id: &str| json!({"type": "CancelRun", "id": format!("{id} {run}"), "run_id": run});
        assert_eq!(outcome(&publisher.ask(cancel("first"))), ACCEPTED);
        let requeue = json!({"type": "RequeueRun", "id": format!("again {run}"), "run_id": run,
            "reply_to": {"correlation_id": run}});
        publisher.put(&Record::of(requeue.to_string()).key(key.as_bytes()));
        let answer = publisher.answer_to(run);
        assert_eq!((outcome(&answer), &answer["status"]), (ACCEPTED, &json!("PENDING")), "{answer}");
        assert_eq!(outcome(&publisher.ask(requeue)), DUPLICATE);
        let cancelled = publisher.ask(cancel("second"));
        assert_eq!((outcome(&cancelled), &cancelled["run_id"]), (ACCEPTED, &started["run_id"]), "{cancelled}");
        assert_eq!(deployment.settled(&cancelled).await["status"], "CANCELLED");
    }
    let done = publisher.ask(start_run("done", "t", "hello"));
    assert_eq!(deployment.settled(&done).await["status"], "COMPLETED");
    let refused = publisher.ask(json!({"type": "RequeueRun", "id": "too late", "run_id": done["run_id"]}));
    assert_eq!(outcome(&refused), ("rejected", "not_requeued"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_run_is_continued_by_a_command() {
    let ledger = LedgerStub::start().await;
    ledger.otherwise(Reply::raw(200, "text/plain", "never").delay(Duration::from_secs(3600)));
    let agent = format!(
        "[model]\nprovider = \"demo\"\n[[tools]]\ntype = \"http\"\nname = \"refund\"\nurl = \"{}\"\n\
         method = \"POST\"\neffect = \"at_most_once\"\ndescription = \"Refunds.\"\n\
         parameters = {{ type = \"object\", properties = {{}} }}\n",
        ledger.url("/refunds")
    );
    let mut deployment = Deployment::with(1, |node| node.agent("demo", &agent)).await;
    let mut publisher = deployment.publisher();
    let started = publisher.ask(start_run("start", "s", "refund {}"));
    assert_eq!(outcome(&started), ACCEPTED, "{started}");
    ledger.wait_for(1).await;
    // Killed in the middle of a call that may have happened: nobody but a person can know.
    deployment.nodes[0].crash().await;
    let waiting = deployment.settled(&started).await;
    assert_eq!(waiting["status"], "PAUSED", "{waiting:#}");
    let call = &waiting["tools"][0]["tool_call_id"];
    let decide = |id: &str, call: &Value| {
        json!({"type": "ContinueRun", "id": id, "run_id": started["run_id"],
            "requirements": [{"tool_call_id": call, "result": "refunded by hand"}]})
    };
    let wrong = publisher.ask(decide("wrong", &json!("no such call")));
    assert_eq!(outcome(&wrong), ("rejected", "step_not_in_doubt"), "{wrong}");
    let right = publisher.ask(decide("right", call));
    assert_eq!((outcome(&right), &right["run_id"]), (ACCEPTED, &started["run_id"]), "{right}");
    let again = publisher.ask(decide("right", call));
    assert_eq!((outcome(&again), &again["run_id"]), (DUPLICATE, &started["run_id"]), "{again}");
    let run = deployment.settled(&right).await;
    assert_eq!((&run["status"], &run["tools"][0]["result"]), (&json!("COMPLETED"), &json!("refunded by hand")));
    assert_eq!(ledger.calls().len(), 1, "it was not called again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a28_calls_that_wait_for_people_are_decided_by_commands_and_outlive_their_node_and_its_state() {
    let ledger = LedgerStub::start().await;
    let http = |name: &str, says: &str| {
        let url = ledger.url(&format!("/{name}"));
        format!("[[tools]]\ntype = \"http\"\nname = \"{name}\"\nurl = \"{url}\"\nmethod = \"POST\"\n{says}")
    };
    let fields = "requires_user_input = true\nuser_input_fields = [\"days\"]\n\
                  parameters = { type = \"object\", properties = { days = { type = \"integer\" } } }\n";
    let agent = "[model]\nprovider = \"demo\"\n".to_owned()
        + &http("pay", "requires_confirmation = true\n")
        + &http("book", fields)
        + &http("late", "requires_confirmation = true\nexpires_in_s = 1\n");
    let mut deployment = Deployment::with(1, |node| node.agent("demo", &agent)).await;
    let mut publisher = deployment.publisher();
    let started = publisher.ask(start_run("start", "s", "pay {}, book {} and late {}"));
    let waiting = deployment.settled(&started).await;
    assert_eq!(waiting["status"], "PAUSED", "{waiting:#}");
    let calls: Vec<_> = waiting["tools"].as_array().expect("calls").iter().map(|tool| &tool["tool_call_id"]).collect();
    let data = deployment.nodes[0].data();
    deployment.nodes[0].kill_hard();
    std::fs::remove_dir_all(data.join("state")).expect("there is a state store");
    std::fs::remove_file(data.join("views.db")).expect("something says which rows are read");
    deployment.nodes[0].start().await;
    let decide = |id: &str, decision: Value| {
        json!({"type": "ContinueRun", "id": id, "run_id": started["run_id"], "decided_by": "boss",
            "requirements": [decision]})
    };
    let unfit = publisher.ask(decide("unfit", json!({"tool_call_id": calls[1], "confirmed": true})));
    assert_eq!(outcome(&unfit), ("rejected", "decision_unfit"), "{unfit}");
    let book = json!({"tool_call_id": calls[1], "confirmed": true, "input": {"days": 3}});
    let booked = publisher.ask(decide("book", book.clone()));
    assert_eq!((outcome(&booked), &booked["run_id"]), (ACCEPTED, &started["run_id"]), "{booked}");
    let again = publisher.ask(decide("again", book));
    assert_eq!(outcome(&again), ("rejected", "step_not_in_doubt"), "{again}");
    let paid = publisher.ask(decide("pay", json!({"tool_call_id": calls[0], "confirmed": false, "note": "too much"})));
    assert_eq!(outcome(&paid), ACCEPTED, "{paid}");
    // Nobody decides about the third: its time ends by itself.
    let run = loop {
        let run = deployment.settled(&started).await;
        if run["status"] != "PAUSED" {
            break run;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(run["status"], "COMPLETED", "{run:#}");
    assert_eq!((&run["tools"][1]["decided_by"], &run["tools"][1]["result"]), (&json!("boss"), &json!("done")));
    let told = |at: usize| run["tools"][at]["result"].as_str().expect("a result").to_owned();
    assert!(told(0).contains("too much") && told(2).contains("in time"), "{run:#}");
    assert_eq!(ledger.calls().iter().map(|call| call.body.as_str()).collect::<Vec<_>>(), [r#"{"days":3}"#]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_made_changed_and_deleted_by_commands() {
    let deployment = Deployment::start(1).await;
    let (mut publisher, node) = (deployment.publisher(), deployment.node());
    let create = json!({"type": "CreateSession", "id": "1", "session_id": "s", "name": "first",
        "agent_id": "demo", "state": {"a": 1}, "metadata": {"from": "kafka"}});
    let answer = publisher.ask(create.clone());
    assert_eq!((outcome(&answer), &answer["session_id"]), (ACCEPTED, &json!("s")), "{answer}");
    let session = node.get_at("/sessions/s", &answer).await.expect(200).json();
    assert_eq!((&session["session_name"], &session["session_state"]), (&json!("first"), &json!({"a": 1})));

    assert_eq!(outcome(&publisher.ask(create.clone())), DUPLICATE);
    let mut other = create.clone();
    other["id"] = json!("2");
    assert_eq!(outcome(&publisher.ask(other)), ("rejected", "session_exists"));

    let update = json!({"type": "UpdateSession", "id": "3", "session_id": "s", "name": "second", "state": {"b": 2}});
    let answer = publisher.ask(update.clone());
    assert_eq!(outcome(&answer), ACCEPTED, "{answer}");
    let session = node.get_at("/sessions/s", &answer).await.expect(200).json();
    assert_eq!((&session["session_name"], &session["session_state"]), (&json!("second"), &json!({"b": 2})));

    let third = json!({"type": "UpdateSession", "id": "4", "session_id": "s", "name": "third"});
    assert_eq!(outcome(&publisher.ask(third)), ACCEPTED);
    let answer = publisher.ask(update);
    assert_eq!(outcome(&answer), DUPLICATE, "{answer}");
    let session = node.get_at("/sessions/s", &answer).await.expect(200).json();
    assert_eq!(session["session_name"], "third", "a repeat does not undo what came between");

    let delete = json!({"type": "DeleteSession", "id": "5", "session_id": "s"});
    let answer = publisher.ask(delete.clone());
    assert_eq!(outcome(&answer), ACCEPTED, "{answer}");
    node.get_at("/sessions/s", &answer).await.expect(404);
    for repeated in [create, delete] {
        let answer = publisher.ask(repeated);
        assert_eq!(outcome(&answer), DUPLICATE, "{answer}");
        node.get_at("/sessions/s", &answer).await.expect(404);
    }
}
