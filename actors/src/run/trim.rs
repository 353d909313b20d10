//! What is left out of a conversation that a model finds too long.
//!
//! | Trims | Left out |
//! |---|---|
//! | 1 | the older half of the earlier runs, rounded up |
//! | 2 | all earlier runs; and of this run what tools returned before the latest calls, where it is long |
//!
//! The instructions, the run's own message, every call and a result right after it always stay: what is left out of a
//! run that goes on is only the text of a result, so the model still sees what it did. Nothing is counted in tokens,
//! since every provider counts otherwise; the model says whether it fits. The log and the views keep everything.

use reenact_events::{
    Text,
    event::{StepCall, StepResult},
};

use super::state::{RunState, StepState};

/// How far a conversation is trimmed at most.
pub const TRIMS_MAX: u32 = 2;
/// A result of at most so many bytes stays: what stands for a longer one takes room as well.
const RESULT_BYTES_MAX: u64 = 500;

/// The earlier runs that are left of `history`, oldest first.
#[must_use]
pub fn kept(history: &[RunState], trims: u32) -> &[RunState] {
    match trims {
        0 => history,
        1 => &history[history.len().div_ceil(2)..],
        _ => &[],
    }
}

/// The next trim that would leave out something, if there is one: the same conversation is not sent again.
#[must_use]
pub fn next(history: &[RunState], run: &RunState, trims: u32) -> Option<u32> {
    let shortens = |more: u32| more >= TRIMS_MAX && run.steps.iter().enumerate().any(|(at, _)| is_old(run, at));
    let leaves_out = |more: &u32| kept(history, *more).len() < kept(history, trims).len() || shortens(*more);
    (trims + 1..=TRIMS_MAX).find(leaves_out)
}

/// What stands for the result of the step at `at`, if it is left out.
#[must_use]
pub fn in_place_of(run: &RunState, at: usize, trims: u32) -> Option<Text> {
    (trims >= TRIMS_MAX && is_old(run, at)).then(|| Text::inline("(the result is left out here to make room)"))
}

/// Whether it is a long result from before the latest calls.
fn is_old(run: &RunState, at: usize) -> bool {
    let calls = |state: &StepState| matches!(state, StepState::Done(StepResult::Model { tool_calls, .. }) if !tool_calls.is_empty());
    let Some(latest) = run.steps.iter().rposition(|step| calls(&step.state)) else { return false };
    let Some(step) = run.steps.get(at).filter(|_| at < latest) else { return false };
    match (&step.call, &step.state) {
        (StepCall::Tool { .. }, StepState::Done(StepResult::Tool { content, media, .. })) => {
            content.bytes() > RESULT_BYTES_MAX || !media.is_empty()
        }
        _ => false,
    }
}
