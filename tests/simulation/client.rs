//! The people of a world: they ask, repeat what was not answered, stop things, and decide about doubts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use reenact_actors::{
    NodeHandle,
    admission::Bounds,
    api::{Refusal, SubmitError},
};
use reenact_events::{
    Command, CommandBody, CommandId, Event, EventLog, Forward, MemoryLog, PartitionId, RawJson, Recorded, RunEvent,
    RunId, SessionEvent, SessionId, StepToken, Text, UserId,
    agent::{AgentSpec, WhenBusy},
    command::{AgentRef, Decision, StartRun},
    event::{Resolution, StepCall, StepInDoubt},
};

use crate::{faults::Dice, ledger::Ledger, steps};

/// What was asked and what was promised; outlives every life.
#[derive(Default)]
pub(crate) struct Promises {
    /// Runs whose acceptance was answered, with their sessions.
    pub(crate) accepted: Mutex<BTreeMap<RunId, SessionId>>,
    /// Commands put into the log of commands; each starts one run.
    pub(crate) published: Mutex<BTreeSet<RunId>>,
    pub(crate) refused: Mutex<BTreeMap<RunId, String>>,
}

/// Whose a session is: some are nobody's.
fn owner(session: &SessionId) -> Option<UserId> {
    let digit = session.as_str().bytes().last().unwrap_or_default() % 3;
    (digit > 0).then(|| UserId::trusted(&format!("u{digit}")))
}

/// Sessions differ in what a second run of theirs does.
fn agent_of(session: &SessionId) -> Arc<AgentSpec> {
    let mut agent = steps::agent();
    let queue = &mut Arc::make_mut(&mut agent).queue;
    match session.as_str() {
        "s1" => queue.paused_holds_session = true,
        "s2" => queue.when_busy = WhenBusy::Parallel,
        "s3" => queue.when_busy = WhenBusy::Interrupt,
        _ => {}
    }
    agent
}

/// Few slots, and sometimes fewer for each user or for the provider.
pub(crate) fn bounds(dice: &Dice) -> Bounds {
    let some = |below| usize::try_from(1 + dice.below(below)).expect("small");
    let mut bounds = Bounds { node: some(6), waiting: 1_000, ..Bounds::default() };
    if dice.hits(300) {
        bounds.user = some(2);
    }
    if dice.hits(300) {
        bounds.providers.insert(steps::agent().model.provider.as_str().into(), some(3));
    }
    bounds
}

pub(crate) struct Client {
    pub(crate) dice: Dice,
    pub(crate) log: MemoryLog,
    pub(crate) ledger: Ledger,
    pub(crate) promises: Arc<Promises>,
    pub(crate) sessions: u64,
    pub(crate) life: u64,
}

impl Client {
    fn session(&self) -> SessionId {
        SessionId::trusted(&format!("s{}", self.dice.below(self.sessions)))
    }

