//! The people of a world: they ask, repeat what was not answered, and stop things. What they decide is in
//! [`person`](crate::person).

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
    Command, CommandBody, CommandId, EventLog, Forward, MemoryLog, RawJson, RunId, SessionId, Text, UserId,
    agent::{AgentSpec, WhenBusy},
    command::{AgentRef, ForkFrom, ForkRun, StartRun},
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
pub(crate) fn owner(session: &SessionId) -> Option<UserId> {
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
            scheduled_by: None,
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
                7 => self.fork_something(node, number).await,
                8 if self.dice.hits(500) => self.copy_something(node, number).await,
                2..=4 => self.publish(number).await,
                6 => self.decide_what_waits(node, 1_000 + number).await,
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

    async fn fork_something(&self, node: &NodeHandle, number: u64) {
        let known: Vec<_> = self.promises.accepted.lock().expect("promises").clone().into_iter().collect();
        if known.is_empty() {
            return;
        }
        let (run_id, session_id) = known[usize::try_from(self.dice.below(known.len() as u64)).expect("small")].clone();
        let some = u32::try_from(self.dice.below(8)).expect("small");
        let from = match self.dice.below(6) {
            0 => ForkFrom::LastUser,
            1 => ForkFrom::Message(some),
            2 => ForkFrom::Step(some),
            3 => ForkFrom::End,
            _ => ForkFrom::Answer,
        };
        let fork = ForkRun {
            session_id: Some(session_id.clone()),
            run_id,
            from,
            input: self.dice.hits(600).then(|| Text::inline("and then?")),
            replaces: from == ForkFrom::Answer && self.dice.hits(700),
            model: None,
            instructions: None,
            stream: false,
            background: true,
            asked: 0,
        };
        let id = CommandId::trusted(&format!("fork{}-{number}", self.life));
        let run = RunId::of_command(&id, &session_id);
        let command = Command::new(id, owner(&session_id), CommandBody::ForkRun(Box::new(fork)));
        // Asked twice: the second has no effect, whatever became of the first.
        for _ in 0..2 {
            match node.submit(command.clone()).await {
                Ok(accepted) => {
                    assert_eq!(accepted.run_id.as_ref(), Some(&run));
                    self.promises.accepted.lock().expect("promises").insert(run.clone(), session_id.clone());
                }
                Err(
                    SubmitError::Unavailable { .. }
                    | SubmitError::QueueFull { .. }
                    | SubmitError::Refused(
                        Refusal::RunNotFound | Refusal::NotForked(_) | Refusal::ForkPoint(_) | Refusal::AgentNotFound,
                    ),
                ) => {}
                Err(other) => panic!("a run that was to be gone on from was answered with: {other}"),
            }
        }
    }

    async fn copy_something(&self, node: &NodeHandle, number: u64) {
        let session_id = self.session();
        let by = owner(&session_id);
        let body = CommandBody::ForkSession { session_id, name: None, metadata: None, summary: None };
        let command = Command::new(CommandId::trusted(&format!("copy{}-{number}", self.life)), by, body);
        let mut made = None;
        for _ in 0..2 {
            match node.submit(command.clone()).await {
                Ok(accepted) => {
                    assert!(made.is_none_or(|made| made == accepted.session_id), "a repeat made another copy");
                    made = Some(accepted.session_id);
                }
                Err(
                    SubmitError::Unavailable { .. }
                    | SubmitError::Refused(Refusal::SessionNotFound | Refusal::NotCopied(_)),
                ) => return,
                Err(other) => panic!("a session that was to be copied was answered with: {other}"),
            }
        }
    }

    async fn delete_something(&self, node: &NodeHandle, number: u64) {
        let body = CommandBody::DeleteSession { session_id: self.session(), runs: None, reason: None };
        let id = CommandId::trusted(&format!("delete{}-{number}", self.life));
        match node.submit(Command::new(id, None, body)).await {
            Ok(_) | Err(SubmitError::Unavailable { .. } | SubmitError::Refused(Refusal::SessionNotFound)) => {}
            Err(other) => panic!("a deletion was answered with: {other}"),
        }
    }
}
