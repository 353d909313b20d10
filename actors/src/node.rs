//! A node: takes its partitions, restores them again when they fail, and takes commands for them.

use std::{sync::Arc, time::Duration};

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use reenact_events::{Command, PartitionId};
use tokio::sync::{Semaphore, oneshot};

use crate::{
    api::{Accepted, Readiness, SubmitError},
    live::LiveHub,
    partition::{self, AbortOnDrop, PartitionActor, PartitionMessage, RestoreError, Restored, Submission},
    shared::{Settings, Shared, Tools},
};

/// Pauses before a partition is restored again, milliseconds: doubling from the first to the last.
const RESTORE_MS: (u64, u64) = (200, 10_000);
/// How long a command may wait for its commit before the caller is told that the outcome is unknown.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// Blobs are swept no oftener than this, unless a session was deleted.
const SWEEP_PAUSE_MIN: Duration = Duration::from_secs(60);
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

/// Removes what nobody refers to, after each deletion and now and then: a crash between storing a blob and
/// committing its event leaves one.
async fn sweep_blobs(shared: Arc<Shared>) {
    let grace = shared.settings.blob_grace;
    loop {
        let deleted = shared.deleted.notified();
        if tokio::time::timeout(grace.max(SWEEP_PAUSE_MIN), deleted).await.is_ok() {
            tokio::time::sleep(grace).await;
        }
        let known = shared.clone();
        match shared.tools.blobs.sweep(grace, Arc::new(move |sha256| known.is_referenced(sha256))).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "removed blobs that nobody refers to"),
            Err(error) => {
                tracing::warn!(%error, "blobs that nobody refers to could not be removed, trying again later")
            }
        }
    }
}

enum NodeMessage {
    Restore(PartitionId),
    Restored(PartitionId, Restored),
    Failed(PartitionId, RestoreError),
}

struct NodeActor;

struct NodeState {
    _sweeper: AbortOnDrop,
    shared: Arc<Shared>,
    myself: ActorRef<NodeMessage>,
    partitions: Vec<(PartitionId, ActorRef<PartitionMessage>)>,
    pauses_ms: std::collections::BTreeMap<PartitionId, u64>,
}

impl Actor for NodeActor {
    type Msg = NodeMessage;
    type State = NodeState;
    type Arguments = Arc<Shared>;

    async fn pre_start(
        &self,
        myself: ActorRef<NodeMessage>,
        shared: Arc<Shared>,
    ) -> Result<NodeState, ActorProcessingErr> {
        for number in (0..shared.tools.log.partitions()).map(PartitionId) {
            myself.cast(NodeMessage::Restore(number)).map_err(|error| error.to_string())?;
        }
        let sweeper = tokio::spawn(sweep_blobs(shared.clone()));
        let sweeper = AbortOnDrop(sweeper.abort_handle());
        Ok(NodeState {
            _sweeper: sweeper,
            shared,
            myself,
            partitions: Vec::new(),
            pauses_ms: std::collections::BTreeMap::new(),
        })
    }

    async fn handle(
        &self,
        _: ActorRef<NodeMessage>,
        message: NodeMessage,
        state: &mut NodeState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            NodeMessage::Restore(number) => state.restore(number),
            NodeMessage::Restored(number, restored) => state.serve(number, restored).await,
            NodeMessage::Failed(number, error) => state.failed(number, &error),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<NodeMessage>,
        event: SupervisionEvent,
        state: &mut NodeState,
    ) -> Result<(), ActorProcessingErr> {
        let (cell, why) = match event {
            SupervisionEvent::ActorFailed(cell, error) => (cell, error.to_string()),
            SupervisionEvent::ActorTerminated(cell, _, reason) => {
                (cell, reason.unwrap_or_else(|| "it stopped".to_owned()))
            }
            _ => return Ok(()),
        };
        let ended = state.partitions.iter().position(|(_, actor)| actor.get_id() == cell.get_id());
        if let Some(ended) = ended {
            let (number, _) = state.partitions.remove(ended);
            state.again_later(number, &why);
        }
        Ok(())
    }
}

impl NodeState {
    fn restore(&self, number: PartitionId) {
        let (shared, myself) = (self.shared.clone(), self.myself.clone());
        tokio::spawn(async move {
            let message = match partition::restore(&shared, number).await {
                Ok(restored) => NodeMessage::Restored(number, restored),
                Err(error) => NodeMessage::Failed(number, error),
            };
            // The node may have stopped meanwhile.
            myself.cast(message).unwrap_or_default();
        });
    }

    async fn serve(&mut self, number: PartitionId, restored: Restored) {
        let actor = PartitionActor { shared: self.shared.clone() };
        match PartitionActor::spawn_linked(None, actor, restored, self.myself.get_cell()).await {
            Ok((actor, _)) => {
                self.pauses_ms.remove(&number);
                self.partitions.push((number, actor));
                self.shared.trouble(number, None);
            }
            Err(error) => self.again_later(number, &error.to_string()),
        }
    }

    /// A claim is an event, so what cannot be read is not claimed over and over.
    fn failed(&mut self, number: PartitionId, error: &RestoreError) {
        let why = chain(error);
        if !error.is_final() {
            return self.again_later(number, &why);
        }
        tracing::error!(partition = number.0, %why, "a partition is not served until its log has been seen to");
        self.shared.damaged(number, why);
    }

    fn again_later(&mut self, number: PartitionId, why: &str) {
        let pause_ms = self.pauses_ms.entry(number).or_insert(RESTORE_MS.0);
        let pause = Duration::from_millis(*pause_ms);
        *pause_ms = (*pause_ms * 2).min(RESTORE_MS.1);
        tracing::error!(partition = number.0, %why, ?pause, "a partition is not served, it is restored again");
        self.shared.left(number, why.to_owned());
        let myself = self.myself.clone();
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            // The node may have stopped meanwhile.
            myself.cast(NodeMessage::Restore(number)).unwrap_or_default();
        });
    }
}

/// An error with everything that caused it, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
