//! A stored shape cannot change in silence: bincode would read the old bytes as something else.

use std::sync::Arc;

use reenact_actors::{
    keys::SHAPES,
    run::{
        Step, StepState,
        state::{Asked, GivenUp, Hold, Origin, Progress},
    },
    schedule::{OpenFire, ScheduleState, Stands, WaitingFire},
    session::SessionState,
    states::{StoredEnd, StoredKey, StoredLatest, StoredOpen, StoredPlace, StoredSession},
};
use reenact_events::{
    AgentId, BlobRef, MediaKind, MediaRef, RawJson, RunId, ScheduleId, SessionId, StepToken, Text, Timestamp, UserId,
    agent::{Effect, Guarded},
    event::{Blocked, Failure, Resolution, RunStatus, Said, StepCall, StepResult, ToolCallRequest, Usage},
    hold::{InputField, Needs, OnExpiry},
    schedule::{CatchUp, Overlap, ScheduleSpec, ScheduledBy, When},
};
use reenact_snapshots::codec;

/// What the samples below encode to, under the shapes' names. When this fails, a stored type has changed:
/// change the text of its shape in `SHAPES`, and then the number here.
const EXPECTED: u64 = 14_389_315_431_981_943_297;

fn steps() -> Vec<Step> {
    let blob = BlobRef::of(b"bytes");
    let media =
        MediaRef { kind: MediaKind::Image, blob: blob.clone(), mime: "image/png".into(), name: Some("a".into()) };
    let call =
        ToolCallRequest { id: "c".into(), name: "t".into(), arguments: Text::inline("{}"), refusal: Some("no".into()) };
    let model = StepResult::Model {
        text: Text::Blob(blob),
        reasoning: Some(Text::inline("r")),
        tool_calls: vec![call],
        usage: Some(Usage { input_tokens: 1, output_tokens: 2, ..Usage::default() }),
        finish_reason: Some("stop".into()),
        first_token_ms: Some(3),
    };
    let error = Failure { kind: "k".into(), message: "m".into(), status: Some(500) };
    let tool = StepResult::Tool { content: Text::inline("x"), error: true, media: vec![media] };
    let tool_call = StepCall::Tool {
        call_id: "c".into(),
        name: "t".into(),
        arguments: Text::inline("{}"),
        effect: Effect::AtMostOnce,
    };
    let field = InputField { name: "f".into(), field_type: "int".into(), description: None };
    let states = [
        StepState::Requested,
        StepState::Waiting { retry_at: Timestamp(9), error: error.clone() },
        StepState::InDoubt,
        StepState::Held(Hold {
            needs: Needs::Input { fields: vec![field] },
            expires_at: Some(Timestamp(10)),
            on_expiry: OnExpiry::Cancel,
        }),
        StepState::RetryAllowed,
        StepState::Done(model),
        StepState::Done(tool),
        StepState::Done(StepResult::Guardrail { blocked: Some(Blocked { reason: "r".into(), trigger: "t".into() }) }),
        StepState::Failed(error.clone()),
        StepState::Resolved(Resolution::Completed { value: Text::inline("v") }),
        StepState::Resolved(Resolution::Fail),
    ];
    let step = |state| Step {
        call: tool_call.clone(),
        token: StepToken(uuid::Uuid::from_u128(7)),
        attempt: 2,
        failures: 1,
        asked: Asked { place: 1, trims: 2 },
        given_up: vec![GivenUp { place: 0, error: error.clone() }],
        not_after: Timestamp(8),
        state,
        unfit: Some("empty".into()),
    };
    let asks =
        Step { call: StepCall::Guardrail { name: "g".into(), on: Guarded::Output }, ..step(StepState::Requested) };
    states.into_iter().map(step).chain([asks]).collect()
}

fn by() -> ScheduledBy {
    ScheduledBy {
        schedule_id: ScheduleId::trusted("x"),
        owner: Some(UserId::trusted("u")),
        fire_id: uuid::Uuid::from_u128(9),
        attempt: 2,
    }
}

