//! What the actors of a node have in common: where they read and write, who is where, who may work.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ractor::ActorRef;
use reenact_events::{
    AgentId, Blobs, Clock, EventLog, LiveBus, NodeId, PartitionId, RunId, SessionId, Timestamp, agent::AgentSpec,
    command::AgentRef, ids,
};
use reenact_snapshots::{ExportableStore, Shelf, StoreError};
use uuid::Uuid;

use crate::{
    admission::{Admission, Bounds},
    api::Readiness,
    live::LiveHub,
    partition::PartitionMessage,
    states::States,
    step::Steps,
};

/// Snapshots that are made at once.
pub(crate) const EXPORTS_MAX: u32 = 4;

/// Opens the state store of a partition. As long as a store is open it is the same exportable one that is given out:
/// changes that passed by an export would be missed by it.
pub type OpenStore = Arc<dyn Fn(PartitionId) -> Result<Arc<ExportableStore>, StoreError> + Send + Sync>;

/// Leaves nothing of the store of a partition that nobody works on here: it is folded anew when the partition comes back.
pub type ForgetStore = Arc<dyn Fn(PartitionId) -> Result<(), StoreError> + Send + Sync>;

/// What a node works with. Implementations are picked by the binary.
#[derive(Clone)]
pub struct Tools {
    /// The log.
    pub log: Arc<dyn EventLog>,
    /// Opens state stores.
    pub open_store: OpenStore,
    /// Forgets them.
    pub forget_store: ForgetStore,
    /// Where snapshots of state stores lie, if they are made.
    pub shelf: Option<Arc<dyn Shelf>>,
    /// Large bytes.
    pub blobs: Arc<dyn Blobs>,
    /// Models and tools.
    pub steps: Arc<dyn Steps>,
    /// The agents that are served, for commands that name one.
    pub agents: Arc<BTreeMap<AgentId, Arc<AgentSpec>>>,
    /// Carries live frames to and from the other nodes, if there are any.
    pub live_bus: Option<Arc<dyn LiveBus>>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// What bounds a node.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its name in claims.
    pub node: NodeId,
    /// Runs at work at once, and runs that wait at most.
    pub bounds: Bounds,
    /// Commands that have been taken and not answered yet, at most.
    pub in_flight_max: usize,
    /// Milliseconds after which an idle session's actor is let go.
    pub idle_ms: u64,
    /// A blob that nobody refers to is kept for so long after it was last put. Must be longer than it takes
    /// from storing a text to committing the event that refers to it.
    pub blob_grace: Duration,
    /// A snapshot of a partition's states is made after so many events,
    pub snapshot_events: u64,
    /// or after so long, if there were any.
    pub snapshot_period: Duration,
}

impl Settings {
    /// The defaults of a node of this name.
    #[must_use]
    pub fn of(node: NodeId) -> Self {
        Self {
            node,
            bounds: Bounds { node: 32, waiting: 1_000, ..Bounds::default() },
            in_flight_max: 1_024,
            idle_ms: 60_000,
            blob_grace: Duration::from_secs(3_600),
            snapshot_events: 50_000,
            snapshot_period: Duration::from_secs(600),
        }
    }
}

/// See the module.
pub struct Shared {
    /// What it works with.
    pub tools: Tools,
    /// What bounds it.
    pub settings: Settings,
    /// Names this life of this node.
    pub incarnation: Uuid,
    /// Live streams.
    pub live: LiveHub,
    /// Told when a session was deleted: its blobs may be swept.
    pub deleted: tokio::sync::Notify,
    /// Bounds how many snapshots are made at once, and with them the memory that they take.
    pub(crate) exports: tokio::sync::Semaphore,
    admission: Mutex<Admission>,
    places: Mutex<Places>,
    closing: AtomicBool,
}

#[derive(Default)]
struct Places {
    actors: BTreeMap<PartitionId, ActorRef<PartitionMessage>>,
    states: BTreeMap<PartitionId, Arc<States>>,
    /// What is not as it should be; `None` while it is only on its way.
    troubles: BTreeMap<PartitionId, Option<String>>,
    /// What keeps partitions from being served until somebody has seen to their log.
    refused: BTreeMap<PartitionId, String>,
    /// The log has not said yet what this node may own.
    joining: bool,
}

impl Shared {
    /// The common part of a new node.
    #[must_use]
    pub fn new(tools: Tools, settings: Settings) -> Self {
        let admission = Mutex::new(Admission::new(settings.bounds.clone()));
        let mut places = Places { joining: tools.log.is_shared(), ..Places::default() };
        if !places.joining {
            // It is to own all of them.
            let all = (0..tools.log.partitions()).map(PartitionId);
            places.troubles.extend(all.map(|partition| (partition, None)));
        }
        // No two lives of one node begin in the same millisecond.
        let incarnation = ids::derived("incarnation", &[settings.node.as_str(), &tools.clock.now().0.to_string()]);
        let live = tools.live_bus.clone().map_or_else(LiveHub::default, |bus| LiveHub::shared(bus, incarnation));
        Self {
            tools,
            settings,
            incarnation,
            live,
            deleted: tokio::sync::Notify::new(),
            exports: tokio::sync::Semaphore::new(EXPORTS_MAX as usize),
            admission,
            places: Mutex::new(places),
            closing: AtomicBool::new(false),
        }
    }

