//! What a model is sent: always well formed, because it is built from the fold and not from a transcript.
//!
//! Every tool call is followed by exactly one result, no message is empty, and only completed runs of the
//! session are history. An answer that was empty is left out of history; the question stays.

use std::sync::Arc;

use reenact_events::{
    Text,
    agent::AgentSpec,
    event::{Resolution, RunStatus, StepCall, StepResult},
    output::repair_request,
    session_state::SessionValues,
};

use super::{
    instructions,
    state::{RunState, Step, StepState},
    trim,
};
use crate::step::ChatMessage;

/// What stands for a tool's empty result: providers refuse an empty one.
pub const EMPTY_RESULT: &str = "(the tool returned nothing)";

/// The conversation up to the next model call of `run`, after `history`, oldest first, trimmed so far. `values` is the
/// session's state.
#[must_use]
pub fn messages(
    agent: &AgentSpec,
    values: &SessionValues,
    history: &[RunState],
    run: &RunState,
    trims: u32,
) -> Vec<ChatMessage> {
    let instructions = instructions::of(agent, values, run.origin.user_id.as_ref());
    let mut messages: Vec<_> = instructions.map(|text| ChatMessage::System(text.into())).into_iter().collect();
    for earlier in trim::kept(history, trims) {
        one_run(earlier, 0, &mut messages);
    }
    one_run(run, trims, &mut messages);
    messages
}

fn one_run(run: &RunState, trims: u32, messages: &mut Vec<ChatMessage>) {
    messages.push(ChatMessage::User { text: run.origin.input.clone(), media: run.origin.media.clone() });
    let mut said = run.origin.said.iter().peekable();
    for (at, step) in run.steps.iter().enumerate() {
        while let Some(said) = said.next_if(|said| said.step as usize <= at) {
            messages.push(ChatMessage::User { text: said.text.clone(), media: Vec::new() });
        }
        let StepState::Done(StepResult::Model { text, tool_calls, .. }) = &step.state else { continue };
        if step.unfit.is_some() && run.progress.status == RunStatus::Completed {
            // What fits was answered after it, and that is what later turns are to follow.
            continue;
        }
        let text = Some(text.clone()).filter(|text| !is_blank(text));
        if text.is_none() && tool_calls.is_empty() {
            ask_for_repair(step, messages);
            continue;
        }
        messages.push(ChatMessage::Assistant { text, tool_calls: tool_calls.clone() });
        ask_for_repair(step, messages);
        for (index, call) in tool_calls.iter().enumerate() {
            let step = run.steps.get(at + 1 + index).map(Arc::as_ref);
            let result = || step.map_or_else(|| (Text::inline("(the call was not made)"), Vec::new()), result_of);
            let left_out = trim::in_place_of(run, at + 1 + index, trims).map(|text| (text, Vec::new()));
            let (text, media) = left_out.unwrap_or_else(result);
            messages.push(ChatMessage::Tool { call_id: call.id.clone(), name: call.name.clone(), text, media });
        }
    }
    messages.extend(said.map(|said| ChatMessage::User { text: said.text.clone(), media: Vec::new() }));
}

fn ask_for_repair(step: &Step, messages: &mut Vec<ChatMessage>) {
    if let Some(unfit) = &step.unfit {
        messages.push(ChatMessage::User { text: Text::inline(&repair_request(unfit)), media: Vec::new() });
    }
}

/// What a call brought, as the model is told.
pub(super) fn result_of(step: &Step) -> (Text, Vec<reenact_events::MediaRef>) {
    debug_assert!(matches!(step.call, StepCall::Tool { .. }), "a turn's calls follow it");
    match &step.state {
        StepState::Done(StepResult::Tool { content, media, .. }) if is_blank(content) => {
            (Text::inline(EMPTY_RESULT), media.clone())
        }
        StepState::Done(StepResult::Tool { content, media, .. }) => (content.clone(), media.clone()),
        StepState::Resolved(Resolution::Completed { value }) if !is_blank(value) => (value.clone(), Vec::new()),
        StepState::Resolved(Resolution::Completed { .. }) => (Text::inline(EMPTY_RESULT), Vec::new()),
        // The run was queued again after it had been decided that it fails of this.
        StepState::Resolved(Resolution::Fail) => {
            (Text::inline("(it is not known whether this call happened)"), Vec::new())
        }
        StepState::Resolved(_) => (Text::inline("(it was decided not to make this call)"), Vec::new()),
        StepState::Failed(error) => (Text::inline(&error.message), Vec::new()),
        _ => (Text::inline("(the call has no result)"), Vec::new()),
    }
}

fn is_blank(text: &Text) -> bool {
    text.as_inline().is_some_and(|text| text.trim().is_empty())
}
