//! What of a fact stays readable to whoever has no key of its owner: ids, times, numbers, statuses, and the names of
//! agents, models and tools. Everything else reads `[erased]`, or is empty where that is no text.
//!
//! What is left is a fact of the same type, so decisions, folds and views take it like any other. Each payload is
//! taken apart by all its fields: a field that is new does not compile before it is said here what becomes of it.

mod commands;
mod runs;
mod schedules;

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    Event, MediaRef, RawJson, SessionEvent, Text,
    agent::AgentSpec,
    command::KeyUse,
    event::{ComponentEvent, ComponentRegistered, KeyEvent, KeyUsed, SessionCreated, SessionDeleted, SessionUpdated},
    session_state::StateChanges,
};

/// What stands in the place of a text that cannot be read any more.
pub const ERASED: &str = "[erased]";

/// Something that people have said or given a name to, or that holds such things.
pub trait Erase: Sized {
    /// The same without what its owner's key protects.
    #[must_use]
    fn erased(&self) -> Self;
}

impl Erase for Text {
    fn erased(&self) -> Self {
        Self::inline(ERASED)
    }
}

impl Erase for Arc<str> {
    fn erased(&self) -> Self {
        ERASED.into()
    }
}

impl Erase for String {
    fn erased(&self) -> Self {
        ERASED.to_owned()
    }
}

/// All of them are objects, or may be.
impl Erase for RawJson {
    fn erased(&self) -> Self {
        // An object without fields can always be written.
        Self::of(&BTreeMap::<String, String>::new()).unwrap_or_else(|_| self.clone())
    }
}

impl Erase for Vec<MediaRef> {
    fn erased(&self) -> Self {
        Self::new()
    }
}

impl Erase for StateChanges {
    fn erased(&self) -> Self {
        Self::default()
    }
}

impl<T: Erase> Erase for Option<T> {
    fn erased(&self) -> Self {
        self.as_ref().map(T::erased)
    }
}

impl<T: Erase> Erase for Box<T> {
    fn erased(&self) -> Self {
        Self::new(T::erased(self))
    }
}

impl Erase for Event {
    fn erased(&self) -> Self {
        match self {
            Self::Partition(_) | Self::Subject(_) => self.clone(),
            Self::Component(ComponentEvent::Registered(registered)) => ComponentEvent::from(registered.erased()).into(),
            Self::Session(event) => event.erased().into(),
            Self::Key(KeyEvent::Used(used)) => KeyEvent::from(used.erased()).into(),
            Self::Schedule(event) => event.erased().into(),
            Self::Run(event) => event.erased().into(),
        }
    }
}

/// Agents are the deployment's, and runs of other users depend on what is registered. One that a person has given
/// other instructions is theirs.
impl Erase for ComponentRegistered {
    fn erased(&self) -> Self {
        let Self { version, spec, own } = self;
        let erased = AgentSpec { instructions: spec.instructions.erased(), ..spec.clone() };
        Self { version: version.clone(), spec: if *own { erased } else { spec.clone() }, own: *own }
    }
}

impl Erase for SessionEvent {
    fn erased(&self) -> Self {
        match self {
            Self::Created(created) => created.erased().into(),
            Self::Updated(updated) => updated.erased().into(),
            Self::Deleted(deleted) => deleted.erased().into(),
        }
    }
}

impl Erase for SessionCreated {
    fn erased(&self) -> Self {
        let Self { session_id, user_id, agent_id, name, state, metadata, forked_from_session_id } = self;
        Self {
            session_id: session_id.clone(),
            user_id: user_id.clone(),
            agent_id: agent_id.clone(),
            name: name.erased(),
            state: state.erased(),
            metadata: metadata.erased(),
            forked_from_session_id: forked_from_session_id.clone(),
        }
    }
}

impl Erase for SessionUpdated {
    fn erased(&self) -> Self {
        let Self { session_id, name, state, metadata, summary } = self;
        Self {
            session_id: session_id.clone(),
            name: name.erased(),
            state: state.erased(),
            metadata: metadata.erased(),
            summary: summary.erased(),
        }
    }
}

impl Erase for SessionDeleted {
    fn erased(&self) -> Self {
        let Self { session_id, reason } = self;
        Self { session_id: session_id.clone(), reason: reason.erased() }
    }
}

/// What tells requests apart follows from what was said, so a guess could be proved right with it.
impl Erase for KeyUse {
    fn erased(&self) -> Self {
        let Self { key, request } = self;
        Self { key: *key, request: request.erased() }
    }
}

impl Erase for KeyUsed {
    fn erased(&self) -> Self {
        let Self { by, session_id } = self;
        Self { by: by.erased(), session_id: session_id.clone() }
    }
}
