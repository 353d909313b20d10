//! What a run and a session look like as AgentOS's JSON.

use reenact_events::{
    BlobRef, MediaKind, MediaRef, Text,
    event::{
        CancellationStage, Failure, Resolution, RunCancelled, RunContinued, RunFailed, RunPaused, RunStatus,
        SessionDeleted, SessionUpdated, StepCompleted, StepFailed, StepInDoubt, StepResolved, StepResult,
    },
};
use reenact_projections::query::RunRow;
use serde_json::{Value, json};

use crate::history::{
    History, agent, call, model_answered, model_requested, queued, raw, run, session, tool_answered, tool_requested,
    usage, user,
};

fn begun() -> History {
    let mut history = History::new(1);
    history.create("s", Some("alice"));
    history.register("s", &agent("support"));
    history.queue("s", "r", 0, Some("alice"), "refund 17");
    history
}

/// The model asks for a refund, which is done, and says so.
fn with_tool() -> History {
    let mut history = begun();
    let at = session("s");
    history.start("s", "r");
    history.push(&at, model_requested("r", 0, 1, 0));
    let calls = vec![call("c1", Text::inline(r#"{"order":17}"#))];
    history.push(&at, model_answered("r", 0, 1, "", calls, Some(usage(10, 4))));
    history.push(&at, tool_requested("r", 1, 1, "c1", Text::inline(r#"{"order":17}"#)));
    history.push(&at, tool_answered("r", 1, 1, Text::inline("refunded")));
    history.push(&at, model_requested("r", 2, 1, 1));
    history.push(&at, model_answered("r", 2, 1, "Done.", Vec::new(), Some(usage(20, 2))));
    history
}

fn row(history: &History) -> RunRow {
    history.memory().run(&run("r")).expect("folds").expect("is there")
}

fn data(history: &History) -> Value {
    row(history).run_data
}

fn session_data(history: &History) -> Value {
    history.memory().session(&session("s")).expect("is there").session_data.clone()
}

#[test]
fn a_run_that_ended_holds_the_whole_conversation() {
    let mut history = with_tool();
    history.complete("s", "r", "Done.");
    let data = data(&history);
    let roles: Vec<_> = data["messages"].as_array().expect("list").iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant"]);
    assert_eq!(data["messages"][0]["content"], "Be brief.");
    let expected = json!([
        { "id": "c1", "type": "function", "function": { "name": "refund", "arguments": r#"{"order":17}"# } }
    ]);
    assert_eq!(data["messages"][2]["tool_calls"], expected);
    assert_eq!(data["messages"][3]["tool_call_id"], "c1");
    assert_eq!(data["messages"][3]["tool_call_error"], false);
    assert_eq!(data["messages"][3]["tool_args"], json!({ "order": 17 }));
    assert_eq!(data["tools"][0]["result"], "refunded");
    assert_eq!(data["tools"][0]["tool_name"], "refund");
    assert_eq!(data["content"], "Done.");
    assert_eq!(data["status"], "COMPLETED");
    assert_eq!((&data["model"], &data["model_provider"]), (&json!("demo-1"), &json!("demo")));
    assert_eq!((&data["agent_name"], &data["content_type"]), (&json!("The support"), &json!("str")));
    assert_eq!(data["input"], json!({ "input_content": "refund 17" }));
    assert_eq!((&data["user_id"], &data["created_at"]), (&json!("alice"), &json!(1_700_000_002)));
}

#[test]
fn a_runs_metrics_are_the_sums_of_its_calls() {
    let mut history = with_tool();
    history.complete("s", "r", "Done.");
    let metrics = data(&history)["metrics"].clone();
    assert_eq!((&metrics["input_tokens"], &metrics["output_tokens"]), (&json!(30), &json!(6)));
    assert_eq!((&metrics["total_tokens"], &metrics["reasoning_tokens"]), (&json!(36), &json!(0)));
    assert_eq!((&metrics["time_to_first_token"], &metrics["duration"]), (&json!(0.12), &json!(7.0)));
    assert_eq!(session_data(&history)["session_metrics"]["total_tokens"], 36);
}

#[test]
fn usage_that_nobody_told_is_null_and_not_zero() {
    let mut history = begun();
    history.start("s", "r");
    history.push(&session("s"), model_requested("r", 0, 1, 0));
    history.push(&session("s"), model_answered("r", 0, 1, "Hi.", Vec::new(), None));
    history.complete("s", "r", "Hi.");
    let metrics = data(&history)["metrics"].clone();
    for name in ["input_tokens", "output_tokens", "total_tokens", "cache_read_tokens", "cache_write_tokens"] {
        assert_eq!(metrics.get(name), Some(&Value::Null), "{name}");
    }
    assert_eq!(metrics["details"]["model"][0]["calls_without_usage"], 1);
    assert_eq!(session_data(&history)["session_metrics"]["total_tokens"], Value::Null);
}

#[test]
fn a_retried_call_is_counted_and_marked() {
    let mut history = begun();
    let at = session("s");
    history.start("s", "r");
    history.push(&at, model_requested("r", 0, 1, 0));
    let error = Failure { kind: "rate_limited".into(), message: "later".into(), status: Some(429) };
    let (run_id, usage_of_first) = (run("r"), Some(usage(7, 1)));
    let retry_at = Some(history.now);
    history.push(&at, StepFailed { run_id, step: 0, attempt: 1, error, retry_at, usage: usage_of_first });
    history.push(&at, model_requested("r", 0, 2, 0));
    history.push(&at, model_answered("r", 0, 2, "Hi.", Vec::new(), Some(usage(9, 2))));
    let metrics = data(&history)["metrics"].clone();
    assert_eq!((&metrics["input_tokens"], &metrics["total_tokens"]), (&json!(16), &json!(19)));
    let details = &metrics["details"]["model"];
    assert_eq!((&details[0]["retried"], &details[0]["input_tokens"]), (&json!(false), &json!(7)));
    assert_eq!((&details[1]["retried"], &details[1]["input_tokens"]), (&json!(true), &json!(9)));
    assert_eq!(details[1]["id"], "demo-1");
}

#[test]
fn a_run_at_work_shows_what_it_did_so_far() {
    let history = with_tool();
    let row = row(&history);
    assert_eq!(row.run_data["status"], "RUNNING");
    assert_eq!(row.run_data["messages"].as_array().map(Vec::len), Some(5));
    assert_eq!(row.run_data["metrics"]["duration"], Value::Null);
    let stored = history.memory().dump().runs;
    assert_eq!(stored[0].run_data.get("messages"), None);
    assert_eq!(stored[0].run_data["status"], "RUNNING");
}

#[test]
fn a_failed_run_says_why() {
    let mut history = begun();
    let error = Failure { kind: "model_unreachable".into(), message: "no answer".into(), status: None };
    history.push(&session("s"), RunFailed { run_id: run("r"), error, error_id: None });
    let data = data(&history);
    assert_eq!((&data["status"], &data["content"]), (&json!("ERROR"), &json!("no answer")));
    assert_eq!(data["error"]["kind"], "model_unreachable");
}

#[test]
fn a_cancelled_run_keeps_the_words_that_were_said() {
    let mut history = begun();
    history.start("s", "r");
    let (stage, partial) = (CancellationStage::Executing, Some(Text::inline("I was about")));
    history.push(&session("s"), RunCancelled { run_id: run("r"), stage, partial, reason: Some("enough".into()) });
    let data = data(&history);
    assert_eq!((&data["status"], &data["content"]), (&json!("CANCELLED"), &json!("I was about")));
    assert_eq!((&data["cancellation_stage"], &data["cancellation_reason"]), (&json!("EXECUTING"), &json!("enough")));
}

fn in_doubt() -> History {
    let mut history = begun();
    let at = session("s");
    history.start("s", "r");
    history.push(&at, tool_requested("r", 0, 1, "c1", Text::inline("{}")));
    let reason: std::sync::Arc<str> = "the process ended".into();
    history.push(&at, StepInDoubt { run_id: run("r"), step: 0, attempt: 1, reason: reason.clone() });
    history.push(&at, RunPaused { run_id: run("r"), reason });
    history
}

#[test]
fn a_paused_run_names_the_steps_in_doubt() {
    let history = in_doubt();
    let data = data(&history);
    assert_eq!(data["status"], "PAUSED");
    let requirement = &data["requirements"][0];
    assert_eq!((&requirement["kind"], &requirement["step"]), (&json!("in_doubt"), &json!(0)));
    assert_eq!(data["tools"][0]["requires_confirmation"], true);
    assert_eq!(requirement["tool_execution"]["tool_call_id"], "c1");
    assert_eq!(requirement["reason"], "the process ended");
}

#[test]
fn a_decision_about_a_step_in_doubt_is_its_result() {
    for (resolution, error) in
        [(Resolution::Completed { value: Text::inline("done") }, false), (Resolution::Skip, true)]
    {
        let mut history = in_doubt();
        let at = session("s");
        history.push(&at, StepResolved { run_id: run("r"), step: 0, resolution, by: None, note: None });
        history.push(&at, RunContinued { run_id: run("r") });
        let data = data(&history);
        assert_eq!((&data["status"], data.get("requirements")), (&json!("RUNNING"), None));
        assert_eq!(data["tools"][0]["tool_call_error"], error);
        assert_eq!(data["messages"][2]["role"], "tool");
    }
}

#[test]
fn a_run_of_which_everything_is_decided_waits_for_its_turn_and_for_nobody() {
    let mut history = in_doubt();
    let at = session("s");
    history.push(&at, tool_requested("r", 1, 1, "c2", Text::inline("{}")));
    history.push(&at, StepInDoubt { run_id: run("r"), step: 1, attempt: 1, reason: "the process ended".into() });
    let shown = |history: &History| {
        let (stored, data) = (history.memory().dump().runs[0].clone(), data(history));
        assert_eq!([&stored.run_data["status"], &data["status"]], [stored.status.as_str(); 2]);
        (stored.status, data["requirements"].as_array().map(Vec::len))
    };
    assert_eq!(shown(&history), (RunStatus::Paused, Some(2)));
    for (step, expected) in [(0, (RunStatus::Paused, Some(1))), (1, (RunStatus::Pending, None))] {
        history.push(&at, StepResolved { run_id: run("r"), step, resolution: Resolution::Retry, by: None, note: None });
        assert_eq!(shown(&history), expected);
    }
    history.push(&at, RunContinued { run_id: run("r") });
    assert_eq!(shown(&history), (RunStatus::Running, None));
}

#[test]
fn files_stand_with_whom_they_came_from() {
    let picture = |name: &[u8]| MediaRef {
        kind: MediaKind::Image,
        blob: BlobRef::of(name),
        mime: "image/png".into(),
        name: Some("a.png".into()),
    };
    let mut history = History::new(1);
    history.create("s", None);
    let mut event = queued("s", "r", 0, None, Text::inline("look"));
    event.media = vec![picture(b"in"), MediaRef { kind: MediaKind::Audio, ..picture(b"sound") }];
    history.push(&session("s"), event);
    history.start("s", "r");
    history.push(&session("s"), tool_requested("r", 0, 1, "c1", Text::inline("{}")));
    let result = StepResult::Tool { content: Text::inline("ok"), error: false, media: vec![picture(b"out")] };
    history.push(
        &session("s"),
        StepCompleted {
            run_id: run("r"),
            step: 0,
            attempt: 1,
            result,
            duration_ms: 1,
            unfit: None,
            session_state: None,
        },
    );
    let data = data(&history);
    assert_eq!(data["input"]["images"][0]["id"], json!(BlobRef::of(b"in").sha256));
    assert_eq!(data["input"]["audios"][0]["id"], json!(BlobRef::of(b"sound").sha256));
    assert_eq!(data["images"][0]["id"], json!(BlobRef::of(b"out").sha256));
    assert_eq!(data["images"][0]["mime_type"], "image/png");
    let reference = &data["images"][0]["media_reference"];
    assert_eq!(reference["content_hash"], json!(BlobRef::of(b"out").sha256));
    assert_eq!((&reference["media_type"], &reference["filename"]), (&json!("image"), &json!("a.png")));
}

#[test]
fn a_file_type_that_agentos_does_not_know_stands_in_the_reference_only() {
    let mut history = History::new(1);
    history.create("s", None);
    let mut event = queued("s", "r", 0, None, Text::inline("look"));
    let file =
        |mime: &str| MediaRef { kind: MediaKind::File, blob: BlobRef::of(b"words"), mime: mime.into(), name: None };
    event.media = vec![file("application/pdf"), file("application/octet-stream")];
    history.push(&session("s"), event);
    let files = &data(&history)["input"]["files"];
    assert_eq!(files[0]["mime_type"], "application/pdf");
    assert_eq!(files[1]["mime_type"], Value::Null);
    assert_eq!(files[1]["media_reference"]["mime_type"], "application/octet-stream");
}

#[test]
fn arguments_that_are_no_object_stand_as_the_model_wrote_them() {
    let mut history = begun();
    history.start("s", "r");
    history.push(&session("s"), tool_requested("r", 0, 1, "c1", Text::inline("{order: 17")));
    assert_eq!(data(&history)["tools"][0]["tool_args"], "{order: 17");
}

#[test]
fn a_session_keeps_what_was_not_replaced() {
    let mut history = begun();
    let at = session("s");
    let nothing = SessionUpdated { session_id: at.clone(), name: None, state: None, metadata: None, summary: None };
    history.push(&at, SessionUpdated { name: Some("Refund".to_owned()), ..nothing.clone() });
    history.push(&at, SessionUpdated { state: Some(raw(&json!({ "n": 1 }))), ..nothing.clone() });
    history.push(&at, SessionUpdated { metadata: Some(raw(&json!({ "k": 2 }))), ..nothing });
    let views = history.memory();
    let row = views.session(&at).expect("is there");
    assert_eq!(row.session_data, json!({ "session_name": "Refund", "session_state": { "n": 1 } }));
    assert_eq!((&row.metadata, &row.summary), (&Some(json!({ "k": 2 })), &None));
    assert_eq!((row.title(), row.first_message.as_deref()), (Some("Refund"), Some("refund 17")));
    assert_eq!((row.created_at, row.updated_at), (1_700_000_000, Some(1_700_000_005)));
}

#[test]
fn the_first_message_is_cut_by_characters() {
    let mut history = History::new(1);
    history.create("s", None);
    history.queue("s", "r", 0, None, &"🙂".repeat(200));
    let views = history.memory();
    let first = views.session(&session("s")).and_then(|row| row.first_message.clone());
    assert_eq!(first.map(|text| text.chars().count()), Some(100));
}

#[test]
fn a_deleted_session_leaves_nothing_and_its_late_events_find_nothing() {
    let mut history = with_tool();
    history.push(&session("s"), SessionDeleted { session_id: session("s"), reason: None });
    let stage = CancellationStage::Executing;
    history.push(&session("s"), RunCancelled { run_id: run("r"), stage, partial: None, reason: None });
    let dump = history.memory().dump();
    assert_eq!((dump.sessions.len(), dump.runs.len(), dump.run_events.len()), (0, 0, 0));
}

#[test]
fn a_run_that_nobody_owns_belongs_to_its_sessions_owner() {
    let mut history = History::new(1);
    history.create("s", Some("alice"));
    history.queue("s", "r", 0, None, "hello");
    let row = row(&history);
    assert_eq!((row.user_id, &row.run_data["user_id"]), (Some(user("alice")), &json!("alice")));
}

#[test]
fn an_answer_that_the_model_cut_off_says_why() {
    for (reason, told) in [("length", json!("length")), ("MAX_TOKENS", json!("MAX_TOKENS")), ("stop", Value::Null)] {
        let (mut history, at) = (begun(), session("s"));
        history.start("s", "r");
        history.push(&at, model_requested("r", 0, 1, 0));
        let mut answered = model_answered("r", 0, 1, "So far", Vec::new(), None);
        if let StepResult::Model { finish_reason, .. } = &mut answered.result {
            *finish_reason = Some(reason.into());
        }
        history.push(&at, answered);
        history.complete("s", "r", "So far");
        assert_eq!(row(&history).run_data["model_provider_data"]["finish_reason"], told);
    }
}
