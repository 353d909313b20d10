use std::sync::Arc;

use reenact_actors::live::{Frame, FrameBody, LiveHub, index_of};
use reenact_events::{
    AgentId, BlobRef, RunEvent, RunId, SessionId, StepToken, Text, Timestamp,
    agent::Effect,
    event::{
        CancellationStage, Failure, Resolution, RunCancelled, RunCompleted, RunContinued, RunFailed, RunPaused,
        RunQueued, RunStarted, RunStatus, StepAnswered, StepCall, StepCompleted, StepExpired, StepFailed, StepHeld,
        StepInDoubt, StepRequested, StepResolved, StepResult, Usage,
    },
    hold::{InputField, Needs, OnExpiry, Verdict},
};
use serde_json::json;

use super::{Frames, Identity, WireFrame};

fn run() -> RunId {
    RunId::trusted("r1")
}

fn who() -> Identity {
    Identity {
        run_id: run(),
        session_id: SessionId::trusted("s1"),
        agent_id: AgentId::trusted("a"),
        agent_name: "A".to_owned(),
        model: "m".to_owned(),
        provider: "demo".to_owned(),
    }
}

fn queued() -> RunEvent {
    RunQueued {
        fork: None,
        scheduled_by: None,
        run_id: run(),
        session_id: SessionId::trusted("s1"),
        user_id: None,
        run_index: 0,
        agent_id: AgentId::trusted("a"),
        agent_version: "v".into(),
        input: Text::inline("hi"),
        media: Vec::new(),
        metadata: None,
        stream: true,
        background: false,
        output_schema: None,
        session_state: None,
    }
    .into()
}

fn requested(step: u32, attempt: u32, call: StepCall) -> RunEvent {
    let token = StepToken::of_step(&run(), step);
    StepRequested { run_id: run(), step, attempt, token, not_after: Timestamp(9), call, model: None }.into()
}

fn model(step: u32, attempt: u32) -> RunEvent {
    requested(step, attempt, StepCall::Model { turn: step })
}

fn tool(step: u32, attempt: u32) -> RunEvent {
    let arguments = Text::inline("{\"a\":1}");
    let call = StepCall::Tool { call_id: "c1".into(), name: "add".into(), arguments, effect: Effect::AtMostOnce };
    requested(step, attempt, call)
}

fn said(step: u32, attempt: u32, text: &str) -> RunEvent {
    let usage = Some(Usage { input_tokens: 3, output_tokens: 2, ..Usage::default() });
    let result = StepResult::Model {
        text: Text::inline(text),
        reasoning: None,
        tool_calls: Vec::new(),
        usage,
        finish_reason: None,
        first_token_ms: Some(5),
    };
    StepCompleted { run_id: run(), step, attempt, result, duration_ms: 7, unfit: None, session_state: None }.into()
}

fn returned(step: u32, error: bool) -> RunEvent {
    let result = StepResult::Tool { content: Text::inline("3"), error, media: Vec::new() };
    StepCompleted { run_id: run(), step, attempt: 1, result, duration_ms: 7, unfit: None, session_state: None }.into()
}

fn completed(text: &str) -> RunEvent {
    RunCompleted { run_id: run(), content: Text::inline(text), json: false }.into()
}

/// What happens to a run, in the hub's terms.
#[expect(clippy::large_enum_variant, reason = "there are a few of them in a test")]
enum Act {
    Event(RunEvent),
    Say(u32, u32, &'static str),
}

fn play(acts: Vec<Act>) -> Vec<Frame> {
    let hub = LiveHub::default();
    let mut subscription = hub.subscribe(&run());
    // Other runs of the session take sequences too: gaps are normal.
    let mut seq = 4;
    for act in acts {
        match act {
            Act::Event(event) => {
                seq += 3;
                hub.event(seq, Timestamp(1_000 * i64::try_from(seq).unwrap()), Arc::new(event));
            }
            Act::Say(step, attempt, text) => hub.delta(&run(), step, attempt, false, text),
        }
    }
    futures::executor::block_on(subscription.next())
}

fn fold(frames: &[Frame], floor: Option<u64>) -> Vec<WireFrame> {
    let mut folded = Frames::new(who(), floor);
    frames.iter().flat_map(|frame| folded.fold(frame)).collect()
}

fn names(frames: &[WireFrame]) -> Vec<&'static str> {
    frames.iter().map(|frame| frame.name).collect()
}

