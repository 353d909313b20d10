//! Payloads as this version writes them, and some as other writers might. Each becomes a golden file once; to
//! change one here has no effect, so a changed type gets a new sample with a new name.

mod agents;
mod forks;
mod schedules;

use reenact_events::{
    AgentId, BlobRef, Event, LogId, MediaKind, MediaRef, NodeId, Offset, RawJson, RunId, SessionId, StepToken, Text,
    Timestamp, UserId,
    agent::{Effect, Guarded},
    command::KeyUse,
    event::{
        AskedModel, Blocked, CancellationStage, Failure, KeyUsed, Loss, LossOf, LostRun, PartitionClaimed, Resolution,
        RunCancelRequested, RunCancelled, RunCompleted, RunContinued, RunFailed, RunPaused, RunQueued, RunRequeued,
        RunStarted, SessionCreated, SessionDeleted, SessionUpdated, StepAnswered, StepCall, StepCompleted, StepExpired,
        StepFailed, StepHeld, StepInDoubt, StepRequested, StepResolved, StepResult, SubjectErased, ToolCallRequest,
        Usage,
    },
    hold::{InputField, Needs, OnExpiry, Verdict},
    ids,
    session_state::{StateChanges, values_of},
};

/// A payload.
pub(crate) struct Sample {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) input: String,
}

/// All of them.
pub(crate) fn all() -> Vec<Sample> {
    let written = [
        entities(),
        agents::registered(),
        runs(),
        steps(),
        outcomes(),
        decisions(),
        holds(),
        forks::forks(),
        schedules::schedules(),
        subjects(),
    ];
    written
        .into_iter()
        .flatten()
        .map(|(name, event)| Sample {
            kind: event.type_name().to_owned(),
            name: name.to_owned(),
            input: event.encode().expect("encodes"),
        })
        .chain(foreign())
        .collect()
}

