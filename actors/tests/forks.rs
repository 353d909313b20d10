//! Where a run can be gone on from, and what the other one begins with: pure decisions.

use std::sync::Arc;

use reenact_actors::{
    api::Refusal,
    run::{
        Context, RunCommand, RunState, decide, evolve,
        evolve::created,
        fork::{Cut, cut},
        history,
    },
    session::{Fields, NewCopy, NewFork, SessionState, copy, fork_run},
    step::ChatMessage,
};
use reenact_events::{
    AgentId, Event, RawJson, RunEvent, RunId, SessionId, Text, Timestamp,
    agent::{AgentSpec, Effect, Guarded, GuardrailSpec, Limits, ModelSpec, QueueSpec, ToolKind, ToolSpec},
    command::ForkFrom,
    event::{Failure, RunQueued, RunStatus, StepCall, StepResult, ToolCallRequest},
    session_state::SessionValues,
};

fn agent() -> AgentSpec {
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
    let note = ToolSpec {
        name: "note".to_owned(),
        description: String::new(),
        parameters: RawJson::parse("{}").expect("is JSON"),
        effect: Effect::AtMostOnce,
        timeout_s: 30,
        kind: ToolKind::Builtin,
        hold: None,
    };
    AgentSpec {
        id: AgentId::trusted("a"),
        name: "A".to_owned(),
        description: None,
        instructions: Some("Be brief.".to_owned()),
        model,
        fallbacks: Vec::new(),
        tools: vec![note],
        history_runs: 0,
        limits: Limits { tool_calls: 2, turns: 2, timeout_s: 600 },
        queue: QueueSpec::default(),
        output_schema: None,
        session_state: None,
        add_session_state_to_context: false,
        guardrails: Vec::new(),
    }
}

fn guarded(on: Guarded) -> AgentSpec {
    let guardrail = GuardrailSpec {
        name: "words".to_owned(),
        on,
        url: "http://g".to_owned(),
        headers: Vec::new(),
        timeout_s: 5,
        retries: 0,
    };
    AgentSpec { guardrails: vec![guardrail], ..agent() }
}

struct Scene {
    run: RunState,
    context: Context,
}

impl Scene {
    fn of(agent: AgentSpec) -> Self {
        let queued = RunQueued {
            run_id: RunId::trusted("r"),
            session_id: SessionId::trusted("s"),
            user_id: None,
            run_index: 3,
            agent_id: agent.id.clone(),
            agent_version: agent.version(),
            input: Text::inline("go"),
            media: Vec::new(),
            metadata: None,
            output_schema: None,
            session_state: None,
            fork: None,
            scheduled_by: None,
            stream: false,
            background: true,
        };
        let context = Context { now: Timestamp(1_000), agent: Arc::new(agent) };
        let mut scene = Self { run: created(&queued, context.now), context };
        scene.must(RunCommand::Begin);
        scene
    }

    fn must(&mut self, command: RunCommand) -> Vec<RunEvent> {
        let events = decide(&self.run, command, &self.context).expect("is allowed");
        events.iter().for_each(|event| evolve(&mut self.run, event, self.context.now));
        events
    }

    /// The model calls `note` so often; without any it answers.
    fn model(&mut self, calls: usize) {
        let step = self.run.progress.last_turn.expect("it was asked");
        let call = |number: usize| ToolCallRequest {
            id: format!("c{step}-{number}").into(),
            name: "note".into(),
            arguments: Text::inline("{}"),
            refusal: None,
        };
        let result = StepResult::Model {
            text: Text::inline(if calls == 0 { "answer" } else { "" }),
            reasoning: None,
            tool_calls: (0..calls).map(call).collect(),
            usage: None,
            finish_reason: None,
            first_token_ms: None,
        };
        let (outcome, attempt) = (Ok(result), 1);
        self.must(RunCommand::ModelReturned { step, attempt, outcome, unfit: None, trim: None, duration_ms: 1 });
    }

    fn tool(&mut self, step: u32) {
        let result = StepResult::Tool { content: Text::inline("noted"), error: false, media: Vec::new() };
        self.must(RunCommand::ToolReturned { step, attempt: 1, result, session_state: None, duration_ms: 1 });
    }

