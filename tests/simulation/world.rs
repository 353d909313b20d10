//! A world and its lives.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use reenact_actors::{NodeHandle, Settings, Tools, admission::Bounds};
use reenact_events::{Clock, EventLog, LogId, MemoryLog, NodeId, PartitionId, Timestamp};
use reenact_snapshots::{ExportableStore, MemoryStore, StateStore, snapshot::MemoryShelf};

use crate::{
    check::{self, Seen},
    client::{self, Client, Promises},
    faults::{Dice, Weather},
    flaky_shelf::{self, FlakyShelf},
    flaky_store::FlakyStore,
    ledger::{Ledger, MemoryBlobs},
    schedules,
    steps::SimulatedSteps,
    views::{self, SharedViews},
};

/// The world is left in peace at most so long, virtual time.
const PEACE_MAX: Duration = Duration::from_secs(3 * 3_600);

/// Virtual time that goes on over lives: each life's runtime begins at zero again.
#[derive(Default)]
pub(crate) struct VirtualClock {
    before_ms: AtomicI64,
    life: Mutex<Option<tokio::time::Instant>>,
}

impl VirtualClock {
    pub(crate) fn begin(&self) {
        *self.life.lock().expect("clock") = Some(tokio::time::Instant::now());
    }

    pub(crate) fn end(&self) {
        let now = self.now();
        *self.life.lock().expect("clock") = None;
        self.before_ms.store(now.0 + 1, Ordering::SeqCst);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let life = *self.life.lock().expect("clock");
        let in_life = life.map_or(0, |begun| i64::try_from(begun.elapsed().as_millis()).expect("short"));
        Timestamp(self.before_ms.load(Ordering::SeqCst) + in_life)
    }
}

pub(crate) struct World {
    dice: Dice,
    clock: Arc<VirtualClock>,
    log: MemoryLog,
    weather: Arc<Weather>,
    stores: Arc<Mutex<BTreeMap<PartitionId, Arc<MemoryStore>>>>,
    shelf: Arc<MemoryShelf>,
    blobs: Arc<MemoryBlobs>,
    ledger: Ledger,
    promises: Arc<Promises>,
    views: SharedViews,
    bounds: Bounds,
    sessions: u64,
}

impl World {
    pub(crate) fn from_seed(seed: u64) -> Self {
        let dice = Dice::new(seed);
        let clock = Arc::new(VirtualClock::default());
        clock.before_ms.store(1_700_000_000_000, Ordering::SeqCst);
        let partitions = if dice.hits(500) { 1 } else { 3 };
        let log = MemoryLog::new(LogId(uuid::Uuid::from_u128(seed.into())), partitions, clock.clone());
        let rough_per_mille = [0, 30, 120][usize::try_from(dice.below(3)).expect("small")];
        let weather = Arc::new(Weather::new(dice.child(), rough_per_mille));
        log.set_faults(weather.clone());
        Self {
            clock,
            weather,
            stores: Arc::default(),
            shelf: Arc::default(),
            blobs: Arc::default(),
            ledger: Ledger::new(log.clone()),
            promises: Arc::default(),
            views: Arc::default(),
            bounds: client::bounds(&dice),
            sessions: 1 + dice.below(5),
            log,
            dice,
        }
    }

    pub(crate) fn run(mut self) -> Result<Seen, String> {
        let lives = 1 + self.dice.below(4);
        for life in 0..lives {
            self.live(life, life + 1 == lives);
            if life + 1 < lives {
                self.log = self.log.restart();
            }
        }
        check::everything(&check::World {
            log: &self.log,
            ledger: &self.ledger,
            promises: &self.promises,
            stores: &self.stores.lock().expect("stores"),
            views: &self.views,
            lives,
            faults: self.weather.faults.load(Ordering::SeqCst),
            snapshots_read: self.weather.snapshots_read.load(Ordering::SeqCst),
        })
    }

    fn live(&mut self, life: u64, last: bool) {
        self.lose_a_store();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        runtime.block_on(async {
            self.clock.begin();
            let projectors: Vec<_> = (0..self.log.partitions())
                .chain(0..self.log.partitions())
                .map(|partition| {
                    let (log, views) = (self.log.clone(), self.views.clone());
                    tokio::spawn(views::project(log, PartitionId(partition), views, self.dice.child()))
                })
                .collect();
            if self.dice.hits(250) {
                self.a_zombie(life).await;
            }
            if last {
                self.peace(life).await
            } else {
                self.until_a_crash(life).await
            }
            self.clock.end();
            for projector in projectors {
                assert!(!projector.is_finished(), "a projector has ended: {:?}", projector.await);
            }
        });
    }

