//! Several nodes over one log, on virtual time, from one seed.
//!
//! The world is the group coordinator: it grants partitions, withdraws them, and takes them from nodes that
//! froze or died. Nodes join, leave in order, are killed, freeze and wake up as zombies. Foreign publishers put
//! commands into any partition, repeat them, leave the session out, and publish rubbish. In the end every
//! accepted run has ended, every command was answered once, and all rubbish stands among the dead letters once.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use reenact_actors::{NodeHandle, Settings, Tools, admission::Bounds};
use reenact_events::{AgentId, EventLog, LogId, MemoryLog, NodeId, PartitionId};
use reenact_snapshots::{ExportableStore, MemoryStore, snapshot::MemoryShelf};
use tokio::task::JoinHandle;

use crate::{
    bus::{self, MemoryBus},
    check::{self, Seen},
    client::{self, Client, Promises},
    faults::{Dice, Weather},
    flaky_shelf::{self, FlakyShelf},
    flaky_store::FlakyStore,
    ledger::{FlakyBlobs, Ledger, MemoryBlobs},
    publisher::Publisher,
    steps::{self, SimulatedSteps},
    views::{self, SharedViews},
    world::VirtualClock,
};

/// The world is left in peace at most so long, virtual time.
const PEACE_MAX: Duration = Duration::from_secs(3 * 3_600);
/// A node that is asked for a partition lets go by then, or it is taken from it.
const WITHDRAW_MAX: Duration = Duration::from_secs(8);
const MEMBERS_MAX: usize = 3;

type Stores = Arc<Mutex<BTreeMap<PartitionId, Arc<MemoryStore>>>>;

/// A process with a node in it.
struct Member {
    log: MemoryLog,
    node: NodeHandle,
    frozen: bool,
}

struct Cluster {
    dice: Dice,
    clock: Arc<VirtualClock>,
    /// A process that owns nothing: it looks on.
    log: MemoryLog,
    weather: Arc<Weather>,
    bus: Arc<MemoryBus>,
    shelf: Arc<MemoryShelf>,
    blobs: Arc<MemoryBlobs>,
    ledger: Ledger,
    promises: Arc<Promises>,
    views: SharedViews,
    stores: Vec<Stores>,
    members: Vec<Member>,
    owners: BTreeMap<PartitionId, usize>,
    asking: Vec<JoinHandle<()>>,
    watching: Vec<JoinHandle<()>>,
    bounds: Bounds,
    joined: u64,
}

/// Runs the world of this seed.
pub(crate) fn run(seed: u64) -> Result<Seen, String> {
    let mut cluster = Cluster::from_seed(seed);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    let publisher = runtime.block_on(cluster.live())?;
    drop(runtime);
    publisher.check()?;
    let mut seen = None;
    for stores in &cluster.stores {
        seen = Some(check::everything(&check::World {
            log: &cluster.log,
            ledger: &cluster.ledger,
            promises: &cluster.promises,
            stores: &stores.lock().expect("stores"),
            views: &cluster.views,
            lives: cluster.joined,
            faults: cluster.weather.faults.load(Ordering::SeqCst),
            snapshots_read: cluster.weather.snapshots_read.load(Ordering::SeqCst),
        })?);
    }
    seen.ok_or_else(|| "there was no node".to_owned())
}

impl Cluster {
    fn from_seed(seed: u64) -> Self {
        let dice = Dice::new(seed ^ 0x00c1_0573);
        let clock = Arc::new(VirtualClock::default());
        let partitions = 2 + u32::try_from(dice.below(3)).expect("small");
        let log = MemoryLog::new(LogId(uuid::Uuid::from_u128(seed.into())), partitions, clock.clone());
        log.share();
        let weather = Arc::new(Weather::new(dice.child(), [0, 15, 40][usize::try_from(dice.below(3)).expect("small")]));
        log.set_faults(weather.clone());
        Self {
            clock,
            weather,
            bus: Arc::default(),
            shelf: Arc::default(),
            blobs: Arc::default(),
            ledger: Ledger::new(log.clone()),
            promises: Arc::default(),
            views: Arc::default(),
            stores: Vec::new(),
            members: Vec::new(),
            owners: BTreeMap::new(),
            asking: Vec::new(),
            watching: Vec::new(),
            bounds: client::bounds(&dice),
            joined: 0,
            log,
            dice,
        }
    }

