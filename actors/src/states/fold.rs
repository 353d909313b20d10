//! How committed events change what is stored, key by key.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use reenact_events::{
    BlobRef, CommandId, Event, RunEvent, RunId, SessionEvent, SessionId, StreamKey, Timestamp,
    agent::{AgentSpec, own_versions},
    event::{KeyEvent, PartitionEvent, SubjectEvent},
};
use reenact_snapshots::{Change, StateStore, StoreError, codec};

use super::{
    SCAN_MAX, schedules,
    stored::{
        StoredKey, StoredLatest, StoredOpen, StoredPlace, StoredSession, ended, ended_run_id, read, read_run, run_id,
    },
    values,
};
use crate::{
    keys,
    run::{self, RunState},
    session::{self, SessionState},
};

/// Runs that are read at a time when all of a session's are wanted.
const RUNS_AT_A_TIME: usize = 256;

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
    pub(super) sessions: BTreeMap<SessionId, HotSession>,
    pub(super) heads: BTreeMap<StreamKey, u64>,
    pub(super) agents: BTreeMap<Arc<str>, Arc<AgentSpec>>,
    /// How often a loss was accepted, once that was read.
    losses: Option<u32>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct HotSession {
    pub(super) state: Arc<SessionState>,
    latest: Option<StoredLatest>,
}

/// What the events of one batch change; a later change of the same key replaces an earlier one.
pub(super) struct Changes<'a> {
    pub(super) store: &'a dyn StateStore,
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

    /// What a key holds after the changes so far, if they change it.
    pub(super) fn pending(&self, key: &[u8]) -> Option<&Option<Vec<u8>>> {
        self.puts.get(key)
    }

    pub(super) fn put<T: serde::Serialize>(&mut self, key: Vec<u8>, value: &T) -> Result<(), StoreError> {
        self.puts.insert(key, Some(codec::encode(value)?));
        Ok(())
    }

    pub(super) fn delete(&mut self, key: Vec<u8>) {
        self.puts.insert(key, None);
    }

    /// The keys under one of [`keys::runs_of_session`] as they are after the changes so far, with the runs' ids. The
    /// runs of a long session are large together, so they are read some at a time.
    fn runs(&self, prefix: &[u8]) -> Result<BTreeMap<Vec<u8>, RunId>, StoreError> {
        let (mut runs, mut from) = (BTreeMap::new(), Vec::new());
        loop {
            let entries = self.store.scan(prefix, &from, RUNS_AT_A_TIME)?;
            for (key, bytes) in &entries {
                runs.insert(key.clone(), run_id(key, bytes)?);
            }
            let Some((last, _)) = entries.last().filter(|_| entries.len() == RUNS_AT_A_TIME) else { break };
            from.clone_from(last);
            from.push(0);
        }
        for (key, value) in self.changed(prefix) {
            match value {
                Some(bytes) => runs.insert(key.clone(), run_id(key, bytes)?),
                None => runs.remove(key),
            };
        }
        Ok(runs)
    }

    fn changed<'b>(&'b self, prefix: &'b [u8]) -> impl Iterator<Item = (&'b Vec<u8>, &'b Option<Vec<u8>>)> {
        self.puts.range(prefix.to_vec()..).take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// The entries under `prefix` as they are after the changes so far.
    fn scan(&self, prefix: &[u8]) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, StoreError> {
        let mut entries: BTreeMap<_, _> = self.store.scan(prefix, &[], SCAN_MAX)?.into_iter().collect();
        for (key, value) in self.changed(prefix) {
            match value {
                Some(value) => entries.insert(key.clone(), value.clone()),
                None => entries.remove(key),
            };
        }
        Ok(entries)
    }
}

