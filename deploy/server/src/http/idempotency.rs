//! `Idempotency-Key`: one key of one user is one run, whatever else differs.
//!
//! The command's id follows from user and key, so the run's id does too, and a repeat finds the first run by
//! it, also after a restart. Repeats that arrive together take turns in this process, which is the only one
//! that serves this log; an entity per key takes over when several nodes do.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::LazyLock,
};

use axum::http::{HeaderMap, HeaderName};
use reenact_events::{CommandId, RunId, SessionId, command::StartRun, ids::derived};
use reenact_projections::query::{RunRow, Scope};
use tokio::sync::{Mutex, MutexGuard};

use super::{
    error::{ApiError, Fault},
    scope::Caller,
    state::Services,
};

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 512;
/// Keys share this many turnstiles; two keys on one wait for each other needlessly, which is harmless.
const TURNSTILES: usize = 64;

static TURNS: LazyLock<Vec<Mutex<()>>> = LazyLock::new(|| (0..TURNSTILES).map(|_| Mutex::new(())).collect());

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

    /// Waits for the repeats before this one.
    pub async fn turn(&self) -> MutexGuard<'static, ()> {
        let mut hasher = DefaultHasher::new();
        (&self.user, &self.key).hash(&mut hasher);
        let at = usize::try_from(hasher.finish() % TURNSTILES as u64).unwrap_or_default();
        TURNS[at].lock().await
    }
}

/// The run that the key stands for already.
///
/// # Errors
/// 409 when it was another request: another agent, session or message. Nothing is said about the first one.
pub async fn first_run(
    services: &Services,
    key: &Key,
    run: &RunId,
    start: &StartRun,
) -> Result<Option<RunRow>, ApiError> {
    services.caught_up(None).await?;
    // The id follows from the key's user, so it can be nobody else's run.
    let Some(row) = services.views.run(&Scope::Anyone, run).await? else { return Ok(None) };
    let named_another_session = start.session_id != row.session_id && start.session_id != key.session_id();
    let same_agent = row.agent_id.as_deref() == Some(start.agent.id().as_str());
    let same_message = row.run_data["input"]["input_content"]
        == serde_json::to_value(&start.input)
            .map_err(|error| ApiError::internal("a message cannot be read", &error))?;
    if same_agent && same_message && !named_another_session {
        return Ok(Some(row));
    }
    Err(ApiError::conflict("this `Idempotency-Key` was used for another request").named("idempotency_conflict"))
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
