//! What a restore begins with: the store that is there, a snapshot, or nothing.
//!
//! The store is the nearest and is used unless a snapshot is so much ahead that loading it is less work than
//! folding. A snapshot that is damaged is passed over: it is a cache, and the log decides.
//!
//! One that is whole and has seen what the log does not have proves that acknowledged events are lost, as the store
//! does. Once that was accepted, the claims count it: states from before that time may have seen what is given up,
//! are used where they fit and passed over where not. Snapshots have a folder for each such time, since offsets
//! and terms begin anew where the log was cut.

use futures::StreamExt;
use reenact_events::{ChainHash, EventLog, Lease, LogError, Offset, Term};
use reenact_snapshots::{
    Change, Position, Shelf, SnapshotError, StateStore, StoreError,
    codec::fingerprint,
    snapshot::{Incoming, Origin, SnapshotName},
};

use super::restore::{RestoreError, STATE_STORE, events_are_gone};
use crate::{keys::SHAPES, shared::Shared, states::States};

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
    candidates.local = candidates.without_what_was_given_up().await?;
    let Some(shelf) = &shared.tools.shelf else {
        return Ok(Begun { position: candidates.without_snapshot()?, saved: Offset(0) });
    };
    let names = candidates.names(&**shelf).await;
    let saved = names.first().filter(|newest| newest.losses == lease.losses);
    let saved = saved.map_or(Offset(0), |newest| newest.name.next_offset);
    let position = candidates.choose(&**shelf, &names, shared.settings.snapshot_events).await?;
    Ok(Begun { position, saved })
}

/// Where the snapshots lie that were made when so many losses had been accepted.
#[must_use]
pub fn snapshots_folder(origin: &Origin, losses: u32) -> String {
    match losses {
        0 => origin.folder(),
        losses => format!("{}-{losses}", origin.folder()),
    }
}

