//! The fold of a partition: committed events in, current states out.
//!
//! There is one path for live events and for replay, so a state store that was deleted and folded again is
//! the same store. States of entities at work are kept decoded; all others are read when somebody asks.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use reenact_events::{
    BlobRef, Event, RunEvent, RunId, SessionEvent, SessionId, StreamKey, Text, Timestamp,
    agent::AgentSpec,
    event::{RunStatus, StepResult},
};
use reenact_snapshots::{Change, Position, StateStore, StoreError, codec};

use crate::{
    keys,
    run::{self, RunState, Step, state::Progress},
    session::{self, SessionState},
};

/// Entries that one scan reads at most.
const SCAN_MAX: usize = 1_000_000;
/// Decoded entities kept while replaying, before all are let go.
const HOT_MAX: usize = 8_192;

/// An event as the fold takes it.
#[derive(Debug)]
pub struct Fact<'a> {
    /// Its stream.
    pub key: &'a StreamKey,
    /// Its place in the stream.
    pub seq: u64,
    /// When it was decided.
    pub at: Timestamp,
    /// What it says.
    pub event: &'a Event,
}

#[derive(Debug, Default)]
struct Hot {
    runs: BTreeMap<RunId, Arc<RunState>>,
    sessions: BTreeMap<SessionId, Arc<SessionState>>,
    heads: BTreeMap<StreamKey, u64>,
    agents: BTreeMap<Arc<str>, Arc<AgentSpec>>,
}

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
        self.hot().session(id, &*self.store)
    }

    /// A run.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn run(&self, id: &RunId) -> Result<Option<Arc<RunState>>, StoreError> {
        self.hot().run(id, &*self.store)
    }

    /// Whether the run was ever accepted, though it may be deleted since.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn was_taken(&self, id: &RunId) -> Result<bool, StoreError> {
        Ok(self.store.get(&keys::taken(id))?.is_some())
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
        // Runs after `index` may have completed before this one: read past them.
        let mut wanted = limit;
        loop {
            let entries = self.store.scan_back(&keys::histories_of_session(session), wanted)?;
            let all = entries.len() < wanted;
            let before: Vec<_> =
                entries.into_iter().filter(|(key, _)| *key < keys::history_of_session(session, index)).collect();
            if before.len() >= limit || all {
                return before.into_iter().take(limit).rev().map(|(_, id)| self.stored_run(&id)).collect();
            }
            wanted = wanted.saturating_mul(2);
        }
    }

    fn stored_run(&self, id: &[u8]) -> Result<RunState, StoreError> {
        let id = run_id(id)?;
        let run = read_run(&id, &*self.store)?;
        run.ok_or_else(|| StoreError { reason: format!("run `{id}` is in an index but not in the store").into() })
    }

    /// The runs of a session that have not ended, in the order they were accepted.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn open_runs(&self, session: &SessionId) -> Result<Vec<RunId>, StoreError> {
        let entries = self.store.scan(&keys::opens_of_session(session), &[], SCAN_MAX)?;
        entries.iter().map(|(_, id)| run_id(id)).collect()
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
            for (_, id) in &entries {
                let id = run_id(id)?;
                let progress = self.read::<Progress>(&keys::progress(&id))?;
                if progress.is_some_and(|progress| progress.status == RunStatus::Pending) {
                    return Ok(Some(id));
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
        for (key, id) in self.store.scan(keys::OPEN_RUNS, &[], SCAN_MAX)? {
            let Some(session) = keys::session_of_open(&key) else {
                return Err(StoreError { reason: "an index entry names no session".into() });
            };
            let id = run_id(&id)?;
            let progress = self.read::<Progress>(&keys::progress(&id))?;
            let waits = progress.is_some_and(|progress| progress.status == RunStatus::Pending);
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
        let mut changes = Changes { store: &*self.store, puts: BTreeMap::new() };
        for fact in facts {
            hot.take(fact, &mut changes)?;
        }
        let changes = changes.puts.into_iter().map(|(key, value)| match value {
            Some(value) => Change::Put(key, value),
            None => Change::Delete(key),
        });
        self.store.apply(changes.collect(), position)?;
        Ok(())
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

fn read<T: serde::de::DeserializeOwned>(key: &[u8], store: &dyn StateStore) -> Result<Option<T>, StoreError> {
    store.get(key)?.map(|bytes| codec::decode(&bytes)).transpose()
}

fn run_id(bytes: &[u8]) -> Result<RunId, StoreError> {
    std::str::from_utf8(bytes)
        .map(RunId::trusted)
        .map_err(|_| StoreError { reason: "an index entry is not a run's id".into() })
}

fn read_run(id: &RunId, store: &dyn StateStore) -> Result<Option<RunState>, StoreError> {
    let Some(origin) = read(&keys::origin(id), store)? else { return Ok(None) };
    let Some(progress) = read::<Progress>(&keys::progress(id), store)? else { return Ok(None) };
    let steps: Result<Vec<_>, _> = store
        .scan(&keys::steps(id), &[], SCAN_MAX)?
        .iter()
        .map(|(_, bytes)| codec::decode::<Step>(bytes).map(Arc::new))
        .collect();
    Ok(Some(RunState { origin: Arc::new(origin), progress, steps: steps? }))
}

/// What the events of one batch change; a later change of the same key replaces an earlier one.
struct Changes<'a> {
    store: &'a dyn StateStore,
    puts: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Changes<'_> {
    fn put<T: serde::Serialize>(&mut self, key: Vec<u8>, value: &T) -> Result<(), StoreError> {
        self.puts.insert(key, Some(codec::encode(value)?));
        Ok(())
    }

    fn index(&mut self, key: Vec<u8>, run: &RunId) {
        self.puts.insert(key, Some(run.as_str().as_bytes().to_vec()));
    }

    fn delete(&mut self, key: Vec<u8>) {
        self.puts.insert(key, None);
    }

    /// The entries under `prefix` as they are after the changes so far.
    fn scan(&self, prefix: &[u8]) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, StoreError> {
        let mut entries: BTreeMap<_, _> = self.store.scan(prefix, &[], SCAN_MAX)?.into_iter().collect();
        let changed = self.puts.range(prefix.to_vec()..).take_while(|(key, _)| key.starts_with(prefix));
        for (key, value) in changed {
            match value {
                Some(value) => entries.insert(key.clone(), value.clone()),
                None => entries.remove(key),
            };
        }
        Ok(entries)
    }
}

impl Hot {
    fn session(&mut self, id: &SessionId, store: &dyn StateStore) -> Result<Arc<SessionState>, StoreError> {
        if let Some(session) = self.sessions.get(id) {
            return Ok(session.clone());
        }
        let session: Arc<SessionState> = Arc::new(read(&keys::session(id), store)?.unwrap_or_default());
        self.sessions.insert(id.clone(), session.clone());
        Ok(session)
    }

    fn run(&mut self, id: &RunId, store: &dyn StateStore) -> Result<Option<Arc<RunState>>, StoreError> {
        if let Some(run) = self.runs.get(id) {
            return Ok(Some(run.clone()));
        }
        let Some(run) = read_run(id, store)?.map(Arc::new) else { return Ok(None) };
        if !run.progress.status.is_end() {
            self.runs.insert(id.clone(), run.clone());
        }
        Ok(Some(run))
    }

    fn head(&mut self, stream: &StreamKey, store: &dyn StateStore) -> Result<u64, StoreError> {
        if let Some(head) = self.heads.get(stream) {
            return Ok(*head);
        }
        let head = read(&keys::head(stream), store)?.unwrap_or(0);
        self.heads.insert(stream.clone(), head);
        Ok(head)
    }

    fn take(&mut self, fact: &Fact<'_>, changes: &mut Changes<'_>) -> Result<(), StoreError> {
        self.heads.insert(fact.key.clone(), fact.seq + 1);
        changes.put(keys::head(fact.key), &(fact.seq + 1))?;
        if let Event::Component(reenact_events::event::ComponentEvent::Registered(registered)) = fact.event {
            let json = serde_json::to_string(&registered.spec)
                .map_err(|error| StoreError { reason: format!("an agent cannot be written: {error}").into() })?;
            changes.put(keys::agent(&registered.version), &json)?;
            self.agents.insert(registered.version.clone(), Arc::new(registered.spec.clone()));
        }
        let Some(id) = fact.key.as_session() else { return Ok(()) };
        let mut session = self.session(&id, changes.store)?;
        let before = session.clone();
        session::evolve(Arc::make_mut(&mut session), fact.event);
        if session != before {
            changes.put(keys::session(&id), &*session)?;
            self.sessions.insert(id.clone(), session);
        }
        match fact.event {
            Event::Run(event) => self.take_run(&id, event, fact.at, changes),
            Event::Session(SessionEvent::Deleted(_)) => self.take_deletion(&id, changes),
            _ => Ok(()),
        }
    }

    fn take_run(
        &mut self,
        session: &SessionId,
        event: &RunEvent,
        at: Timestamp,
        changes: &mut Changes<'_>,
    ) -> Result<(), StoreError> {
        let id = event.run_id();
        let mut run = match event {
            RunEvent::Queued(queued) => Arc::new(run::evolve::created(queued, at)),
            _ => match self.run(id, changes.store)? {
                Some(run) => run,
                // The run's session was deleted.
                None => return Ok(()),
            },
        };
        self.runs.remove(id);
        run::evolve(Arc::make_mut(&mut run), event, at);
        let index = run.origin.run_index;
        if let RunEvent::Queued(_) = event {
            changes.put(keys::origin(id), &*run.origin)?;
            changes.index(keys::taken(id), id);
            changes.index(keys::run_of_session(session, index), id);
            changes.index(keys::open_of_session(session, index), id);
        }
        changes.put(keys::progress(id), &run.progress)?;
        if let Some(at) = run::evolve::touched_step(event)
            && let Some(step) = run.step(at)
        {
            changes.put(keys::step(id, at), &**step)?;
        }
        for blob in blobs_of(event) {
            changes.index(keys::blob_of_session(&blob.sha256, session), id);
            changes.puts.insert(keys::blob_in_session(session, &blob.sha256), Some(codec::encode(blob)?));
        }
        if event.is_end() {
            changes.delete(keys::open_of_session(session, index));
        }
        if let RunEvent::Completed(_) = event {
            changes.index(keys::history_of_session(session, index), id);
        }
        self.runs.insert(id.clone(), run);
        Ok(())
    }

    fn take_deletion(&mut self, session: &SessionId, changes: &mut Changes<'_>) -> Result<(), StoreError> {
        for (key, id) in changes.scan(&keys::runs_of_session(session))? {
            let id = run_id(&id)?;
            self.runs.remove(&id);
            for step in changes.scan(&keys::steps(&id))?.into_keys() {
                changes.delete(step);
            }
            changes.delete(keys::origin(&id));
            changes.delete(keys::progress(&id));
            changes.delete(key);
        }
        for prefix in [keys::histories_of_session(session), keys::opens_of_session(session)] {
            for key in changes.scan(&prefix)?.into_keys() {
                changes.delete(key);
            }
        }
        for (key, bytes) in changes.scan(&keys::blobs_in_session(session))? {
            let blob: BlobRef = codec::decode(&bytes)?;
            changes.delete(keys::blob_of_session(&blob.sha256, session));
            changes.delete(key);
        }
        Ok(())
    }
}

fn blobs_of(event: &RunEvent) -> Vec<&BlobRef> {
    fn text(text: &Text) -> Option<&BlobRef> {
        match text {
            Text::Inline(_) => None,
            Text::Blob(blob) => Some(blob),
        }
    }
    match event {
        RunEvent::Queued(queued) => {
            text(&queued.input).into_iter().chain(queued.media.iter().map(|media| &media.blob)).collect()
        }
        RunEvent::StepCompleted(done) => match &done.result {
            StepResult::Model { text: answer, reasoning, tool_calls, .. } => text(answer)
                .into_iter()
                .chain(reasoning.as_ref().and_then(text))
                .chain(tool_calls.iter().filter_map(|call| text(&call.arguments)))
                .collect(),
            StepResult::Tool { content, media, .. } => {
                text(content).into_iter().chain(media.iter().map(|media| &media.blob)).collect()
            }
        },
        RunEvent::Cancelled(cancelled) => cancelled.partial.as_ref().and_then(text).into_iter().collect(),
        _ => Vec::new(),
    }
}
