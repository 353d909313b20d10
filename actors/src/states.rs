//! The fold of a partition: committed events in, current states out.
//!
//! There is one path for live events and for replay, so a state store that was deleted and folded again is
//! the same store. States of entities at work are kept decoded; all others are read when somebody asks.

mod fold;
mod schedules;
mod stored;
mod values;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use reenact_events::{
    CommandId, RunId, SessionId, StreamKey, agent::AgentSpec, event::RunStatus, session_state::SessionValues,
};
use reenact_snapshots::{Position, StateStore, StoreError, codec};
use uuid::Uuid;

use crate::{
    keys,
    run::{Origin, RunState},
    session::SessionState,
};

pub use fold::Fact;
use fold::{Changes, Hot};
pub use stored::{StoredEnd, StoredKey, StoredLatest, StoredOpen, StoredPlace, StoredSession};
use stored::{read, read_ended};

/// Entries that one scan reads at most.
const SCAN_MAX: usize = 1_000_000;
/// Decoded entities kept while replaying, before all are let go.
const HOT_MAX: usize = 8_192;

/// The states of one partition.
pub struct States {
    store: Arc<dyn StateStore>,
    hot: Mutex<Hot>,
}

impl States {
    /// The states that a store holds.
    #[must_use]
    pub fn new(store: Arc<dyn StateStore>) -> Self {
        Self { store, hot: Mutex::default() }
    }

    fn hot(&self) -> MutexGuard<'_, Hot> {
        self.hot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the store stands for.
    ///
    /// # Errors
    /// When the store cannot be used, as for all reads here.
    pub fn position(&self) -> Result<Option<Position>, StoreError> {
        self.store.position()
    }

    /// Forgets everything, to fold again from the first event.
    ///
    /// # Errors
    /// When the store cannot even be emptied.
    pub fn clear(&self) -> Result<(), StoreError> {
        *self.hot() = Hot::default();
        self.store.clear()
    }

