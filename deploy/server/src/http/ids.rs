//! New names for what has none. This is the one place where chance enters: everything behind the gateway
//! derives its ids from the command's.
#![expect(clippy::disallowed_methods, reason = "a request without an id gets one here, before it is a command")]

use reenact_events::{CommandId, SessionId};
use uuid::Uuid;

/// A command's id that nobody else has.
#[must_use]
pub fn command() -> CommandId {
    CommandId::trusted(&Uuid::new_v4().to_string())
}

/// A session's id that nobody else has.
#[must_use]
pub fn session() -> SessionId {
    SessionId::trusted(&Uuid::new_v4().to_string())
}
