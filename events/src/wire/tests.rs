use super::*;
use crate::{
    BlobRef, MediaKind, MediaRef, RawJson, RunId, ScheduleId, SessionId, Text, Timestamp,
    command::{AgentRef, Decision, ForkFrom, ForkRun, KeyUse, StartRun},
    hold::Verdict,
    schedule::{
        AttemptStatus, CatchUp, Overlap, Report, ScheduleChange, ScheduleCommand, ScheduleSpec, ScheduledBy, When,
    },
};

fn plain(json: &str) -> Result<Command, Unreadable> {
    decode(json.as_bytes(), Attributes::default())
}

fn refused(json: &str) -> Unreadable {
    plain(json).expect_err(json)
}

fn every_kind() -> Vec<CommandBody> {
    let session_id = SessionId::trusted("s");
    let state = Some(RawJson::parse(r#"{"a":1}"#).expect("is JSON"));
    let start = start(session_id.clone(), state.clone());
    let verdicts = [
        Verdict::yes(),
        Verdict::no(),
        Verdict::Fail,
        Verdict::Result { value: "done".into() },
        Verdict::Rejected { note: Some("too much".into()) },
        Verdict::Confirmed { arguments: Some(r#"{"n":1.10}"#.into()), input: state.clone() },
        Verdict::Confirmed { arguments: Some(Text::Blob(BlobRef::of(b"long"))), input: None },
    ];
    let decisions = verdicts.map(|verdict| Decision { tool_call_id: "call_1".into(), verdict }).into();
    [
        CommandBody::StartRun(Box::new(start)),
        CommandBody::CancelRun { session_id: None, run_id: RunId::trusted("r"), reason: Some("late".into()), asked: 3 },
        CommandBody::RequeueRun { session_id: None, run_id: RunId::trusted("r"), asked: 2 },
        CommandBody::ContinueRun {
            session_id: Some(session_id.clone()),
            run_id: RunId::trusted("r"),
            decisions,
            decided_by: Some(UserId::trusted("boss")),
            asked: 0,
        },
        fork(ForkFrom::Message(3), false),
        fork(ForkFrom::LastUser, false),
        fork(ForkFrom::Step(2), false),
        fork(ForkFrom::Answer, true),
        fork(ForkFrom::Answer, false),
        fork(ForkFrom::End, false),
        CommandBody::CreateSession {
            session_id: session_id.clone(),
            agent_id: Some(AgentId::trusted("demo")),
            name: Some("N".to_owned()),
            state: state.clone(),
            metadata: state.clone(),
        },
        CommandBody::UpdateSession {
            session_id: session_id.clone(),
            name: None,
            state: None,
            metadata: state.clone(),
            summary: state.clone(),
        },
        CommandBody::ForkSession {
            session_id: session_id.clone(),
            name: Some("N".to_owned()),
            metadata: state.clone(),
            summary: state,
        },
        CommandBody::DeleteSession { session_id: session_id.clone(), runs: None, reason: None },
        CommandBody::DeleteSession { session_id, runs: Some(3), reason: Some("it is old".into()) },
    ]
    .into_iter()
    .chain(schedules().map(CommandBody::Schedule))
    .collect()
}

fn start(session_id: SessionId, state: Option<RawJson>) -> StartRun {
    StartRun {
        session_id,
        agent: AgentRef::Named(AgentId::trusted("demo")),
        input: Text::Blob(BlobRef::of(b"long")),
        media: vec![MediaRef {
            kind: MediaKind::Image,
            blob: BlobRef::of(b"picture"),
            mime: "image/png".into(),
            name: Some("a.png".into()),
        }],
        metadata: state.clone(),
        session_state: state.clone(),
        stream: true,
        background: false,
        output_schema: None,
        scheduled_by: None,
    }
}

fn schedules() -> [ScheduleCommand; 8] {
    let id = ScheduleId::trusted("x");
    let spec = ScheduleSpec {
        description: Some("d".into()),
        payload: Some(RawJson::parse(r#"{"message":"m"}"#).expect("is JSON")),
        when: When::Cron("0 9 * * 1-5".into()),
        overlap: Overlap::CancelPrevious,
        catch_up: CatchUp::All,
        jitter_s: 7,
        ..ScheduleSpec::of("n", "/agents/demo/runs")
    };
    let by = ScheduledBy { schedule_id: id.clone(), owner: None, fire_id: uuid::Uuid::from_u128(1), attempt: 2 };
    let report = Report { by, run_id: RunId::trusted("r"), status: AttemptStatus::Paused, error: Some("why".into()) };
    [
        ScheduleCommand::Create(Box::new(spec.clone())),
        ScheduleCommand::Create(Box::new(ScheduleSpec { when: When::At(Timestamp(5)), ..spec })),
        ScheduleCommand::Update(
            id.clone(),
            Box::new(ScheduleChange { when: Some(When::OnDemand), ..ScheduleChange::default() }),
        ),
        ScheduleCommand::Enable(id.clone()),
        ScheduleCommand::Disable(id.clone()),
        ScheduleCommand::Trigger(id.clone()),
        ScheduleCommand::Delete(id),
        ScheduleCommand::Report(Box::new(report)),
    ]
}

fn fork(from: ForkFrom, replaces: bool) -> CommandBody {
    CommandBody::ForkRun(Box::new(ForkRun {
        session_id: Some(SessionId::trusted("s")),
        run_id: RunId::trusted("r"),
        from,
        input: Some("more".into()),
        replaces,
        model: Some("m".into()),
        instructions: Some("be brief".into()),
        stream: true,
        background: false,
        asked: 1,
    }))
}

#[test]
fn every_kind_comes_back_as_it_went() {
    for body in every_kind() {
        let reply_to = Some(ReplyTo { topic: None, correlation_id: "c".into() });
        let key = Some(Box::new(KeyUse { key: uuid::Uuid::from_u128(7), request: "r".into() }));
        let command = Command {
            id: CommandId::trusted("1"),
            user_id: Some(UserId::trusted("u")),
            reply_to,
            key,
            body,
            sealed: None,
        };
        let json = encode(&command);
        let own = Attributes { is_handed_round: true, ..Attributes::default() };
        assert_eq!(decode(json.as_bytes(), own).as_ref(), Ok(&command), "{json}");
    }
}

#[test]
fn every_kind_has_a_schema_that_names_what_is_common() {
    for kind in KINDS {
        let schema = schema(kind).expect(kind);
        for field in ["type", "id", "user_id", "reply_to"] {
            assert!(schema["properties"][field].is_object(), "{kind}.{field}");
        }
        assert!(schema["required"].as_array().is_some_and(|required| required.contains(&json!("id"))), "{kind}");
    }
    assert_eq!(schema("Dance"), None);
}

#[test]
fn how_many_partitions_were_asked_is_no_publishers_affair() {
    for kind in ["CancelRun", "ContinueRun"] {
        assert!(!schema(kind).expect(kind).to_string().contains("asked"));
        let json = json!({"type": kind, "id": "1", "run_id": "r", "asked": 5,
            "requirements": [{"tool_call_id": "t", "confirmed": true}]});
        let error = refused(&json.to_string());
        assert!(error.code == "invalid" && error.reason.contains("unknown field"), "{error}");
    }
}

#[test]
fn files_alone_are_a_message() {
    let blob = json!({"sha256": "0".repeat(64), "bytes": 1});
    let mut command = json!({"type": "StartRun", "id": "1", "session_id": "s", "agent_id": "a", "message": "",
        "media": [{"kind": "image", "blob": blob, "mime": "image/png"}]});
    assert!(plain(&command.to_string()).is_ok());
    command["media"] = json!([]);
    assert!(refused(&command.to_string()).reason.contains("`message` is empty"));
}

#[test]
fn the_front_doors_example_is_a_command() {
    let command = plain(
        r#"{"type": "StartRun", "id": "any-unique-string", "session_id": "s1", "user_id": "alice",
            "agent_id": "support", "message": "Where is order 17?",
            "reply_to": {"topic": "reenact.replies", "correlation_id": "c1"}}"#,
    )
    .expect("is a command");
    assert_eq!(command.body.session_id(), Some(&SessionId::trusted("s1")));
    assert!(matches!(command.body, CommandBody::StartRun(start) if start.background && !start.stream));
}

#[test]
fn cloud_events_attributes_stand_in_for_fields() {
    let value = br#"{"session_id": "s1", "agent_id": "support", "message": "hi"}"#;
    for kind in ["StartRun", "dev.reenact.command.StartRun.v1"] {
        let command =
            decode(value, Attributes { kind: Some(kind), id: Some("e1"), is_handed_round: false }).expect(kind);
        assert_eq!(command.id, CommandId::trusted("e1"));
    }
}

#[test]
fn a35_what_is_no_command_is_refused_with_its_reason() {
    let long_correlation = json!({"type": "DeleteSession", "id": "1", "session_id": "s",
        "reply_to": {"correlation_id": "c".repeat(CORRELATION_BYTES_MAX + 1)}})
    .to_string();
    for (json, code, told) in [
        ("", "not_json", "not a JSON object"),
        ("[1]", "not_json", "not a JSON object"),
        ("{\"type\":\"StartRun\",\"id\":\"\\ud800\"}", "not_json", "hex escape"),
        (r#"{"id":"1"}"#, "invalid", "`type` is missing"),
        (r#"{"type":"Dance","id":"1"}"#, "unknown_type", "there are StartRun"),
        (r#"{"type":"StartRun","session_id":"s"}"#, "invalid", "`id` is missing"),
        (r#"{"type":"StartRun","id":"1","session_id":"s","agent_id":"a"}"#, "invalid", "message"),
        (r#"{"type":"StartRun","id":"1","session_id":5,"agent_id":"a","message":"m"}"#, "invalid", "session_id"),
        (r#"{"type":"StartRun","id":"1","session_id":"","agent_id":"a","message":"m"}"#, "invalid", "empty"),
        (r#"{"type":"DeleteSession","id":"1","session_id":"s","run":"r"}"#, "invalid", "unknown field `run`"),
        (r#"{"type":"ContinueRun","id":"1","run_id":"r","requirements":[]}"#, "invalid", "at least one"),
        (
            r#"{"type":"ContinueRun","id":"1","run_id":"r","requirements":[{"tool_call_id":"t"}]}"#,
            "invalid",
            "exactly one",
        ),
        (
            r#"{"type":"ContinueRun","id":"1","run_id":"r","requirements":[{"tool_call_id":"t","result":"x","note":"n"}]}"#,
            "invalid",
            "`note` without",
        ),
        (r#"{"type":"DeleteSession","id":"1","session_id":"s","reply_to":{"topic":"t"}}"#, "invalid", "correlation_id"),
        (r#"{"type":"StartRun","id":"1","session_id":"s","agent_id":"a","message":""}"#, "invalid", "say something"),
        (&long_correlation, "invalid", "at most 1024"),
    ] {
        let error = refused(json);
        assert_eq!(error.code, code, "{json}: {error}");
        assert!(error.reason.contains(told), "{json}: {error}");
    }
    let large = format!(r#"{{"type":"DeleteSession","id":"1","session_id":"{}"}}"#, "x".repeat(COMMAND_BYTES_MAX));
    assert_eq!(refused(&large).code, "too_large");
}

#[test]
fn what_only_the_runtime_says_is_no_publishers_affair() {
    let by = json!({"schedule_id": "s", "owner": null, "fire_id": uuid::Uuid::from_u128(1), "attempt": 1});
    let start = json!({"type": "StartRun", "id": "1", "session_id": "s", "agent_id": "a", "message": "m",
        "scheduled_by": by});
    assert!(refused(&start.to_string()).reason.contains("unknown field"));
    let report = json!({"type": "ReportAttempt", "id": "1", "by": by, "run_id": "r", "status": "success"});
    assert_eq!(refused(&report.to_string()).code, "unknown_type");
    let own = Attributes { is_handed_round: true, ..Attributes::default() };
    assert!(decode(start.to_string().as_bytes(), own).is_ok() && decode(report.to_string().as_bytes(), own).is_ok());
}
