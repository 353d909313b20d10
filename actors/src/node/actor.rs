//! The node's actor: follows what the log lets it own, and brings partitions to life and to rest.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::StreamExt;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use reenact_events::{Offset, Ownership, PartitionId, Released};
use tokio::{sync::oneshot, task::JoinHandle};

use super::{
    refused,
    sweep::sweep_blobs,
    tenure::{Order, Tenure},
};
use crate::{
    family,
    gateway::Gateway,
    live,
    partition::{self, AbortOnDrop, Failure, PartitionActor, PartitionMessage, Restored},
    shared::Shared,
};

/// Pauses before a partition is restored again, milliseconds: doubling from the first to the last.
const RESTORE_MS: (u64, u64) = (200, 10_000);
/// How long a withdrawn partition may take to finish what is being committed.
const HAND_OVER_WAIT: Duration = Duration::from_secs(5);

pub(super) enum NodeMessage {
    Ownership(Ownership),
    Due(PartitionId),
    Restored(PartitionId, Restored),
    Failed(PartitionId, Failure),
    /// The log of a refused partition has changed; what its last event is now.
    SeenTo(PartitionId, Option<Offset>),
    Stopped(PartitionId),
    /// Forget the stores of partitions that are not worked on here; those that are served.
    Forget(oneshot::Sender<Result<Served, String>>),
    /// Let go of everything, in order.
    Leave(oneshot::Sender<()>),
}

/// Partitions that are served.
pub(super) type Served = Vec<(PartitionId, ActorRef<PartitionMessage>)>;

pub(super) struct NodeActor;

/// What the actor begins with.
pub(super) struct NodeSeed {
    pub(super) shared: Arc<Shared>,
    pub(super) gateway: Arc<Gateway>,
}

/// What works on a partition.
enum Work {
    Restore(JoinHandle<()>),
    Actor(ActorRef<PartitionMessage>),
}

impl Work {
    /// Stops it and waits until it has.
    async fn stop(self, finish: bool) {
        let actor = match self {
            Self::Restore(task) => {
                task.abort();
                // Aborted or ended, it is over.
                task.await.unwrap_or_default();
                return;
            }
            Self::Actor(actor) => actor,
        };
        let mut parting = None;
        if finish {
            let (reply, settled) = oneshot::channel();
            let told = actor.cast(PartitionMessage::HandOver(reply)).is_ok();
            match tokio::time::timeout(HAND_OVER_WAIT, settled).await {
                // It ended without an answer when it failed meanwhile.
                Ok(answer) => parting = answer.ok(),
                Err(_) if told => {
                    tracing::warn!("the log did not take the last batch before the partition was handed over");
                }
                Err(_) => {}
            }
        }
        end_with_children(actor.get_cell()).await;
        if let Some(parting) = parting {
            parting.save().await;
        }
    }
}

/// Ends an actor and those below it, so that nothing of them is at work when the partition is let go.
async fn end_with_children(actor: ActorCell) {
    for actor in family::kill(actor) {
        if actor.wait(Some(HAND_OVER_WAIT)).await.is_err() {
            tracing::warn!(actor = %actor.get_id(), "an actor was not stopped in time");
        }
    }
}

#[derive(Default)]
struct Place {
    tenure: Tenure,
    released: Vec<Released>,
    work: Option<Work>,
    pause_ms: u64,
    /// The last event of the log before which the partition was refused, if that is known.
    refused_at: Option<Option<Offset>>,
    watch: Option<AbortOnDrop>,
}

pub(super) struct NodeState {
    /// Ends with the actor.
    _helpers: Vec<AbortOnDrop>,
    shared: Arc<Shared>,
    myself: ActorRef<NodeMessage>,
    follower: Option<Follower>,
    places: BTreeMap<PartitionId, Place>,
    leaving: Option<oneshot::Sender<()>>,
}

/// The task that holds the stream of ownership: everything is let go when it ends.
struct Follower(JoinHandle<()>);

impl Follower {
    fn start(shared: &Shared, myself: ActorRef<NodeMessage>) -> Self {
        let mut news = shared.tools.log.ownership();
        Self(tokio::spawn(async move {
            while let Some(change) = news.next().await {
                if myself.cast(NodeMessage::Ownership(change)).is_err() {
                    return;
                }
            }
            tracing::warn!("the log does not say any more what this node may own");
        }))
    }

