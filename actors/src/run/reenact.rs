//! A recorded run, decided once more.
//!
//! Everything that happened to a run is in its events, so each decision can be taken again: what happened is read
//! from the event that tells of it, and what follows must be the events that were recorded. They are not when the
//! record was changed, or when the program that recorded it decided otherwise than this one.

use std::sync::Arc;

use reenact_events::{
    RunEvent, Text, Timestamp,
    agent::AgentSpec,
    command::Decision,
    event::{
        Resolution, RunCancelled, StepAnswered, StepCall, StepCompleted, StepFailed, StepInDoubt, StepRequested,
        StepResolved, StepResult,
    },
    hold::Verdict,
};

use super::{
    decide::{Context, ReconcileAnswer, RunCommand, decide},
    evolve::{created, evolve},
    state::RunState,
};
use crate::step::StepError;

/// An event of a run and when it was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// When.
    pub at: Timestamp,
    /// What.
    pub event: RunEvent,
}

/// A decision that was taken again and came out the same.
#[derive(Debug, Clone)]
pub struct Reenacted {
    /// What happened to the run.
    pub command: RunCommand,
    /// How many events followed.
    pub events: usize,
}

/// Where a run comes out otherwise than it was recorded.
#[derive(Debug, Clone)]
pub struct Difference {
    /// Which of the run's events, from 0.
    pub place: usize,
    /// What happened to the run before; `None` when nothing that can happen to it leads to the recorded event.
    pub command: Option<RunCommand>,
    /// What was recorded there; `None` when the record ends.
    pub recorded: Option<RunEvent>,
    /// What follows now; `None` when nothing does.
    pub decided: Option<RunEvent>,
}

/// What became of a re-enactment.
#[derive(Debug, Clone, Default)]
pub struct Reenactment {
    /// How many steps it took over from another run, behind its first event: nothing was decided about them.
    pub taken_over: usize,
    /// The decisions that came out the same, oldest first.
    pub same: Vec<Reenacted>,
    /// The first that did not.
    pub difference: Option<Difference>,
}

/// Takes the decisions of a run again. `recorded` is the run from its first event on, as far as it has come.
#[must_use]
pub fn reenact(recorded: &[Recording], agent: &Arc<AgentSpec>) -> Reenactment {
    let mut found = Reenactment::default();
    let Some(Recording { at, event: RunEvent::Queued(queued) }) = recorded.first() else {
        let first = recorded.first().map(|first| first.event.clone());
        found.difference = Some(Difference { place: 0, command: None, recorded: first, decided: None });
        return found;
    };
    let (mut run, mut place) = (created(queued, *at), 1);
    while let Some(Recording { at, event: taken @ RunEvent::StepTakenOver(_) }) = recorded.get(place) {
        evolve(&mut run, taken, *at);
        place += 1;
    }
    found.taken_over = place - 1;
    while let Some(next) = recorded.get(place) {
        let context = Context { now: next.at, agent: agent.clone() };
        let rest = &recorded[place..];
        match decision(&run, rest, &context) {
            Ok(same) => {
                rest[..same.events].iter().for_each(|recorded| evolve(&mut run, &recorded.event, recorded.at));
                place += same.events;
                found.same.push(same);
            }
            Err(difference) => {
                found.difference = Some(Difference { place: place + difference.place, ..*difference });
                return found;
            }
        }
    }
    found
}

/// The decision that `rest` begins with. Several things can have happened that begin with the same event; the one
/// that explains most is told, also when none explains all.
fn decision(run: &RunState, rest: &[Recording], context: &Context) -> Result<Reenacted, Box<Difference>> {
    let recorded = rest.first().map(|first| first.event.clone());
    let mut nearest = Difference { place: 0, command: None, recorded, decided: None };
    let mut longest: Option<Reenacted> = None;
    for command in what_may_have_happened(run, rest) {
        let decided = decide(run, command.clone(), context).unwrap_or_default();
        let same = decided.iter().zip(rest).take_while(|(decided, rest)| **decided == rest.event).count();
        if same == decided.len() {
            if same > longest.as_ref().map_or(0, |longest| longest.events) {
                longest = Some(Reenacted { command, events: same });
            }
        } else if nearest.command.is_none() || same > nearest.place {
            let recorded = rest.get(same).map(|recorded| recorded.event.clone());
            nearest = Difference { place: same, command: Some(command), recorded, decided: decided.get(same).cloned() };
        }
    }
    longest.ok_or_else(|| Box::new(nearest))
}

