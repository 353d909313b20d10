//! A session: whose it is, which of its runs is at work. Pure; the actor is in [`crate::session_actor`].
//!
//! The state has a fixed size however many runs there were: what grows (runs by index, runs that wait) are
//! entries of the store's indexes.

mod copy;
mod fork;

use std::sync::Arc;

use reenact_events::{
    Event, RawJson, RunId, SessionEvent, SessionId, UserId,
    command::StartRun,
    event::{ComponentRegistered, RunEvent, RunQueued, SessionCreated, SessionDeleted, SessionUpdated},
    session_state::{SessionValues, StateChanges, values_of},
};
use serde::{Deserialize, Serialize};

use crate::{
    api::Refusal,
    run::{self, Context, RunCommand},
};

pub use copy::{NewCopy, copy};
pub use fork::{NewFork, fork_run};

/// A session as its stream tells.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionState {
    /// It exists: it was created and not deleted.
    pub exists: bool,
    /// Its owner for good.
    pub user_id: Option<UserId>,
    /// How many runs it has had; the next run's index. Survives a deletion, so that no index comes twice.
    pub runs: u64,
    /// Its runs that are at work; a paused run is not.
    pub active: Vec<RunId>,
    /// Its runs that are paused.
    pub paused: Vec<RunId>,
    /// How many of its runs wait for their turn.
    pub waiting: u32,
}

impl SessionState {
    /// Whether `user` may know of the session.
    #[must_use]
    pub fn is_visible_to(&self, user: Option<&UserId>) -> bool {
        self.exists && (user.is_none() || self.user_id.is_none() || self.user_id.as_ref() == user)
    }

    /// Whether a run that is accepted now may begin at once, as far as the session is concerned.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.active.is_empty() && self.waiting == 0
    }
}

/// Takes `event` into the session.
pub fn evolve(session: &mut SessionState, event: &Event) {
    match event {
        Event::Session(SessionEvent::Created(created)) => {
            session.exists = true;
            session.user_id = created.user_id.clone();
        }
        Event::Session(SessionEvent::Deleted(_)) => session.exists = false,
        Event::Run(run) => evolve_run(session, run),
        Event::Session(SessionEvent::Updated(_))
        | Event::Component(_)
        | Event::Partition(_)
        | Event::Key(_)
        | Event::Subject(_)
        | Event::Schedule(_) => {}
    }
}

fn evolve_run(session: &mut SessionState, event: &RunEvent) {
    match event {
        RunEvent::Queued(queued) => {
            session.runs = queued.run_index + 1;
            session.waiting += 1;
        }
        RunEvent::Requeued(_) => session.waiting += 1,
        RunEvent::Started(started) => {
            session.waiting = session.waiting.saturating_sub(1);
            session.active.push(started.run_id.clone());
        }
        RunEvent::Continued(continued) => {
            session.paused.retain(|run| *run != continued.run_id);
            session.active.push(continued.run_id.clone());
        }
        RunEvent::Cancelled(cancelled) if cancelled.stage == reenact_events::event::CancellationStage::Pending => {
            session.waiting = session.waiting.saturating_sub(1);
        }
        RunEvent::Paused(paused) => {
            session.active.retain(|run| *run != paused.run_id);
            session.paused.push(paused.run_id.clone());
        }
        RunEvent::Completed(_) | RunEvent::Failed(_) | RunEvent::Cancelled(_) => {
            session.active.retain(|run| run != event.run_id());
            session.paused.retain(|run| run != event.run_id());
        }
        _ => {}
    }
}

/// A new run, as the session accepts it.
#[derive(Debug)]
pub struct NewRun<'a> {
    /// The run's id, which follows from the command's.
    pub run_id: RunId,
    /// Whose.
    pub user_id: Option<UserId>,
    /// What was asked.
    pub start: &'a StartRun,
    /// The agent's version.
    pub version: Arc<str>,
    /// Whether the partition knows that version already.
    pub version_known: bool,
    /// Whether it has been given a slot, so that it begins in the same batch.
    pub begins: bool,
    /// Keys that the agent gives the session's state and that it has not.
    pub defaults: SessionValues,
}

/// What a run brings for its session's state. A session that is made for it is made with what the caller said.
fn state_changes(
    session: &SessionState,
    said: &Option<RawJson>,
    defaults: &SessionValues,
) -> Option<Box<StateChanges>> {
    let said = said.as_ref().filter(|_| session.exists);
    let set = said.map(values_of).unwrap_or_default();
    let changes = StateChanges { set, default: defaults.clone(), ..StateChanges::default() };
    (!changes.is_empty()).then(|| Box::new(changes))
}