impl Hot {
    pub(super) fn session(&mut self, id: &SessionId, store: &dyn StateStore) -> Result<&mut HotSession, StoreError> {
        match self.sessions.entry(id.clone()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(vacant) => {
                let StoredSession { state, next_seq, latest } = read(&keys::session(id), store)?.unwrap_or_default();
                self.heads.entry(StreamKey::session(id)).or_insert(next_seq);
                Ok(vacant.insert(HotSession { state: Arc::new(state), latest }))
            }
        }
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
        if let Event::Subject(SubjectEvent::Erased(erased)) = fact.event {
            let own = own_versions(Some(&erased.user_id));
            self.agents.retain(|version, _| !version.starts_with(&own));
            let stored: Vec<_> = changes.scan(&keys::own_agents(&own))?.into_keys().collect();
            stored.into_iter().for_each(|key| changes.delete(key));
        }
        if let Event::Partition(PartitionEvent::Claimed(claimed)) = fact.event {
            self.take_losses(claimed.losses, changes)?;
        }
        if let Event::Key(KeyEvent::Used(used)) = fact.event {
            let stored = StoredKey { request: used.by.request.clone(), session_id: used.session_id.clone() };
            changes.put(keys::used_key(used.by.key), &stored)?;
        }
        remember(fact, changes);
        if let Event::Schedule(event) = fact.event {
            schedules::take(fact, event, changes)?;
        }
        let Some(id) = fact.key.as_session() else { return changes.put(keys::head(fact.key), &next_seq) };
        session::evolve(Arc::make_mut(&mut self.session(&id, changes.store)?.state), fact.event);
        if self.session(&id, changes.store)?.state.exists || !matches!(fact.event, Event::Run(_)) {
            values::take(&id, fact.event, changes)?;
        }
        match fact.event {
            Event::Run(event) => self.take_run(&id, event, fact.at, changes)?,
            Event::Session(SessionEvent::Deleted(_)) => self.take_deletion(&id, changes)?,
            _ => {}
        }
        let HotSession { state, latest } = self.session(&id, changes.store)?.clone();
        changes.put(keys::session(&id), &StoredSession { state: SessionState::clone(&state), next_seq, latest })
    }

    /// How often a loss was accepted so far.
    pub(super) fn losses(&mut self, store: &dyn StateStore) -> Result<u32, StoreError> {
        let known = match self.losses {
            Some(known) => known,
            None => super::States::losses_in(store)?,
        };
        self.losses = Some(known);
        Ok(known)
    }