fn schedule() -> ScheduleState {
    let open = |stands| OpenFire {
        fire_id: uuid::Uuid::from_u128(9),
        due: Timestamp(3),
        attempt: 1,
        run_id: RunId::trusted("r"),
        session_id: SessionId::trusted("s"),
        stands,
        replaced: true,
    };
    ScheduleState {
        id: ScheduleId::trusted("x"),
        user_id: None,
        spec: ScheduleSpec {
            payload: RawJson::parse("{}").ok(),
            when: When::Cron("* * * * *".into()),
            overlap: Overlap::Queue,
            catch_up: CatchUp::All,
            ..ScheduleSpec::of("n", "/agents/a/runs")
        },
        enabled: true,
        next_run_at: Some(Timestamp(7)),
        last_due: Some(Timestamp(6)),
        open: [Stands::Running(Timestamp(8)), Stands::Failed(Timestamp(9)), Stands::Paused].map(open).into(),
        waiting: vec![WaitingFire { fire_id: uuid::Uuid::from_u128(8), due: Timestamp(4) }],
    }
}

#[test]
fn a_changed_shape_has_a_changed_name() {
    let origin = Origin {
        run_id: RunId::trusted("r"),
        session_id: SessionId::trusted("s"),
        user_id: Some(UserId::trusted("u")),
        run_index: 1,
        agent_id: AgentId::trusted("a"),
        agent_version: "v".into(),
        input: Text::inline("hello"),
        media: Vec::new(),
        output_schema: RawJson::parse("{}").ok(),
        queued_at: Timestamp(5),
        said: vec![Said { step: 1, text: Text::inline("more") }],
        history_before: 4,
        taken_over: 2,
        copied_from: Some(SessionId::trusted("c")),
        scheduled_by: Some(Box::new(by())),
    };
    let progress = Progress {
        status: RunStatus::Running,
        turn_at: Some(Timestamp(6)),
        steps: 2,
        turns: 1,
        last_turn: Some(0),
        open: 1,
        old_steps: 1,
        old_turns: 1,
        losses: 2,
        history_lost: true,
    };
    let state = SessionState {
        exists: true,
        user_id: None,
        runs: 3,
        active: vec![RunId::trusted("r")],
        paused: vec![RunId::trusted("p")],
        waiting: 4,
    };
    let latest = Some(StoredLatest { index: 2, complete: true, bytes: vec![1] });
    let (origin, session) = (Arc::new(origin), StoredSession { state, next_seq: 5, latest });
    let whole = StoredEnd::Whole(origin.clone(), progress, steps().into_iter().map(Arc::new).collect());
    let open = StoredOpen { run_id: RunId::trusted("r"), progress };
    let mut samples = vec![
        codec::encode(&StoredPlace::At(SessionId::trusted("s"), 1)).expect("encodes"),
        codec::encode(&StoredPlace::Deleted).expect("encodes"),
        codec::encode(&origin).expect("encodes"),
        codec::encode(&open).expect("encodes"),
        codec::encode(&whole).expect("encodes"),
        codec::encode(&StoredEnd::Parts(open)).expect("encodes"),
        codec::encode(&session).expect("encodes"),
    ];
    let key = StoredKey { request: "q".into(), session_id: SessionId::trusted("s") };
    samples.extend(steps().iter().map(|step| codec::encode(step).expect("encodes")));
    for (step, bytes) in steps().iter().zip(&samples[7..]) {
        assert_eq!(&codec::decode::<Step>(bytes).expect("decodes"), step);
    }
    samples.push(codec::encode(&key).expect("encodes"));
    let schedule = codec::encode(&schedule()).expect("encodes");
    assert_eq!(codec::decode::<ScheduleState>(&schedule).expect("decodes"), self::schedule());
    samples.push(schedule);
    let hex = |bytes: &Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let texts: Vec<Arc<str>> =
        SHAPES.iter().map(|shape| (*shape).into()).chain(samples.iter().map(|b| hex(b).into())).collect();
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    assert_eq!(codec::fingerprint(&texts), EXPECTED, "a stored shape has changed, see `EXPECTED`");
}
