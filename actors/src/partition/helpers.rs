//! The tasks beside a partition's actor: what wakes it, and what feeds it the commands of the log.

use std::time::Duration;

use ractor::ActorRef;
use reenact_events::{Arrival, CommandRecord};
use tokio::sync::oneshot;

use super::{AbortOnDrop, Partition, PartitionMessage, Submission};
use crate::{api::SubmitError, shared::Shared};

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

/// Feeds the commands that wait in the log to the partition, one after another, so that the cursor in a
/// batch never passes a command whose events are not in it or before it.
pub(super) fn command_pump(partition: &Partition) -> AbortOnDrop {
    let mut commands = partition.shared.tools.log.commands(&partition.lease);
    let actor = partition.actor.clone();
    let number = partition.lease.partition.0;
    let task = tokio::spawn(async move {
        while let Some(record) = futures::StreamExt::next(&mut commands).await {
            let record = match record {
                Ok(record) => record,
                Err(error) => return tracing::warn!(partition = number, %error, "no more commands from the log"),
            };
            // Without an answer it is not known whether the command took effect: it is asked again, and the
            // run's id, which follows from the command's, makes the repeat harmless.
            while !submit_from_log(&actor, &record).await {
                tokio::time::sleep(Duration::from_millis(PUMP_PAUSE_MS)).await;
            }
        }
    });
    AbortOnDrop(task.abort_handle())
}

/// Pause before a command of the log is asked again, milliseconds.
const PUMP_PAUSE_MS: u64 = 50;

/// Whether the command was taken or refused for good.
async fn submit_from_log(actor: &ActorRef<PartitionMessage>, record: &CommandRecord) -> bool {
    let Arrival::Command(command) = &record.arrival else { return true };
    let (reply, answer) = oneshot::channel();
    let submission = Submission { command: (**command).clone(), consumed: Some(record.offset), reply };
    if actor.cast(PartitionMessage::Submit(submission)).is_err() {
        return false;
    }
    match answer.await {
        Ok(Ok(_)) => true,
        Ok(Err(SubmitError::Unavailable { .. })) | Err(_) => false,
        Ok(Err(refused)) => {
            tracing::info!(offset = record.offset.0, %refused, "a command was refused");
            true
        }
    }
}