    async fn live(&mut self) -> Result<Publisher, String> {
        self.clock.begin();
        let projectors: Vec<_> = (0..self.log.partitions())
            .map(|partition| {
                let (log, views) = (self.log.clone(), self.views.clone());
                tokio::spawn(views::project(log, PartitionId(partition), views, self.dice.child()))
            })
            .collect();
        let publisher = Publisher::new(self.dice.child(), self.log.clone());
        for _ in 0..1 + self.dice.below(2) {
            self.join().await;
        }
        let asked = tokio::spawn({
            let publisher = publisher.clone();
            async move { publisher.publish(20).await }
        });
        for round in 0..8 {
            self.ask_somebody(round);
            tokio::time::sleep(self.dice.pause(1_200)).await;
            self.happen().await;
        }
        asked.await.map_err(|error| error.to_string())?;
        self.peace(&publisher).await?;
        for projector in projectors {
            assert!(!projector.is_finished(), "a projector has ended: {:?}", projector.await);
        }
        Ok(publisher)
    }

    /// A client asks some node, beside everything else.
    fn ask_somebody(&mut self, round: u64) {
        let Some(node) = self.somebody().map(|member| member.node.clone()) else { return };
        let client = self.client(round);
        self.watching.extend(bus::watch(&node, &self.promises, self.dice.child()));
        self.asking.push(tokio::spawn(async move { client.ask(&node, 4).await }));
    }

