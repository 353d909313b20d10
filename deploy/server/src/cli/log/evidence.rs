//! Who has seen events that a log does not have: a state store in a data directory, or a snapshot.
//!
//! What they have seen was acknowledged. One that was made before the last loss that was accepted proves nothing.

use std::path::Path;

use anyhow::Context;
use futures::StreamExt;
use reenact_actors::{keys::SHAPES, partition::snapshots_folder, states::States};
use reenact_events::{
    EventLog, Offset, PartitionId,
    event::{Loss, LossOf},
};
use reenact_snapshots::{
    MemoryStore, Position, Shelf, SledStore, StateStore,
    codec::fingerprint,
    snapshot::{Incoming, Origin, SnapshotName},
};

use super::survey::Survey;
use crate::{
    config::{Config, SnapshotPlace},
    wiring::shelf,
};

/// Somebody who has seen a partition up to a position.
struct Witness {
    name: String,
    position: Position,
}

/// What the witnesses that can be found say is lost: the one that has seen most is believed.
pub(super) async fn lost(
    config: &Config,
    log: &dyn EventLog,
    partition: PartitionId,
    left: &Survey,
) -> anyhow::Result<Option<Loss>> {
    let origin =
        Origin { log_id: log.log_id(), partition, partitions: log.partitions(), fingerprint: fingerprint(SHAPES) };
    let mut witnesses: Vec<_> = of_data(&config.data, &origin, left.losses).await?.into_iter().collect();
    if let Some(place) = config.snapshots.place.as_ref().filter(|place| is_there(place)) {
        witnesses.extend(of_shelf(&*shelf::open(place)?, &origin, log, left).await?);
    }
    let mut most: Option<Witness> = None;
    for witness in witnesses {
        let is_more = most.as_ref().is_none_or(|most| witness.position.next_offset > most.position.next_offset);
        if is_more && !is_in(log, witness.position, left).await? {
            most = Some(witness);
        }
    }
    Ok(most.map(|Witness { name, position }| Loss {
        of: LossOf::Events,
        from: left.worked_until.min(position.next_offset),
        until: position.next_offset,
        reason: format!("{name} has seen events up to there under term {}, and the log has others", position.term)
            .into(),
    }))
}

fn is_there(place: &SnapshotPlace) -> bool {
    match place {
        SnapshotPlace::Folder(folder) => folder.is_dir(),
        SnapshotPlace::Bucket(_) => true,
    }
}

/// The state store of a data directory that nobody else uses.
async fn of_data(data: &Path, origin: &Origin, losses: u32) -> anyhow::Result<Option<Witness>> {
    let (folder, origin) = (data.join("state"), *origin);
    let look = move || {
        let Origin { log_id, partition, fingerprint, .. } = origin;
        let Some(store) = SledStore::look(&folder, log_id, partition, fingerprint)? else { return Ok(None) };
        let known = States::losses_in(&store)?;
        let position = store.position()?.filter(|position| position.log_id == log_id && known >= losses);
        let name = format!("the state store in `{}`", folder.display());
        anyhow::Ok(position.map(|position| Witness { name, position }))
    };
    match tokio::task::spawn_blocking(look).await.context("looking at the state store was stopped")? {
        Ok(witness) => Ok(witness),
        Err(error) => {
            tracing::warn!(%error, "the state store tells nothing");
            Ok(None)
        }
    }
}

/// The snapshots that were made since a loss was last accepted. One that is not in the log must be whole.
async fn of_shelf(
    shelf: &dyn Shelf,
    origin: &Origin,
    log: &dyn EventLog,
    left: &Survey,
) -> anyhow::Result<Vec<Witness>> {
    let folder = snapshots_folder(origin, left.losses);
    let names = shelf.list(&folder).await.context("the snapshots cannot be listed")?;
    let mut witnesses = Vec::new();
    for name in names.iter().filter_map(|name| SnapshotName::parse(name)) {
        let path = format!("{folder}/{name}");
        let Ok(incoming) = Incoming::begin(shelf.get(&path)).await else { continue };
        let (header, position) = (incoming.header(), incoming.header().position);
        if header.check(origin).is_err() || header.name() != name || is_in(log, position, left).await? {
            continue;
        }
        match incoming.load_into(&MemoryStore::new()).await {
            Ok(_) => witnesses.push(Witness { name: format!("the snapshot `{path}`"), position }),
            Err(error) => tracing::warn!(path, %error, "a damaged snapshot tells nothing"),
        }
    }
    Ok(witnesses)
}

/// Whether the log has what was seen up to a position: what comes next there, or its end, follows from it.
async fn is_in(log: &dyn EventLog, position: Position, left: &Survey) -> anyhow::Result<bool> {
    let Some(last) = &left.last else { return Ok(position.next_offset == Offset(0)) };
    if last.offset < position.next_offset {
        return Ok(last.chain == position.chain);
    }
    let next = log.tail(position.partition, position.next_offset).next().await;
    let next = next.context("the log ends before its last event")??;
    Ok(position.chain.link(&next.event, next.term) == next.chain)
}