    /// A run with two calls in its first turn that has answered: instructions, message, turn, two results, answer.
    fn answered() -> Self {
        let mut scene = Self::of(agent());
        scene.model(2);
        scene.tool(1);
        scene.tool(2);
        scene.model(0);
        assert_eq!(scene.run.progress.status, RunStatus::Completed);
        scene
    }

    fn cut(&self, from: ForkFrom, speaks: bool) -> Result<Cut, Refusal> {
        cut(&self.run, &self.context.agent, from, speaks)
    }

    /// The run that goes on from there, begun, with the events that accept it.
    fn forked(&self, from: ForkFrom, input: Option<&str>) -> (Self, Vec<RunEvent>) {
        let new = NewFork {
            own: false,
            run_id: RunId::trusted("other"),
            user_id: None,
            source: &self.run,
            cut: self.cut(from, input.is_some()).expect("can be gone on from"),
            input: input.map(Text::inline),
            regenerates: false,
            replaces: from == ForkFrom::Answer,
            version: self.context.agent.version(),
            version_known: true,
            begins: true,
            defaults: SessionValues::new(),
            stream: false,
            background: true,
        };
        let session = SessionState { exists: true, runs: 9, ..SessionState::default() };
        let events = fork_run(&session, new, &self.context).expect("is allowed");
        let of_run = |event| match event {
            Event::Run(event) => Some(event),
            _ => None,
        };
        let events: Vec<_> = events.into_iter().filter_map(of_run).collect();
        let RunEvent::Queued(queued) = &events[0] else { panic!("it is accepted first: {events:?}") };
        let mut run = created(queued, self.context.now);
        let own = events[1..].iter().filter(|event| event.run_id() == run.id());
        own.cloned().collect::<Vec<_>>().iter().for_each(|event| evolve(&mut run, event, self.context.now));
        (Self { run, context: self.context.clone() }, events)
    }

    fn shown(&self) -> Vec<String> {
        let messages = history::messages(&self.context.agent, &SessionValues::new(), &[], &self.run, 0);
        let text = |message: &ChatMessage| match message {
            ChatMessage::System(text) => text.to_string(),
            ChatMessage::User { text, .. } | ChatMessage::Tool { text, .. } => {
                text.as_inline().unwrap_or("").to_owned()
            }
            ChatMessage::Assistant { text, .. } => {
                text.as_ref().and_then(Text::as_inline).unwrap_or("calls").to_owned()
            }
        };
        messages.iter().map(text).collect()
    }
}

fn asks(events: &[RunEvent]) -> Vec<&StepCall> {
    fn call(event: &RunEvent) -> Option<&StepCall> {
        match event {
            RunEvent::StepRequested(request) => Some(&request.call),
            _ => None,
        }
    }
    events.iter().filter_map(call).collect()
}

#[test]
fn another_run_begins_only_behind_what_is_whole() {
    let scene = Scene::answered();
    let whole: Vec<_> = (0..9).filter(|at| scene.cut(ForkFrom::Message(*at), true).is_ok()).collect();
    assert_eq!(whole, [2, 5, 6], "the message, the last result of the turn, the answer");
    let at = |from| scene.cut(from, true).expect("can be").message_index;
    assert_eq!([at(ForkFrom::End), at(ForkFrom::LastUser), at(ForkFrom::Answer)], [6, 2, 5]);
    assert_eq!([at(ForkFrom::Step(0)), at(ForkFrom::Step(3)), at(ForkFrom::Step(4))], [2, 5, 6]);
    for step in [1, 2, 5, u32::MAX] {
        assert!(matches!(scene.cut(ForkFrom::Step(step), true), Err(Refusal::ForkPoint(_))), "{step}");
    }
    assert!(matches!(scene.cut(ForkFrom::End, false), Err(Refusal::ForkPoint(why)) if why.contains("`input`")));
}

#[test]
fn what_is_taken_over_is_not_asked_again_and_counts_for_no_limit() {
    let scene = Scene::answered();
    let (mut other, events) = scene.forked(ForkFrom::End, Some("more"));
    assert!(matches!(asks(&events)[..], [StepCall::Model { .. }]), "{events:?}");
    assert_eq!(other.shown(), ["Be brief.", "go", "calls", "noted", "noted", "answer", "more"]);
    // The agent allows two turns and two calls of each run: those that were taken over are not among them.
    other.model(2);
    other.tool(5);
    other.tool(6);
    other.model(0);
    assert_eq!(other.run.progress.status, RunStatus::Completed);
    let results = other.shown().iter().filter(|text| *text == "noted").count();
    assert_eq!(results, 4, "{:?}", other.shown());
}

