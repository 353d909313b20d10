//! Who decides about what waits for somebody: truthfully about calls in doubt, at will about held ones, sometimes
//! twice, sometimes nonsense, and sometimes not at all.

use std::{collections::BTreeMap, sync::Arc};

use reenact_actors::{
    NodeHandle,
    api::{Refusal, SubmitError},
};
use reenact_events::{
    Command, CommandBody, CommandId, Event, EventLog, MemoryLog, PartitionId, RawJson, RunEvent, RunId, SessionEvent,
    SessionId, StepToken, Text, UserId,
    command::Decision,
    event::StepCall,
    hold::{Needs, Verdict},
};

use crate::client::{Client, owner};

/// A call that waits for somebody.
struct Wait {
    session: SessionId,
    call_id: Arc<str>,
    /// What a held call needs; a call in doubt needs the truth.
    needs: Option<Needs>,
}

impl Client {
    /// Decides about what waits.
    pub(crate) async fn decide_what_waits(&self, node: &NodeHandle, round: u64) {
        for ((run_id, step), wait) in waits(&self.log) {
            let token = StepToken::of_step(&run_id, step);
            let verdict = match &wait.needs {
                None => self.truth(token),
                Some(_) if self.dice.hits(400) => continue,
                Some(needs) => self.will(needs),
            };
            let by = Some(owner(&wait.session).unwrap_or_else(|| UserId::trusted("person")));
            let body = CommandBody::ContinueRun {
                session_id: Some(wait.session),
                run_id: run_id.clone(),
                decisions: vec![Decision { tool_call_id: wait.call_id, verdict }],
                decided_by: None,
                asked: 0,
            };
            for copy in 0..1 + u64::from(self.dice.hits(100)) {
                let id = CommandId::trusted(&format!("decide{}-{round}-{copy}-{run_id}-{step}", self.life));
                match node.submit(Command::new(id, by.clone(), body.clone())).await {
                    Ok(_)
                    | Err(
                        SubmitError::Unavailable { .. }
                        | SubmitError::Refused(
                            Refusal::StepNotInDoubt { .. }
                            | Refusal::DecisionUnfit { .. }
                            | Refusal::DecisionLate { .. }
                            | Refusal::RunNotFound,
                        ),
                    ) => {}
                    Err(other) => panic!("a decision was answered with: {other}"),
                }
            }
        }
    }

    /// The ledger knows what happened.
    fn truth(&self, token: StepToken) -> Verdict {
        match (self.ledger.happened(token), self.dice.below(3)) {
            (true, 0) => Verdict::no(),
            (true, _) => Verdict::Result { value: Text::inline("it did") },
            (false, 0) => Verdict::Fail,
            (false, _) => Verdict::yes(),
        }
    }

    fn will(&self, needs: &Needs) -> Verdict {
        let filled = RawJson::parse(r#"{"who":"me"}"#).expect("is JSON");
        match (needs, self.dice.below(10)) {
            (_, 0) => Verdict::Fail,
            (_, 1) => Verdict::Rejected { note: Some("not today".into()) },
            // Of no use to whatever waits.
            (_, 2) => Verdict::Confirmed { arguments: None, input: RawJson::parse(r#"{"what":1}"#).ok() },
            (Needs::Confirmation, 3) => {
                Verdict::Confirmed { arguments: Some(Text::inline(r#"{"less":1}"#)), input: None }
            }
            (Needs::Confirmation, _) => Verdict::yes(),
            (Needs::Input { .. }, _) => Verdict::Confirmed { arguments: None, input: Some(filled) },
            (Needs::Execution, _) => Verdict::Result { value: Text::inline("signed") },
        }
    }
}

/// What waits for somebody, as the log has it.
fn waits(log: &MemoryLog) -> BTreeMap<(RunId, u32), Wait> {
    let (mut waits, mut calls, mut shelved) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for recorded in (0..log.partitions()).flat_map(|partition| log.recorded(PartitionId(partition))) {
        let Some(session) = recorded.event.key.as_session() else { continue };
        let wait = |call_id: &Arc<str>, needs| Wait { session: session.clone(), call_id: call_id.clone(), needs };
        match recorded.decode().expect("readable") {
            Event::Run(RunEvent::StepRequested(request)) => {
                if let StepCall::Tool { call_id, .. } = request.call {
                    calls.insert((request.run_id, request.step), call_id);
                }
            }
            Event::Run(RunEvent::StepHeld(held)) => {
                if let StepCall::Tool { call_id, .. } = &held.call {
                    waits.insert((held.run_id, held.step), wait(call_id, Some(held.needs)));
                }
            }
            Event::Run(RunEvent::StepInDoubt(doubt)) => {
                let at = (doubt.run_id, doubt.step);
                let wait = wait(&calls[&at], None);
                waits.insert(at, wait);
            }
            Event::Run(RunEvent::StepResolved(resolved)) => drop(waits.remove(&(resolved.run_id, resolved.step))),
            Event::Run(RunEvent::StepAnswered(answered)) => drop(waits.remove(&(answered.run_id, answered.step))),
            Event::Run(RunEvent::StepExpired(expired)) => drop(waits.remove(&(expired.run_id, expired.step))),
            // A run that is queued again waits with what it waited with.
            Event::Run(RunEvent::Requeued(requeued)) => {
                waits.extend(shelved.extract_if(.., |(run, _), _| *run == requeued.run_id));
            }
            Event::Run(event) if event.is_end() => {
                shelved.extend(waits.extract_if(.., |(run, _), _| run == event.run_id()));
            }
            Event::Session(SessionEvent::Deleted(_)) => waits.retain(|_, wait| wait.session != session),
            _ => {}
        }
    }
    waits
}