/// Accepts a run, with the session if it is new, and begins it if it has a slot.
///
/// # Errors
/// [`Refusal::SessionNotFound`] when the session is another user's.
pub fn start_run(session: &SessionState, new: NewRun<'_>, context: &Context) -> Result<Vec<Event>, Refusal> {
    let mut events: Vec<Event> = Vec::new();
    let start = new.start;
    if !session.exists {
        events.push(
            SessionCreated {
                session_id: start.session_id.clone(),
                user_id: new.user_id.clone(),
                agent_id: Some(start.agent.id().clone()),
                name: None,
                state: start.session_state.clone(),
                metadata: None,
                forked_from_session_id: None,
            }
            .into(),
        );
    } else if !session.is_visible_to(new.user_id.as_ref()) {
        return Err(Refusal::SessionNotFound);
    }
    if !new.version_known {
        events.push(
            ComponentRegistered { version: new.version.clone(), spec: (*context.agent).clone(), own: false }.into(),
        );
    }
    let queued = RunQueued {
        run_id: new.run_id,
        session_id: start.session_id.clone(),
        user_id: new.user_id.or_else(|| session.user_id.clone()),
        run_index: session.runs,
        agent_id: start.agent.id().clone(),
        agent_version: new.version,
        input: start.input.clone(),
        media: start.media.clone(),
        metadata: start.metadata.clone(),
        stream: start.stream,
        background: start.background,
        output_schema: start.output_schema.clone(),
        session_state: state_changes(session, &start.session_state, &new.defaults),
        fork: None,
        scheduled_by: start.scheduled_by.clone(),
    };
    let state = run::evolve::created(&queued, context.now);
    events.push(queued.into());
    if new.begins {
        events.extend(run::decide(&state, RunCommand::Begin, context)?.into_iter().map(Event::from));
    }
    Ok(events)
}

/// What a session may be created or changed with.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    /// Its name.
    pub name: Option<String>,
    /// Its state, whole.
    pub state: Option<RawJson>,
    /// Its metadata, whole.
    pub metadata: Option<RawJson>,
    /// Its summary, whole.
    pub summary: Option<RawJson>,
}

/// Creates a session without a run.
///
/// # Errors
/// [`Refusal::SessionExists`], whoever owns it.
pub fn create(
    session: &SessionState,
    session_id: &SessionId,
    user_id: Option<UserId>,
    agent: Option<&reenact_events::AgentId>,
    fields: Fields,
) -> Result<Vec<Event>, Refusal> {
    if session.exists {
        return Err(Refusal::SessionExists(session_id.clone()));
    }
    Ok(vec![
        SessionCreated {
            session_id: session_id.clone(),
            user_id,
            agent_id: agent.cloned(),
            name: fields.name,
            state: fields.state,
            metadata: fields.metadata,
            forked_from_session_id: None,
        }
        .into(),
    ])
}

/// Replaces fields of a session.
///
/// # Errors
/// [`Refusal::SessionNotFound`] when it is not there for `user`.
pub fn update(
    session: &SessionState,
    session_id: &SessionId,
    user: Option<&UserId>,
    fields: Fields,
) -> Result<Vec<Event>, Refusal> {
    if !session.is_visible_to(user) {
        return Err(Refusal::SessionNotFound);
    }
    let Fields { name, state, metadata, summary } = fields;
    Ok(vec![SessionUpdated { session_id: session_id.clone(), name, state, metadata, summary }.into()])
}

/// Whether a session may be deleted, before its runs are stopped: `runs` is how many it must have had, all of which
/// must have ended.
///
/// # Errors
/// [`Refusal::SessionNotFound`] when it is not there for `user`, [`Refusal::SessionUsed`] when it was used since.
pub fn may_delete(
    session: &SessionState,
    session_id: &SessionId,
    runs: Option<u64>,
    user: Option<&UserId>,
) -> Result<(), Refusal> {
    if !session.is_visible_to(user) {
        return Err(Refusal::SessionNotFound);
    }
    let is_at_rest = session.is_free() && session.paused.is_empty();
    match runs {
        Some(runs) if session.runs != runs || !is_at_rest => Err(Refusal::SessionUsed(session_id.clone())),
        _ => Ok(()),
    }
}

/// Deletes a session whose runs have all been stopped.
///
/// # Errors
/// As [`may_delete`].
pub fn delete(
    session: &SessionState,
    deleted: SessionDeleted,
    runs: Option<u64>,
    user: Option<&UserId>,
) -> Result<Vec<Event>, Refusal> {
    may_delete(session, &deleted.session_id, runs, user)?;
    Ok(vec![deleted.into()])
}
