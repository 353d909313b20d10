//! A session is copied: the other one has all that its models were shown, and goes its own way.
//!
//! What is copied are its completed runs, since those are what a model is shown and what can be gone on from. Each is
//! decided once more with what its steps brought, so that a copy is a run like others: whoever folds it, shows it or
//! re-enacts it needs to know nothing of the first one.

use std::sync::Arc;

use reenact_events::{
    Event, RawJson, RunEvent, RunId, SessionId, Timestamp, UserId,
    agent::AgentSpec,
    event::{Fork, RunQueued, SessionCreated, SessionUpdated},
    ids,
    session_state::SessionValues,
};

use super::Fields;
use crate::{
    api::Refusal,
    run::{
        self, Context, RunCommand, RunState,
        fork::{self, Cut},
    },
};

/// A session that is made as a copy of another one.
#[derive(Debug)]
pub struct NewCopy<'a> {
    /// Its id.
    pub session_id: SessionId,
    /// Whose.
    pub user_id: Option<UserId>,
    /// The other one.
    pub source: &'a SessionId,
    /// Its completed runs in order, each with the agent that it ran with.
    pub runs: &'a [(RunState, Arc<AgentSpec>)],
    /// The state that its runs share.
    pub values: SessionValues,
    /// What else it is made with; a state in it is not looked at.
    pub fields: Fields,
}

impl NewCopy<'_> {
    /// The run that stands for the other session's run `source`.
    #[must_use]
    pub fn run_id(session: &SessionId, source: &RunId) -> RunId {
        RunId::trusted(&ids::derived("run", &["copy", session.as_str(), source.as_str()]).to_string())
    }
}

/// The copy from its first event on.
///
/// # Errors
/// When one of the runs would not complete from what its steps brought: then it cannot be copied, and a session
/// without it would be another one.
pub fn copy(new: NewCopy<'_>, now: Timestamp) -> Result<Vec<Event>, Refusal> {
    let NewCopy { session_id, user_id, source, runs, values, fields } = new;
    let Fields { name, metadata, summary, .. } = fields;
    let agent_id = runs.first().map(|(run, _)| run.origin.agent_id.clone());
    let created = SessionCreated {
        session_id: session_id.clone(),
        user_id: user_id.clone(),
        agent_id,
        name,
        state: RawJson::of(&values).ok().filter(|_| !values.is_empty()),
        metadata,
        forked_from_session_id: Some(source.clone()),
    };
    let mut events: Vec<Event> = vec![created.into()];
    if summary.is_some() {
        let (session_id, name, state, metadata) = (session_id.clone(), None, None, None);
        events.push(SessionUpdated { session_id, name, state, metadata, summary }.into());
    }
    for (index, (run, agent)) in (0..).zip(runs) {
        let before = runs.iter().filter(|(other, _)| other.origin.run_index < run.origin.history_before).count();
        let place = Place { session: &session_id, user: user_id.as_ref(), source, index, before: before as u64 };
        let context = Context { now, agent: agent.clone() };
        events.extend(copied(run, &place, &context)?.into_iter().map(Event::from));
    }
    Ok(events)
}

struct Place<'a> {
    session: &'a SessionId,
    user: Option<&'a UserId>,
    source: &'a SessionId,
    index: u64,
    before: u64,
}

fn copied(run: &RunState, place: &Place<'_>, context: &Context) -> Result<Vec<RunEvent>, Refusal> {
    let Cut { message_index, steps, said } = fork::all(run);
    let origin = &run.origin;
    let run_id = NewCopy::run_id(place.session, &origin.run_id);
    let first = origin.copied_from.as_ref().unwrap_or(place.source);
    let queued = RunQueued {
        run_id: run_id.clone(),
        session_id: place.session.clone(),
        user_id: place.user.cloned(),
        run_index: place.index,
        agent_id: origin.agent_id.clone(),
        agent_version: origin.agent_version.clone(),
        input: origin.input.clone(),
        media: origin.media.clone(),
        metadata: None,
        output_schema: origin.output_schema.clone(),
        session_state: None,
        scheduled_by: None,
        fork: Some(Box::new(Fork {
            run_id: origin.run_id.clone(),
            message_index,
            steps: u32::try_from(steps.len()).unwrap_or(u32::MAX),
            said,
            history_before: place.before,
            regenerates: false,
            session_id: Some(first.clone()),
        })),
        stream: false,
        background: true,
    };
    let mut state = run::evolve::created(&queued, context.now);
    let mut events = vec![RunEvent::from(queued)];
    for (at, step) in (0..).zip(steps) {
        let event = RunEvent::from(step.event(run_id.clone(), at));
        run::evolve(&mut state, &event, context.now);
        events.push(event);
    }
    // All that it asks for is there, so it ends as it did.
    match run::decide(&state, RunCommand::Begin, context) {
        Ok(decided) if matches!(decided.last(), Some(RunEvent::Completed(_))) => events.extend(decided),
        _ => {
            let reason = format!("run `{}` does not complete from what its steps brought", origin.run_id);
            return Err(Refusal::NotCopied(reason.into()));
        }
    }
    Ok(events)
}