/// The words that a client ends up with when it does what the frames say.
fn heard(frames: &[WireFrame]) -> String {
    let (mut all, mut step) = (String::new(), String::new());
    for frame in frames {
        match frame.name {
            "attempt_restarted" => step.clear(),
            "RunContent" => step.push_str(frame.data["content"].as_str().unwrap_or_default()),
            "ModelRequestCompleted" => all.push_str(&std::mem::take(&mut step)),
            _ => {}
        }
    }
    all
}

fn conversation() -> Vec<Frame> {
    play(vec![
        Act::Event(queued()),
        Act::Event(RunStarted { run_id: run() }.into()),
        Act::Event(model(0, 1)),
        Act::Say(0, 1, "let me "),
        Act::Say(0, 1, "see"),
        Act::Event(said(0, 1, "let me see")),
        Act::Event(tool(1, 1)),
        Act::Event(returned(1, false)),
        Act::Event(model(2, 1)),
        Act::Event(said(2, 1, "3, in one piece")),
        Act::Event(completed("3, in one piece")),
    ])
}

#[test]
fn a_run_is_told_in_the_order_and_words_of_agentos() {
    let frames = fold(&conversation(), None);
    assert_eq!(
        names(&frames),
        [
            "RunStarted",
            "ModelRequestStarted",
            "RunContent",
            "RunContent",
            "ModelRequestCompleted",
            "ToolCallStarted",
            "ToolCallCompleted",
            "ModelRequestStarted",
            "RunContent",
            "ModelRequestCompleted",
            "RunContentCompleted",
            "RunCompleted",
        ]
    );
    assert_eq!(heard(&frames), "let me see3, in one piece");
    let tool = &frames[6].data["tool"];
    assert_eq!((&tool["tool_args"], &tool["result"]), (&json!({"a": 1}), &json!("3")));
    let end = &frames.last().unwrap().data;
    assert_eq!(end["content"], "3, in one piece");
    assert_eq!(end["metrics"]["total_tokens"], 10);
    assert_eq!(end["metrics"]["time_to_first_token"], 0.005);
}

#[test]
fn indices_increase_strictly_and_stand_in_the_data() {
    let frames = fold(&conversation(), None);
    let indices: Vec<_> = frames.iter().map(|frame| frame.index.unwrap()).collect();
    assert!(indices.windows(2).all(|pair| pair[0] < pair[1]), "{indices:?}");
    assert!(frames.iter().all(|frame| frame.data["event_index"] == json!(frame.index)));
}

#[test]
fn a07_whoever_comes_back_sees_each_frame_once() {
    let all = fold(&conversation(), None);
    for (at, frame) in all.iter().enumerate() {
        let rest = fold(&conversation(), frame.index);
        assert_eq!(rest, all[at + 1..], "after {}", frame.name);
    }
}

#[test]
fn a08_five_hundred_words_have_five_hundred_indices() {
    let mut acts = vec![Act::Event(RunStarted { run_id: run() }.into()), Act::Event(model(0, 1))];
    acts.extend((0..500).map(|_| Act::Say(0, 1, "x")));
    acts.push(Act::Event(said(0, 1, "x".repeat(500).as_str())));
    let frames = fold(&play(acts), None);
    let mut indices: Vec<_> = frames.iter().filter_map(|frame| frame.index).collect();
    assert_eq!(indices.len(), 503);
    indices.dedup();
    assert_eq!(indices.len(), 503);
    assert_eq!(heard(&frames).len(), 500);
}

