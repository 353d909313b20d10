//! Calls that wait for somebody: what a run does until, and after, each of the answers.

use std::sync::Arc;

use reenact_actors::{
    api::Refusal,
    run::{Context, RunCommand, RunState, decide, evolve, evolve::created, history, reenact},
    step::ChatMessage,
};
use reenact_events::{
    AgentId, RawJson, RunEvent, RunId, SessionId, Text, Timestamp, UserId,
    agent::{AgentSpec, Effect, Limits, ModelSpec, QueueSpec, ToolKind, ToolSpec},
    command::Decision,
    event::{RunQueued, RunStatus, StepCall, StepResult, ToolCallRequest},
    hold::{HoldSpec, InputField, Needs, OnExpiry, Verdict},
    session_state::SessionValues,
};

/// Seconds after which nobody is waited for any more.
const EXPIRES_IN_S: u32 = 60;

fn tool(name: &str, hold: Option<(Needs, OnExpiry)>) -> ToolSpec {
    let hold = hold.map(|(needs, on_expiry)| HoldSpec { needs, expires_in_s: Some(EXPIRES_IN_S), on_expiry });
    ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        parameters: RawJson::parse("{}").expect("is JSON"),
        effect: Effect::AtMostOnce,
        timeout_s: 30,
        kind: ToolKind::Builtin,
        hold,
    }
}

fn agent() -> Arc<AgentSpec> {
    let field = InputField { name: "days".to_owned(), field_type: "int".to_owned(), description: None };
    let model = ModelSpec {
        provider: "p".to_owned(),
        id: "m".to_owned(),
        base_url: None,
        api_key_env: None,
        api_key_file: None,
        temperature_milli: None,
        max_tokens: None,
        timeout_s: 60,
        retries: 0,
    };
    Arc::new(AgentSpec {
        id: AgentId::trusted("a"),
        name: "A".to_owned(),
        description: None,
        instructions: None,
        model,
        fallbacks: Vec::new(),
        tools: vec![
            tool("note", None),
            tool("pay", Some((Needs::Confirmation, OnExpiry::Reject))),
            tool("book", Some((Needs::Input { fields: vec![field] }, OnExpiry::Reject))),
            tool("sign", Some((Needs::Execution, OnExpiry::Cancel))),
        ],
        history_runs: 0,
        limits: Limits { tool_calls: 50, turns: 5, timeout_s: 600 },
        queue: QueueSpec::default(),
        output_schema: None,
        session_state: None,
        add_session_state_to_context: false,
        guardrails: Vec::new(),
    })
}

/// A run and all that happened to it.
#[derive(Clone)]
struct Scene {
    run: RunState,
    context: Context,
    recorded: Vec<reenact::Recording>,
}

impl Scene {
    /// A run whose model has called these tools, each call under its tool's name.
    fn calling(tools: &[&str]) -> Self {
        let agent = agent();
        let queued = RunQueued {
            fork: None,
            scheduled_by: None,
            run_id: RunId::trusted("r"),
            session_id: SessionId::trusted("s"),
            user_id: None,
            run_index: 0,
            agent_id: agent.id.clone(),
            agent_version: agent.version(),
            input: Text::inline("go"),
            media: Vec::new(),
            metadata: None,
            session_state: None,
            stream: false,
            background: true,
            output_schema: None,
        };
        let context = Context { now: Timestamp(1_000), agent };
        let run = created(&queued, context.now);
        let first = reenact::Recording { at: context.now, event: queued.into() };
        let mut scene = Self { run, context, recorded: vec![first] };
        scene.must(RunCommand::Begin);
        let call = |(number, name): (usize, &&str)| ToolCallRequest {
            id: if number == 0 || tools[0] != *name { (*name).into() } else { format!("{name}-{number}").into() },
            name: (*name).into(),
            arguments: Text::inline("{}"),
            refusal: None,
        };
        let result = StepResult::Model {
            text: Text::inline(""),
            reasoning: None,
            tool_calls: tools.iter().enumerate().map(call).collect(),
            usage: None,
            finish_reason: None,
            first_token_ms: None,
        };
        let outcome = Ok(result);
        scene.must(RunCommand::ModelReturned { step: 0, attempt: 1, outcome, unfit: None, trim: None, duration_ms: 1 });
        scene
    }

    fn take(&mut self, command: RunCommand) -> Result<Vec<RunEvent>, Refusal> {
        let events = decide(&self.run, command, &self.context)?;
        for event in &events {
            evolve(&mut self.run, event, self.context.now);
            self.recorded.push(reenact::Recording { at: self.context.now, event: event.clone() });
        }
        self.context.now = self.context.now.plus_ms(1);
        Ok(events)
    }

