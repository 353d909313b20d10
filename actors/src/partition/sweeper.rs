//! What wakes a partition's actor now and then.

use std::time::Duration;

use ractor::ActorRef;

use super::{AbortOnDrop, PartitionMessage};
use crate::shared::Shared;

/// Wakes the actor now and then, to let go of idle sessions.
pub(super) fn sweeper(shared: &Shared, actor: ActorRef<PartitionMessage>) -> AbortOnDrop {
    let period = Duration::from_millis((shared.settings.idle_ms / 2).max(10));
    let task = tokio::spawn(async move {
        loop {
            tokio::time::sleep(period).await;
            if actor.cast(PartitionMessage::Sweep).is_err() {
                return;
            }
        }
    });
    AbortOnDrop(task.abort_handle())
}
