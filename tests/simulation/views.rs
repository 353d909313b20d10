//! The views of a world: folded by several projectors at once, as when an owner changes, and lost now and
//! then. The expected position is all that keeps them from counting anything twice.

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use reenact_events::{EventLog, MemoryLog, PartitionId};
use reenact_projections::{MemoryViews, ViewError, digest};

use crate::faults::Dice;

pub(crate) type SharedViews = Arc<Mutex<MemoryViews>>;

/// Follows a partition for ever, in batches of chance, always a little behind what it believes.
pub(crate) async fn project(log: MemoryLog, partition: PartitionId, views: SharedViews, dice: Dice) {
    loop {
        let mut expected = views.lock().expect("views").position(partition);
        let mut events =
            log.tail(partition, expected.next_offset).ready_chunks(1 + usize::try_from(dice.below(20)).expect("small"));
        while let Some(batch) = events.next().await {
            let Ok(batch) = batch.into_iter().collect::<Result<Vec<_>, _>>() else { break };
            tokio::time::sleep(dice.pause(100)).await;
            match views.lock().expect("views").apply(expected, &batch) {
                Ok(next) => expected = next,
                Err(ViewError::Overtaken { .. }) => break,
                Err(broken) => panic!("a view cannot be folded: {broken}"),
            }
        }
        tokio::time::sleep(dice.pause(100)).await;
    }
}

/// What was folded by many hands over many lives is what one hand folds from the log.
pub(crate) fn same_when_rebuilt(log: &MemoryLog, views: &SharedViews) -> Result<(), String> {
    let mut live = views.lock().expect("views").clone();
    let mut rebuilt = MemoryViews::new();
    for partition in (0..log.partitions()).map(PartitionId) {
        for recorded in log.recorded(partition) {
            for views in [&mut live, &mut rebuilt] {
                let expected = views.position(partition);
                if recorded.offset >= expected.next_offset {
                    views.apply(expected, std::slice::from_ref(&recorded)).map_err(|error| error.to_string())?;
                }
            }
        }
    }
    let digests = [&live, &rebuilt].map(|views| digest(&views.dump()).expect("writable"));
    if digests[0] == digests[1] { Ok(()) } else { Err("the views are not what a rebuild gives".to_owned()) }
}
