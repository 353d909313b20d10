//! Services that publish commands without knowing the rules: into any partition, twice, without a session,
//! and sometimes what is no command at all.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use reenact_events::{
    AgentId, Command, CommandBody, CommandId, DeadLetter, EventLog, Forward, MemoryLog, Offset, Outcome, PartitionId,
    ReplyTo, RunId, SessionId, Text,
    command::{AgentRef, Decision, ForkFrom, ForkRun, KeyUse, StartRun},
    hold::Verdict,
    ids::derived,
};

use crate::faults::Dice;

fn start(session_id: SessionId, agent: &str, input: String) -> CommandBody {
    CommandBody::StartRun(Box::new(StartRun {
        session_id,
        agent: AgentRef::Named(AgentId::trusted(agent)),
        input: Text::inline(&input),
        media: Vec::new(),
        metadata: None,
        session_state: None,
        stream: false,
        background: true,
        output_schema: None,
        scheduled_by: None,
    }))
}

/// To go on from a run, or to have its answer given anew.
fn fork(run_id: RunId, replaces: bool) -> CommandBody {
    CommandBody::ForkRun(Box::new(ForkRun {
        session_id: None,
        run_id,
        from: if replaces { ForkFrom::Answer } else { ForkFrom::End },
        input: Some(Text::inline("and then?")),
        replaces,
        model: None,
        instructions: None,
        stream: false,
        background: true,
        asked: 0,
    }))
}

#[derive(Default)]
struct Sent {
    /// The run that each answer is about, by correlation.
    awaited: BTreeMap<String, Option<RunId>>,
    runs: Vec<RunId>,
    poison: u64,
}

#[derive(Clone)]
pub(crate) struct Publisher {
    dice: Dice,
    log: MemoryLog,
    sent: Arc<Mutex<Sent>>,
}

impl Publisher {
    pub(crate) fn new(dice: Dice, log: MemoryLog) -> Self {
        Self { dice, log, sent: Arc::default() }
    }

    fn anywhere(&self) -> PartitionId {
        PartitionId(u32::try_from(self.dice.below(self.log.partitions().into())).expect("small"))
    }

    /// Publishes `count` things, one after another.
    pub(crate) async fn publish(&self, count: u64) {
        for number in 0..count {
            // In bursts: many commands are on their way at once.
            if self.dice.hits(400) {
                tokio::time::sleep(self.dice.pause(900)).await;
            }
            match self.dice.below(10) {
                0 | 1 => self.rubbish(number),
                2 | 3 => self.without_a_session(number).await,
                4 => self.change_a_session(number).await,
                5 | 6 => self.under_a_key(number).await,
                _ => self.start(number).await,
            }
        }
    }

    async fn start(&self, number: u64) {
        let session_id = SessionId::trusted(&format!("s{}", self.dice.below(4)));
        let long = self.dice.hits(150);
        let id = CommandId::trusted(&format!("published-{number}"));
        let run = RunId::of_command(&id, &session_id);
        let agent = if self.dice.hits(100) { "nobody" } else { "simulated" };
        let body = start(session_id, agent, if long { "long ".repeat(10_000) } else { "go".to_owned() });
        for copy in 0..1 + self.dice.below(3) {
            self.send(Command::new(id.clone(), None, body.clone()), Some(run.clone()), copy).await;
        }
        self.sent.lock().expect("sent").runs.push(run);
    }

    /// One of few keys, for one of two requests, in any session: all that are taken are one run.
    async fn under_a_key(&self, number: u64) {
        let name = format!("key-{}", self.dice.below(3));
        let id = CommandId::own(derived("simulated-command", &[&name]));
        for copy in 0..1 + self.dice.below(4) {
            let session_id = SessionId::trusted(&format!("k{}", self.dice.below(4)));
            let run = RunId::of_command(&id, &session_id);
            let request = if self.dice.hits(200) { "another" } else { "go" };
            let key = KeyUse { key: derived("simulated-key", &[&name]), request: request.into() };
            let body = start(session_id, "simulated", request.to_owned());
            let command = Command { key: Some(Box::new(key)), ..Command::new(id.clone(), None, body) };
            self.send(command, Some(run), number * 10 + copy).await;
        }
    }

