//! The state that a session's runs share, folded key by key. It has an entry of its own, so that an event of a run
//! writes it only when it changes it.

use reenact_events::{
    Event, RunEvent, SessionEvent, SessionId,
    session_state::{SessionValues, values_of},
};
use reenact_snapshots::{StateStore, StoreError, codec};

use super::fold::Changes;
use crate::keys;

/// The state as it is stored.
pub(super) fn read(session: &SessionId, store: &dyn StateStore) -> Result<SessionValues, StoreError> {
    store.get(&keys::values(session))?.map_or_else(|| Ok(SessionValues::new()), |bytes| decode(&bytes))
}

fn decode(bytes: &[u8]) -> Result<SessionValues, StoreError> {
    let json: String = codec::decode(bytes)?;
    serde_json::from_str(&json).map_err(|error| StoreError::new(format!("a session's state cannot be read: {error}")))
}

/// Takes what an event changes.
pub(super) fn take(session: &SessionId, event: &Event, changes: &mut Changes<'_>) -> Result<(), StoreError> {
    let key = keys::values(session);
    let after = match event {
        Event::Session(SessionEvent::Created(created)) => created.state.as_ref().map(values_of),
        Event::Session(SessionEvent::Updated(updated)) => updated.state.as_ref().map(values_of),
        Event::Session(SessionEvent::Deleted(_)) => Some(SessionValues::new()),
        Event::Run(event) => after_run(session, event, changes)?,
        _ => None,
    };
    match after {
        None => Ok(()),
        Some(values) if values.is_empty() => {
            changes.delete(key);
            Ok(())
        }
        Some(values) => {
            let json = serde_json::to_string(&values);
            let json = json.map_err(|error| StoreError::new(format!("a state cannot be written: {error}")))?;
            changes.put(key, &json)
        }
    }
}

fn after_run(
    session: &SessionId,
    event: &RunEvent,
    changes: &Changes<'_>,
) -> Result<Option<SessionValues>, StoreError> {
    let Some(changed) = event.state_changes() else { return Ok(None) };
    let mut values = match changes.pending(&keys::values(session)) {
        Some(Some(bytes)) => decode(bytes)?,
        Some(None) => SessionValues::new(),
        None => read(session, changes.store)?,
    };
    changed.apply(&mut values);
    Ok(Some(values))
}
