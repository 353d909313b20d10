//! A session accepts a run that goes on from another one of its runs.

use std::sync::Arc;

use reenact_events::{
    Event, RunEvent, RunId, Text, UserId,
    event::{ComponentRegistered, Fork, RunQueued, Said},
    session_state::{SessionValues, StateChanges},
};

use super::SessionState;
use crate::{
    api::Refusal,
    run::{self, Context, RunCommand, RunState, fork::Cut},
};

/// A run that goes on from another one, as the session accepts it.
#[derive(Debug)]
pub struct NewFork<'a> {
    /// The run's id, which follows from the command's.
    pub run_id: RunId,
    /// Whose.
    pub user_id: Option<UserId>,
    /// The run that it goes on from.
    pub source: &'a RunState,
    /// What it takes over.
    pub cut: Cut,
    /// What is said then.
    pub input: Option<Text>,
    /// It answers anew what the other has answered.
    pub regenerates: bool,
    /// It stands in place of the other.
    pub replaces: bool,
    /// The agent's version.
    pub version: Arc<str>,
    /// Whether that is a version of the user's own.
    pub own: bool,
    /// Whether the partition knows that version already.
    pub version_known: bool,
    /// Whether it has been given a slot, so that it begins in the same batch.
    pub begins: bool,
    /// Keys that the agent gives the session's state and that it has not.
    pub defaults: SessionValues,
    /// The caller watches it as a stream.
    pub stream: bool,
    /// The caller does not wait.
    pub background: bool,
}

/// Accepts the run with all that it takes over, and begins it if it has a slot. `context` has the agent that it runs
/// with.
///
/// # Errors
/// When the other run cannot be replaced.
pub fn fork_run(session: &SessionState, new: NewFork<'_>, context: &Context) -> Result<Vec<Event>, Refusal> {
    let mut events: Vec<Event> = Vec::new();
    if !new.version_known {
        events.push(
            ComponentRegistered { version: new.version.clone(), spec: (*context.agent).clone(), own: new.own }.into(),
        );
    }
    let (run_id, source, begins) = (new.run_id.clone(), new.source, new.begins);
    let replaced = if new.replaces {
        run::decide(source, RunCommand::Replace { by: run_id.clone() }, context)?
    } else {
        Vec::new()
    };
    let (queued, steps) = queued(session, new);
    let mut state = run::evolve::created(&queued, context.now);
    events.push(queued.into());
    for (at, step) in (0..).zip(steps) {
        let event = RunEvent::from(step.event(run_id.clone(), at));
        run::evolve(&mut state, &event, context.now);
        events.push(event.into());
    }
    events.extend(replaced.into_iter().map(Event::from));
    if begins {
        events.extend(run::decide(&state, RunCommand::Begin, context)?.into_iter().map(Event::from));
    }
    Ok(events)
}

fn queued(session: &SessionState, new: NewFork<'_>) -> (RunQueued, Vec<run::fork::TakenOver>) {
    let Cut { message_index, steps, mut said } = new.cut;
    let origin = &new.source.origin;
    let taken = u32::try_from(steps.len()).unwrap_or(u32::MAX);
    said.extend(new.input.map(|text| Said { step: taken, text }));
    let defaults = StateChanges { default: new.defaults, ..StateChanges::default() };
    let queued = RunQueued {
        run_id: new.run_id,
        session_id: origin.session_id.clone(),
        user_id: new.user_id.or_else(|| session.user_id.clone()),
        run_index: session.runs,
        agent_id: origin.agent_id.clone(),
        agent_version: new.version,
        input: origin.input.clone(),
        media: origin.media.clone(),
        metadata: None,
        output_schema: origin.output_schema.clone(),
        session_state: (!defaults.is_empty()).then(|| Box::new(defaults)),
        scheduled_by: None,
        fork: Some(Box::new(Fork {
            run_id: origin.run_id.clone(),
            message_index,
            steps: taken,
            said,
            history_before: origin.history_before,
            regenerates: new.regenerates,
            session_id: None,
        })),
        stream: new.stream,
        background: new.background,
    };
    (queued, steps)
}
