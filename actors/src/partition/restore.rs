//! From a claim to a partition that can be served: the state store, brought up to the claim.

use std::sync::Arc;

use futures::StreamExt;
use reenact_events::{Event, EventLog, Lease, LogError, Offset, PartitionId, Recorded, event::DecodeError};
use reenact_snapshots::{ExportableStore, Position, StoreError};

use super::begin::{Begun, begin};
use crate::{
    shared::Shared,
    states::{Fact, States},
};

/// Events folded into the store at once while replaying.
const CHUNK_EVENTS: usize = 500;

/// Why a partition cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The log says no, for now or for good.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The state store cannot be used, not even after it was emptied.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A stored event cannot be read: this version is too old, or the log is damaged. Never skipped.
    #[error("the event at offset {offset} of partition {partition} cannot be read")]
    Event {
        /// Where.
        partition: PartitionId,
        /// Where in it.
        offset: Offset,
        /// Why.
        source: DecodeError,
    },
}

impl RestoreError {
    /// Whether it is no use to try again: what is stored cannot be read.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Event { .. } | Self::Log(LogError::Damaged { .. }))
    }
}

/// A partition that could not be restored.
#[derive(Debug)]
pub struct Failure {
    /// Why.
    pub error: RestoreError,
    /// The last event of the log by then, if it was claimed: whatever comes after it is somebody else's.
    pub claim: Option<Offset>,
}

/// A partition that is owned and up to date.
pub struct Restored {
    /// How many events were folded for it.
    pub folded: u64,
    pub(super) lease: Lease,
    pub(super) states: Arc<States>,
    pub(super) store: Arc<ExportableStore>,
    pub(super) position: Position,
    /// Offsets that no snapshot has seen.
    pub(super) unsaved: u64,
}

/// Claims the partition and folds what its store has not seen.
///
/// # Errors
/// When it cannot be claimed, read or folded. Trying again is harmless: a claim only fences.
pub async fn restore(shared: &Shared, partition: PartitionId) -> Result<Restored, Failure> {
    let claimed = shared.tools.log.claim(partition, shared.settings.node.clone()).await;
    let lease = claimed.map_err(|error| Failure { error: error.into(), claim: None })?;
    let claim = Some(lease.claim_offset());
    restore_claimed(shared, lease).await.map_err(|error| Failure { error, claim })
}

async fn restore_claimed(shared: &Shared, lease: Lease) -> Result<Restored, RestoreError> {
    let (log, partition) = (&*shared.tools.log, lease.partition);
    let store = (shared.tools.open_store)(partition)?;
    let Begun { position: start, saved } = begin(shared, &lease, &*store).await?;
    let states = Arc::new(States::new(store.clone()));
    let (position, folded) = fold(log, &lease, &states, start).await?;
    shared.live.owner_is_new();
    tracing::info!(partition = partition.0, from = start.next_offset.0, folded, "a partition is restored");
    let unsaved = position.next_offset.0.saturating_sub(saved.0);
    Ok(Restored { folded, lease, states, store, position, unsaved })
}

/// A state is written after the commit only, so whatever it has seen was acknowledged. A log that does not have it
/// any more has lost events, and what they did must not be done again in silence.
pub(super) fn events_are_gone(partition: PartitionId, seen: Offset, who: &str) -> LogError {
    let reason = format!(
        "{who} has seen events before this offset that the log does not have any more, so acknowledged events are \
         lost (`reenact log accept-loss --partition {partition}` goes on without them)"
    );
    LogError::Damaged { partition, offset: seen, reason: reason.into() }
}

/// How that store is called which a node has to itself.
pub(super) const STATE_STORE: &str = "the state store";

async fn fold(
    log: &dyn EventLog,
    lease: &Lease,
    states: &States,
    mut position: Position,
) -> Result<(Position, u64), RestoreError> {
    let mut folded = 0;
    let mut chunks = log.replay(lease, position.next_offset).ready_chunks(CHUNK_EVENTS);
    let mut first = true;
    while let Some(chunk) = chunks.next().await {
        let records = chunk.into_iter().collect::<Result<Vec<Recorded>, LogError>>()?;
        if let Some(record) = records.first()
            && std::mem::take(&mut first)
            && !record.follows(position.chain)
        {
            return Err(match position.next_offset {
                Offset(0) => LogError::Damaged {
                    partition: lease.partition,
                    offset: record.offset,
                    reason: "the hash chain does not begin here".into(),
                },
                seen => events_are_gone(lease.partition, seen, STATE_STORE),
            }
            .into());
        }
        position = apply(states, &records, position)?;
        folded += records.len() as u64;
        states.release_if_many();
    }
    Ok((position, folded))
}

/// Folds committed events and moves the position behind them.
fn apply(states: &States, records: &[Recorded], position: Position) -> Result<Position, RestoreError> {
    let Some(last) = records.last() else { return Ok(position) };
    let events = records
        .iter()
        .map(|record| {
            record.decode().map_err(|source| RestoreError::Event {
                partition: record.partition,
                offset: record.offset,
                source,
            })
        })
        .collect::<Result<Vec<Event>, _>>()?;
    let facts: Vec<_> = records
        .iter()
        .zip(&events)
        .map(|(record, event)| Fact {
            key: &record.event.key,
            seq: record.event.seq,
            at: record.event.at,
            cause: record.event.cause.as_ref(),
            event,
        })
        .collect();
    let position = Position { next_offset: last.offset.next(), term: last.term, chain: last.chain, ..position };
    states.apply(&facts, position)?;
    Ok(position)
}