/// What can have happened to a run whose next events are these.
fn what_may_have_happened(run: &RunState, rest: &[Recording]) -> Vec<RunCommand> {
    let recover = || RunCommand::Recover { owed: owed(run, rest) };
    let Some(Recording { at, event }) = rest.first() else { return Vec::new() };
    match event {
        RunEvent::Started(_) => {
            let fails = rest.get(1).and_then(|next| failure(&next.event));
            fails.into_iter().chain([RunCommand::Begin]).collect()
        }
        RunEvent::StepRequested(StepRequested { step, attempt, .. }) => {
            let (step, attempt) = (*step, attempt.saturating_sub(1));
            vec![
                RunCommand::RetryDue { step },
                recover(),
                RunCommand::StartedTooLate { step, attempt },
                RunCommand::Reconciled { step, attempt, answer: ReconcileAnswer::DidNotHappen },
            ]
        }
        RunEvent::StepCompleted(completed) => returned(run, completed),
        RunEvent::StepFailed(failed) if is_guardrail(run, failed.step) => {
            let (step, attempt, outcome) = (failed.step, failed.attempt, Err(failed.error.clone()));
            vec![RunCommand::Guarded { step, attempt, outcome, duration_ms: 0 }]
        }
        RunEvent::StepFailed(failed) => model_failed(failed, *at, rest.get(1)),
        RunEvent::StepInDoubt(StepInDoubt { step, attempt, reason, .. }) => {
            let (step, attempt, answer) = (*step, *attempt, ReconcileAnswer::Unknown(reason.clone()));
            vec![recover(), RunCommand::Reconciled { step, attempt, answer }]
        }
        RunEvent::StepHeld(_) => vec![recover()],
        RunEvent::StepExpired(_) => vec![RunCommand::Expire],
        RunEvent::StepAnswered(StepAnswered { step, by, .. })
        | RunEvent::StepResolved(StepResolved { step, by, .. }) => {
            let attempt = run.step(*step).map_or(0, |step| step.attempt);
            let all = decisions(run, rest);
            // Several at one moment may have come together or one by one.
            let some = (1..=all.len()).rev().map(|count| all[..count].to_vec());
            let resolve = |(decisions, has_slot)| RunCommand::Resolve { decisions, by: by.clone(), has_slot };
            let resolved = some.flat_map(|some| [(some.clone(), true), (some, false)]).map(resolve);
            resolved.chain([RunCommand::StartedTooLate { step: *step, attempt }]).collect()
        }
        RunEvent::CancelRequested(requested) => {
            let partial = rest.get(1).and_then(|next| partial(&next.event));
            vec![RunCommand::Cancel { reason: requested.reason.clone(), partial }]
        }
        RunEvent::Failed(_) => failure(event).into_iter().chain([recover()]).collect(),
        RunEvent::Paused(_) | RunEvent::Completed(_) => vec![recover()],
        RunEvent::Continued(_) => vec![RunCommand::Begin],
        RunEvent::Requeued(requeued) => vec![RunCommand::Requeue { by: requeued.by.clone() }],
        RunEvent::Regenerated(replaced) => vec![RunCommand::Replace { by: replaced.by.clone() }],
        RunEvent::Queued(_) | RunEvent::StepTakenOver(_) | RunEvent::Cancelled(_) => Vec::new(),
    }
}

fn is_guardrail(run: &RunState, step: u32) -> bool {
    matches!(run.step(step).map(|step| &step.call), Some(StepCall::Guardrail { .. }))
}

