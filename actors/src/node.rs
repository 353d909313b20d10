//! A node: takes its partitions, restores them again when they fail, and takes commands for them.

mod actor;
mod sweep;
mod tenure;

use std::{sync::Arc, time::Duration};

use ractor::{Actor, ActorRef};
use reenact_events::{Command, PartitionId};
use tokio::sync::{Semaphore, oneshot};

use crate::{
    api::{Accepted, Readiness, SubmitError},
    live::LiveHub,
    partition::{PartitionMessage, Submission},
    shared::{Settings, Shared, Tools},
};
use actor::{NodeActor, NodeMessage};

/// How long a command may wait for its commit before the caller is told that the outcome is unknown.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// How often a shutdown looks whether the runs at work have ended.
const DRAIN_POLL: Duration = Duration::from_millis(25);

/// A running node, as everybody else holds it.
#[derive(Clone)]
pub struct NodeHandle {
    shared: Arc<Shared>,
    actor: ActorRef<NodeMessage>,
    in_flight: Arc<Semaphore>,
}

impl NodeHandle {
    /// Starts a node; it restores its partitions in the background and says by [`NodeHandle::readiness`]
    /// when it has.
    ///
    /// # Errors
    /// When its actor cannot be spawned.
    pub async fn start(tools: Tools, settings: Settings) -> Result<Self, ractor::SpawnErr> {
        let in_flight = Arc::new(Semaphore::new(settings.in_flight_max));
        let shared = Arc::new(Shared::new(tools, settings));
        let (actor, _) = NodeActor::spawn(None, NodeActor, shared.clone()).await?;
        Ok(Self { shared, actor, in_flight })
    }

    /// Asks for something and waits until it is durable. The command's id makes a repeat harmless: after
    /// [`SubmitError::Unavailable`] the same command may be asked again.
    ///
    /// # Errors
    /// When a rule says no, the queue is full, or the node cannot take commands now.
    pub async fn submit(&self, command: Command) -> Result<Accepted, SubmitError> {
        let unavailable = |reason: String| SubmitError::Unavailable { reason: reason.into() };
        if self.shared.is_closing() {
            return Err(unavailable("it is shutting down; ask another node, or this one after its restart".to_owned()));
        }
        let stream = command.stream().ok_or_else(|| unavailable("the command names no session".to_owned()))?;
        let number = stream.partition_of(self.shared.tools.log.partitions());
        let Some(actor) = self.shared.partition(number) else {
            return Err(unavailable(self.why(number)));
        };
        let Ok(permit) = self.in_flight.clone().try_acquire_owned() else {
            return Err(unavailable("too many commands are waiting for the log".to_owned()));
        };
        let (reply, answer) = oneshot::channel();
        if actor.cast(PartitionMessage::Submit(Submission { command, consumed: None, reply })).is_err() {
            return Err(unavailable(self.why(number)));
        }
        let answer = tokio::time::timeout(ANSWER_WAIT, answer).await;
        drop(permit);
        match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err(unavailable(format!(
                "the outcome of this command is not known yet ({}); ask again with the same id",
                self.why(number)
            ))),
        }
    }

    fn why(&self, partition: PartitionId) -> String {
        let reasons = self.shared.readiness().reasons;
        if reasons.is_empty() { format!("partition {partition} is being restored") } else { reasons.join("; ") }
    }

    /// Live streams of runs.
    #[must_use]
    pub fn live(&self) -> &LiveHub {
        &self.shared.live
    }

    /// Whether the node does its work, and if not, why.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        self.shared.readiness()
    }

    /// How many runs are at work and how many wait.
    #[must_use]
    pub fn load(&self) -> (usize, usize) {
        let admission = self.shared.admission();
        (admission.at_work(), admission.waiting())
    }

    /// Stops admitting, gives the runs at work `drain` to end, then stops. Runs that have not ended go on at
    /// the next start: everything they did is in the log.
    pub async fn shutdown(&self, drain: Duration) {
        self.shared.close();
        let deadline = tokio::time::Instant::now() + drain;
        while self.shared.admission().at_work() > 0 && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(DRAIN_POLL).await;
        }
        for number in (0..self.shared.tools.log.partitions()).map(PartitionId) {
            self.settle(number).await;
        }
        let (reply, left) = oneshot::channel();
        if self.actor.cast(NodeMessage::Leave(reply)).is_ok() && tokio::time::timeout(ANSWER_WAIT, left).await.is_err()
        {
            tracing::warn!("not every partition was let go before the shutdown");
        }
        if let Err(error) = self.actor.stop_and_wait(None, None).await {
            tracing::warn!(%error, "the node's actor did not stop in order");
        }
    }

    /// Waits for what is being committed.
    async fn settle(&self, partition: PartitionId) {
        let Some(actor) = self.shared.partition(partition) else { return };
        let (reply, settled) = oneshot::channel();
        if actor.cast(PartitionMessage::Barrier(reply)).is_ok()
            && tokio::time::timeout(ANSWER_WAIT, settled).await.is_err()
        {
            tracing::warn!(partition = partition.0, "the log did not take the last batch before the shutdown");
        }
    }
}