    async fn without_a_session(&self, number: u64) {
        let known = self.sent.lock().expect("sent").runs.clone();
        // The last ones may still be at work.
        let run_id = match known.iter().rev().nth(usize::try_from(self.dice.below(4)).expect("small")) {
            Some(run) => run.clone(),
            None => RunId::trusted("never-was"),
        };
        let (body, copies) = match self.dice.below(3) {
            0 => (CommandBody::CancelRun { session_id: None, run_id, reason: None, asked: 0 }, 1),
            1 => {
                let decisions = vec![Decision { tool_call_id: "no-such-call".into(), verdict: Verdict::no() }];
                (CommandBody::ContinueRun { session_id: None, run_id, decisions, decided_by: None, asked: 0 }, 1)
            }
            _ => (fork(run_id, self.dice.hits(500)), 1 + self.dice.below(2)),
        };
        for copy in 0..copies {
            let id = CommandId::trusted(&format!("about-{number}"));
            self.send(Command::new(id, None, body.clone()), None, copy).await;
        }
    }

    async fn change_a_session(&self, number: u64) {
        let session_id = SessionId::trusted(&format!("p{}", self.dice.below(3)));
        let body = match self.dice.below(3) {
            0 => CommandBody::CreateSession { session_id, agent_id: None, name: None, state: None, metadata: None },
            1 => {
                let name = Some(format!("name {number}"));
                CommandBody::UpdateSession { session_id, name, state: None, metadata: None, summary: None }
            }
            _ => CommandBody::DeleteSession { session_id, runs: None, reason: None },
        };
        self.send(Command::new(CommandId::trusted(&format!("change-{number}")), None, body), None, 0).await;
    }

    async fn send(&self, mut command: Command, run: Option<RunId>, copy: u64) {
        let correlation = format!("{}/{copy}", command.id);
        command.reply_to = Some(ReplyTo { topic: None, correlation_id: correlation.as_str().into() });
        let partition = self.anywhere();
        if self.log.publish(vec![Forward { partition, command }]).await.is_ok() {
            self.sent.lock().expect("sent").awaited.insert(correlation, run);
        }
    }

    fn rubbish(&self, number: u64) {
        let letter = DeadLetter {
            partition: self.anywhere(),
            offset: Offset(0),
            code: "not_json".into(),
            reason: "simulated rubbish".into(),
            key: None,
            headers: Vec::new(),
            value: Some(format!("rubbish {number}").into_bytes()),
        };
        self.log.poison(letter).expect("there is such a partition");
        self.sent.lock().expect("sent").poison += 1;
    }

    /// What is not answered yet, or not yet among the dead letters.
    pub(crate) fn open(&self) -> Vec<String> {
        let sent = self.sent.lock().expect("sent");
        let answered = self.log.answered();
        let is_open = |correlation: &&String| !answered.iter().any(|answer| *answer.correlation_id == ***correlation);
        let mut open: Vec<_> = sent.awaited.keys().filter(is_open).cloned().collect();
        let dead = self.log.dead_letters().len() as u64;
        if dead < sent.poison {
            open.push(format!("{} of {} dead letters", dead, sent.poison));
        }
        open
    }

    /// One answer for each command, true ones, and one dead letter for each piece of rubbish.
    pub(crate) fn check(&self) -> Result<(), String> {
        let sent = self.sent.lock().expect("sent");
        let mut answers: BTreeMap<String, Vec<Outcome>> = BTreeMap::new();
        for answer in self.log.answered() {
            answers.entry(answer.correlation_id.to_string()).or_default().push(answer.outcome);
        }
        let queued = crate::check::queued(&self.log)?;
        for (correlation, run) in &sent.awaited {
            match answers.get(correlation).map(Vec::as_slice) {
                Some([Outcome::Rejected]) => {}
                Some([_]) if run.as_ref().is_none_or(|run| queued.contains(run)) => {}
                Some([_]) => return Err(format!("`{correlation}` was accepted and its run is not in the log")),
                other => return Err(format!("`{correlation}` was answered with {other:?}")),
            }
        }
        if let Some((twice, outcomes)) = answers.iter().find(|(_, outcomes)| outcomes.len() > 1) {
            return Err(format!("`{twice}` was answered more than once: {outcomes:?}"));
        }
        let mut dead: Vec<_> = self.log.dead_letters().into_iter().map(|letter| letter.value).collect();
        dead.sort();
        let all = dead.len();
        dead.dedup();
        if dead.len() != all || all as u64 != sent.poison {
            return Err(format!(
                "{all} dead letters, {} of them different, for {} of rubbish",
                dead.len(),
                sent.poison
            ));
        }
        Ok(())
    }
}