#[test]
fn a_regenerated_run_is_history_no_more_and_cannot_be_queued_again() {
    let mut scene = Scene::answered();
    let (other, events) = scene.forked(ForkFrom::Answer, None);
    assert_eq!(other.shown(), ["Be brief.", "go", "calls", "noted", "noted"]);
    let replaced: Vec<_> = events.iter().filter(|event| event.run_id() == scene.run.id()).cloned().collect();
    assert!(matches!(&replaced[..], [RunEvent::Regenerated(event)] if event.by == *other.run.id()), "{replaced:?}");
    replaced.iter().for_each(|event| evolve(&mut scene.run, event, scene.context.now));
    assert_eq!(scene.run.progress.status, RunStatus::Regenerated);
    let again = decide(&scene.run, RunCommand::Requeue { by: None }, &scene.context);
    assert!(matches!(again, Err(Refusal::NotRequeued(_))), "{again:?}");
    let (_, events) = scene.forked(ForkFrom::Answer, None);
    assert!(events.iter().all(|event| event.run_id() != scene.run.id()), "it is replaced once: {events:?}");
}

#[test]
fn an_open_call_and_one_in_doubt_are_not_taken_over() {
    let mut scene = Scene::of(agent());
    scene.model(2);
    scene.tool(1);
    assert_eq!(scene.cut(ForkFrom::End, true).expect("can be").message_index, 2, "one result is missing");
    assert!(matches!(scene.cut(ForkFrom::Answer, false), Err(Refusal::NotForked(_))), "it is at work");
    scene.must(RunCommand::Recover { owed: vec![(2, 1)] });
    assert_eq!(scene.run.progress.status, RunStatus::Paused);
    assert_eq!(scene.cut(ForkFrom::End, true).expect("can be").message_index, 2, "one is in doubt");
    assert!(scene.cut(ForkFrom::Message(5), true).is_err() && scene.cut(ForkFrom::Message(4), true).is_err());
    scene.must(RunCommand::Fail(Failure { kind: "k".into(), message: "m".into(), status: None }));
    let (other, events) = scene.forked(ForkFrom::Answer, None);
    assert!(matches!(asks(&events)[..], [StepCall::Model { .. }]), "{events:?}");
    assert_eq!(other.shown(), ["Be brief.", "go"]);
}

#[test]
fn what_is_said_then_goes_past_the_guardrails_and_what_was_said_before_does_not_again() {
    let mut scene = Scene::of(guarded(Guarded::Input));
    scene.must(RunCommand::Guarded { step: 0, attempt: 1, outcome: Ok(None), duration_ms: 1 });
    scene.model(1);
    scene.tool(2);
    scene.model(0);
    let (mut other, events) = scene.forked(ForkFrom::End, Some("more"));
    assert!(matches!(asks(&events)[..], [StepCall::Guardrail { .. }]), "{events:?}");
    let step = other.run.progress.steps - 1;
    let asked = other.must(RunCommand::Guarded { step, attempt: 1, outcome: Ok(None), duration_ms: 1 });
    assert!(matches!(asks(&asked)[..], [StepCall::Model { .. }]), "{asked:?}");
    let (_, events) = scene.forked(ForkFrom::Message(4), None);
    assert!(matches!(asks(&events)[..], [StepCall::Model { .. }]), "nothing new was said: {events:?}");
}

#[test]
fn a_session_is_copied_with_all_its_runs_or_not_at_all() {
    let scene = Scene::answered();
    let (source, agent) = (SessionId::trusted("s"), scene.context.agent.clone());
    let copied = |agent: AgentSpec| {
        let new = NewCopy {
            session_id: SessionId::trusted("other"),
            user_id: None,
            source: &source,
            runs: &[(scene.run.clone(), Arc::new(agent))],
            values: SessionValues::new(),
            fields: Fields::default(),
        };
        copy(new, scene.context.now)
    };
    let whole = copied((*agent).clone()).expect("can be copied");
    assert!(matches!(whole.last(), Some(Event::Run(RunEvent::Completed(_)))), "{whole:?}");
    // An agent that would ask something before it is done.
    let refused = copied(guarded(Guarded::Output)).expect_err("would not complete");
    assert!(refused.to_string().contains("run `r`"), "{refused}");
}