type Named = (&'static str, Event);

fn run() -> RunId {
    RunId::trusted("0b7c7a52-6a9e-5f6e-8a58-1f5f0b7c7a52")
}

fn session() -> SessionId {
    SessionId::trusted("Zoë's trip 🙂")
}

fn user() -> Option<UserId> {
    Some(UserId::trusted("user-1"))
}

fn blob() -> BlobRef {
    BlobRef::of(b"a long text")
}

fn media() -> Vec<MediaRef> {
    let picture = MediaRef {
        kind: MediaKind::Image,
        blob: blob(),
        mime: "image/jpeg".into(),
        name: Some("../holiday \"1\".jpg".into()),
    };
    let nameless = |kind, mime: &str| MediaRef { kind, blob: blob(), mime: mime.into(), name: None };
    vec![
        picture,
        nameless(MediaKind::Audio, "audio/ogg"),
        nameless(MediaKind::Video, "video/mp4"),
        nameless(MediaKind::File, "application/pdf"),
    ]
}

fn json(text: &str) -> Option<RawJson> {
    Some(RawJson::parse(text).expect("is JSON"))
}

fn changes() -> Option<Box<StateChanges>> {
    let values = |text| values_of(&RawJson::parse(text).expect("is JSON"));
    let delete = ["old".to_owned()].into();
    let (set, default) = (values(r#"{"n":1.50,"list":[1,"x"]}"#), values(r#"{"city":"Rome"}"#));
    Some(Box::new(StateChanges { set, delete, default }))
}

fn subjects() -> Vec<Named> {
    let erased = |keys| SubjectErased { user_id: UserId::trusted("user-1"), keys };
    let keys = vec![ids::derived("key", &["1"]), ids::derived("key", &["2"])];
    vec![("full", erased(keys).into()), ("bare", erased(Vec::new()).into())]
}

fn entities() -> Vec<Named> {
    let claimed = PartitionClaimed {
        node: NodeId::trusted("node-a"),
        log_id: LogId(ids::derived("log", &["golden"])),
        nonce: ids::derived("claim", &["golden"]),
        endpoint: None,
        losses: 0,
        accepts: Vec::new(),
    };
    let serving = PartitionClaimed { endpoint: Some("http://10.0.0.1:7777".into()), ..claimed.clone() };
    let lost =
        |of, until| Loss { of, from: Offset(3), until: Offset(until), reason: "it is gone".into(), runs: Vec::new() };
    let run = LostRun {
        run_id: RunId::trusted("run-a"),
        session_id: SessionId::trusted("session-a"),
        user_id: Some(UserId::trusted("user-a")),
        agent_id: AgentId::trusted("agent-a"),
        queued_at: Timestamp(1_700_000_000_000),
    };
    let accepting = PartitionClaimed {
        losses: 2,
        accepts: vec![lost(LossOf::Events, 9), lost(LossOf::Commands, 4)],
        ..claimed.clone()
    };
    let naming = PartitionClaimed {
        losses: 1,
        accepts: vec![Loss { runs: vec![run], ..lost(LossOf::Events, 9) }],
        ..claimed.clone()
    };
    let created = SessionCreated {
        forked_from_session_id: None,
        session_id: session(),
        user_id: user(),
        agent_id: Some(AgentId::trusted("travel")),
        name: Some("Trip".to_owned()),
        state: json(r#"{"b": 1.50, "a": [null, "\u00e9"], "b": 2}"#),
        metadata: json("{}"),
    };
    let bare =
        SessionCreated { user_id: None, agent_id: None, name: None, state: None, metadata: None, ..created.clone() };
    let updated = SessionUpdated {
        session_id: session(),
        name: Some(String::new()),
        state: json(r#"{"n":12345678901234567890}"#),
        metadata: json(r#"{"k":"v"}"#),
        summary: json(r#"{"summary":"They talked."}"#),
    };
    let untouched = SessionUpdated { name: None, state: None, metadata: None, summary: None, ..updated.clone() };
    let by = KeyUse { key: ids::derived("idempotency-key", &["user-1", "k"]), request: "5f70bf18".into() };
    vec![
        ("used", KeyUsed { by, session_id: session() }.into()),
        ("claimed", claimed.into()),
        ("serving", serving.into()),
        ("accepting", accepting.into()),
        ("naming", naming.into()),
        ("copied", SessionCreated { forked_from_session_id: Some(session()), ..bare.clone() }.into()),
        ("full", created.into()),
        ("least", bare.into()),
        ("full", updated.into()),
        ("least", untouched.into()),
        ("deleted", SessionDeleted { session_id: session(), reason: None }.into()),
        ("by-rule", SessionDeleted { session_id: session(), reason: Some("it is 91 days old".into()) }.into()),
    ]
}

fn runs() -> Vec<Named> {
    let full = RunQueued {
        fork: None,
        scheduled_by: None,
        run_id: run(),
        session_id: session(),
        user_id: user(),
        run_index: 41,
        agent_id: AgentId::trusted("travel"),
        agent_version: agents::agent().version(),
        input: "Where to?\n\u{0}\"".into(),
        media: media(),
        metadata: json(r#"{"source":"mail"}"#),
        stream: true,
        background: true,
        output_schema: None,
        session_state: None,
    };
    let least = RunQueued {
        user_id: None,
        run_index: 0,
        input: Text::Blob(blob()),
        media: Vec::new(),
        metadata: None,
        stream: false,
        background: false,
        ..full.clone()
    };
    let with_schema = RunQueued { output_schema: json(r#"{"type":"object"}"#), ..least.clone() };
    let failure = Failure { kind: "rate_limited".into(), message: "Wait.".into(), status: Some(429) };
    let unnamed = Failure { status: None, ..failure.clone() };
    vec![
        ("full", full.into()),
        ("with_schema", with_schema.into()),
        ("with_state", RunQueued { session_state: changes(), ..least.clone() }.into()),
        schedules::scheduled(least.clone()),
        ("least", least.into()),
        ("started", RunStarted { run_id: run() }.into()),
        ("paused", RunPaused { run_id: run(), reason: "step 2 is in doubt".into() }.into()),
        ("continued", RunContinued { run_id: run() }.into()),
        ("full", RunRequeued { run_id: run(), by: user() }.into()),
        ("least", RunRequeued { run_id: run(), by: None }.into()),
        ("full", RunCancelRequested { run_id: run(), reason: Some("changed my mind".into()) }.into()),
        ("least", RunCancelRequested { run_id: run(), reason: None }.into()),
        ("inline", RunCompleted { run_id: run(), content: "To Rome.".into(), json: false }.into()),
        ("json", RunCompleted { run_id: run(), content: r#"{"city":"Rome"}"#.into(), json: true }.into()),
        ("blob", RunCompleted { run_id: run(), content: Text::Blob(blob()), json: false }.into()),
        ("blocked", RunFailed { error_id: Some("pii_detected".into()), run_id: run(), error: unnamed.clone() }.into()),
        ("full", RunFailed { run_id: run(), error: failure, error_id: None }.into()),
        ("least", RunFailed { run_id: run(), error: unnamed, error_id: None }.into()),
        ("pending", cancelled(CancellationStage::Pending, None)),
        ("executing", cancelled(CancellationStage::Executing, Some("To R".into()))),
        ("paused", cancelled(CancellationStage::Paused, None)),
    ]
}

fn cancelled(stage: CancellationStage, partial: Option<Text>) -> Event {
    let reason = partial.is_some().then(|| "stop".into());
    RunCancelled { run_id: run(), stage, partial, reason }.into()
}

fn steps() -> Vec<Named> {
    let requested = |step, attempt, call| -> Event {
        let not_after = Timestamp(1_700_000_060_000);
        let token = StepToken::of_step(&run(), step);
        StepRequested { run_id: run(), step, attempt, token, not_after, call, model: None }.into()
    };
    let asked = |place, trims| -> Event {
        let model = Some(AskedModel { place, id: "gpt-x".into(), provider: "openai".into(), trims });
        let (token, not_after, call) = (StepToken::of_step(&run(), 5), Timestamp(9), StepCall::Model { turn: 1 });
        StepRequested { run_id: run(), step: 5, attempt: 3, token, not_after, call, model }.into()
    };
    let tool = |effect| StepCall::Tool {
        call_id: "call_1".into(),
        name: "book".into(),
        arguments: r#"{"city":"Rome"}"#.into(),
        effect,
    };
    vec![
        ("guardrail", requested(0, 1, StepCall::Guardrail { name: "words".into(), on: Guarded::Input })),
        ("model", requested(0, 1, StepCall::Model { turn: 0 })),
        ("model_first", asked(0, 0)),
        ("model_fallback", asked(2, 1)),
        ("tool_read_only", requested(1, 1, tool(Effect::ReadOnly))),
        ("tool_idempotent", requested(1, 2, tool(Effect::Idempotent))),
        ("tool_reconcile", requested(2, 1, tool(Effect::Reconcile))),
        ("tool_at_most_once", requested(3, 1, tool(Effect::AtMostOnce))),
    ]
}

fn outcomes() -> Vec<Named> {
    let completed = |result| -> Event {
        StepCompleted { run_id: run(), step: 4, attempt: 2, result, duration_ms: 812, unfit: None, session_state: None }
            .into()
    };
    let unfit = |result| StepCompleted {
        run_id: run(),
        step: 4,
        attempt: 1,
        result,
        duration_ms: 812,
        unfit: Some("it is empty".into()),
        session_state: None,
    };
    let call = |refusal: Option<&str>| ToolCallRequest {
        id: "call_1".into(),
        name: "book".into(),
        arguments: "{not json".into(),
        refusal: refusal.map(Into::into),
    };
    let usage = Usage {
        input_tokens: 100,
        output_tokens: 20,
        cache_read_tokens: 60,
        cache_write_tokens: 5,
        reasoning_tokens: 7,
    };
    let model = StepResult::Model {
        text: "I book it.".into(),
        reasoning: Some("Rome is nice.".into()),
        tool_calls: vec![call(None), call(Some("the arguments are no JSON"))],
        usage: Some(usage),
        finish_reason: Some("tool_calls".into()),
        first_token_ms: Some(90),
    };
    let silent = StepResult::Model {
        text: "".into(),
        reasoning: None,
        tool_calls: Vec::new(),
        usage: None,
        finish_reason: None,
        first_token_ms: None,
    };
    let tool = |content, error, media| StepResult::Tool { content, error, media };
    let noted = tool("Noted.".into(), false, Vec::new());
    let tool_state = StepCompleted { unfit: None, session_state: changes(), ..unfit(noted) };
    let error = Failure { kind: "timeout".into(), message: "It took too long.".into(), status: None };
    let failed = StepFailed {
        run_id: run(),
        step: 4,
        attempt: 1,
        error,
        retry_at: Some(Timestamp(1_700_000_000_500)),
        usage: Some(usage),
    };
    let last = StepFailed { retry_at: None, usage: None, ..failed.clone() };
    vec![
        ("model_full", completed(model)),
        ("model_silent", completed(silent.clone())),
        ("model_unfit", unfit(silent).into()),
        ("tool_state", tool_state.into()),
        ("tool", completed(tool("Booked.".into(), false, Vec::new()))),
        ("tool_error", completed(tool("No such city.".into(), true, Vec::new()))),
        ("tool_media", completed(tool(Text::Blob(blob()), false, media()))),
        ("retried", failed.into()),
        ("last", last.into()),
    ]
}

fn decisions() -> Vec<Named> {
    let doubt = StepInDoubt { run_id: run(), step: 3, attempt: 1, reason: "the process ended in between".into() };
    let guarded = |blocked| -> Event {
        let result = StepResult::Guardrail { blocked };
        StepCompleted { run_id: run(), step: 4, attempt: 2, result, duration_ms: 812, unfit: None, session_state: None }
            .into()
    };
    let blocked = Blocked { reason: "A card number.".into(), trigger: "pii_detected".into() };
    let noted = StepResolved {
        run_id: run(),
        step: 3,
        resolution: Resolution::Skip,
        by: user(),
        note: Some("It was paid twice.".into()),
    };
    let resolved =
        |resolution, by| -> Event { StepResolved { run_id: run(), step: 3, resolution, by, note: None }.into() };
    vec![
        ("guardrail_passes", guarded(None)),
        ("guardrail_blocks", guarded(Some(blocked))),
        ("in_doubt", doubt.into()),
        ("retry", resolved(Resolution::Retry, user())),
        ("completed", resolved(Resolution::Completed { value: "done".into() }, None)),
        ("skip", resolved(Resolution::Skip, None)),
        ("fail", resolved(Resolution::Fail, None)),
        ("skip_note", noted.into()),
    ]
}

fn holds() -> Vec<Named> {
    let call = StepCall::Tool {
        call_id: "call_1".into(),
        name: "pay".into(),
        arguments: r#"{"sum":1.10}"#.into(),
        effect: Effect::AtMostOnce,
    };
    let held = |needs, expires_at, on_expiry| -> Event {
        let token = StepToken::of_step(&run(), 2);
        StepHeld { run_id: run(), step: 2, token, call: call.clone(), needs, expires_at, on_expiry }.into()
    };
    let fields = vec![
        InputField { name: "reason".into(), field_type: "str".into(), description: Some("Why?".into()) },
        InputField { name: "days".into(), field_type: "int".into(), description: None },
    ];
    let at = Some(Timestamp(1_700_000_600_000));
    let answered = |verdict, by| -> Event { StepAnswered { run_id: run(), step: 2, verdict, by }.into() };
    let filled =
        Verdict::Confirmed { arguments: Some(r#"{"days":3,"sum":1.10}"#.into()), input: json(r#"{"days":3}"#) };
    let edited = Verdict::Confirmed { arguments: Some(Text::Blob(blob())), input: None };
    vec![
        ("confirmation", held(Needs::Confirmation, at, OnExpiry::Cancel)),
        ("input", held(Needs::Input { fields }, at, OnExpiry::Reject)),
        ("execution", held(Needs::Execution, None, OnExpiry::Reject)),
        ("confirmed", answered(Verdict::yes(), user())),
        ("edited", answered(edited, user())),
        ("filled_in", answered(filled, user())),
        ("rejected", answered(Verdict::no(), None)),
        ("rejected_note", answered(Verdict::Rejected { note: Some("Too much.".into()) }, user())),
        ("result", answered(Verdict::Result { value: "Paid by hand.".into() }, user())),
        ("fail", answered(Verdict::Fail, None)),
        ("expired", StepExpired { run_id: run(), step: 2 }.into()),
    ]
}

/// As other writers might write: other order, other spaces, escapes, absent fields, fields of a later version.
fn foreign() -> Vec<Sample> {
    [
        ("dev.reenact.run.started.v1", "foreign_spaces", " {\n\t\"run_id\" :\r\n \"r\\u00e9\\ud83d\\ude42\" } "),
        (
            "dev.reenact.run.queued.v1",
            "foreign_order",
            r#"{"background":false,"stream":false,"later":[1,{"x":null}],"input":"hi","agent_version":"v","agent_id":"a","run_index":0,"session_id":"s","run_id":"r"}"#,
        ),
        (
            "dev.reenact.run.step.completed.v1",
            "foreign_later_fields",
            r#"{"run_id":"r","step":0,"attempt":1,"duration_ms":1,"result":{"model":{"text":"hi","tool_calls":[{"id":"c","name":"n","arguments":"{}","later":1}],"later":{"y":[]}}}}"#,
        ),
        ("dev.reenact.run.failed.v1", "foreign_absent", r#"{"run_id":"r","error":{"message":"m","kind":"k"}}"#),
        ("dev.reenact.session.created.v1", "foreign_absent", r#"{"session_id":"s"}"#),
    ]
    .into_iter()
    .map(|(kind, name, input)| Sample { kind: kind.to_owned(), name: name.to_owned(), input: input.to_owned() })
    .collect()
}