    fn start(&self, number: u64) -> Command {
        let session_id = self.session();
        let user = owner(&session_id);
        let start = StartRun {
            agent: AgentRef::Pinned(agent_of(&session_id)),
            session_id,
            input: Text::inline("go"),
            media: Vec::new(),
            metadata: None,
            session_state: self.dice.hits(200).then(|| RawJson::parse(r#"{"key 1": "asked"}"#).expect("is JSON")),
            stream: false,
            background: true,
            output_schema: self.dice.hits(200).then(|| RawJson::parse("{}").expect("is JSON")),
        };
        let id = CommandId::trusted(&format!("life{}-{number}", self.life));
        Command::new(id, user, CommandBody::StartRun(Box::new(start)))
    }

    /// Asks for `count` things, one after another.
    pub(crate) async fn ask(&self, node: &NodeHandle, count: u64) {
        for number in 0..count {
            tokio::time::sleep(self.dice.pause(150)).await;
            match self.dice.below(20) {
                0 => self.cancel_something(node, number).await,
                1 => self.delete_something(node, number).await,
                5 => self.requeue_something(node, number).await,
                2..=4 => self.publish(number).await,
                _ => self.start_a_run(node, number).await,
            }
        }
    }

    async fn start_a_run(&self, node: &NodeHandle, number: u64) {
        let command = self.start(number);
        let run = RunId::of_command(&command.id, command.body.session_id().expect("names its session"));
        let session = command.body.session_id().expect("names its session").clone();
        for _ in 0..50 {
            match node.submit(command.clone()).await {
                Ok(accepted) => {
                    assert_eq!(accepted.run_id.as_ref(), Some(&run));
                    self.promises.accepted.lock().expect("promises").insert(run, session);
                    return;
                }
                Err(SubmitError::Unavailable { .. } | SubmitError::QueueFull { .. }) => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                Err(SubmitError::Refused(refusal)) => {
                    self.promises.refused.lock().expect("promises").insert(run, refusal.to_string());
                    return;
                }
            }
        }
    }

    async fn publish(&self, number: u64) {
        let command = self.start(number);
        let run = RunId::of_command(&command.id, command.body.session_id().expect("names its session"));
        let stream = command.stream().expect("names its session");
        let partition = stream.partition_of(self.log.partitions());
        // Published twice: the second has no effect.
        let twice = 1 + usize::from(self.dice.hits(300));
        let forwards = vec![Forward { partition, command }; twice];
        if self.log.publish(forwards).await.is_ok() {
            self.promises.published.lock().expect("promises").insert(run);
        }
    }

    async fn cancel_something(&self, node: &NodeHandle, number: u64) {
        let known: Vec<_> = self.promises.accepted.lock().expect("promises").clone().into_iter().collect();
        if known.is_empty() {
            return;
        }
        let (run_id, session_id) = known[usize::try_from(self.dice.below(known.len() as u64)).expect("small")].clone();
        let body = CommandBody::CancelRun { session_id: Some(session_id), run_id, reason: None, asked: 0 };
        let id = CommandId::trusted(&format!("cancel{}-{number}", self.life));
        match node.submit(Command::new(id, None, body)).await {
            Ok(_) | Err(SubmitError::Unavailable { .. } | SubmitError::Refused(Refusal::RunNotFound)) => {}
            Err(other) => panic!("a cancel was answered with: {other}"),
        }
    }

    async fn requeue_something(&self, node: &NodeHandle, number: u64) {
        let known: Vec<_> = self.promises.accepted.lock().expect("promises").clone().into_iter().collect();
        if known.is_empty() {
            return;
        }
        let (run_id, session_id) = known[usize::try_from(self.dice.below(known.len() as u64)).expect("small")].clone();
        let by = Some(owner(&session_id).unwrap_or_else(|| UserId::trusted("person")));
        let body = CommandBody::RequeueRun { session_id: Some(session_id), run_id, asked: 0 };
        let id = CommandId::trusted(&format!("requeue{}-{number}", self.life));
        match node.submit(Command::new(id, by, body)).await {
            Ok(_)
            | Err(
                SubmitError::Unavailable { .. }
                | SubmitError::QueueFull { .. }
                | SubmitError::Refused(Refusal::RunNotFound | Refusal::NotRequeued(_)),
            ) => {}
            Err(other) => panic!("a run that was to be queued again was answered with: {other}"),
        }
    }

    async fn delete_something(&self, node: &NodeHandle, number: u64) {
        let body = CommandBody::DeleteSession { session_id: self.session() };
        let id = CommandId::trusted(&format!("delete{}-{number}", self.life));
        match node.submit(Command::new(id, None, body)).await {
            Ok(_) | Err(SubmitError::Unavailable { .. } | SubmitError::Refused(Refusal::SessionNotFound)) => {}
            Err(other) => panic!("a deletion was answered with: {other}"),
        }
    }

    /// The id of the call that a step makes.
    fn call_id(&self, run: &RunId, step: u32) -> Arc<str> {
        let requested = |recorded: Recorded| match recorded.decode().expect("readable") {
            Event::Run(RunEvent::StepRequested(request)) if request.run_id == *run && request.step == step => {
                match request.call {
                    StepCall::Tool { call_id, .. } => Some(call_id),
                    StepCall::Model { .. } | StepCall::Guardrail { .. } => None,
                }
            }
            _ => None,
        };
        let events = (0..self.log.partitions()).flat_map(|number| self.log.recorded(PartitionId(number)));
        events.into_iter().find_map(requested).expect("a step in doubt is a tool's")
    }

    /// Decides about every step in doubt, truthfully: the ledger knows what happened.
    pub(crate) async fn settle_doubts(&self, node: &NodeHandle, round: u64) {
        for (run_id, (session_id, doubts)) in doubts(&self.log) {
            for doubt in doubts {
                let happened = self.ledger.happened(StepToken::of_step(&run_id, doubt.step));
                let resolution = match (happened, self.dice.below(3)) {
                    (true, 0) => Resolution::Skip,
                    (true, _) => Resolution::Completed { value: Text::inline("it did") },
                    (false, 0) => Resolution::Fail,
                    (false, _) => Resolution::Retry,
                };
                let tool_call_id = self.call_id(&run_id, doubt.step);
                let body = CommandBody::ContinueRun {
                    session_id: Some(session_id.clone()),
                    run_id: run_id.clone(),
                    decisions: vec![Decision { tool_call_id, resolution }],
                    asked: 0,
                };
                let id = CommandId::trusted(&format!("resolve{}-{round}-{run_id}-{}", self.life, doubt.step));
                let by = Some(owner(&session_id).unwrap_or_else(|| UserId::trusted("person")));
                match node.submit(Command::new(id, by, body)).await {
                    Ok(_)
                    | Err(
                        SubmitError::Unavailable { .. }
                        | SubmitError::Refused(Refusal::StepNotInDoubt { .. } | Refusal::RunNotFound),
                    ) => {}
                    Err(other) => panic!("a decision was answered with: {other}"),
                }
            }
        }
    }
}

type Doubts = BTreeMap<RunId, (SessionId, Vec<StepInDoubt>)>;

/// The steps in doubt as the log has them.
fn doubts(log: &MemoryLog) -> Doubts {
    let (mut doubts, mut shelved) = (Doubts::new(), Doubts::new());
    for partition in (0..log.partitions()).map(PartitionId) {
        for recorded in log.recorded(partition) {
            let Some(session) = recorded.event.key.as_session() else { continue };
            match recorded.decode().expect("readable") {
                Event::Run(RunEvent::StepInDoubt(doubt)) => {
                    doubts.entry(doubt.run_id.clone()).or_insert((session, Vec::new())).1.push(doubt);
                }
                Event::Run(RunEvent::StepResolved(resolved)) => {
                    if let Some((_, known)) = doubts.get_mut(&resolved.run_id) {
                        known.retain(|doubt| doubt.step != resolved.step);
                    }
                }
                Event::Run(RunEvent::Requeued(requeued)) => doubts.extend(shelved.remove_entry(&requeued.run_id)),
                Event::Run(event) if event.is_end() => shelved.extend(doubts.remove_entry(event.run_id())),
                Event::Session(SessionEvent::Deleted(_)) => doubts.retain(|_, (of, _)| *of != session),
                _ => {}
            }
        }
    }
    doubts
}
