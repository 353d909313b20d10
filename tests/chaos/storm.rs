//! The rolling storm: runs come in by HTTP and by the topic of commands while nodes and brokers are killed,
//! frozen, added and removed. All runs end, nothing is lost, and nothing is done twice.

mod runs;
mod weather;

use std::time::{Duration, Instant};

use crate::{
    brokers::Alone,
    fleet::Fleet,
    support::dice,
    truth::Truth,
    work::{AGENT, Work},
};
use runs::{Pace, Runs};
use weather::Weather;

/// How long each tool call takes.
const STEP: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_node_loses_no_run_and_does_nothing_twice() {
    let weather = |_: &mut _| vec![Weather::Kill("b")];
    storm("small", &["a", "b"], Pace { runs: 30, pause: Duration::from_millis(100) }, weather).await;
}

/// A02: a store that bounced in the midst of a recovery lost the runs that were being recovered, and two who
/// recovered ran one run twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a02_runs_survive_a_node_that_dies_and_a_log_that_breaks_while_others_take_over() {
    let weather = |_: &mut _| vec![Weather::KillAndBreak("a")];
    storm("a02", &["a", "b", "c"], Pace { runs: 250, pause: Duration::from_millis(5) }, weather).await;
}

/// Lasts as many rounds as fit into `REENACT_STORM_MINUTES`, one at least.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_storm_over_nodes_and_brokers_loses_no_run_and_does_nothing_twice() {
    let minutes = std::env::var("REENACT_STORM_MINUTES").ok().map(|text| text.parse().expect("it is a number"));
    let rounds = minutes.map_or(1, |minutes: usize| (minutes * 60).div_ceil(weather::ROUND_S).max(1));
    let pace = Pace { runs: 300 * rounds, pause: Duration::from_millis(220) };
    storm("storm", &["a", "b", "c"], pace, |dice| (0..rounds).flat_map(|_| weather::round(dice)).collect()).await;
}

async fn storm(
    name: &str,
    nodes: &[&str],
    pace: Pace,
    weather: impl FnOnce(&mut rand_chacha::ChaCha8Rng) -> Vec<Weather>,
) {
    let (mut turn, mut dice) = (Alone::take().await, dice(name));
    let began = Instant::now();
    let work = Work::start(STEP).await;
    let mut fleet = Fleet::new(turn.bootstrap(), name).agent(AGENT, &work.toml());
    for node in nodes {
        fleet.start(node).await;
    }
    println!("{name}: nodes are up after {:?}", began.elapsed());
    let weather = weather(&mut dice);
    let runs = Runs::begin(&fleet, &turn.bootstrap(), pace, dice);
    for weather in weather {
        println!("{name}: {:>6.1?} {weather:?}", began.elapsed());
        weather.happen(&mut turn, &mut fleet).await;
    }
    println!("{name}: {:>6.1?} the weather is over", began.elapsed());
    let ended = runs.end(&fleet).await;
    println!("{name}: {:>6.1?} all runs have ended", began.elapsed());
    let truth = Truth::read(&turn.bootstrap(), &fleet.prefix).await;
    ended.check(&fleet, &work, &truth).await;
    println!("{name}: {:>6.1?} all is as it must be", began.elapsed());
}