    /// A session; one that never was has the default state.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn session(&self, id: &SessionId) -> Result<Arc<SessionState>, StoreError> {
        Ok(self.hot().session(id, &*self.store)?.state.clone())
    }

    /// The state that a session's runs share.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn session_values(&self, id: &SessionId) -> Result<SessionValues, StoreError> {
        values::read(id, &*self.store)
    }

    /// A run.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn run(&self, id: &RunId) -> Result<Option<Arc<RunState>>, StoreError> {
        self.hot().run(id, &*self.store)
    }

    /// Whether the run was accepted once and deleted since.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn was_deleted(&self, id: &RunId) -> Result<bool, StoreError> {
        Ok(self.read(&keys::place(id))? == Some(StoredPlace::Deleted))
    }

    /// Whether a command that is not known by its run took effect.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn was_taken(&self, id: &CommandId) -> Result<bool, StoreError> {
        Ok(self.store.get(&keys::taken(id))?.is_some())
    }

    /// How often a loss of events was accepted.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn losses(&self) -> Result<u32, StoreError> {
        self.hot().losses(&*self.store)
    }

    /// What the runs that have not ended were accepted with.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn open_origins(&self) -> Result<Vec<Arc<Origin>>, StoreError> {
        let mut origins = Vec::new();
        for session in self.open_sessions()?.keys() {
            for id in self.open_runs(session)? {
                origins.extend(self.run(&id)?.map(|run| run.origin.clone()));
            }
        }
        Ok(origins)
    }

    /// The request that an idempotency key stands for, if it was used.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn used_key(&self, key: Uuid) -> Result<Option<StoredKey>, StoreError> {
        self.read(&keys::used_key(key))
    }

    /// How often a loss of events was accepted, as far as a store has seen.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn losses_in(store: &dyn StateStore) -> Result<u32, StoreError> {
        Ok(read(keys::LOSSES, store)?.unwrap_or(0))
    }

    /// The sequence that the stream's next event has.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn next_seq(&self, stream: &StreamKey) -> Result<u64, StoreError> {
        self.hot().head(stream, &*self.store)
    }

    /// An agent as it stood at `version`.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn agent(&self, version: &Arc<str>) -> Result<Option<Arc<AgentSpec>>, StoreError> {
        let mut hot = self.hot();
        if let Some(agent) = hot.agents.get(version) {
            return Ok(Some(agent.clone()));
        }
        let Some(json) = self.read::<String>(&keys::agent(version))? else { return Ok(None) };
        let agent: AgentSpec = serde_json::from_str(&json).map_err(|error| StoreError {
            reason: format!("agent version `{version}` cannot be read: {error}").into(),
        })?;
        let agent = Arc::new(agent);
        hot.agents.insert(version.clone(), agent.clone());
        Ok(Some(agent))
    }

    /// The last `limit` completed runs of a session before `index`, oldest first.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn history(&self, session: &SessionId, index: u64, limit: usize) -> Result<Vec<RunState>, StoreError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let (prefix, end) = (keys::completes_of_session(session), keys::complete_of_session(session, index));
        let stored = self.read::<StoredSession>(&keys::session(session))?.unwrap_or_default();
        let latest = stored.latest.filter(|latest| latest.complete);
        // Runs after `index` may have completed before this one: read past them.
        let mut wanted = limit;
        loop {
            let entries = self.store.scan_back(&prefix, wanted)?;
            let all = entries.len() < wanted;
            let mut runs: BTreeMap<_, _> = entries.into_iter().filter(|(key, _)| *key < end).collect();
            if runs.len() >= limit || all {
                runs.extend(latest.map(|run| (run.key(session), run.bytes)).filter(|(key, _)| *key < end));
                let skipped = runs.len().saturating_sub(limit);
                return runs.iter().skip(skipped).map(|(key, bytes)| self.ended(session, key, bytes)).collect();
            }
            wanted = wanted.saturating_mul(2);
        }
    }

    fn ended(&self, session: &SessionId, key: &[u8], bytes: &[u8]) -> Result<RunState, StoreError> {
        let index = keys::index_of(key).ok_or_else(|| StoreError::new("an entry of a completed run has no index"))?;
        read_ended(session, index, bytes, &*self.store)
    }

    /// The runs of a session that have not ended, in the order they were accepted.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn open_runs(&self, session: &SessionId) -> Result<Vec<RunId>, StoreError> {
        let entries = self.store.scan(&keys::opens_of_session(session), &[], SCAN_MAX)?;
        entries.iter().map(|(_, bytes)| Ok(codec::decode::<StoredOpen>(bytes)?.run_id)).collect()
    }

    /// The session's first run that waits for its turn.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn first_waiting(&self, session: &SessionId) -> Result<Option<RunId>, StoreError> {
        let prefix = keys::opens_of_session(session);
        let mut from = Vec::new();
        loop {
            let entries = self.store.scan(&prefix, &from, 16)?;
            for (_, bytes) in &entries {
                let StoredOpen { run_id, progress } = codec::decode(bytes)?;
                if progress.status == RunStatus::Pending {
                    return Ok(Some(run_id));
                }
            }
            let Some((last, _)) = entries.last().filter(|_| entries.len() == 16) else { return Ok(None) };
            from.clone_from(last);
            from.push(0);
        }
    }

    /// Every session that has a run which has not ended, with how many of them wait.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn open_sessions(&self) -> Result<BTreeMap<SessionId, u32>, StoreError> {
        let mut sessions = BTreeMap::new();
        for (key, bytes) in self.store.scan(keys::OPEN_RUNS, &[], SCAN_MAX)? {
            let Some(session) = keys::session_of_open(&key) else {
                return Err(StoreError { reason: "an index entry names no session".into() });
            };
            let StoredOpen { progress, .. } = codec::decode(&bytes)?;
            let waits = progress.status == RunStatus::Pending;
            *sessions.entry(session).or_default() += u32::from(waits);
        }
        Ok(sessions)
    }

    /// Whether any session of the partition refers to the blob.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn is_referenced(&self, sha256: &str) -> Result<bool, StoreError> {
        Ok(!self.store.scan(&keys::sessions_of_blob(sha256), &[], 1)?.is_empty())
    }

    /// Lets go of a session that nobody works on; it is read again when needed.
    pub fn release_session(&self, id: &SessionId) {
        let mut hot = self.hot();
        hot.sessions.remove(id);
        hot.heads.remove(&StreamKey::session(id));
    }

    /// Lets go of a run that nobody works on.
    pub fn release_run(&self, id: &RunId) {
        self.hot().runs.remove(id);
    }

    /// Takes committed events, in order, and moves the position.
    ///
    /// # Errors
    /// When the store cannot be used; it must be discarded then and folded again.
    pub fn apply(&self, facts: &[Fact<'_>], position: Position) -> Result<(), StoreError> {
        let mut hot = self.hot();
        let mut changes = Changes::of(&*self.store);
        for fact in facts {
            hot.take(fact, &mut changes)?;
        }
        self.store.apply(changes.into_list(), position)
    }

    /// Bounds the memory of a replay.
    pub fn release_if_many(&self) {
        let mut hot = self.hot();
        if hot.runs.len() + hot.sessions.len() + hot.heads.len() > HOT_MAX {
            *hot = Hot::default();
        }
    }

    fn read<T: serde::de::DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>, StoreError> {
        read(key, &*self.store)
    }
}