/// A snapshot on the shelf.
#[derive(Debug, Clone, Copy)]
struct Named {
    losses: u32,
    name: SnapshotName,
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
            return match self.is_given_up(States::losses_in(self.store)?) {
                true => Ok(self.discard(GIVEN_UP)),
                false => Err(events_are_gone(self.lease.partition, position.next_offset, STATE_STORE).into()),
            };
        }
        Ok(Some(position))
    }

    /// Whether a loss was accepted after a state was made that knows of so many.
    fn is_given_up(&self, losses: u32) -> bool {
        losses < self.lease.losses
    }

    /// The store's position, unless it has seen what was given up since.
    async fn without_what_was_given_up(&self) -> Result<Option<Position>, RestoreError> {
        let Some(local) = self.local else { return Ok(None) };
        if self.is_given_up(States::losses_in(self.store)?)
            && let Next::Differs(_) = self.next(local).await?
        {
            return Ok(self.discard(GIVEN_UP));
        }
        Ok(Some(local))
    }

    fn discard(&self, doubt: &str) -> Option<Position> {
        tracing::warn!(partition = self.lease.partition.0, %doubt, "the state store is discarded and made anew");
        None
    }

    /// The newest first. A shelf that cannot be read costs time, not the start.
    async fn names(&self, shelf: &dyn Shelf) -> Vec<Named> {
        let mut all = Vec::new();
        for losses in (0..=self.lease.losses).rev() {
            match shelf.list(&snapshots_folder(&self.origin, losses)).await {
                Ok(names) => {
                    let mut names: Vec<_> = names.iter().filter_map(|name| SnapshotName::parse(name)).collect();
                    names.sort_unstable_by(|one, other| other.cmp(one));
                    all.extend(names.into_iter().map(|name| Named { losses, name }));
                }
                Err(error) => {
                    tracing::warn!(partition = self.lease.partition.0, %error, "the snapshots cannot be listed");
                }
            }
        }
        all
    }

    async fn choose(&mut self, shelf: &dyn Shelf, names: &[Named], near: u64) -> Result<Position, RestoreError> {
        let reads_on = names.is_empty() || !self.is_cut_off().await;
        for named in names {
            let next = named.name.next_offset;
            let is_near = |local: Position| reads_on && next.0 <= local.next_offset.0.saturating_add(near);
            if let Some(local) = self.local.filter(|local| is_near(*local)) {
                // It need not be loaded, but what it has seen more than the store must be in the log.
                if local.next_offset < next
                    && let Err(doubt) = self.open(shelf, *named, &self.path(*named)).await?
                {
                    self.pass_over(*named, &doubt);
                }
                break;
            }
            match self.load(shelf, *named).await? {
                Ok(position) => return Ok(position),
                Err(doubt) => self.pass_over(*named, &doubt),
            }
            if self.local.is_some() && self.store.position()?.is_none() {
                // It was emptied for a snapshot that turned out not to be whole.
                self.local = None;
            }
        }
        self.without_snapshot()
    }

    fn pass_over(&self, named: Named, doubt: &SnapshotError) {
        let (partition, name) = (self.lease.partition.0, self.path(named));
        tracing::warn!(partition, name, %doubt, "a snapshot is passed over");
    }

    /// Whether the log has lost what comes next after the store: its beginning was removed meanwhile. Whatever
    /// else is wrong is found by folding.
    async fn is_cut_off(&self) -> bool {
        let Some(local) = self.local else { return false };
        let first = self.log.replay(self.lease, local.next_offset).next().await;
        matches!(first, Some(Err(LogError::OutOfRange { .. } | LogError::Damaged { .. })))
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

    fn path(&self, named: Named) -> String {
        format!("{}/{}", snapshots_folder(&self.origin, named.losses), named.name)
    }

    /// Loads a snapshot, or says why not. The store is untouched until everything but the content was checked.
    async fn load(&self, shelf: &dyn Shelf, named: Named) -> Result<Result<Position, SnapshotError>, RestoreError> {
        let path = self.path(named);
        let incoming = match self.open(shelf, named, &path).await? {
            Ok(incoming) => incoming,
            Err(doubt) => return Ok(Err(doubt)),
        };
        let position = incoming.header().position;
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

    /// A snapshot whose content is all that is not checked yet, or why it cannot be used.
    async fn open<'s>(
        &self,
        shelf: &'s dyn Shelf,
        named: Named,
        path: &'s str,
    ) -> Result<Result<Incoming<'s>, SnapshotError>, RestoreError> {
        let incoming = match Incoming::begin(shelf.get(path)).await {
            Ok(incoming) => incoming,
            Err(doubt) => return Ok(Err(doubt)),
        };
        let position = incoming.header().position;
        let fits = incoming.header().check(&self.origin).and_then(|()| match incoming.header().name() == named.name {
            true => Ok(()),
            false => Err(unfit("its name belongs to another")),
        });
        if let Err(doubt) = fits {
            return Ok(Err(doubt));
        }
        match self.next(position).await? {
            Next::Follows => Ok(Ok(incoming)),
            Next::Gone(doubt) => Ok(Err(doubt)),
            Next::Differs(doubt) if self.is_given_up(named.losses) => Ok(Err(doubt)),
            // Only one that is whole proves anything.
            Next::Differs(_) => match incoming.load_into(&Nowhere).await {
                Ok(_) => {
                    let who = format!("the snapshot `{path}`");
                    Err(events_are_gone(self.lease.partition, position.next_offset, &who).into())
                }
                Err(damaged) => Ok(Err(damaged)),
            },
        }
    }

    /// What the log has where a state ends.
    async fn next(&self, position: Position) -> Result<Next, RestoreError> {
        if position.next_offset > self.lease.claim_offset() {
            return Ok(Next::Differs(unfit("it has seen events that the log does not have")));
        }
        Ok(match self.log.replay(self.lease, position.next_offset).next().await {
            Some(Ok(record)) if record.follows(position.chain) => Next::Follows,
            Some(Ok(record)) => {
                let offset = record.offset;
                Next::Differs(unfit(&format!("the event at offset {offset} does not follow from what it has seen")))
            }
            Some(Err(error @ (LogError::OutOfRange { .. } | LogError::Damaged { .. }))) => {
                Next::Gone(unfit(&error.to_string()))
            }
            Some(Err(error)) => return Err(error.into()),
            None => Next::Gone(unfit("the log has nothing after it")),
        })
    }
}

/// See [`Candidates::next`].
enum Next {
    /// Just what comes next.
    Follows,
    /// Something else, or it ends before: events that the state has seen are lost.
    Differs(SnapshotError),
    /// Nothing that could be read: what comes next was removed, or is damaged.
    Gone(SnapshotError),
}

/// What is said of a state that is not used any more.
const GIVEN_UP: &str = "it has seen events that were lost, and it was accepted to go on without them";

/// A store that keeps nothing: a snapshot that goes there is only checked.
struct Nowhere;

impl StateStore for Nowhere {
    fn position(&self) -> Result<Option<Position>, StoreError> {
        Ok(None)
    }

    fn get(&self, _: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }

    fn scan(&self, _: &[u8], _: &[u8], _: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError> {
        Ok(Vec::new())
    }

    fn scan_back(&self, _: &[u8], _: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError> {
        Ok(Vec::new())
    }

    fn apply(&self, _: Vec<Change>, _: Position) -> Result<(), StoreError> {
        Ok(())
    }

    fn load(&self, _: Vec<(Vec<u8>, Vec<u8>)>) -> Result<(), StoreError> {
        Ok(())
    }

    fn clear(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn rewrite(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

fn unfit(reason: &str) -> SnapshotError {
    SnapshotError::Unfit(reason.into())
}
