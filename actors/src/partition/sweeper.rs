//! What wakes a partition's actor now and then, and lets go of what is idle.

use std::{sync::atomic::Ordering, time::Duration};

use ractor::ActorRef;

use super::{AbortOnDrop, PartitionMessage, PartitionState};
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

impl PartitionState {
    pub(super) fn sweep(&mut self) {
        self.schedules.forget_crashes();
        self.crashes.clear();
        let idle = Duration::from_millis(self.partition.shared.settings.idle_ms);
        let states = &self.partition.states;
        self.sessions.retain(|session, place| {
            let keep = place.gauge.busy.load(Ordering::SeqCst)
                || place.gauge.pending.load(Ordering::SeqCst) > 0
                || place.used_at.elapsed() < idle;
            if !keep {
                place.actor.stop(None);
                states.release_session(session);
            }
            keep
        });
        self.helpers.retain(|helper| !helper.0.is_finished());
    }
}