    /// The present moment.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.tools.clock.now()
    }

    /// The agent that a command names, as it is now.
    #[must_use]
    pub fn agent(&self, named: &AgentRef) -> Option<Arc<AgentSpec>> {
        match named {
            AgentRef::Named(id) => self.tools.agents.get(id).cloned(),
            AgentRef::Pinned(spec) => Some(spec.clone()),
        }
    }

    /// Who may work. Held for a moment, never across an await.
    pub fn admission(&self) -> MutexGuard<'_, Admission> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The actor of a partition, if it is owned and restored.
    #[must_use]
    pub fn partition(&self, partition: PartitionId) -> Option<ActorRef<PartitionMessage>> {
        self.places().actors.get(&partition).cloned()
    }

    /// The partition is owned; its sessions may be called from now on.
    pub fn arrived(&self, partition: PartitionId, actor: ActorRef<PartitionMessage>, states: Arc<States>) {
        let mut places = self.places();
        places.actors.insert(partition, actor);
        places.states.insert(partition, states);
        places.refused.remove(&partition);
    }

    /// The partition is not served any more.
    pub fn left(&self, partition: PartitionId, why: String) {
        let mut places = self.places();
        places.actors.remove(&partition);
        places.states.remove(&partition);
        places.troubles.insert(partition, Some(why));
        places.refused.remove(&partition);
        drop(places);
        self.admission().forget(partition);
    }

    /// The partition is being claimed and folded. What kept it from that before still stands until it succeeds.
    pub fn restoring(&self, partition: PartitionId) {
        self.places().troubles.entry(partition).or_default();
    }

    /// The partition is on its way to another node: nothing is asked of it any more.
    pub fn leaving(&self, partition: PartitionId) {
        let mut places = self.places();
        places.actors.remove(&partition);
        places.states.remove(&partition);
        places.troubles.remove(&partition);
        places.refused.remove(&partition);
    }

    /// Nothing works on the partition here, and nothing is to: what it held is free.
    pub fn gone(&self, partition: PartitionId) {
        self.leaving(partition);
        self.admission().forget(partition);
        self.call_next();
    }

    /// The log has said what this node may own.
    pub fn joined(&self) {
        self.places().joining = false;
    }

    /// The partition cannot be served before somebody has seen to its log.
    pub fn refused(&self, partition: PartitionId, what: String) {
        self.left(partition, what.clone());
        self.places().refused.insert(partition, what);
    }

    /// Why the partition is refused, if it is.
    #[must_use]
    pub fn refusal(&self, partition: PartitionId) -> Option<String> {
        self.places().refused.get(&partition).map(|what| format!("partition {partition}: {what}"))
    }

    /// The partition is served, but something is wrong, or nothing is any more.
    pub fn trouble(&self, partition: PartitionId, what: Option<String>) {
        let mut places = self.places();
        match what {
            // One that is not served any more has no trouble of its own.
            Some(_) if places.actors.contains_key(&partition) => places.troubles.insert(partition, what),
            None if places.actors.contains_key(&partition) => places.troubles.remove(&partition),
            Some(_) | None => None,
        };
    }

    /// Nothing new is accepted or begun from now on.
    pub fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.admission().close();
    }

    /// Whether the node is on its way out.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Whether the node does its work, and if not, why.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        let places = self.places();
        let is_passing = |partition: &PartitionId| !places.refused.contains_key(partition);
        let passing = places.troubles.iter().filter(|(partition, _)| is_passing(partition));
        let failed = passing.clone().filter_map(|(partition, what)| Some((partition, what.as_ref()?)));
        let failed = failed.map(|(partition, what)| format!("partition {partition}: {what}")).collect();
        let restoring = passing.filter(|(_, what)| what.is_none()).map(|(partition, _)| *partition);
        let closing = self.is_closing().then(|| "the node is shutting down".to_owned());
        let joining = places.joining.then(|| "joining: the log has not said yet what this node may own".to_owned());
        let log = self.tools.log.trouble().map(|what| format!("the log cannot be used: {what}"));
        let general = closing.into_iter().chain(joining).chain(log).collect();
        let is_shared = self.tools.log.is_shared();
        Readiness::of(general, places.refused.clone(), failed, restoring.collect(), is_shared)
    }

    /// The session of a run, if the run is of a partition that is served here.
    #[must_use]
    pub fn session_of(&self, run: &RunId) -> Option<SessionId> {
        let states: Vec<_> = self.places().states.values().cloned().collect();
        // A state store that cannot be read is restored by its partition; meanwhile it knows nothing.
        let known = states.iter().find_map(|states| states.run(run).ok().flatten());
        known.map(|run| run.origin.session_id.clone())
    }

    /// Whether any session refers to the blob. Without all partitions nobody knows: then it is taken to be so.
    #[must_use]
    pub fn is_referenced(&self, sha256: &str) -> bool {
        let states: Vec<_> = self.places().states.values().cloned().collect();
        let knows_all = states.len() == self.tools.log.partitions() as usize;
        !knows_all || states.iter().any(|states| states.is_referenced(sha256).unwrap_or(true))
    }

    /// Calls runs in line as long as there are slots.
    pub fn call_next(&self) {
        loop {
            let Some((partition, session, run)) = self.admission().call() else { return };
            let called = self
                .partition(partition)
                .is_some_and(|actor| actor.cast(PartitionMessage::Admit(session, run.clone())).is_ok());
            if !called {
                // The partition is gone: its restart stands in line again.
                self.admission().give_back(partition, &run);
            }
        }
    }
}
