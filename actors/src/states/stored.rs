//! What stands under a key. Small things that are always wanted together share one, since every entry costs memory
//! for as long as the store is open: an idle session with one run has two, itself and the run's place.

use std::sync::Arc;

use reenact_events::{RunId, SessionId};
use reenact_snapshots::{StateStore, StoreError, codec};
use serde::{Deserialize, Serialize};

use super::SCAN_MAX;
use crate::{
    keys,
    run::{
        RunState, Step,
        state::{Origin, Progress},
    },
    session::SessionState,
};

/// A run that has ended is kept in one piece up to this many bytes, so that an end writes a bounded number.
const WHOLE_BYTES_MAX: usize = 4 << 10;
/// And up to this many steps, so that an end need not encode very many only to find that they are too large.
const WHOLE_STEPS_MAX: usize = 8;

/// A session, with the sequence that its stream's next event has and its latest run, once that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StoredSession {
    /// The session.
    pub state: SessionState,
    /// The sequence.
    pub next_seq: u64,
    /// A run that ended in one piece when no other was at work. It gets an entry of its own before the next one is, so
    /// that what an event of a run writes stays small.
    pub latest: Option<StoredLatest>,
}

/// The request that an idempotency key stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredKey {
    /// What tells it from others.
    pub request: Arc<str>,
    /// The session that it went to.
    pub session_id: SessionId,
}

/// A run that has ended, in its session's entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredLatest {
    /// Its place among the session's runs.
    pub index: u64,
    /// Whether it completed.
    pub complete: bool,
    /// A [`StoredEnd`], encoded.
    pub bytes: Vec<u8>,
}

impl StoredLatest {
    /// The key that it has as an entry of its own.
    pub(super) fn key(&self, session: &SessionId) -> Vec<u8> {
        if self.complete {
            keys::complete_of_session(session, self.index)
        } else {
            keys::stopped_of_session(session, self.index)
        }
    }
}

/// Where a run is to be found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoredPlace {
    /// Which of a session's runs it is.
    At(SessionId, u64),
    /// Its session was deleted. Stays, so that a repeat of its command does not start it again.
    Deleted,
}

/// A run that has not ended; its origin and its steps have keys of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredOpen {
    /// Which.
    pub run_id: RunId,
    /// Where it stands.
    pub progress: Progress,
}

/// A run that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoredEnd {
    /// All of a small one.
    Whole(Arc<Origin>, Progress, Vec<Arc<Step>>),
    /// A larger one: its origin and its steps stay where they were while it was open.
    Parts(StoredOpen),
}

impl StoredEnd {
    fn into_run_id(self) -> RunId {
        match self {
            Self::Whole(origin, ..) => origin.run_id.clone(),
            Self::Parts(StoredOpen { run_id, .. }) => run_id,
        }
    }
}

/// A run that has ended as it is stored, and whether that is all of it.
pub(super) fn ended(run: &RunState) -> Result<(Vec<u8>, bool), StoreError> {
    if run.steps.len() <= WHOLE_STEPS_MAX {
        let bytes = codec::encode(&StoredEnd::Whole(run.origin.clone(), run.progress, run.steps.clone()))?;
        if bytes.len() <= WHOLE_BYTES_MAX {
            return Ok((bytes, true));
        }
    }
    Ok((codec::encode(&StoredEnd::Parts(StoredOpen { run_id: run.id().clone(), progress: run.progress }))?, false))
}

pub(super) fn read<T: serde::de::DeserializeOwned>(
    key: &[u8],
    store: &dyn StateStore,
) -> Result<Option<T>, StoreError> {
    store.get(key)?.map(|bytes| codec::decode(&bytes)).transpose()
}

/// The run that an entry under one of [`keys::runs_of_session`] names.
pub(super) fn run_id(key: &[u8], bytes: &[u8]) -> Result<RunId, StoreError> {
    if keys::session_of_open(key).is_some() {
        return Ok(codec::decode::<StoredOpen>(bytes)?.run_id);
    }
    ended_run_id(bytes)
}

/// The run that was stored in `bytes` when it ended.
pub(super) fn ended_run_id(bytes: &[u8]) -> Result<RunId, StoreError> {
    Ok(codec::decode::<StoredEnd>(bytes)?.into_run_id())
}

pub(super) fn read_run(id: &RunId, store: &dyn StateStore) -> Result<Option<RunState>, StoreError> {
    let Some(StoredPlace::At(session, index)) = read(&keys::place(id), store)? else { return Ok(None) };
    if let Some(StoredOpen { progress, .. }) = read(&keys::open_of_session(&session, index), store)? {
        return in_parts(&session, index, progress, store).map(Some);
    }
    for key in [keys::complete_of_session(&session, index), keys::stopped_of_session(&session, index)] {
        if let Some(bytes) = store.get(&key)? {
            return read_ended(&session, index, &bytes, store).map(Some);
        }
    }
    let latest = read::<StoredSession>(&keys::session(&session), store)?.and_then(|stored| stored.latest);
    let latest = latest.filter(|latest| latest.index == index).ok_or_else(|| missing(&session, index))?;
    read_ended(&session, index, &latest.bytes, store).map(Some)
}

/// The run that was stored in `bytes` when it ended.
pub(super) fn read_ended(
    session: &SessionId,
    index: u64,
    bytes: &[u8],
    store: &dyn StateStore,
) -> Result<RunState, StoreError> {
    match codec::decode(bytes)? {
        StoredEnd::Whole(origin, progress, steps) => Ok(RunState { origin, progress, steps }),
        StoredEnd::Parts(StoredOpen { progress, .. }) => in_parts(session, index, progress, store),
    }
}

fn in_parts(
    session: &SessionId,
    index: u64,
    progress: Progress,
    store: &dyn StateStore,
) -> Result<RunState, StoreError> {
    let origin = read(&keys::origin(session, index), store)?.ok_or_else(|| missing(session, index))?;
    let steps: Result<Vec<_>, _> = store
        .scan(&keys::steps(session, index), &[], SCAN_MAX)?
        .iter()
        .map(|(_, bytes)| codec::decode::<Step>(bytes).map(Arc::new))
        .collect();
    Ok(RunState { origin, progress, steps: steps? })
}

fn missing(session: &SessionId, index: u64) -> StoreError {
    StoreError::new(format!("run `{index}` of session `{session}` is referred to, but not in the store"))
}
