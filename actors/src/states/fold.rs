//! How committed events change what is stored, key by key.

use std::{collections::BTreeMap, sync::Arc};

use reenact_events::{
    BlobRef, CommandId, Event, RunEvent, RunId, SessionEvent, SessionId, StreamKey, Text, Timestamp, agent::AgentSpec,
    event::StepResult,
};
use reenact_snapshots::{Change, StateStore, StoreError, codec};

use super::{
    SCAN_MAX,
    stored::{StoredRun, StoredSession, read, read_run, run_id, whole},
};
use crate::{
    keys,
    run::{self, RunState},
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
    /// The command that it follows from.
    pub cause: Option<&'a CommandId>,
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
        let StoredSession { state, next_seq } = read(&keys::session(id), store)?.unwrap_or_default();
        let session = Arc::new(state);
        self.sessions.insert(id.clone(), session.clone());
        self.heads.entry(StreamKey::session(id)).or_insert(next_seq);
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
        let head = match stream.as_session() {
            Some(session) => read::<StoredSession>(&keys::session(&session), store)?.unwrap_or_default().next_seq,
            None => read(&keys::head(stream), store)?.unwrap_or(0),
        };
        self.heads.insert(stream.clone(), head);
        Ok(head)
    }

    pub(super) fn take(&mut self, fact: &Fact<'_>, changes: &mut Changes<'_>) -> Result<(), StoreError> {
        let next_seq = fact.seq + 1;
        self.heads.insert(fact.key.clone(), next_seq);
        if let Event::Component(reenact_events::event::ComponentEvent::Registered(registered)) = fact.event {
            let json = serde_json::to_string(&registered.spec)
                .map_err(|error| StoreError { reason: format!("an agent cannot be written: {error}").into() })?;
            changes.put(keys::agent(&registered.version), &json)?;
            self.agents.insert(registered.version.clone(), Arc::new(registered.spec.clone()));
        }
        let Some(id) = fact.key.as_session() else { return changes.put(keys::head(fact.key), &next_seq) };
        remember(fact, changes);
        let mut session = self.session(&id, changes.store)?;
        session::evolve(Arc::make_mut(&mut session), fact.event);
        changes.put(keys::session(&id), &StoredSession { state: SessionState::clone(&session), next_seq })?;
        self.sessions.insert(id.clone(), session);
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
        put_run(&run, event, changes)?;
        let index = run.origin.run_index;
        match event {
            RunEvent::Queued(_) => changes.index(keys::open_of_session(session, index), id),
            RunEvent::Completed(_) => changes.index(keys::history_of_session(session, index), id),
            RunEvent::Failed(_) | RunEvent::Cancelled(_) => changes.index(keys::stopped_of_session(session, index), id),
            _ => {}
        }
        if event.is_end() {
            changes.delete(keys::open_of_session(session, index));
        }
        for blob in blobs_of(event) {
            changes.index(keys::blob_of_session(&blob.sha256, session), id);
            changes.puts.insert(keys::blob_in_session(session, &blob.sha256), Some(codec::encode(blob)?));
        }
        self.runs.insert(id.clone(), run);
        Ok(())
    }

    fn take_deletion(&mut self, session: &SessionId, changes: &mut Changes<'_>) -> Result<(), StoreError> {
        for prefix in keys::runs_of_session(session) {
            for (key, id) in changes.scan(&prefix)? {
                let id = run_id(&id)?;
                self.runs.remove(&id);
                for step in changes.scan(&keys::steps(&id))?.into_keys() {
                    changes.delete(step);
                }
                changes.index(keys::deleted(&id), &id);
                changes.delete(keys::run(&id));
                changes.delete(keys::progress(&id));
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

/// Stores what an event changed of a run. Nothing follows an end, so a run that is whole then stays so.
fn put_run(run: &RunState, event: &RunEvent, changes: &mut Changes<'_>) -> Result<(), StoreError> {
    let id = run.id();
    if event.is_end()
        && let Some(bytes) = whole(run)?
    {
        changes.puts.insert(keys::run(id), Some(bytes));
        changes.delete(keys::progress(id));
        for step in 0..run.progress.steps {
            changes.delete(keys::step(id, step));
        }
        return Ok(());
    }
    if let RunEvent::Queued(_) = event {
        changes.put(keys::run(id), &StoredRun::Parts(run.origin.clone()))?;
    }
    changes.put(keys::progress(id), &run.progress)?;
    if let Some(at) = run::evolve::touched_step(event)
        && let Some(step) = run.step(at)
    {
        changes.put(keys::step(id, at), &**step)?;
    }
    Ok(())
}

/// Keeps which command it was. A start is known by its run, whose id follows from it; the session that it creates
/// comes first.
fn remember(fact: &Fact<'_>, changes: &mut Changes<'_>) {
    let Some(cause) = fact.cause else { return };
    match fact.event {
        Event::Session(_) | Event::Run(RunEvent::StepResolved(_) | RunEvent::Continued(_) | RunEvent::Cancelled(_)) => {
            changes.puts.insert(keys::taken(cause), Some(Vec::new()));
        }
        Event::Run(RunEvent::Queued(queued)) if queued.run_index == 0 => changes.delete(keys::taken(cause)),
        _ => {}
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
