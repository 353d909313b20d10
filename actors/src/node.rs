//! A node: takes its partitions, restores them again when they fail, and takes commands for them.

mod actor;
mod refused;
mod sweep;
mod tenure;

use std::{sync::Arc, time::Duration};

use ractor::{Actor, ActorRef};
use reenact_events::{Command, CommandBody, PartitionId};
use tokio::sync::{Semaphore, oneshot};

use crate::{
    api::{Accepted, Readiness, Refusal, SubmitError},
    family,
    gateway::Gateway,
    live::LiveHub,
    partition::{PartitionMessage, Submission},
    shared::{Settings, Shared, Tools},
};
use actor::{NodeActor, NodeMessage, NodeSeed};

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
    gateway: Arc<Gateway>,
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
        let gateway = Arc::new(Gateway::new(shared.tools.log.clone(), shared.incarnation));
        let seed = NodeSeed { shared: shared.clone(), gateway: gateway.clone() };
        let (actor, _) = NodeActor::spawn(None, NodeActor, seed).await?;
        Ok(Self { shared, actor, in_flight, gateway })
    }

    /// Asks for something and waits until it is durable. The command's id makes a repeat harmless: after
    /// [`SubmitError::Unavailable`] the same command may be asked again.
    ///
    /// # Errors
    /// When a rule says no, the queue is full, or the node cannot take commands now.
    pub async fn submit(&self, command: Command) -> Result<Accepted, SubmitError> {
        if self.shared.is_closing() {
            return Err(unavailable("it is shutting down; ask another node, or this one after its restart"));
        }
        let Ok(_permit) = self.in_flight.clone().try_acquire_owned() else {
            return Err(unavailable("too many commands are waiting for the log"));
        };
        let command = self.with_session(command);
        let number = command.stream().map(|stream| stream.partition_of(self.shared.tools.log.partitions()));
        // What a key decides is sent on to a session's partition, and answered from there.
        let is_keyed = command.key.is_some();
        let actor = number.filter(|_| !is_keyed).and_then(|number| self.shared.partition(number));
        let shared_log = self.shared.tools.log.is_shared();
        if let Some(actor) = actor {
            // Without an answer the partition may be on its way to another node, which is asked then.
            let repeat = shared_log.then(|| command.clone());
            let answer = ask(&actor, command).await;
            return match (answer, repeat) {
                (Some(answer), _) => answer,
                (None, Some(command)) => self.gateway.ask(command, ANSWER_WAIT).await,
                (None, None) => Err(self.unknown(number)),
            };
        }
        match number {
            // Nothing is put into the log that somebody else would decide after the caller was told that it failed.
            Some(number) if let Some(refusal) = self.shared.refusal(number) => Err(unavailable(&refusal)),
            _ if shared_log || is_keyed => self.gateway.ask(command, ANSWER_WAIT).await,
            Some(number) => Err(unavailable(&self.why(number))),
            None if self.shared.readiness().is_ready() => Err(Refusal::RunNotFound.into()),
            None => Err(unavailable(&self.shared.readiness().reasons.join("; "))),
        }
    }

    /// A command that names only a run, with the run's session, if the run is of a partition that is served here.
    fn with_session(&self, mut command: Command) -> Command {
        if let CommandBody::CancelRun { session_id: session @ None, run_id, .. }
        | CommandBody::ContinueRun { session_id: session @ None, run_id, .. }
        | CommandBody::RequeueRun { session_id: session @ None, run_id, .. } = &mut command.body
        {
            *session = self.shared.session_of(run_id);
        }
        if let CommandBody::ForkRun(fork) = &mut command.body
            && fork.session_id.is_none()
        {
            fork.session_id = self.shared.session_of(&fork.run_id);
        }
        command
    }

    fn unknown(&self, partition: Option<PartitionId>) -> SubmitError {
        let why = partition.map(|partition| self.why(partition)).unwrap_or_default();
        unavailable(&format!("the outcome of this command is not known yet ({why}); ask again with the same id"))
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

    /// Ends the node as if its process were killed: nothing is finished and nothing is let go in order.
    pub fn kill(&self) {
        self.shared.close();
        family::kill(self.actor.get_cell());
    }

    /// Leaves nothing of what was removed from the states of all partitions: stores of those that are served here are
    /// written anew and their snapshots removed, stores of others, which may be left from an earlier ownership, are
    /// forgotten.
    ///
    /// # Errors
    /// With what is wrong, when a partition is on its way or refused, or its store or snapshots cannot be written.
    pub async fn scrub(&self) -> Result<(), String> {
        let stopped = || "the node has stopped".to_owned();
        let (reply, served) = oneshot::channel();
        self.actor.cast(NodeMessage::Forget(reply)).map_err(|_| stopped())?;
        for (number, actor) in served.await.map_err(|_| stopped())?? {
            let gone = || format!("partition {number} is not served now");
            let (reply, scrubbed) = oneshot::channel();
            actor.cast(PartitionMessage::Scrub(reply)).map_err(|_| gone())?;
            scrubbed.await.map_err(|_| gone())?.map_err(|error| format!("partition {number}: {error}"))?;
        }
        Ok(())
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

fn unavailable(reason: &str) -> SubmitError {
    SubmitError::Unavailable { reason: reason.into() }
}

/// Asks a partition that is served here; `None` when it has gone without an answer, or takes too long.
async fn ask(actor: &ActorRef<PartitionMessage>, command: Command) -> Option<Result<Accepted, SubmitError>> {
    let (reply, answer) = oneshot::channel();
    actor.cast(PartitionMessage::Submit(Submission { command, consumed: None, reply })).ok()?;
    tokio::time::timeout(ANSWER_WAIT, answer).await.ok()?.ok()
}
