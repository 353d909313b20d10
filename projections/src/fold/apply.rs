//! One event, turned into changes of rows.
//!
//! A run's row is written when the run is accepted, when its status changes, and with everything when it
//! ends; the steps in between only add to the run's events. What comes for a run or a session without a row
//! (it was deleted) changes nothing.

use reenact_events::{
    Event, Recorded, RunEvent, RunId, Timestamp,
    agent::{AgentSpec, own_versions},
    event::{ComponentEvent, DecodeError, RunQueued, RunStatus, SessionCreated, SessionEvent, SubjectEvent},
    moves,
};
use serde_json::{Value, json};

use super::{Rows, approvals, metrics, run::RunView, schedules, steps, usage::ModelUsage};
use crate::{
    ViewError,
    query::{RunRow, SessionRow},
};

/// Reads an event; one of a type that this version does not know is left out.
///
/// # Errors
/// [`ViewError::Unreadable`] when the payload is not what its type promises.
pub fn decode(recorded: &Recorded) -> Result<Option<Event>, ViewError> {
    match recorded.decode() {
        Ok(event) => Ok(Some(event)),
        Err(DecodeError::UnknownType { name }) => {
            tracing::warn!(kind = name, offset = %recorded.offset, "an event of an unknown type is not shown");
            Ok(None)
        }
        Err(sealed @ DecodeError::Sealed) => Err(ViewError::Unreadable {
            partition: recorded.partition,
            offset: recorded.offset,
            reason: sealed.to_string().into(),
        }),
        Err(DecodeError::Payload { name, source }) => Err(ViewError::Unreadable {
            partition: recorded.partition,
            offset: recorded.offset,
            reason: format!("payload of type `{name}`: {source}").into(),
        }),
    }
}

/// Folds one event into the rows.
///
/// # Errors
/// When the rows cannot be read or written.
pub fn apply<'e>(rows: &mut dyn Rows<'e>, recorded: &'e Recorded, event: &'e Event) -> Result<(), ViewError> {
    let at = recorded.event.at;
    match event {
        Event::Partition(_) | Event::Key(_) => Ok(()),
        // Sessions and schedules were deleted before: what is left are the agents that were the user's own.
        Event::Subject(SubjectEvent::Erased(erased)) => rows.forget_components(&own_versions(Some(&erased.user_id))),
        Event::Schedule(event) => schedules::apply(rows, at, event),
        Event::Component(ComponentEvent::Registered(registered)) => {
            rows.put_component(&registered.version, &registered.spec)
        }
        Event::Session(event) => apply_session(rows, at, event),
        Event::Run(event) => apply_run(rows, recorded, event),
    }
}

fn apply_session(rows: &mut dyn Rows, at: Timestamp, event: &SessionEvent) -> Result<(), ViewError> {
    match event {
        SessionEvent::Created(created) => {
            let row = SessionRow::created(created, at);
            metrics::session_made(rows, &row, at)?;
            rows.put_session(row)
        }
        SessionEvent::Deleted(deleted) => rows.delete_session(&deleted.session_id),
        SessionEvent::Updated(updated) => match rows.session(&updated.session_id)? {
            Some(mut row) => {
                row.update(updated, at);
                rows.put_session(row)
            }
            None => Ok(()),
        },
    }
}

fn apply_run<'e>(rows: &mut dyn Rows<'e>, recorded: &'e Recorded, event: &'e RunEvent) -> Result<(), ViewError> {
    let at = recorded.event.at;
    if let RunEvent::Queued(queued) = event {
        queue(rows, queued, at)?;
    }
    rows.put_run_event(recorded, event)?;
    change_state(rows, event)?;
    approvals::apply(rows, at, event)?;
    steps::apply(rows, at, event)?;
    match event {
        RunEvent::Started(_) | RunEvent::Paused(_) | RunEvent::Continued(_) | RunEvent::Regenerated(_) => {
            change_status(rows, event.run_id(), at, |_, status| Ok(moves::target(event).unwrap_or(status)))
        }
        RunEvent::StepResolved(_) | RunEvent::StepAnswered(_) | RunEvent::StepExpired(_) => {
            change_status(rows, event.run_id(), at, |rows, status| match status {
                RunStatus::Paused => Ok(rows.run_view(event.run_id())?.map_or(status, |view| view.status)),
                status => Ok(status),
            })
        }
        RunEvent::Requeued(_) => open_again(rows, event.run_id(), at),
        _ if event.is_end() => end(rows, event, at),
        _ => Ok(()),
    }
}

fn change_state(rows: &mut dyn Rows, event: &RunEvent) -> Result<(), ViewError> {
    let Some(changes) = event.state_changes() else { return Ok(()) };
    let Some(run) = rows.run(event.run_id())? else { return Ok(()) };
    let session = run.session_id.clone();
    let Some(mut session) = rows.session(&session)? else { return Ok(()) };
    session.change_state(changes);
    rows.put_session(session)
}

