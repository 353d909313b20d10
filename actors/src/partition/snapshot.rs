//! When snapshots of a partition's states are made, and that they are made under its ownership only.
//!
//! A task of its own makes them, so commits go on meanwhile. It ends with the partition's actor. Should it still
//! upload after the partition was lost, the name tells: it holds the term, and a later owner's comes after it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::StreamExt;
use reenact_events::Lease;
use reenact_snapshots::{
    ExportableStore, Shelf, ShelfError, SnapshotError, StateStore, StoreError,
    snapshot::{self, Header, SnapshotName},
};
use tokio::sync::Notify;

use super::{
    AbortOnDrop, Partition,
    begin::{origin, snapshots_folder},
};
use crate::shared::{EXPORTS_MAX, Shared};

/// Snapshots that are kept of a partition.
const KEPT: usize = 3;
/// At a hand-over, one is made if there are this part of the events for which one would be made anyway,
const HAND_OVER_PART: u64 = 50;
/// and only as long as the next owner need not wait longer for it.
const HAND_OVER_WAIT: Duration = Duration::from_secs(2);
/// Pause after a failure.
const PAUSE: Duration = Duration::from_secs(30);

/// The snapshots of a partition that is served here.
pub(super) struct Snapshots {
    shared: Arc<Shared>,
    lease: Lease,
    store: Arc<ExportableStore>,
    /// Events that no snapshot has seen.
    unsaved: AtomicU64,
    due: Notify,
}

impl Snapshots {
    pub(super) fn new(partition: &Partition, store: Arc<ExportableStore>, unsaved: u64) -> Self {
        let (shared, lease) = (partition.shared.clone(), partition.lease.clone());
        let snapshots = Self { shared, lease, store, unsaved: AtomicU64::new(0), due: Notify::new() };
        snapshots.count(unsaved);
        snapshots
    }

    /// So many events more are in the store.
    pub(super) fn committed(&self, events: usize) {
        self.count(events as u64);
    }

    fn count(&self, events: u64) {
        let unsaved = self.unsaved.fetch_add(events, Ordering::SeqCst) + events;
        if unsaved >= self.shared.settings.snapshot_events {
            self.due.notify_one();
        }
    }

    /// Makes them from now on, if there is a place for them.
    pub(super) fn keep(self: &Arc<Self>) -> Option<AbortOnDrop> {
        let shelf = self.shared.tools.shelf.clone()?;
        let task = tokio::spawn(self.clone().make_for_ever(shelf));
        Some(AbortOnDrop(task.abort_handle()))
    }

    async fn make_for_ever(self: Arc<Self>, shelf: Arc<dyn Shelf>) {
        loop {
            let in_time = tokio::select! {
                biased;
                () = self.due.notified() => false,
                () = tokio::time::sleep(self.shared.settings.snapshot_period) => true,
            };
            let unsaved = self.unsaved.load(Ordering::SeqCst);
            if unsaved == 0 || !(in_time || unsaved >= self.shared.settings.snapshot_events) {
                continue;
            }
            if !self.make(&*shelf).await {
                tokio::time::sleep(PAUSE).await;
                self.count(0);
            }
        }
    }