    /// With the claim that accepts a loss, each run that has not ended may have done more than is known.
    fn take_losses(&mut self, losses: u32, changes: &mut Changes<'_>) -> Result<(), StoreError> {
        let known = self.losses(changes.store)?;
        self.losses = Some(losses.max(known));
        if losses <= known {
            return Ok(());
        }
        changes.put(keys::LOSSES.to_vec(), &losses)?;
        for (key, bytes) in changes.scan(keys::OPEN_RUNS)? {
            let StoredOpen { run_id, .. } = codec::decode(&bytes)?;
            let missing = || StoreError::new(format!("run `{run_id}` is open and not in the store"));
            let mut run = self.run(&run_id, changes.store)?.ok_or_else(missing)?;
            Arc::make_mut(&mut run).progress.history_lost = true;
            changes.put(key, &StoredOpen { run_id: run_id.clone(), progress: run.progress })?;
            self.runs.insert(run_id, run);
        }
        Ok(())
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
            RunEvent::Queued(queued) => {
                let mut run = run::evolve::created(queued, at);
                run.progress.losses = self.losses(changes.store)?;
                Arc::new(run)
            }
            _ => match self.run(id, changes.store)? {
                Some(run) => run,
                // The run's session was deleted.
                None => return Ok(()),
            },
        };
        self.runs.remove(id);
        if !matches!(event, RunEvent::Queued(_)) {
            run::evolve(Arc::make_mut(&mut run), event, at);
        }
        put_run(&run, event, self.session(session, changes.store)?, changes)?;
        for blob in event.blobs() {
            changes.puts.insert(keys::blob_of_session(&blob.sha256, session), Some(Vec::new()));
            changes.puts.insert(keys::blob_in_session(session, &blob.sha256), Some(codec::encode(blob)?));
        }
        self.runs.insert(id.clone(), run);
        Ok(())
    }

    fn take_deletion(&mut self, session: &SessionId, changes: &mut Changes<'_>) -> Result<(), StoreError> {
        if let Some(latest) = self.session(session, changes.store)?.latest.take() {
            let id = ended_run_id(&latest.bytes)?;
            self.runs.remove(&id);
            changes.put(keys::place(&id), &StoredPlace::Deleted)?;
        }
        for prefix in keys::runs_of_session(session) {
            for (key, id) in changes.runs(&prefix)? {
                self.runs.remove(&id);
                changes.put(keys::place(&id), &StoredPlace::Deleted)?;
                changes.delete(key);
            }
        }
        for prefix in keys::parts_in_session(session) {
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

/// Stores what an event changed of a run. Nothing follows an end but that it is queued again, so a run that is whole then stays so until then.
fn put_run(run: &RunState, event: &RunEvent, of: &mut HotSession, changes: &mut Changes<'_>) -> Result<(), StoreError> {
    let (session, index) = (&run.origin.session_id, run.origin.run_index);
    if let RunEvent::Queued(_) = event {
        changes.put(keys::place(run.id()), &StoredPlace::At(session.clone(), index))?;
        changes.put(keys::origin(session, index), &run.origin)?;
    }
    if let RunEvent::Regenerated(_) = event {
        return hide(run, of, changes);
    }
    if let RunEvent::Requeued(_) = event {
        open_again(run, of, changes)?;
    }
    if let RunEvent::Queued(_) | RunEvent::Continued(_) | RunEvent::Requeued(_) = event
        && let Some(latest) = of.latest.take()
    {
        changes.puts.insert(latest.key(session), Some(latest.bytes));
    }
    if event.is_end() {
        let (bytes, is_whole) = ended(run)?;
        let latest = StoredLatest { index, complete: matches!(event, RunEvent::Completed(_)), bytes };
        changes.delete(keys::open_of_session(session, index));
        let rests = is_whole && of.state.is_free();
        let apart = if rests { of.latest.replace(latest) } else { Some(latest) };
        if let Some(run) = apart {
            changes.puts.insert(run.key(session), Some(run.bytes));
        }
        if is_whole {
            changes.delete(keys::origin(session, index));
            (0..run.progress.steps).for_each(|step| changes.delete(keys::step(session, index, step)));
            return Ok(());
        }
    } else {
        let open = StoredOpen { run_id: run.id().clone(), progress: run.progress };
        changes.put(keys::open_of_session(session, index), &open)?;
    }
    if let Some(at) = run::evolve::touched_step(event)
        && let Some(step) = run.step(at)
    {
        changes.put(keys::step(session, index, at), &**step)?;
    }
    Ok(())
}

/// Takes a run that had ended apart again.
fn open_again(run: &RunState, of: &mut HotSession, changes: &mut Changes<'_>) -> Result<(), StoreError> {
    let (session, index) = (&run.origin.session_id, run.origin.run_index);
    of.latest.take_if(|latest| latest.index == index);
    changes.delete(keys::stopped_of_session(session, index));
    changes.put(keys::origin(session, index), &run.origin)?;
    for (at, step) in (0..).zip(&run.steps) {
        changes.put(keys::step(session, index, at), &**step)?;
    }
    Ok(())
}

/// Takes a run that had ended out of what a model may be shown.
fn hide(run: &RunState, of: &mut HotSession, changes: &mut Changes<'_>) -> Result<(), StoreError> {
    let (session, index) = (&run.origin.session_id, run.origin.run_index);
    let (bytes, _) = ended(run)?;
    if let Some(latest) = of.latest.as_mut().filter(|latest| latest.index == index) {
        (latest.complete, latest.bytes) = (false, bytes);
        return Ok(());
    }
    changes.delete(keys::complete_of_session(session, index));
    changes.puts.insert(keys::stopped_of_session(session, index), Some(bytes));
    Ok(())
}

/// Keeps which command it was. A start is known by its run, whose id follows from it; the session that it creates
/// comes first.
fn remember(fact: &Fact<'_>, changes: &mut Changes<'_>) {
    let Some(cause) = fact.cause else { return };
    match fact.event {
        Event::Schedule(event) if !schedules::is_asked(event) => {}
        Event::Session(_)
        | Event::Schedule(_)
        | Event::Subject(_)
        | Event::Run(
            RunEvent::StepResolved(_)
            | RunEvent::StepAnswered(_)
            | RunEvent::Continued(_)
            | RunEvent::Cancelled(_)
            | RunEvent::Requeued(_),
        ) => {
            changes.puts.insert(keys::taken(cause), Some(Vec::new()));
        }
        Event::Run(RunEvent::Queued(queued)) if queued.run_index == 0 => changes.delete(keys::taken(cause)),
        _ => {}
    }
}