/// A run that nobody owns belongs to the owner of its session.
fn queue(rows: &mut dyn Rows, queued: &RunQueued, at: Timestamp) -> Result<(), ViewError> {
    let mut session = match rows.session(&queued.session_id)? {
        Some(session) => session,
        None => {
            let session = SessionRow::created(&session_of(queued), at);
            metrics::session_made(rows, &session, at)?;
            session
        }
    };
    session.run_queued(queued, at);
    let user_id = queued.user_id.clone().or_else(|| session.user_id.clone());
    rows.put_session(session)?;
    let view = RunView::new(queued.clone(), at);
    let mut run_data = view.short_output();
    run_data.insert("user_id".to_owned(), json!(user_id));
    let row = RunRow {
        run_id: queued.run_id.clone(),
        session_id: queued.session_id.clone(),
        run_type: "agent".to_owned(),
        agent_id: Some(queued.agent_id.to_string()),
        user_id,
        parent_run_id: None,
        status: view.status,
        run_index: queued.run_index,
        run_data: Value::Object(run_data),
        created_at: at.seconds(),
        updated_at: Some(at.seconds()),
    };
    metrics::run_accepted(rows, &row, at)?;
    rows.put_run(row)
}

fn session_of(queued: &RunQueued) -> SessionCreated {
    SessionCreated {
        forked_from_session_id: None,
        session_id: queued.session_id.clone(),
        user_id: queued.user_id.clone(),
        agent_id: Some(queued.agent_id.clone()),
        name: None,
        state: None,
        metadata: None,
    }
}

fn change_status(
    rows: &mut dyn Rows,
    run: &RunId,
    at: Timestamp,
    next: impl FnOnce(&mut dyn Rows, RunStatus) -> Result<RunStatus, ViewError>,
) -> Result<(), ViewError> {
    let Some(before) = rows.run(run)?.map(|row| row.status) else { return Ok(()) };
    let status = next(rows, before)?;
    let Some(mut row) = rows.run(run)?.filter(|_| status != before).cloned() else { return Ok(()) };
    row.status = status;
    metrics::run_moved(rows, &row, before, at)?;
    if let Value::Object(data) = &mut row.run_data {
        data.insert("status".to_owned(), json!(row.status.as_str()));
    }
    row.updated_at = Some(at.seconds());
    rows.put_run(row)
}

/// The row as it was when the run was accepted: what it ended with is not so any more.
fn open_again(rows: &mut dyn Rows, run: &RunId, at: Timestamp) -> Result<(), ViewError> {
    let Some(mut row) = rows.run(run)?.cloned() else { return Ok(()) };
    let Some(view) = rows.run_view(run)? else { return Ok(()) };
    let mut run_data = view.short_output();
    run_data.insert("user_id".to_owned(), json!(row.user_id));
    let before = row.status;
    (row.status, row.run_data, row.updated_at) = (view.status, Value::Object(run_data), Some(at.seconds()));
    metrics::run_moved(rows, &row, before, at)?;
    rows.put_run(row)
}

impl RunRow {
    /// Puts in all that the run's events tell.
    pub fn complete(&mut self, view: &RunView, spec: Option<&AgentSpec>) {
        self.status = view.status;
        self.run_data = self.data(view, spec);
    }

    fn data(&self, view: &RunView, spec: Option<&AgentSpec>) -> Value {
        let mut output = view.output(spec);
        output.insert("user_id".to_owned(), json!(self.user_id));
        Value::Object(output)
    }
}

/// A run that has ended, and what its `run_data` is made from: that takes longest of all, and whoever has many of them
/// makes it beside other work.
pub struct EndedRun {
    /// Its row; `run_data` is what it was before.
    pub row: RunRow,
    /// All that its events tell.
    pub view: RunView,
    /// The agent as the run pinned it.
    pub spec: Option<AgentSpec>,
    /// What its session remembers then.
    pub state: Option<Value>,
}

impl EndedRun {
    /// The `run_data` that it has from now on.
    #[must_use]
    pub fn data(&self) -> Value {
        let mut data = self.row.data(&self.view, self.spec.as_ref());
        if let (Some(state), Value::Object(data)) = (&self.state, &mut data) {
            data.insert("session_state".to_owned(), state.clone());
        }
        data
    }

    /// The row with it.
    #[must_use]
    pub fn whole(self) -> RunRow {
        RunRow { run_data: self.data(), ..self.row }
    }
}

fn end(rows: &mut dyn Rows, event: &RunEvent, at: Timestamp) -> Result<(), ViewError> {
    let Some(mut row) = rows.run(event.run_id())?.cloned() else { return Ok(()) };
    let Some(view) = rows.run_view(event.run_id())? else { return Ok(()) };
    let spec = rows.component(&view.queued.agent_id, &view.queued.agent_version)?;
    let before = row.status;
    (row.status, row.updated_at) = (view.status, Some(at.seconds()));
    metrics::run_moved(rows, &row, before, at)?;
    metrics::run_used(rows, &row, &view, spec.as_ref(), at)?;
    let mut state = None;
    if let Some(mut session) = rows.session(&row.session_id)? {
        state = session.state().cloned();
        session.run_ended(ModelUsage::of(&view).total().since(view.counted.total()), at);
        rows.put_session(session)?;
    }
    rows.put_ended_run(EndedRun { row, view, spec, state })
}
