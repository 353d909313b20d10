//! How committed events change what is stored, key by key.

use std::{collections::BTreeMap, sync::Arc};

use reenact_events::{
    BlobRef, Event, RunEvent, RunId, SessionEvent, SessionId, StreamKey, Text, Timestamp, agent::AgentSpec,
    event::StepResult,
};
use reenact_snapshots::{Change, StateStore, StoreError, codec};

use super::SCAN_MAX;
use crate::{
    keys,
    run::{self, RunState, Step, state::Progress},
    session::{self, SessionState},
};

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
pub(super) struct Hot {
    pub(super) runs: BTreeMap<RunId, Arc<RunState>>,
    pub(super) sessions: BTreeMap<SessionId, Arc<SessionState>>,
    pub(super) heads: BTreeMap<StreamKey, u64>,
    pub(super) agents: BTreeMap<Arc<str>, Arc<AgentSpec>>,
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
pub(super) struct Changes<'a> {
    store: &'a dyn StateStore,
    puts: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl<'a> Changes<'a> {
    pub(super) fn of(store: &'a dyn StateStore) -> Self {
        Self { store, puts: BTreeMap::new() }
    }

    pub(super) fn into_list(self) -> Vec<Change> {
        let change = |(key, value)| match value {
            Some(value) => Change::Put(key, value),
            None => Change::Delete(key),
        };
        self.puts.into_iter().map(change).collect()
    }

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
    pub(super) fn session(&mut self, id: &SessionId, store: &dyn StateStore) -> Result<Arc<SessionState>, StoreError> {
        if let Some(session) = self.sessions.get(id) {
            return Ok(session.clone());
        }
        let session: Arc<SessionState> = Arc::new(read(&keys::session(id), store)?.unwrap_or_default());
        self.sessions.insert(id.clone(), session.clone());
        Ok(session)
    }

    pub(super) fn run(&mut self, id: &RunId, store: &dyn StateStore) -> Result<Option<Arc<RunState>>, StoreError> {
        if let Some(run) = self.runs.get(id) {
            return Ok(Some(run.clone()));
        }
        let Some(run) = read_run(id, store)?.map(Arc::new) else { return Ok(None) };
        if !run.progress.status.is_end() {
            self.runs.insert(id.clone(), run.clone());
        }
        Ok(Some(run))
    }

    pub(super) fn head(&mut self, stream: &StreamKey, store: &dyn StateStore) -> Result<u64, StoreError> {
        if let Some(head) = self.heads.get(stream) {
            return Ok(*head);
        }
        let head = read(&keys::head(stream), store)?.unwrap_or(0);
        self.heads.insert(stream.clone(), head);
        Ok(head)
    }

    pub(super) fn take(&mut self, fact: &Fact<'_>, changes: &mut Changes<'_>) -> Result<(), StoreError> {
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
            changes.index(keys::deleted(&id), &id);
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