    fn must(&mut self, command: RunCommand) -> Vec<RunEvent> {
        self.take(command).expect("nothing forbids it")
    }

    fn decide(&mut self, call: &str, verdict: Verdict) -> Result<Vec<RunEvent>, Refusal> {
        self.resolve(call, verdict, true)
    }

    /// Its session or the node has no room for it now.
    fn decide_without_a_slot(&mut self, call: &str, verdict: Verdict) -> Result<Vec<RunEvent>, Refusal> {
        self.resolve(call, verdict, false)
    }

    fn resolve(&mut self, call: &str, verdict: Verdict, has_slot: bool) -> Result<Vec<RunEvent>, Refusal> {
        let decisions = vec![Decision { tool_call_id: call.into(), verdict }];
        self.take(RunCommand::Resolve { decisions, by: Some(UserId::trusted("boss")), has_slot })
    }

    fn later(&mut self, seconds: u32) {
        self.context.now = self.context.now.plus_ms(i64::from(seconds) * 1_000);
    }

    fn status(&self) -> RunStatus {
        self.run.progress.status
    }

    /// What the model is told of a call.
    fn told(&self, call: &str) -> String {
        let messages = history::messages(&self.context.agent, &SessionValues::new(), &[], &self.run, 0);
        let told = messages.into_iter().find_map(|message| match message {
            ChatMessage::Tool { call_id, text, .. } if &*call_id == call => text.as_inline().map(str::to_owned),
            _ => None,
        });
        told.expect("each call has a result")
    }

    fn comes_out_the_same(&self) {
        let difference = reenact::reenact(&self.recorded, &self.context.agent).difference;
        assert!(difference.is_none(), "{difference:?}");
    }
}

/// The calls that these events ask for, with their arguments.
fn requested(events: &[RunEvent]) -> Vec<(String, String)> {
    let call = |event: &RunEvent| match event {
        RunEvent::StepRequested(request) => match &request.call {
            StepCall::Tool { name, arguments, .. } => {
                Some((name.to_string(), arguments.as_inline().unwrap_or_default().to_owned()))
            }
            StepCall::Model { .. } | StepCall::Guardrail { .. } => None,
        },
        _ => None,
    };
    events.iter().filter_map(call).collect()
}

