//! Who has seen events that a log does not have: a state store in a data directory, or a snapshot.
//!
//! What they have seen was acknowledged. One that was made before the last loss that was accepted proves nothing.

use std::{path::Path, sync::Arc};

use anyhow::Context;
use futures::StreamExt;
use reenact_actors::{keys::SHAPES, partition::snapshots_folder, run::Origin as Accepted, states::States};
use reenact_events::{
    EventLog, Offset, PartitionId,
    event::{Loss, LossOf, LostRun},
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

/// So many lost runs are named: the event that accepts their loss has to fit into a record.
const RUNS_MAX: usize = 1_000;

/// Somebody who has seen a partition up to a position.
pub(super) struct Witness {
    name: String,
    position: Position,
    open: Vec<Arc<Accepted>>,
}

impl Witness {
    /// What it says is lost.
    pub(super) fn loss(&self, left: &Survey) -> Loss {
        let Self { name, position, .. } = self;
        let reason = format!("{name} has seen events up to there under term {}, and the log has others", position.term);
        let (from, until) = (left.worked_until.min(position.next_offset), position.next_offset);
        Loss { of: LossOf::Events, from, until, reason: reason.into(), runs: self.runs(left) }
    }

    /// The runs that it knows to be open and of which nothing is left.
    pub(super) fn runs(&self, left: &Survey) -> Vec<LostRun> {
        let gone = self.open.iter().filter(|run| !left.knows(&run.run_id));
        gone.map(|run| LostRun {
            run_id: run.run_id.clone(),
            session_id: run.session_id.clone(),
            user_id: run.user_id.clone(),
            agent_id: run.agent_id.clone(),
            queued_at: run.queued_at,
        })
        .take(RUNS_MAX)
        .collect()
    }
}

/// Whoever has seen most of what the log does not have, if anybody who can be found has.
pub(super) async fn witness(
    config: &Config,
    log: &dyn EventLog,
    partition: PartitionId,
    left: &Survey,
) -> anyhow::Result<Option<Witness>> {
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
    Ok(most)
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
        let Some(position) = position else { return Ok(None) };
        let name = format!("the state store in `{}`", folder.display());
        let open = States::new(Arc::new(store)).open_origins()?;
        anyhow::Ok(Some(Witness { name, position, open }))
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
        let store = Arc::new(MemoryStore::new());
        match incoming.load_into(&*store).await {
            Ok(_) => {
                let open = States::new(store).open_origins()?;
                witnesses.push(Witness { name: format!("the snapshot `{path}`"), position, open });
            }
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
    Ok(next.follows(position.chain))
}