    /// State stores and views are caches: now and then one is lost with the process.
    fn lose_a_store(&self) {
        if self.dice.hits(100) {
            *self.views.lock().expect("views") = reenact_projections::MemoryViews::new();
        }
        for store in self.stores.lock().expect("stores").values() {
            if self.dice.hits(200) {
                store.clear().expect("clears");
            }
        }
    }

    fn tools(&self, log: &MemoryLog, panic_per_mille: u64) -> Tools {
        let (stores, weather, dice) = (self.stores.clone(), self.weather.clone(), self.dice.child());
        Tools {
            log: Arc::new(log.clone()),
            forget_store: Arc::new(|_| Ok(())),
            open_store: Arc::new(move |partition| {
                let mut stores = stores.lock().expect("stores");
                let inner = stores.entry(partition).or_default().clone();
                let (weather, dice, broken) = (weather.clone(), dice.child(), AtomicBool::new(false));
                let store = FlakyStore { inner, weather, dice, broken };
                Ok(Arc::new(ExportableStore::new(Arc::new(store))))
            }),
            shelf: Some(Arc::new(FlakyShelf {
                inner: self.shelf.clone(),
                weather: self.weather.clone(),
                dice: self.dice.child(),
            })),
            blobs: self.blobs.clone(),
            steps: Arc::new(SimulatedSteps { dice: self.dice.child(), ledger: self.ledger.clone(), panic_per_mille }),
            agents: Arc::new(BTreeMap::from([(crate::steps::agent().id.clone(), crate::steps::agent())])),
            live_bus: None,
            clock: self.clock.clone(),
        }
    }

    async fn node(&self, log: &MemoryLog, name: &str, panic_per_mille: u64) -> NodeHandle {
        let settings = Settings {
            bounds: self.bounds.clone(),
            idle_ms: 300,
            snapshot_events: flaky_shelf::EVENTS,
            snapshot_period: flaky_shelf::PERIOD,
            ..Settings::of(NodeId::trusted(name))
        };
        NodeHandle::start(self.tools(log, panic_per_mille), settings).await.expect("starts")
    }

    fn client(&self, log: &MemoryLog, life: u64) -> Client {
        Client {
            clock: self.clock.clone(),
            dice: self.dice.child(),
            log: log.clone(),
            ledger: self.ledger.clone(),
            promises: self.promises.clone(),
            sessions: self.sessions,
            life,
        }
    }

    /// A node that works for a while and then is cut off from the log, but not from its tools.
    async fn a_zombie(&mut self, life: u64) {
        let zombie = self.log.clone();
        let stores = std::mem::take(&mut self.stores);
        let node = self.node(&zombie, "zombie", 5).await;
        let client = self.client(&zombie, 1_000 + life);
        let asked = tokio::time::timeout(self.dice.pause(1_500), client.ask(&node, 10));
        asked.await.unwrap_or_default();
        self.stores = stores;
        self.log = zombie.second_process();
        // The successor claims while the zombie still seems alive; then the zombie hears nothing any more.
        for partition in (0..self.log.partitions()).map(PartitionId) {
            while self.log.claim(partition, NodeId::trusted("successor")).await.is_err() {}
        }
        zombie.crash();
    }

    async fn until_a_crash(&self, life: u64) {
        let node = self.node(&self.log, "node", 10).await;
        let client = self.client(&self.log, life);
        let crash_at = tokio::time::sleep(self.dice.pause(4_000));
        tokio::select! {
            biased;
            () = self.weather.crashed.notified() => {}
            () = crash_at => {}
            () = async {
                client.ask(&node, 30).await;
                if self.dice.hits(300) {
                    node.shutdown(self.dice.pause(500)).await;
                } else {
                    std::future::pending::<()>().await;
                }
            } => {}
        }
    }

    /// The last life: some more rough weather, then calm until every accepted run has ended.
    async fn peace(&self, life: u64) {
        self.weather.calm.store(true, Ordering::SeqCst);
        let node = self.node(&self.log, "node", 10).await;
        let client = self.client(&self.log, life);
        client.ask(&node, 10).await;
        let peace = tokio::time::timeout(PEACE_MAX, async {
            for round in 0.. {
                client.decide_what_waits(&node, round).await;
                // What is wrong with them is told by the checks that follow.
                let has_all = check::missing(&self.log, &self.promises).is_ok_and(|missing| missing.is_empty());
                if has_all && check::open_runs(&self.log).is_empty() && schedules::owed(&self.log).is_empty() {
                    return;
                }
                tokio::time::sleep(Duration::from_secs(1 << round.min(7))).await;
            }
        });
        if peace.await.is_err() {
            println!("the world did not come to rest: {:?}, {:?}", node.readiness(), node.load());
        }
        node.shutdown(Duration::from_secs(1)).await;
    }
}