#[test]
fn words_of_an_attempt_that_was_replaced_are_declared_void() {
    let failed = StepFailed {
        run_id: run(),
        step: 0,
        attempt: 1,
        error: Failure { kind: "model_unreachable".into(), message: "gone".into(), status: None },
        retry_at: Some(Timestamp(5)),
        usage: None,
    };
    let frames = fold(
        &play(vec![
            Act::Event(model(0, 1)),
            Act::Say(0, 1, "wrong"),
            Act::Event(failed.into()),
            Act::Event(model(0, 2)),
            Act::Say(0, 1, "late"),
            Act::Say(0, 2, "right"),
            Act::Event(said(0, 2, "right")),
        ]),
        None,
    );
    assert_eq!(heard(&frames), "right");
    let restart = frames.iter().find(|frame| frame.name == "attempt_restarted").unwrap();
    assert_eq!((restart.index, &restart.data["attempt"]), (None, &json!(2)));
}

#[test]
fn words_that_are_not_kept_come_back_as_the_whole_text() {
    let frames = conversation();
    let events: Vec<_> = frames.iter().filter(|frame| matches!(frame.body, FrameBody::Event { .. })).cloned().collect();
    // From the first frame: nothing was seen, so nothing is void.
    let fresh = fold(&events, None);
    assert_eq!(heard(&fresh), "let me see3, in one piece");
    assert!(!names(&fresh).contains(&"attempt_restarted"));
    // In the middle of an answer: what was seen is void.
    let first_word = frames.iter().find(|frame| matches!(frame.body, FrameBody::Delta { .. })).unwrap().index;
    let resumed = fold(&events, Some(first_word));
    assert_eq!(names(&resumed)[..3], ["attempt_restarted", "RunContent", "ModelRequestCompleted"]);
    assert_eq!(heard(&resumed), "let me see3, in one piece");
}

#[test]
fn a_paused_run_says_which_calls_wait_and_goes_on_after_the_decision() {
    let doubt = StepInDoubt { run_id: run(), step: 1, attempt: 1, reason: "restart".into() };
    let decided = StepResolved {
        run_id: run(),
        step: 1,
        resolution: Resolution::Completed { value: Text::inline("done by hand") },
        by: None,
        note: None,
    };
    let acts = vec![
        Act::Event(tool(1, 1)),
        Act::Event(doubt.into()),
        Act::Event(RunPaused { run_id: run(), reason: "a call is in doubt".into() }.into()),
        Act::Event(decided.into()),
        Act::Event(RunContinued { run_id: run() }.into()),
    ];
    let frames = fold(&play(acts), None);
    let wanted = ["ToolCallStarted", "RunContentCompleted", "RunPaused", "ToolCallCompleted", "RunContinued"];
    assert_eq!(names(&frames), wanted);
    let paused = &frames[2].data;
    assert_eq!(paused["tools"][0]["requires_confirmation"], true);
    assert_eq!(paused["requirements"][0]["tool_execution"]["tool_args"], json!({"a": 1}));
    assert_eq!(frames[3].data["tool"]["result"], "done by hand");
}