fn returned(run: &RunState, completed: &StepCompleted) -> Vec<RunCommand> {
    let StepCompleted { step, attempt, result, duration_ms, unfit, session_state, .. } = completed.clone();
    if matches!(run.step(step).map(|step| &step.call), Some(StepCall::Model { .. })) {
        let outcome = Ok(result);
        return vec![RunCommand::ModelReturned { step, attempt, outcome, unfit, trim: None, duration_ms }];
    }
    if let StepResult::Guardrail { blocked } = result {
        return vec![RunCommand::Guarded { step, attempt, outcome: Ok(blocked), duration_ms }];
    }
    let happened = ReconcileAnswer::Happened(result.clone(), session_state.clone());
    vec![
        RunCommand::ToolReturned { step, attempt, result, session_state, duration_ms },
        RunCommand::Reconciled { step, attempt, answer: happened },
    ]
}

/// Whether the provider had named the pause, and whether less could have been sent, is not recorded; what followed is.
fn model_failed(failed: &StepFailed, at: Timestamp, next: Option<&Recording>) -> Vec<RunCommand> {
    let StepFailed { step, attempt, error, retry_at, usage, .. } = failed.clone();
    let named_ms = retry_at.and_then(|retry_at| u64::try_from(retry_at.ms_since(at)).ok());
    let trims = next.and_then(|next| match &next.event {
        RunEvent::StepRequested(StepRequested { model: Some(asked), .. }) => Some(asked.trims),
        _ => None,
    });
    let pauses = [(true, named_ms), (true, None), (false, None)];
    let outcomes = pauses.into_iter().flat_map(|pause| [(pause, trims), (pause, None)]);
    let returned = |((retryable, retry_after_ms), trim)| {
        let outcome = Err(StepError { failure: error.clone(), retryable, retry_after_ms, usage });
        RunCommand::ModelReturned { step, attempt, outcome, unfit: None, trim, duration_ms: 0 }
    };
    outcomes.map(returned).collect()
}

/// The attempts that a recovery dealt with: those of open steps that the next events of the same moment are about.
fn owed(run: &RunState, rest: &[Recording]) -> Vec<(u32, u32)> {
    let about = |recorded: &Recording| match &recorded.event {
        RunEvent::StepRequested(StepRequested { step, attempt, .. }) => Some((*step, attempt.saturating_sub(1))),
        RunEvent::StepInDoubt(StepInDoubt { step, attempt, .. }) => Some((*step, *attempt)),
        _ => None,
    };
    at_once(rest).map_while(about).take_while(|(step, _)| run.step(*step).is_some()).collect()
}

fn at_once(rest: &[Recording]) -> impl Iterator<Item = &Recording> {
    rest.iter().take_while(|recorded| rest.first().is_some_and(|first| first.at == recorded.at))
}

fn decisions(run: &RunState, rest: &[Recording]) -> Vec<Decision> {
    let decision = |recorded: &Recording| {
        let (step, verdict) = match &recorded.event {
            RunEvent::StepResolved(resolved) => (resolved.step, verdict(resolved)),
            RunEvent::StepAnswered(answered) => (answered.step, answered.verdict.clone()),
            _ => return None,
        };
        let Some(StepCall::Tool { call_id, .. }) = run.step(step).map(|step| &step.call) else { return None };
        Some(Decision { tool_call_id: call_id.clone(), verdict })
    };
    at_once(rest).map_while(decision).collect()
}

fn verdict(resolved: &StepResolved) -> Verdict {
    match &resolved.resolution {
        Resolution::Retry => Verdict::yes(),
        Resolution::Completed { value } => Verdict::Result { value: value.clone() },
        Resolution::Skip => Verdict::Rejected { note: resolved.note.clone() },
        Resolution::Fail => Verdict::Fail,
    }
}

fn failure(event: &RunEvent) -> Option<RunCommand> {
    let RunEvent::Failed(failed) = event else { return None };
    Some(RunCommand::Fail(failed.error.clone()))
}

fn partial(event: &RunEvent) -> Option<Text> {
    let RunEvent::Cancelled(RunCancelled { partial, .. }) = event else { return None };
    partial.clone()
}
