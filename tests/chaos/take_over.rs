//! A run goes on at another node when the one that it is on dies or leaves.

use std::time::Duration;

use crate::{
    brokers::Turn,
    fleet::Fleet,
    truth::Truth,
    work::{AGENT, Work},
};

/// A run takes two of these and then some, which is longer than a node that leaves waits for its runs.
const STEP: Duration = Duration::from_millis(1_800);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_goes_on_elsewhere_when_its_node_is_killed() {
    let mut scene = Scene::set("killed").await;
    let owner = scene.owner.clone();
    scene.fleet.kill(&owner);
    scene.fleet.front.is_gone(&owner);
    scene.goes_on_elsewhere().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_goes_on_elsewhere_when_its_node_is_asked_to_stop() {
    let mut scene = Scene::set("stopped").await;
    let owner = scene.owner.clone();
    scene.fleet.remove(&owner).await;
    scene.goes_on_elsewhere().await;
}

/// A run in the midst of its first tool calls.
struct Scene {
    turn: Turn,
    fleet: Fleet,
    work: Work,
    run: String,
    owner: String,
}

impl Scene {
    async fn set(name: &str) -> Self {
        let turn = Turn::take().await;
        let work = Work::start(STEP).await;
        let mut fleet = Fleet::new(turn.bootstrap(), name).agent(AGENT, &work.toml());
        fleet.start("a").await;
        fleet.start("b").await;
        fleet.is_balanced().await;
        let owner = fleet.owner("session").await;
        let run = fleet.front.begin(0, AGENT, "session", "go on", "key").await;
        work.ledger.wait_for(2).await;
        Self { turn, fleet, work, run, owner }
    }

    async fn goes_on_elsewhere(&self) {
        self.fleet.front.completed(&self.run).await;
        assert_ne!(self.fleet.owner("session").await, self.owner);
        let calls = self.work.check(&self.run);
        let truth = Truth::read(&self.turn.bootstrap(), &self.fleet.prefix).await;
        println!("{calls} calls, {} attempts beyond the first", truth.runs[&self.run].repeats);
    }
}
