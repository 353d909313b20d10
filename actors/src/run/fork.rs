//! Where a run can be gone on from with another one, and what that one takes over.
//!
//! A run's messages are counted as its views show them: the instructions if there are any, what people said, the
//! model's turns, and what each call brought. Another run can begin after a message behind which nothing is open: not
//! between a turn's calls and the last of their results, not before what a person said first, and not behind a call of
//! which nobody knows whether it happened. What is taken over are the steps up to there that brought something; they
//! are facts, and no call of theirs is made again.

use std::sync::Arc;

use reenact_events::{
    agent::AgentSpec,
    command::{ForkFrom, ForkRun},
    event::{Resolution, RunStatus, Said, StepCall, StepResult, StepTakenOver},
};

use super::{
    history,
    state::{RunState, Step, StepState},
};
use crate::api::Refusal;

/// The agent with the model and the instructions that are asked for in place of its own.
///
/// # Errors
/// When the model has no name.
pub fn with(agent: Arc<AgentSpec>, fork: &ForkRun) -> Result<Arc<AgentSpec>, Refusal> {
    if fork.model.as_deref().is_some_and(|model| model.trim().is_empty()) {
        return Err(Refusal::NotForked("`model` is empty: name one, or leave it out".into()));
    }
    if fork.model.is_none() && fork.instructions.is_none() {
        return Ok(agent);
    }
    let mut other = AgentSpec::clone(&agent);
    if let Some(model) = &fork.model {
        other.model.id = model.to_string();
    }
    if let Some(instructions) = &fork.instructions {
        other.instructions = Some(instructions.to_string());
    }
    Ok(Arc::new(other))
}

/// What a run begins with that goes on from another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// How many messages of the other run it has.
    pub message_index: u32,
    /// The steps that it takes over.
    pub steps: Vec<TakenOver>,
    /// What people said after the first message.
    pub said: Vec<Said>,
}

/// A step as another run takes it over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenOver {
    call: StepCall,
    result: StepResult,
    unfit: Option<Arc<str>>,
}

