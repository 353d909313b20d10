//! The actor of the partition's schedules, as the partition's actor keeps it.

use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::{CRASHES_MAX, Partition, PartitionState, Submission};
use crate::schedule_actor::{ScheduleActor, ScheduleMessage};

/// The actor, and how often it failed between two sweeps.
pub(super) struct Schedules {
    pub(super) actor: ActorRef<ScheduleMessage>,
    crashes: u32,
}

impl Schedules {
    pub(super) async fn spawn(partition: &Partition) -> Result<Self, ActorProcessingErr> {
        Ok(Self { actor: spawn(partition).await?, crashes: 0 })
    }

    pub(super) fn submit(&self, submission: Submission) {
        // An actor that has failed is on its way back; whoever asked it is told nothing and asks again.
        self.actor.cast(ScheduleMessage::Submit(Box::new(submission))).unwrap_or_default();
    }

    pub(super) fn forget_crashes(&mut self) {
        self.crashes = 0;
    }
}

impl PartitionState {
    pub(super) async fn restart_schedules(&mut self) -> Result<(), ActorProcessingErr> {
        self.schedules.crashes += 1;
        if self.schedules.crashes > CRASHES_MAX {
            return Err(format!("the actor of the schedules failed {CRASHES_MAX} times in a row").into());
        }
        self.schedules.actor = spawn(&self.partition).await?;
        Ok(())
    }
}

async fn spawn(partition: &Partition) -> Result<ActorRef<ScheduleMessage>, ActorProcessingErr> {
    let (actor, _) =
        ScheduleActor::spawn_linked(None, ScheduleActor, partition.clone(), partition.actor.get_cell()).await?;
    Ok(actor)
}