    async fn end(&mut self) {
        self.0.abort();
        // Aborted or ended, the stream is dropped.
        (&mut self.0).await.unwrap_or_default();
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Actor for NodeActor {
    type Msg = NodeMessage;
    type State = NodeState;
    type Arguments = NodeSeed;

    async fn pre_start(&self, myself: ActorRef<NodeMessage>, seed: NodeSeed) -> Result<NodeState, ActorProcessingErr> {
        let NodeSeed { shared, gateway } = seed;
        let answers = shared.tools.log.answers();
        let mut helpers = vec![tokio::spawn(sweep_blobs(shared.clone())), tokio::spawn(gateway.follow(answers))];
        if shared.tools.log.is_shared() {
            helpers.push(tokio::spawn(live::relay(shared.live.clone())));
        }
        let helpers = helpers.iter().map(|task| AbortOnDrop(task.abort_handle())).collect();
        let follower = Some(Follower::start(&shared, myself.clone()));
        Ok(NodeState { _helpers: helpers, shared, myself, follower, places: BTreeMap::new(), leaving: None })
    }

    async fn handle(
        &self,
        _: ActorRef<NodeMessage>,
        message: NodeMessage,
        state: &mut NodeState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            NodeMessage::Ownership(change) => state.ownership(change),
            NodeMessage::Due(number) => state.step(number, Tenure::due),
            NodeMessage::Restored(number, restored) => state.restored(number, restored).await,
            NodeMessage::Failed(number, failure) => state.failed(number, &failure),
            NodeMessage::SeenTo(number, last) => state.seen_to(number, last),
            NodeMessage::Stopped(number) => state.stopped(number),
            // Who asked may have gone.
            NodeMessage::Forget(reply) => reply.send(state.forget_others().await).unwrap_or_default(),
            NodeMessage::Leave(reply) => state.leave(reply),
        }
        state.end_if_left().await;
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
        let is_it = |place: &Place| matches!(&place.work, Some(Work::Actor(actor)) if actor.get_id() == cell.get_id());
        let ended = state.places.iter().find(|(_, place)| is_it(place)).map(|(number, _)| *number);
        if let Some(number) = ended {
            state.ended(number, &why);
        }
        Ok(())
    }
}

impl NodeState {
    fn place(&mut self, number: PartitionId) -> &mut Place {
        self.places.entry(number).or_default()
    }

    /// That the node has joined counts once what it is to restore is known: until then it is not ready.
    fn ownership(&mut self, change: Ownership) {
        match change {
            Ownership::Joined => {}
            // A node on its way out takes nothing any more.
            Ownership::Granted(_) if self.leaving.is_some() => {}
            Ownership::Granted(number) => self.step(number, Tenure::granted),
            Ownership::Withdrawn { partition, released } => {
                self.place(partition).released.push(released);
                self.take(partition, true);
            }
            Ownership::Lost(number) => self.take(number, false),
        }
        self.shared.joined();
    }

    /// Does what the partition's tenure orders, for all orders that need nothing else.
    fn step(&mut self, number: PartitionId, event: impl FnOnce(&mut Tenure) -> Order) {
        match event(&mut self.place(number).tenure) {
            Order::Restore => self.restore(number),
            Order::LetGo => self.let_go(number),
            Order::Nothing | Order::Serve | Order::Stop | Order::Pause | Order::Refuse => {}
        }
    }

    fn restore(&mut self, number: PartitionId) {
        let (shared, myself) = (self.shared.clone(), self.myself.clone());
        self.shared.restoring(number);
        let task = tokio::spawn(async move {
            let message = match partition::restore(&shared, number).await {
                Ok(restored) => NodeMessage::Restored(number, restored),
                Err(failure) => NodeMessage::Failed(number, failure),
            };
            // The node may have stopped meanwhile.
            myself.cast(message).unwrap_or_default();
        });
        self.place(number).work = Some(Work::Restore(task));
    }

    async fn restored(&mut self, number: PartitionId, restored: Restored) {
        if self.place(number).tenure.restored() != Order::Serve {
            return;
        }
        let actor = PartitionActor { shared: self.shared.clone() };
        match PartitionActor::spawn_linked(None, actor, restored, self.myself.get_cell()).await {
            Ok((actor, _)) => {
                let place = self.place(number);
                place.pause_ms = 0;
                place.refused_at = None;
                place.work = Some(Work::Actor(actor));
                self.shared.trouble(number, None);
            }
            Err(error) => self.ended(number, &error.to_string()),
        }
    }

    /// A claim is an event, so what is refused is not claimed over and over: only when somebody else has written.
    fn failed(&mut self, number: PartitionId, failure: &Failure) {
        let why = chain(&failure.error);
        let place = self.place(number);
        place.work = None;
        match place.tenure.failed(failure.error.is_final()) {
            Order::Pause => self.again_later(number, &why),
            Order::Refuse => {
                tracing::error!(partition = number.0, %why, "a partition is not served until its log has been seen to");
                self.shared.refused(number, why);
                self.look_out(number, failure.claim);
            }
            _ => {}
        }
    }