fn filled() -> Verdict {
    let input = RawJson::parse(r#"{"days":3}"#).expect("is JSON");
    Verdict::Confirmed { arguments: Some(Text::inline(r#"{"days":3}"#)), input: Some(input) }
}

fn result(text: &str) -> Verdict {
    Verdict::Result { value: Text::inline(text) }
}

#[test]
fn other_calls_are_made_and_then_the_run_waits_for_all_that_are_held() {
    let mut many = vec!["note"];
    many.extend(["pay"; 20]);
    let mut scene = Scene::calling(&many);
    assert_eq!((scene.status(), scene.run.progress.steps), (RunStatus::Running, 22), "all are shown at once");
    let done = StepResult::Tool { content: Text::inline("noted"), error: false, media: Vec::new() };
    scene.must(RunCommand::ToolReturned { step: 1, attempt: 1, result: done, session_state: None, duration_ms: 1 });
    assert_eq!((scene.status(), scene.run.may_continue()), (RunStatus::Paused, false));
    scene.comes_out_the_same();
}

#[test]
fn answers_come_in_any_order_and_each_confirmed_call_is_made_once_after_the_last() {
    let answers = [("pay", Verdict::yes()), ("book", filled()), ("sign", result("signed"))];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut scene = Scene::calling(&["pay", "book", "sign"]);
        assert_eq!(scene.status(), RunStatus::Paused);
        for place in &order[..2] {
            let (call, verdict) = answers[*place].clone();
            assert_eq!(requested(&scene.decide(call, verdict).expect("fits")), []);
            assert!(!scene.run.may_continue(), "another one waits");
        }
        let (call, verdict) = answers[order[2]].clone();
        let events = scene.decide(call, verdict).expect("fits");
        let made = [("pay".to_owned(), "{}".to_owned()), ("book".to_owned(), r#"{"days":3}"#.to_owned())];
        assert_eq!(requested(&events), made, "in the order of the calls");
        assert_eq!((scene.status(), scene.told("sign").as_str()), (RunStatus::Running, "signed"));
        scene.comes_out_the_same();
    }
}

#[test]
fn a_call_that_is_confirmed_while_others_work_is_made_at_once() {
    let mut scene = Scene::calling(&["note", "pay"]);
    let less = Verdict::Confirmed { arguments: Some(Text::inline(r#"{"sum":1}"#)), input: None };
    let events = scene.decide("pay", less).expect("fits");
    assert_eq!(requested(&events), [("pay".to_owned(), r#"{"sum":1}"#.to_owned())]);
    scene.comes_out_the_same();
}

#[test]
fn a_decision_of_another_kind_than_the_call_needs_is_refused_and_changes_nothing() {
    let no_input = || Verdict::Confirmed { arguments: None, input: RawJson::parse("{}").ok() };
    let unasked = RawJson::parse(r#"{"days":3,"nights":2}"#).ok();
    let too_much = Verdict::Confirmed { arguments: Some(Text::inline("{}")), input: unasked };
    for (call, verdict, why) in [
        ("pay", result("paid"), "confirmation"),
        ("pay", filled(), "confirmation"),
        ("book", Verdict::yes(), "`days`"),
        ("book", no_input(), "`days`"),
        ("book", too_much, "`nights`"),
        ("book", result("booked"), "`days`"),
        ("sign", Verdict::yes(), "result"),
    ] {
        let mut scene = Scene::calling(&["pay", "book", "sign"]);
        let before = scene.run.clone();
        let refused = scene.decide(call, verdict).expect_err("does not fit");
        assert!(matches!(refused, Refusal::DecisionUnfit { .. }) && refused.to_string().contains(why), "{refused}");
        assert_eq!(scene.run, before);
        scene.decide(call, Verdict::no()).expect("a no always fits");
        let again = scene.decide(call, Verdict::yes()).expect_err("it is decided");
        assert!(matches!(again, Refusal::StepNotInDoubt { .. }), "{again}");
    }
}

#[test]
fn a_decision_that_no_event_could_hold_is_refused_and_does_not_end_the_run() {
    let long = "x".repeat(40_000);
    let mut scene = Scene::calling(&["pay", "book"]);
    let note = Verdict::Rejected { note: Some(long.as_str().into()) };
    let input = RawJson::of(&std::collections::BTreeMap::from([("days", &long)])).ok();
    let filled = Verdict::Confirmed { arguments: Some(Text::inline("{}")), input };
    for (call, verdict) in [("pay", note), ("book", filled)] {
        let refused = scene.decide(call, verdict).expect_err("too long");
        assert!(refused.to_string().contains("at most 32768"), "{refused}");
    }
    assert_eq!(scene.status(), RunStatus::Paused);
}

#[test]
fn what_is_rejected_is_told_and_a_failing_decision_ends_the_run() {
    let mut scene = Scene::calling(&["pay", "sign"]);
    scene.decide("pay", Verdict::Rejected { note: Some("too much".into()) }).expect("fits");
    scene.decide("sign", Verdict::no()).expect("fits");
    assert_eq!(scene.told("pay"), "the call was rejected and not made: too much");
    assert_eq!(scene.told("sign"), "the call was rejected and not made");
    assert_eq!(scene.status(), RunStatus::Running, "the model is asked with that");
    scene.comes_out_the_same();
    let mut scene = Scene::calling(&["pay", "sign"]);
    scene.decide("sign", Verdict::Fail).expect("fits");
    assert_eq!(scene.status(), RunStatus::Error);
    scene.comes_out_the_same();
}

#[test]
fn nobody_is_waited_for_longer_than_was_said() {
    let mut scene = Scene::calling(&["pay", "book"]);
    let expiry = scene.run.next_expiry().expect("it has one");
    scene.later(EXPIRES_IN_S / 2);
    assert_eq!(scene.must(RunCommand::Expire), [], "it is not over yet");
    scene.later(EXPIRES_IN_S);
    assert!(expiry < scene.context.now);
    let late = scene.clone().decide("pay", Verdict::yes()).expect_err("too late, also when nobody has noticed");
    assert!(matches!(late, Refusal::DecisionLate { .. }), "{late}");
    scene.must(RunCommand::Expire);
    assert_eq!((scene.run.next_expiry(), scene.run.may_continue()), (None, true));
    assert!(scene.told("pay").contains("in time"));
    scene.must(RunCommand::Begin);
    assert_eq!(scene.status(), RunStatus::Running);
    scene.comes_out_the_same();
}

#[test]
fn an_expiry_that_is_to_cancel_the_run_does() {
    let mut scene = Scene::calling(&["note", "sign", "pay"]);
    scene.later(EXPIRES_IN_S);
    scene.must(RunCommand::Expire);
    assert_eq!(scene.status(), RunStatus::Cancelled);
    scene.comes_out_the_same();
    assert_eq!(scene.must(RunCommand::Expire), [], "once");
}

#[test]
fn an_approved_call_that_a_crash_cut_off_is_in_doubt_and_not_made_again() {
    let mut scene = Scene::calling(&["pay"]);
    let events = scene.decide("pay", Verdict::yes()).expect("fits");
    assert_eq!(requested(&events).len(), 1);
    let owed = scene.run.open_steps().map(|(at, step)| (at, step.attempt)).collect();
    let events = scene.must(RunCommand::Recover { owed });
    assert_eq!((requested(&events).len(), scene.status()), (0, RunStatus::Paused));
    let edited = Verdict::Confirmed { arguments: Some(Text::inline("{}")), input: None };
    let refused = scene.decide("pay", edited).expect_err("what happened perhaps cannot be changed");
    assert!(matches!(refused, Refusal::DecisionUnfit { .. }), "{refused}");
    scene.decide("pay", Verdict::Rejected { note: Some("seen on the account".into()) }).expect("fits");
    assert!(scene.told("pay").ends_with(": seen on the account"), "{}", scene.told("pay"));
    scene.comes_out_the_same();
}

#[test]
fn an_approved_call_of_a_run_that_waits_for_its_turn_is_made_when_the_turn_comes_also_after_a_crash() {
    let mut scene = Scene::calling(&["pay"]);
    scene.decide_without_a_slot("pay", Verdict::yes()).expect("fits");
    let owed = scene.run.open_steps().map(|(at, step)| (at, step.attempt)).collect();
    assert!(scene.must(RunCommand::Recover { owed }).is_empty(), "it has no slot yet");
    let events = scene.must(RunCommand::Begin);
    assert!(matches!(events[0], RunEvent::Continued(_)), "{events:?}");
    assert_eq!(requested(&events).len(), 1);
    scene.comes_out_the_same();
}

#[test]
fn what_nobody_decided_about_before_the_run_ended_is_asked_again_when_it_is_queued_again() {
    let mut scene = Scene::calling(&["pay", "book", "sign"]);
    scene.decide("pay", Verdict::yes()).expect("fits");
    scene.decide("book", Verdict::Rejected { note: None }).expect("fits");
    let first = scene.run.next_expiry().expect("the signature is waited for");
    scene.must(RunCommand::Cancel { reason: None, partial: None });
    let refused = scene.decide("sign", result("signed")).expect_err("the run has ended");
    assert!(matches!(refused, Refusal::StepNotInDoubt { .. }), "{refused}");
    scene.must(RunCommand::Requeue { by: None });
    assert_eq!((scene.run.next_expiry(), scene.must(RunCommand::Expire)), (None, Vec::new()), "no time runs yet");
    scene.later(2 * EXPIRES_IN_S);
    let events = scene.must(RunCommand::Begin);
    assert_eq!(requested(&events), [("pay".to_owned(), "{}".to_owned())], "only what somebody has approved is made");
    let held: Vec<_> =
        events.iter().filter(|event| matches!(event, RunEvent::StepHeld(held) if held.step == 3)).collect();
    assert_eq!(held.len(), 1, "{events:?}");
    assert!(scene.run.next_expiry().expect("asked again") > first.plus_ms(i64::from(EXPIRES_IN_S) * 1_000));
    let done = StepResult::Tool { content: Text::inline("paid"), error: false, media: Vec::new() };
    let returned = RunCommand::ToolReturned { step: 1, attempt: 1, result: done, session_state: None, duration_ms: 1 };
    scene.must(returned);
    assert_eq!((scene.status(), scene.run.progress.open), (RunStatus::Paused, 1));
    scene.decide("sign", result("signed")).expect("it is waited for again");
    assert_eq!((scene.status(), scene.told("sign").as_str()), (RunStatus::Running, "signed"));
    scene.comes_out_the_same();
}

#[test]
fn a_run_that_is_queued_again_takes_decisions_before_its_turn_comes() {
    let mut scene = Scene::calling(&["pay", "book"]);
    scene.decide("pay", Verdict::Fail).expect("fits");
    assert_eq!(scene.status(), RunStatus::Error);
    scene.must(RunCommand::Requeue { by: None });
    scene.later(2 * EXPIRES_IN_S);
    assert_eq!(requested(&scene.decide("book", filled()).expect("no time has run")), []);
    let events = scene.must(RunCommand::Begin);
    assert_eq!(requested(&events), [("book".to_owned(), r#"{"days":3}"#.to_owned())]);
    assert_eq!(scene.status(), RunStatus::Running);
    scene.comes_out_the_same();
}
