//! How an event changes a run. Total: events come from `decide` or from the log, where they were checked.

use std::sync::Arc;

use reenact_events::{
    RunEvent, StepToken, Timestamp,
    event::{Resolution, RunQueued, StepCall, StepHeld, StepRequested, StepTakenOver},
    hold::{self, Verdict},
    moves,
};

use super::state::{Asked, GivenUp, Hold, Origin, Progress, RunState, Step, StepState};

/// The run after its first event.
#[must_use]
pub fn created(event: &RunQueued, at: Timestamp) -> RunState {
    RunState::queued(Origin {
        run_id: event.run_id.clone(),
        session_id: event.session_id.clone(),
        user_id: event.user_id.clone(),
        run_index: event.run_index,
        agent_id: event.agent_id.clone(),
        agent_version: event.agent_version.clone(),
        input: event.input.clone(),
        media: event.media.clone(),
        output_schema: event.output_schema.clone(),
        queued_at: at,
        said: event.fork.as_ref().map(|fork| fork.said.clone()).unwrap_or_default(),
        history_before: event.fork.as_ref().map_or(event.run_index, |fork| fork.history_before),
        taken_over: event.fork.as_ref().map_or(0, |fork| fork.steps),
        copied_from: event.fork.as_ref().and_then(|fork| fork.session_id.clone()),
        scheduled_by: event.scheduled_by.clone(),
    })
}

/// Takes `event` into the run.
pub fn evolve(run: &mut RunState, event: &RunEvent, at: Timestamp) {
    if let Some(status) = moves::target(event) {
        run.progress.status = status;
    }
    match event {
        RunEvent::Queued(queued) => *run = created(queued, at),
        RunEvent::Started(_) | RunEvent::Continued(_) => run.progress.turn_at = Some(at),
        RunEvent::StepRequested(request) => requested(run, request),
        RunEvent::StepCompleted(done) => {
            settle(run, done.step, StepState::Done(done.result.clone()));
            update(run, done.step, |step| step.unfit.clone_from(&done.unfit));
        }
        RunEvent::StepFailed(failed) => match failed.retry_at {
            Some(retry_at) => update(run, failed.step, |step| {
                step.failures += 1;
                step.state = StepState::Waiting { retry_at, error: failed.error.clone() };
            }),
            None => settle(run, failed.step, StepState::Failed(failed.error.clone())),
        },
        RunEvent::StepInDoubt(doubt) => update(run, doubt.step, |step| step.state = StepState::InDoubt),
        RunEvent::StepResolved(resolved) => match (&resolved.resolution, resolved.outcome()) {
            (Resolution::Retry, _) => update(run, resolved.step, |step| step.state = StepState::RetryAllowed),
            (_, Some(outcome)) => settle(run, resolved.step, StepState::Done(outcome)),
            (resolution, None) => settle(run, resolved.step, StepState::Resolved(resolution.clone())),
        },
        RunEvent::StepTakenOver(step) => take_over(run, step),
        RunEvent::StepHeld(held) => hold(run, held),
        RunEvent::StepAnswered(answered) => answer(run, answered.step, &answered.verdict),
        RunEvent::StepExpired(expired) => settle(run, expired.step, StepState::Done(hold::expired())),
        RunEvent::Paused(_)
        | RunEvent::CancelRequested(_)
        | RunEvent::Completed(_)
        | RunEvent::Failed(_)
        | RunEvent::Cancelled(_)
        | RunEvent::Regenerated(_) => {}
        RunEvent::Requeued(_) => {
            let (steps, turns) = (run.progress.steps, run.progress.turns);
            run.progress = Progress { turn_at: None, old_steps: steps, old_turns: turns, ..run.progress };
        }
    }
}

/// The step that an event changes, if it changes one: the record that must be stored again.
#[must_use]
pub fn touched_step(event: &RunEvent) -> Option<u32> {
    match event {
        RunEvent::StepRequested(event) => Some(event.step),
        RunEvent::StepCompleted(event) => Some(event.step),
        RunEvent::StepFailed(event) => Some(event.step),
        RunEvent::StepInDoubt(event) => Some(event.step),
        RunEvent::StepResolved(event) => Some(event.step),
        RunEvent::StepTakenOver(event) => Some(event.step),
        RunEvent::StepHeld(event) => Some(event.step),
        RunEvent::StepAnswered(event) => Some(event.step),
        RunEvent::StepExpired(event) => Some(event.step),
        _ => None,
    }
}

