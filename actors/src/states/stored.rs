//! What stands under a key. Small things that are always wanted together share one, since every entry costs memory
//! for as long as the store is open: a session with one run has three.

use std::sync::Arc;

use reenact_events::RunId;
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

/// A session, with the sequence that its stream's next event has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StoredSession {
    /// The session.
    pub state: SessionState,
    /// The sequence.
    pub next_seq: u64,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoredRun {
    /// What it was accepted with; its progress and its steps have keys of their own.
    Parts(Arc<Origin>),
    /// All of a small one that has ended.
    Whole(Arc<Origin>, Progress, Vec<Arc<Step>>),
}

/// The bytes of a run that has ended and is small; `None` for a larger one, which stays in parts.
pub(super) fn whole(run: &RunState) -> Result<Option<Vec<u8>>, StoreError> {
    if run.steps.len() > WHOLE_STEPS_MAX {
        return Ok(None);
    }
    let bytes = codec::encode(&StoredRun::Whole(run.origin.clone(), run.progress, run.steps.clone()))?;
    Ok(Some(bytes).filter(|bytes| bytes.len() <= WHOLE_BYTES_MAX))
}

pub(super) fn read<T: serde::de::DeserializeOwned>(
    key: &[u8],
    store: &dyn StateStore,
) -> Result<Option<T>, StoreError> {
    store.get(key)?.map(|bytes| codec::decode(&bytes)).transpose()
}

pub(super) fn run_id(bytes: &[u8]) -> Result<RunId, StoreError> {
    std::str::from_utf8(bytes)
        .map(RunId::trusted)
        .map_err(|_| StoreError { reason: "an index entry is not a run's id".into() })
}

pub(super) fn read_run(id: &RunId, store: &dyn StateStore) -> Result<Option<RunState>, StoreError> {
    let origin = match read(&keys::run(id), store)? {
        None => return Ok(None),
        Some(StoredRun::Whole(origin, progress, steps)) => return Ok(Some(RunState { origin, progress, steps })),
        Some(StoredRun::Parts(origin)) => origin,
    };
    let Some(progress) = read::<Progress>(&keys::progress(id), store)? else { return Ok(None) };
    let steps: Result<Vec<_>, _> = store
        .scan(&keys::steps(id), &[], SCAN_MAX)?
        .iter()
        .map(|(_, bytes)| codec::decode::<Step>(bytes).map(Arc::new))
        .collect();
    Ok(Some(RunState { origin, progress, steps: steps? }))
}