    /// Makes one. Without it the next restore takes longer, and nothing else.
    async fn make(&self, shelf: &dyn Shelf) -> bool {
        let partition = self.lease.partition.0;
        match self.try_make(shelf).await {
            Ok(Some(name)) => tracing::info!(partition, %name, "a snapshot is made"),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(partition, %error, "no snapshot was made");
                return false;
            }
        }
        true
    }

    async fn try_make(&self, shelf: &dyn Shelf) -> Result<Option<SnapshotName>, SnapshotError> {
        // It is closed never; without a turn nothing is made.
        let Ok(_turn) = self.shared.exports.acquire().await else { return Ok(None) };
        self.check_ownership().await?;
        let unsaved = self.unsaved.load(Ordering::SeqCst);
        let Some(export) = self.store.export()? else { return Ok(None) };
        let origin = origin(&self.shared, &self.lease);
        let header = Header::new(&origin, export.position());
        let folder = snapshots_folder(&origin, self.lease.losses);
        let path = format!("{folder}/{}", header.name());
        // Others have their turn between two pieces.
        let pieces = snapshot::pieces(export, &header)?.then(|piece| async {
            tokio::task::yield_now().await;
            piece
        });
        shelf.put(&path, pieces.boxed()).await?;
        let without = |count: u64| Some(count.saturating_sub(unsaved));
        // It always has a value.
        self.unsaved.fetch_update(Ordering::SeqCst, Ordering::SeqCst, without).unwrap_or_default();
        if let Err(error) = remove_old(shelf, &folder, KEPT).await {
            tracing::warn!(partition = self.lease.partition.0, %error, "snapshots that are too old are not removed");
        }
        Ok(Some(header.name()))
    }

    /// Removes all snapshots, and writes the store anew.
    pub(super) async fn scrub(&self) -> Result<(), SnapshotError> {
        // None is being made meanwhile. It is closed never.
        let _turn = self.shared.exports.acquire_many(EXPORTS_MAX).await;
        let origin = origin(&self.shared, &self.lease);
        if let Some(shelf) = &self.shared.tools.shelf {
            for losses in 0..=self.lease.losses {
                remove_old(&**shelf, &snapshots_folder(&origin, losses), 0).await?;
            }
        }
        self.unsaved.fetch_max(1, Ordering::SeqCst);
        // On a thread that may block: it takes as long as the store is large.
        let store = self.store.clone();
        let rewritten = tokio::task::spawn_blocking(move || store.rewrite()).await;
        Ok(rewritten.map_err(|error| StoreError::new(format!("its rewriting ended early: {error}")))??)
    }

    /// Asks the log, too: a process that was frozen does not know yet that it has lost the partition.
    async fn check_ownership(&self) -> Result<(), SnapshotError> {
        let unfit = |reason: String| SnapshotError::Unfit(reason.into());
        let owners = self.shared.tools.log.owners().await.map_err(|error| unfit(error.to_string()))?;
        let later =
            |owner: &&reenact_events::Owner| owner.partition == self.lease.partition && owner.term > self.lease.term;
        match owners.iter().find(later) {
            Some(owner) => Err(unfit(format!("`{}` owns the partition now", owner.node))),
            None => Ok(()),
        }
    }
}

/// What may still be done for a partition when nothing works on it any more and it has not been let go yet.
pub struct Parting(Arc<Snapshots>);

impl Parting {
    pub(super) fn of(snapshots: &Arc<Snapshots>) -> Self {
        Self(snapshots.clone())
    }

    /// Makes one more snapshot, if that is worth it and does not take long.
    pub(crate) async fn save(self) {
        let snapshots = self.0;
        let unsaved = snapshots.unsaved.load(Ordering::SeqCst);
        let is_worth_it = unsaved > snapshots.shared.settings.snapshot_events / HAND_OVER_PART;
        let Some(shelf) = snapshots.shared.tools.shelf.clone().filter(|_| is_worth_it) else { return };
        if tokio::time::timeout(HAND_OVER_WAIT, snapshots.make(&*shelf)).await.is_err() {
            tracing::info!(partition = snapshots.lease.partition.0, "no time for a snapshot at the hand-over");
        }
    }
}

/// Removes all but so many of the newest.
async fn remove_old(shelf: &dyn Shelf, folder: &str, kept: usize) -> Result<(), ShelfError> {
    let names = shelf.list(folder).await?;
    let mut names: Vec<_> = names.iter().filter_map(|name| SnapshotName::parse(name)).collect();
    names.sort_unstable();
    for old in names.iter().rev().skip(kept) {
        shelf.delete(&format!("{folder}/{old}")).await?;
    }
    Ok(())
}