fn requested(run: &mut RunState, request: &StepRequested) {
    let asked = request.model.as_ref().map(|model| Asked { place: model.place, trims: model.trims });
    if run.step(request.step).is_some() {
        return update(run, request.step, |step| {
            step.attempt = request.attempt;
            step.not_after = request.not_after;
            asks(step, asked.unwrap_or(step.asked));
            step.state = StepState::Requested;
        });
    }
    run.steps.push(Arc::new(Step {
        call: request.call.clone(),
        token: request.token,
        attempt: request.attempt,
        failures: 0,
        asked: asked.unwrap_or_default(),
        given_up: Vec::new(),
        not_after: request.not_after,
        state: StepState::Requested,
        unfit: None,
    }));
    run.progress.steps += 1;
    run.progress.open += 1;
    if matches!(request.call, StepCall::Model { .. }) {
        run.progress.turns += 1;
        run.progress.last_turn = Some(request.step);
    }
}

/// Another run made it, so it counts here as what is from before the run was queued.
fn take_over(run: &mut RunState, taken: &StepTakenOver) {
    run.steps.push(Arc::new(Step {
        call: taken.call.clone(),
        token: StepToken::of_step(run.id(), taken.step),
        attempt: 0,
        failures: 0,
        asked: Asked::default(),
        given_up: Vec::new(),
        not_after: Timestamp::default(),
        state: StepState::Done(taken.result.clone()),
        unfit: taken.unfit.clone(),
    }));
    run.progress.steps += 1;
    run.progress.old_steps = run.progress.steps;
    if matches!(taken.call, StepCall::Model { .. }) {
        run.progress.turns += 1;
        run.progress.old_turns = run.progress.turns;
        run.progress.last_turn = Some(taken.step);
    }
}

fn hold(run: &mut RunState, held: &StepHeld) {
    let StepHeld { step, call, token, needs, expires_at, on_expiry, .. } = held.clone();
    if run.step(step).is_some() {
        // The run was queued again, and asks again.
        return update(run, step, |step| step.state = StepState::Held(Hold { needs, expires_at, on_expiry }));
    }
    run.steps.push(Arc::new(Step {
        call,
        token,
        attempt: 0,
        failures: 0,
        asked: Asked::default(),
        given_up: Vec::new(),
        not_after: Timestamp::default(),
        state: StepState::Held(Hold { needs, expires_at, on_expiry }),
        unfit: None,
    }));
    run.progress.steps += 1;
    run.progress.open += 1;
}

fn answer(run: &mut RunState, step: u32, verdict: &Verdict) {
    match (verdict, verdict.outcome()) {
        (Verdict::Confirmed { arguments: changed, .. }, _) => update(run, step, |step| {
            if let (Some(changed), StepCall::Tool { arguments, .. }) = (changed, &mut step.call) {
                arguments.clone_from(changed);
            }
            step.state = StepState::RetryAllowed;
        }),
        (_, Some(outcome)) => settle(run, step, StepState::Done(outcome)),
        (_, None) => settle(run, step, StepState::Resolved(Resolution::Fail)),
    }
}

/// Another call begins to count its failures anew.
fn asks(step: &mut Step, asked: Asked) {
    if asked.place != step.asked.place
        && let StepState::Waiting { error, .. } = &step.state
    {
        step.given_up.push(GivenUp { place: step.asked.place, error: error.clone() });
    }
    if asked != step.asked {
        step.failures = 0;
        step.asked = asked;
    }
}

fn settle(run: &mut RunState, step: u32, state: StepState) {
    let was_open = run.step(step).is_some_and(|step| !step.state.is_settled());
    update(run, step, |step| step.state = state);
    if was_open {
        run.progress.open = run.progress.open.saturating_sub(1);
    }
}

fn update(run: &mut RunState, step: u32, change: impl FnOnce(&mut Step)) {
    if let Some(step) = run.steps.get_mut(step as usize) {
        change(Arc::make_mut(step));
    }
}