#[test]
fn a_held_call_is_shown_by_the_pause_and_begins_once_it_is_confirmed() {
    let RunEvent::StepRequested(request) = tool(1, 1) else { panic!("a request") };
    let held = |step, needs| {
        let (token, call, expires_at) = (request.token, request.call.clone(), Some(Timestamp(90_000)));
        Act::Event(StepHeld { run_id: run(), step, token, call, needs, expires_at, on_expiry: OnExpiry::Reject }.into())
    };
    let answered = |step, verdict| Act::Event(StepAnswered { run_id: run(), step, verdict, by: None }.into());
    let field = InputField { name: "days".to_owned(), field_type: "int".to_owned(), description: None };
    let acts = vec![
        held(1, Needs::Confirmation),
        held(2, Needs::Input { fields: vec![field] }),
        held(3, Needs::Execution),
        Act::Event(RunPaused { run_id: run(), reason: "calls wait".into() }.into()),
        answered(2, Verdict::no()),
        Act::Event(StepExpired { run_id: run(), step: 3 }.into()),
        answered(1, Verdict::Confirmed { arguments: Some(Text::inline(r#"{"a":2}"#)), input: None }),
        Act::Event(RunContinued { run_id: run() }.into()),
        Act::Event(StepRequested { call: changed(&request.call), ..request.clone() }.into()),
    ];
    let frames = fold(&play(acts), None);
    let wanted =
        ["RunContentCompleted", "RunPaused", "ToolCallError", "ToolCallError", "RunContinued", "ToolCallStarted"];
    assert_eq!(names(&frames), wanted);
    let requirements = &frames[1].data["requirements"];
    assert_eq!(requirements[0]["tool_execution"]["requires_confirmation"], true);
    assert_eq!(requirements[1]["user_input_schema"][0]["field_type"], "int");
    assert_eq!(requirements[2]["tool_execution"]["external_execution_required"], true);
    assert_eq!(requirements[2]["expires_at"], 90);
    assert_eq!(frames[5].data["tool"]["tool_args"], json!({"a": 2}));
}

/// The call with the arguments that somebody chose.
fn changed(call: &StepCall) -> StepCall {
    match call.clone() {
        StepCall::Tool { call_id, name, effect, .. } => {
            StepCall::Tool { call_id, name, arguments: Text::inline(r#"{"a":2}"#), effect }
        }
        other @ (StepCall::Model { .. } | StepCall::Guardrail { .. }) => other,
    }
}

#[test]
fn the_stream_of_a_run_that_waits_for_its_turn_after_the_last_decision_goes_on() {
    let doubt = |step| StepInDoubt { run_id: run(), step, attempt: 1, reason: "restart".into() };
    let decided = |step| StepResolved { run_id: run(), step, resolution: Resolution::Retry, by: None, note: None };
    let frames = play(vec![
        Act::Event(tool(1, 1)),
        Act::Event(tool(2, 1)),
        Act::Event(doubt(1).into()),
        Act::Event(doubt(2).into()),
        Act::Event(RunPaused { run_id: run(), reason: "two calls are in doubt".into() }.into()),
        Act::Event(decided(1).into()),
        Act::Event(decided(2).into()),
    ]);
    let mut folded = Frames::new(who(), None);
    let statuses = frames.iter().map(|frame| {
        folded.fold(frame);
        folded.status()
    });
    let statuses: Vec<_> = statuses.collect();
    assert_eq!(statuses[4..], [RunStatus::Paused, RunStatus::Paused, RunStatus::Pending]);
}

#[test]
fn every_end_has_its_frame_and_status() {
    let failed = RunFailed {
        run_id: run(),
        error: Failure { kind: "rate_limited".into(), message: "slow down".into(), status: Some(429) },
        error_id: None,
    };
    let cancelled = RunCancelled {
        run_id: run(),
        stage: CancellationStage::Executing,
        partial: Some(Text::inline("so far")),
        reason: None,
    };
    for (event, name, status) in [
        (RunEvent::from(failed), "RunError", RunStatus::Error),
        (cancelled.into(), "RunCancelled", RunStatus::Cancelled),
        (completed("x"), "RunCompleted", RunStatus::Completed),
    ] {
        let mut folded = Frames::new(who(), None);
        let frame = Frame { index: index_of(3), body: FrameBody::Event { at: Timestamp(1), event: event.into() } };
        assert_eq!(folded.fold(&frame).last().unwrap().name, name);
        assert_eq!(folded.status(), status);
        assert!(folded.fold(&frame).is_empty(), "nothing is told twice");
    }
}

#[test]
fn a_text_kept_as_a_blob_is_left_for_the_shell_to_fill_in() {
    let event = RunEvent::from(RunCompleted { run_id: run(), content: Text::Blob(BlobRef::of(b"long")), json: false });
    let frame = Frame { index: index_of(3), body: FrameBody::Event { at: Timestamp(1), event: event.into() } };
    let made = fold(&[frame], None).pop().unwrap();
    assert_eq!(made.data.get("content"), None);
    assert_eq!(made.blobs.len(), 1);
}
