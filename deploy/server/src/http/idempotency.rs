//! `Idempotency-Key`: one key of one user is one run, whatever else differs.
//!
//! The command's id follows from user and key, so the run's id does too. The key has a stream of its own, which every
//! request under it goes to first, from whatever node: the first one takes the key, and its repeats are sent on to
//! where it went, which finds the run by its id. A key stands for its request as long as the log does.

use axum::http::{HeaderMap, HeaderName};
use reenact_events::{
    BlobRef, CommandId, SessionId,
    command::{KeyUse, StartRun},
    ids::derived,
};

use super::{
    error::{ApiError, Fault},
    scope::Caller,
};

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// The longest key, in bytes.
pub(super) const KEY_BYTES_MAX: usize = 512;

/// A key in the name of its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    user: String,
    key: String,
}

/// The key that the request carries, if it does.
///
/// # Errors
/// 422 when it is empty, longer than 512 bytes or not visible ASCII.
pub fn key(headers: &HeaderMap, caller: &Caller) -> Result<Option<Key>, ApiError> {
    let Some(value) = headers.get(HEADER) else { return Ok(None) };
    let usable = value.to_str().ok().filter(|key| !key.is_empty() && key.len() <= KEY_BYTES_MAX);
    let key = usable.ok_or_else(|| {
        let msg = format!("the key must be 1 to {KEY_BYTES_MAX} visible ASCII characters");
        ApiError::malformed(Fault::new("header", "Idempotency-Key", "value_error", msg))
    })?;
    // A user id is never empty, so nobody's keys are apart from everybody's.
    let user = caller.user_id.as_ref().map(ToString::to_string).unwrap_or_default();
    Ok(Some(Key { user, key: key.to_owned() }))
}

impl Key {
    /// The command that this key stands for.
    #[must_use]
    pub fn command_id(&self) -> CommandId {
        CommandId::own(derived("idempotency-command", &[&self.user, &self.key]))
    }

    /// The session of a run that names none.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        SessionId::trusted(&derived("idempotency-session", &[&self.user, &self.key]).to_string())
    }

    /// What the run is asked for with. Under the same key, only the very same request is a repeat: how its run is to
    /// be shown makes no difference.
    ///
    /// # Errors
    /// Never for what a request can hold; the signature is `serde_json`'s.
    pub fn used_for(&self, start: &StartRun) -> Result<KeyUse, serde_json::Error> {
        // A session that follows from the key is none that was named.
        let session = Some(&start.session_id).filter(|session| **session != self.session_id());
        let StartRun {
            session_id: _,
            agent,
            input,
            media,
            metadata,
            session_state,
            output_schema,
            stream: _,
            background: _,
            scheduled_by: _,
        } = start;
        let request = (session, agent.id(), input, media, metadata, session_state, output_schema);
        let BlobRef { sha256: request, .. } = BlobRef::of(&serde_json::to_vec(&request)?);
        Ok(KeyUse { key: derived("idempotency-key", &[&self.user, &self.key]), request })
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use reenact_events::UserId;

    use super::*;
    use crate::http::scope::caller_of;

    fn of(text: &str, user: Option<&str>) -> Result<Option<Key>, ApiError> {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, HeaderValue::from_bytes(text.as_bytes()).unwrap());
        key(&headers, &caller_of(user.map(UserId::trusted)).unwrap())
    }

    #[test]
    fn a05_a_key_belongs_to_its_user() {
        let (alice, bob) = (of("k", Some("alice")).unwrap(), of("k", Some("bob")).unwrap());
        assert_ne!(alice.clone().map(|key| key.command_id()), bob.map(|key| key.command_id()));
        assert_eq!(alice.map(|key| key.command_id()), of("k", Some("alice")).unwrap().map(|key| key.command_id()));
    }

    #[test]
    fn a05_a_key_of_513_characters_is_refused() {
        assert!(of(&"k".repeat(512), None).is_ok());
        for bad in ["k".repeat(513), String::new(), "kö".to_owned()] {
            assert_eq!(of(&bad, None).unwrap_err().status, 422);
        }
    }
}