    /// Whoever asked has come to an end, and nobody has seen what must not be.
    async fn everybody_is_content(&mut self) -> Result<(), String> {
        for task in std::mem::take(&mut self.asking) {
            task.await.map_err(|error| error.to_string())?;
        }
        for task in std::mem::take(&mut self.watching) {
            if task.is_finished() {
                task.await.map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    fn client(&self, life: u64) -> Client {
        Client {
            clock: self.clock.clone(),
            dice: self.dice.child(),
            // The client's own process: the node's may end.
            log: self.log.clone(),
            ledger: self.ledger.clone(),
            promises: self.promises.clone(),
            sessions: 4,
            life,
        }
    }

    fn somebody(&self) -> Option<&Member> {
        let at = self.dice.below(self.members.len() as u64);
        self.members.get(usize::try_from(at).expect("small"))
    }

    async fn happen(&mut self) {
        self.bury();
        match self.dice.below(10) {
            0 | 1 if self.members.len() < MEMBERS_MAX => self.join().await,
            2 => self.leave().await,
            3 => self.die().await,
            4 | 5 => self.freeze(),
            6 => self.wake(),
            7 => self.lose(),
            8 => self.bounce().await,
            _ => {}
        }
        self.bury();
        if self.members.iter().all(|member| member.frozen) {
            self.join().await;
        }
        self.balance().await;
    }

    fn tools(&self, log: &MemoryLog, stores: &Stores) -> Tools {
        let (stores, weather, dice) = (stores.clone(), self.weather.clone(), self.dice.child());
        let agent = steps::agent();
        Tools {
            log: Arc::new(log.clone()),
            forget_store: Arc::new(|_| Ok(())),
            open_store: Arc::new(move |partition| {
                let inner = stores.lock().expect("stores").entry(partition).or_default().clone();
                let (weather, dice, broken) = (weather.clone(), dice.child(), AtomicBool::new(false));
                let store = FlakyStore { inner, weather, dice, broken };
                Ok(Arc::new(ExportableStore::new(Arc::new(store))))
            }),
            shelf: Some(Arc::new(FlakyShelf {
                inner: self.shelf.clone(),
                weather: self.weather.clone(),
                dice: self.dice.child(),
            })),
            blobs: Arc::new(FlakyBlobs {
                inner: self.blobs.clone(),
                weather: self.weather.clone(),
                dice: self.dice.child(),
            }),
            steps: Arc::new(SimulatedSteps {
                dice: self.dice.child(),
                ledger: self.ledger.clone(),
                panic_per_mille: 30,
            }),
            agents: Arc::new(BTreeMap::from([(AgentId::trusted("simulated"), agent)])),
            live_bus: Some(self.bus.clone()),
            clock: self.clock.clone(),
        }
    }

    async fn join(&mut self) {
        self.joined += 1;
        let log = self.log.second_process();
        let stores = Stores::default();
        let settings = Settings {
            bounds: self.bounds.clone(),
            idle_ms: 300,
            snapshot_events: flaky_shelf::EVENTS,
            snapshot_period: flaky_shelf::PERIOD,
            ..Settings::of(NodeId::trusted(&format!("node-{}", self.joined)))
        };
        let node = NodeHandle::start(self.tools(&log, &stores), settings).await.expect("starts");
        // Its ownership stream is there before anything is granted.
        tokio::task::yield_now().await;
        self.stores.push(stores);
        self.members.push(Member { log, node, frozen: false });
        self.balance().await;
    }

    /// Nodes whose process a fault has ended are gone.
    fn bury(&mut self) {
        for at in (0..self.members.len()).rev() {
            if self.members[at].log.has_ended() {
                self.members[at].node.kill();
                self.remove(at);
            }
        }
    }

    fn remove(&mut self, at: usize) -> Member {
        let member = self.members.remove(at);
        self.owners.retain(|_, owner| *owner != at);
        self.owners.values_mut().filter(|owner| **owner > at).for_each(|owner| *owner -= 1);
        member
    }

    fn pick(&self) -> Option<usize> {
        let count = self.members.len() as u64;
        (count > 0).then(|| usize::try_from(self.dice.below(count)).expect("small"))
    }

    /// A node is asked to stop, and hands its partitions over in order.
    async fn leave(&mut self) {
        let Some(at) = self.pick().filter(|at| !self.members[*at].frozen) else { return };
        let member = self.remove(at);
        member.node.shutdown(self.dice.pause(500)).await;
    }

    async fn die(&mut self) {
        let Some(at) = self.pick() else { return };
        let member = self.remove(at);
        member.log.crash();
        member.node.kill();
        // Until the group has noticed.
        tokio::time::sleep(self.dice.pause(2_000)).await;
    }

    /// A node hears nothing any more and its partitions go to others; its tools go on.
    fn freeze(&mut self) {
        let Some(at) = self.pick() else { return };
        self.members[at].log.freeze();
        self.members[at].frozen = true;
        self.owners.retain(|_, owner| *owner != at);
    }

    /// A zombie wakes up; what it still sends is fenced, and then it learns that it owns nothing.
    fn wake(&mut self) {
        for member in &mut self.members {
            if std::mem::take(&mut member.frozen) {
                (0..self.log.partitions()).map(PartitionId).for_each(|partition| member.log.lose(partition));
                member.log.thaw();
            }
        }
    }

    fn lose(&mut self) {
        let partition = PartitionId(u32::try_from(self.dice.below(self.log.partitions().into())).expect("small"));
        if let Some(owner) = self.owners.remove(&partition) {
            self.members[owner].log.lose(partition);
        }
    }

    /// A partition is withdrawn and comes back to the same node before it was let go.
    async fn bounce(&mut self) {
        let Some((partition, owner)) = self.owners.iter().next().map(|(partition, owner)| (*partition, *owner)) else {
            return;
        };
        let log = self.members[owner].log.clone();
        let released = log.withdraw(partition);
        tokio::time::sleep(self.dice.pause(20)).await;
        log.grant(partition);
        released.await;
    }

    /// Grants what nobody owns, and evens out what each owns.
    async fn balance(&mut self) {
        let able: Vec<usize> = (0..self.members.len()).filter(|at| !self.members[*at].frozen).collect();
        if able.is_empty() {
            return;
        }
        for partition in (0..self.log.partitions()).map(PartitionId) {
            let wanted = able[partition.0 as usize % able.len()];
            let owner = self.owners.get(&partition).copied();
            if owner == Some(wanted) {
                continue;
            }
            if let Some(owner) = owner {
                let released = self.members[owner].log.withdraw(partition);
                if tokio::time::timeout(WITHDRAW_MAX, released).await.is_err() {
                    self.members[owner].log.lose(partition);
                }
            }
            self.members[wanted].log.grant(partition);
            self.owners.insert(partition, wanted);
        }
    }

    /// Calm weather until every accepted run has ended and every command was answered.
    async fn peace(&mut self, publisher: &Publisher) -> Result<(), String> {
        self.weather.calm.store(true, Ordering::SeqCst);
        self.bury();
        self.wake();
        if self.members.is_empty() {
            self.join().await;
        }
        self.balance().await;
        self.everybody_is_content().await?;
        let client = self.client(1_000);
        let begun = tokio::time::Instant::now();
        for round in 0.. {
            let Some(node) = self.somebody().map(|member| member.node.clone()) else { break };
            client.decide_what_waits(&node, round).await;
            let rests = check::open_runs(&self.log).is_empty()
                && check::missing(&self.log, &self.promises)?.is_empty()
                && publisher.open().is_empty()
                && crate::schedules::owed(&self.log).is_empty();
            if rests {
                break;
            }
            if begun.elapsed() > PEACE_MAX {
                let states: Vec<_> = self.members.iter().map(|m| (m.node.readiness(), m.node.load())).collect();
                let (runs, owed) = (check::open_runs(&self.log), crate::schedules::owed(&self.log));
                return Err(format!(
                    "no rest: {states:?}, unanswered: {:?}, runs: {runs:?}, schedules: {owed:?}",
                    publisher.open()
                ));
            }
            tokio::time::sleep(Duration::from_secs(1 << round.min(7))).await;
        }
        let readiness = self.members.iter().map(|member| member.node.readiness());
        let unsettled: Vec<_> = readiness.filter(|readiness| !readiness.is_settled()).collect();
        if !unsettled.is_empty() {
            return Err(format!("nodes are not ready at rest: {unsettled:?}"));
        }
        for member in std::mem::take(&mut self.members) {
            member.node.shutdown(Duration::from_secs(1)).await;
        }
        Ok(())
    }
}
