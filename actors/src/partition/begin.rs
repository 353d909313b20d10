//! What a restore begins with: the store that is there, a snapshot, or nothing.
//!
//! The store is the nearest and is used unless a snapshot is so much ahead that loading it is less work than
//! folding. A snapshot that does not pass is passed over: it is a cache, and the log decides.

use futures::StreamExt;
use reenact_events::{ChainHash, EventLog, Lease, LogError, Offset, Term};
use reenact_snapshots::{
    Position, Shelf, SnapshotError, StateStore,
    codec::fingerprint,
    snapshot::{Incoming, Origin, SnapshotName},
};

use super::restore::{RestoreError, events_are_gone};
use crate::{keys::SHAPES, shared::Shared};

/// Where folding begins.
pub(super) struct Begun {
    /// What the store stands for.
    pub(super) position: Position,
    /// What the newest snapshot stands for, or the beginning.
    pub(super) saved: Offset,
}

/// Of what the snapshots of a partition must be.
pub(super) fn origin(shared: &Shared, lease: &Lease) -> Origin {
    let log = &shared.tools.log;
    let (log_id, partitions) = (log.log_id(), log.partitions());
    Origin { log_id, partition: lease.partition, partitions, fingerprint: fingerprint(SHAPES) }
}

/// Brings the store to a position from which the log can be folded.
pub(super) async fn begin(shared: &Shared, lease: &Lease, store: &dyn StateStore) -> Result<Begun, RestoreError> {
    let mut candidates =
        Candidates { log: &*shared.tools.log, lease, store, origin: origin(shared, lease), local: None };
    candidates.local = candidates.usable_position()?;
    let Some(shelf) = &shared.tools.shelf else {
        return Ok(Begun { position: candidates.without_snapshot()?, saved: Offset(0) });
    };
    let names = candidates.names(&**shelf).await;
    let saved = names.first().map_or(Offset(0), |newest| newest.next_offset);
    let position = candidates.choose(&**shelf, &names, shared.settings.snapshot_events).await?;
    Ok(Begun { position, saved })
}

struct Candidates<'a> {
    log: &'a dyn EventLog,
    lease: &'a Lease,
    store: &'a dyn StateStore,
    origin: Origin,
    /// The store's own position, if it can be used.
    local: Option<Position>,
}

impl Candidates<'_> {
    fn usable_position(&self) -> Result<Option<Position>, RestoreError> {
        let position = match self.store.position() {
            Ok(Some(position)) => position,
            Ok(None) => return Ok(None),
            Err(error) => return Ok(self.discard(&error.to_string())),
        };
        if position.log_id != self.origin.log_id || position.partition != self.lease.partition {
            return Ok(self.discard("it belongs to another log"));
        }
        if position.next_offset > self.lease.claim_offset() {
            return Err(events_are_gone(self.lease.partition, position.next_offset).into());
        }
        Ok(Some(position))
    }

    fn discard(&self, doubt: &str) -> Option<Position> {
        tracing::warn!(partition = self.lease.partition.0, %doubt, "the state store is discarded and made anew");
        None
    }

    /// The newest first. A shelf that cannot be read costs time, not the start.
    async fn names(&self, shelf: &dyn Shelf) -> Vec<SnapshotName> {
        match shelf.list(&self.origin.folder()).await {
            Ok(names) => {
                let mut names: Vec<_> = names.iter().filter_map(|name| SnapshotName::parse(name)).collect();
                names.sort_unstable_by(|one, other| other.cmp(one));
                names
            }
            Err(error) => {
                tracing::warn!(partition = self.lease.partition.0, %error, "the snapshots cannot be listed");
                Vec::new()
            }
        }
    }

    async fn choose(&mut self, shelf: &dyn Shelf, names: &[SnapshotName], near: u64) -> Result<Position, RestoreError> {
        let reads_on = names.is_empty() || !self.is_cut_off().await;
        for name in names {
            let is_near = |local: Position| reads_on && name.next_offset.0 <= local.next_offset.0.saturating_add(near);
            if self.local.is_some_and(is_near) {
                break;
            }
            match self.load(shelf, *name).await? {
                Ok(position) => return Ok(position),
                Err(doubt) => {
                    let (partition, name) = (self.lease.partition.0, format!("{}/{name}", self.origin.folder()));
                    tracing::warn!(partition, name, %doubt, "a snapshot is passed over");
                }
            }
            if self.local.is_some() && self.store.position()?.is_none() {
                // It was emptied for a snapshot that turned out not to be whole.
                self.local = None;
            }
        }
        self.without_snapshot()
    }

    /// Whether the log has lost what comes next after the store: its beginning was removed meanwhile. Whatever
    /// else is wrong is found by folding.
    async fn is_cut_off(&self) -> bool {
        let Some(local) = self.local else { return false };
        let first = self.log.replay(self.lease, local.next_offset).next().await;
        matches!(first, Some(Err(LogError::OutOfRange { .. })))
    }

    fn without_snapshot(&self) -> Result<Position, RestoreError> {
        if let Some(local) = self.local {
            return Ok(local);
        }
        self.store.clear()?;
        Ok(Position {
            log_id: self.origin.log_id,
            partition: self.lease.partition,
            next_offset: Offset(0),
            term: Term(0),
            chain: ChainHash::default(),
        })
    }

    /// Loads a snapshot, or says why not. The store is untouched until everything but the content was checked.
    async fn load(
        &self,
        shelf: &dyn Shelf,
        name: SnapshotName,
    ) -> Result<Result<Position, SnapshotError>, RestoreError> {
        let path = format!("{}/{name}", self.origin.folder());
        let incoming = match Incoming::begin(shelf.get(&path)).await {
            Ok(incoming) => incoming,
            Err(doubt) => return Ok(Err(doubt)),
        };
        let position = incoming.header().position;
        let fits = incoming.header().check(&self.origin).and_then(|()| match incoming.header().name() == name {
            true => Ok(()),
            false => Err(unfit("its name belongs to another")),
        });
        if let Err(doubt) = fits {
            return Ok(Err(doubt));
        }
        if let Err(doubt) = self.goes_on(position).await? {
            return Ok(Err(doubt));
        }
        match incoming.load_into(self.store).await {
            Ok(entries) => {
                let (partition, offset) = (self.lease.partition.0, position.next_offset.0);
                tracing::info!(partition, offset, entries, "restored from snapshot");
                Ok(Ok(position))
            }
            Err(SnapshotError::Store(error)) => Err(error.into()),
            Err(doubt) => Ok(Err(doubt)),
        }
    }

    /// Whether the log goes on exactly where the snapshot ends.
    async fn goes_on(&self, position: Position) -> Result<Result<(), SnapshotError>, RestoreError> {
        if position.next_offset > self.lease.claim_offset() {
            return Ok(Err(unfit("it has seen events that the log does not have, so acknowledged ones may be lost")));
        }
        Ok(match self.log.replay(self.lease, position.next_offset).next().await {
            Some(Ok(record)) if position.chain.link(&record.event, record.term) == record.chain => Ok(()),
            Some(Ok(record)) => {
                Err(unfit(&format!("the event at offset {} does not follow from what it has seen", record.offset)))
            }
            Some(Err(error @ LogError::OutOfRange { .. })) => Err(unfit(&error.to_string())),
            Some(Err(error)) => return Err(error.into()),
            None => Err(unfit("the log has nothing after it")),
        })
    }
}

fn unfit(reason: &str) -> SnapshotError {
    SnapshotError::Unfit(reason.into())
}