impl TakenOver {
    /// The event that says so, at a place among the steps of `run_id`.
    #[must_use]
    pub fn event(self, run_id: reenact_events::RunId, step: u32) -> StepTakenOver {
        let Self { call, result, unfit } = self;
        StepTakenOver { run_id, step, call, result, unfit }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Instructions,
    Person,
    Calls,
    Answer,
    Result,
}

/// A message of a run.
#[derive(Debug, Clone, Copy)]
struct Message {
    kind: Kind,
    /// How many steps stand before what follows it.
    steps: u32,
    /// How many of the later messages of people do.
    said: usize,
    /// Another run can begin after it.
    is_whole: bool,
}

/// What another run begins with that goes on from `run`. `speaks` when something is said to it then.
///
/// # Errors
/// When nothing can be gone on from there, with the reason.
pub fn cut(run: &RunState, agent: &AgentSpec, from: ForkFrom, speaks: bool) -> Result<Cut, Refusal> {
    let messages = messages(run, agent);
    let place = place(run, &messages, from)?;
    let Some(last) = messages.get(place) else { return Err(nowhere(&messages, "it has no message yet")) };
    if last.kind == Kind::Answer && !speaks {
        return Err(Refusal::ForkPoint(
            format!(
                "message {} of the run is its answer, and nothing follows it: say something in `input`, or go on from \
                 an earlier message",
                place + 1
            )
            .into(),
        ));
    }
    let steps = &run.steps[..last.steps as usize];
    let before = |at: u32| steps.iter().take(at as usize).filter_map(taken_over).count();
    let said = run.origin.said[..last.said].iter();
    let said = said.map(|said| Said { step: count(before(said.step)), text: said.text.clone() }).collect();
    Ok(Cut { message_index: count(place + 1), steps: steps.iter().filter_map(taken_over).collect(), said })
}

/// The whole of a run that has ended, as a copy of it has it.
#[must_use]
pub fn all(run: &RunState) -> Cut {
    let before = |at: u32| run.steps.iter().take(at as usize).filter_map(taken_over).count();
    let said = run.origin.said.iter();
    let said = said.map(|said| Said { step: count(before(said.step)), text: said.text.clone() }).collect();
    Cut { message_index: 0, steps: run.steps.iter().filter_map(taken_over).collect(), said }
}

/// The message after which the other run begins.
fn place(run: &RunState, messages: &[Message], from: ForkFrom) -> Result<usize, Refusal> {
    let last_whole = |until: usize| messages[..until].iter().rposition(|message| message.is_whole);
    match from {
        ForkFrom::End => last_whole(messages.len()).ok_or_else(|| nowhere(messages, "it has no message yet")),
        ForkFrom::LastUser => {
            let person = messages.iter().rposition(|message| message.kind == Kind::Person);
            person.ok_or_else(|| nowhere(messages, "nobody has said anything"))
        }
        ForkFrom::Message(count) if count as usize > messages.len() => {
            Err(nowhere(messages, &format!("`continue_from` is {count}, and it has {} messages", messages.len())))
        }
        ForkFrom::Message(count) => match (count as usize).checked_sub(1) {
            Some(at) if messages[at].is_whole => Ok(at),
            _ => Err(nowhere(messages, &format!("`continue_from` is {count}, where a message or a call is open"))),
        },
        ForkFrom::Step(step) => at_step(run, messages, step),
        ForkFrom::Answer => before_answer(run, messages),
    }
}

fn at_step(run: &RunState, messages: &[Message], step: u32) -> Result<usize, Refusal> {
    let says = |step: &Arc<Step>| matches!(step.call, StepCall::Model { .. } | StepCall::Tool { .. });
    let has = run.steps.len();
    if step as usize > has {
        return Err(nowhere(messages, &format!("there is no step {step} to begin before, it has {has}")));
    }
    let fits = |message: &Message| {
        let between = run.steps.get(message.steps as usize..step as usize);
        message.is_whole && between.is_some_and(|steps| !steps.iter().any(says))
    };
    let at = messages.iter().rposition(fits);
    at.ok_or_else(|| {
        nowhere(messages, &format!("step {step} is one of several calls of a turn, or follows an open one"))
    })
}

fn before_answer(run: &RunState, messages: &[Message]) -> Result<usize, Refusal> {
    if !matches!(run.progress.status, RunStatus::Completed | RunStatus::Error | RunStatus::Regenerated) {
        let (id, status) = (run.id(), run.told_status().as_str());
        let reason =
            format!("run `{id}` is {status}: `regenerate` is for a run that has ended with an answer or an error");
        return Err(Refusal::NotForked(reason.into()));
    }
    let answers = messages.iter().rev().take_while(|message| message.kind == Kind::Answer).count();
    let left = &messages[..messages.len() - answers];
    let at = left.iter().rposition(|message| message.is_whole);
    at.ok_or_else(|| nowhere(messages, "nothing stands before its answer"))
}

fn nowhere(messages: &[Message], why: &str) -> Refusal {
    let places: Vec<_> = (1..).zip(messages).filter(|(_, message)| message.is_whole).collect();
    let names: Vec<_> = places.iter().map(|(at, message)| format!("{at} (step {})", message.steps)).collect();
    let text = format!("the run cannot be gone on from there: {why}; it can be after message {}", names.join(", "));
    Refusal::ForkPoint(text.into())
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A run's messages as its views show them.
fn messages(run: &RunState, agent: &AgentSpec) -> Vec<Message> {
    let mut list = List { run, messages: Vec::new(), said: 0 };
    if agent.instructions.as_deref().is_some_and(|text| !text.trim().is_empty()) {
        list.push(Kind::Instructions, 0, false);
    }
    list.push(Kind::Person, 0, true);
    let mut calls = 0..0;
    for (at, step) in run.steps.iter().enumerate() {
        list.said_before(count(at));
        let next = count(at + 1);
        match (&step.call, &step.state) {
            (StepCall::Model { .. }, StepState::Done(StepResult::Model { tool_calls, .. })) => {
                calls = at + 1..at + 1 + tool_calls.len();
                let kind = if tool_calls.is_empty() { Kind::Answer } else { Kind::Calls };
                list.push(kind, next, tool_calls.is_empty() && step.unfit.is_none());
                if step.unfit.is_some() {
                    list.push(Kind::Person, next, true);
                }
            }
            (StepCall::Tool { .. }, state) if is_shown(state) => {
                let batch = run.steps.get(calls.clone()).unwrap_or_default();
                let is_last = at + 1 == calls.end;
                list.push(Kind::Result, next, is_last && batch.iter().all(|step| is_shown(&step.state)));
            }
            _ => {}
        }
    }
    list.said_before(u32::MAX);
    list.messages
}

/// Whether a call brought something that is known.
fn is_shown(state: &StepState) -> bool {
    state.is_settled() && *state != StepState::Resolved(Resolution::Fail)
}

struct List<'a> {
    run: &'a RunState,
    messages: Vec<Message>,
    said: usize,
}

impl List<'_> {
    fn push(&mut self, kind: Kind, steps: u32, is_whole: bool) {
        self.messages.push(Message { kind, steps, said: self.said, is_whole });
    }

    /// What people said before a step.
    fn said_before(&mut self, step: u32) {
        while let Some(said) = self.run.origin.said.get(self.said).filter(|said| said.step <= step) {
            self.said += 1;
            self.push(Kind::Person, said.step, true);
        }
    }
}

/// What a step brought, as another run has it from it.
fn taken_over(step: &Arc<Step>) -> Option<TakenOver> {
    let result = match (&step.call, &step.state) {
        (_, StepState::Done(result)) => result.clone(),
        (StepCall::Tool { .. }, state) if state.is_settled() => {
            let error = !matches!(state, StepState::Resolved(Resolution::Completed { .. }));
            let (content, media) = history::result_of(step);
            StepResult::Tool { content, error, media }
        }
        _ => return None,
    };
    Some(TakenOver { call: step.call.clone(), result, unfit: step.unfit.clone() })
}