    /// Where nobody else may write to the log, nobody else has to be looked out for.
    fn look_out(&mut self, number: PartitionId, claim: Option<Offset>) {
        if !self.shared.tools.log.is_shared() {
            return;
        }
        let (shared, myself, place) = (self.shared.clone(), self.myself.clone(), self.place(number));
        place.refused_at = claim.map(Some).or(place.refused_at);
        let known = place.refused_at;
        let watch = tokio::spawn(async move {
            let last = refused::changed(&*shared.tools.log, number, known).await;
            // The node may have stopped meanwhile.
            myself.cast(NodeMessage::SeenTo(number, last)).unwrap_or_default();
        });
        place.watch = Some(AbortOnDrop(watch.abort_handle()));
    }

    fn seen_to(&mut self, number: PartitionId, last: Option<Offset>) {
        let place = self.place(number);
        place.refused_at = Some(last);
        place.watch = None;
        self.step(number, Tenure::seen_to);
    }

    fn ended(&mut self, number: PartitionId, why: &str) {
        let place = self.place(number);
        place.work = None;
        if place.tenure.ended() == Order::Pause {
            self.again_later(number, why);
        }
    }

    fn again_later(&mut self, number: PartitionId, why: &str) {
        let place = self.place(number);
        let pause_ms = place.pause_ms.max(RESTORE_MS.0);
        place.pause_ms = (pause_ms * 2).min(RESTORE_MS.1);
        let pause = Duration::from_millis(pause_ms);
        tracing::error!(partition = number.0, %why, ?pause, "a partition is not served, it is restored again");
        self.shared.left(number, why.to_owned());
        let myself = self.myself.clone();
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            // The node may have stopped meanwhile.
            myself.cast(NodeMessage::Due(number)).unwrap_or_default();
        });
    }

    /// The partition goes to another node; `finish` when what is being committed still counts.
    fn take(&mut self, number: PartitionId, finish: bool) {
        match self.place(number).tenure.taken() {
            Order::Stop => {}
            Order::LetGo => return self.let_go(number),
            _ => return,
        }
        tracing::info!(partition = number.0, finish, "a partition goes to another node");
        self.shared.leaving(number);
        let work = self.place(number).work.take();
        let myself = self.myself.clone();
        tokio::spawn(async move {
            if let Some(work) = work {
                work.stop(finish).await;
            }
            // The node may have stopped meanwhile.
            myself.cast(NodeMessage::Stopped(number)).unwrap_or_default();
        });
    }

    fn stopped(&mut self, number: PartitionId) {
        self.let_go(number);
        self.step(number, Tenure::stopped);
    }

    /// Tells whoever waits for the partition that nothing works on it here.
    fn let_go(&mut self, number: PartitionId) {
        self.shared.gone(number);
        let place = self.place(number);
        place.work = None;
        place.watch = None;
        place.refused_at = None;
        place.pause_ms = 0;
        place.released.clear();
    }

    /// Nothing is granted or comes to rest meanwhile, since this actor is told of it.
    async fn forget_others(&self) -> Result<Served, String> {
        let (mut served, mut others) = (Vec::new(), Vec::new());
        for number in (0..self.shared.tools.log.partitions()).map(PartitionId) {
            match self.places.get(&number) {
                Some(Place { work: Some(Work::Actor(actor)), .. }) => served.push((number, actor.clone())),
                Some(place) if !place.tenure.is_away() => return Err(format!("partition {number} is not served now")),
                _ => others.push(number),
            }
        }
        let forget = self.shared.tools.forget_store.clone();
        let forgotten = tokio::task::spawn_blocking(move || others.into_iter().try_for_each(|number| forget(number)));
        let ended = |error| format!("forgetting a store ended early: {error}");
        forgotten.await.map_err(ended)?.map_err(|error| error.to_string())?;
        Ok(served)
    }

    fn leave(&mut self, reply: oneshot::Sender<()>) {
        self.leaving = Some(reply);
        let numbers: Vec<_> = self.places.keys().copied().collect();
        for number in numbers {
            self.take(number, true);
        }
    }

    /// Drops the stream of ownership when nothing is owned any more, so that others may claim at once.
    async fn end_if_left(&mut self) {
        if self.leaving.is_none() || !self.places.values().all(|place| place.tenure.is_away()) {
            return;
        }
        if let Some(mut follower) = self.follower.take() {
            follower.end().await;
        }
        if let Some(reply) = self.leaving.take() {
            // Who waited may have given up.
            reply.send(()).unwrap_or_default();
        }
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
