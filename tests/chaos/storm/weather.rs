//! What goes wrong, one thing after the other.

use std::time::Duration;

use rand::{Rng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

use crate::{
    brokers::Alone,
    fleet::{FREEZE, Fleet},
    topic,
};

/// How long a process that was killed stays away, so that others have taken over.
const AWAY: Duration = Duration::from_secs(8);
/// How long a broker stays away: its partitions have moved by then.
const BROKER_AWAY: Duration = Duration::from_secs(5);
/// When the cluster stands still: right after a death, and in the midst of the take-over.
const BREAKS: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(4_500)];
/// How long.
const BREAK: Duration = Duration::from_secs(2);
/// A while in which all is well.
const CALM: Duration = Duration::from_secs(1);

/// One disturbance.
#[derive(Debug, Clone, Copy)]
pub(super) enum Weather {
    /// A node is killed and started again.
    Kill(&'static str),
    /// A node is killed and started again at once: it comes back while the group still waits for it.
    Restart(&'static str),
    /// A node stands still past every time-out and goes on.
    Freeze(&'static str),
    /// A node stands still past every time-out while another one is killed.
    FreezeAndKill(&'static str, &'static str),
    /// A node joins and leaves again.
    Visit(&'static str),
    /// The broker that leads the group is killed and started again.
    KillCoordinator,
    /// A broker is killed and started again.
    KillBroker(u16),
    /// A node is killed, and the whole cluster stands still while others take over, twice.
    KillAndBreak(&'static str),
}

/// About how many seconds a round takes.
pub(super) const ROUND_S: usize = 100;

/// Everything once, in any order, each on any node or broker.
pub(super) fn round(dice: &mut ChaCha8Rng) -> Vec<Weather> {
    let mut nodes = ["a", "b", "c"];
    nodes.shuffle(dice);
    let [first, second, third] = nodes;
    let mut round = vec![
        Weather::Kill(first),
        Weather::Restart(second),
        Weather::Freeze(third),
        Weather::FreezeAndKill(first, second),
        Weather::Visit("d"),
        Weather::KillCoordinator,
        Weather::KillBroker(dice.random_range(1..=3)),
    ];
    round.shuffle(dice);
    round
}

impl Weather {
    pub(super) async fn happen(self, turn: &mut Alone, fleet: &mut Fleet) {
        match self {
            Self::Kill(node) => {
                fleet.kill(node);
                tokio::time::sleep(AWAY).await;
                fleet.start(node).await;
            }
            Self::Restart(node) => {
                fleet.kill(node);
                fleet.start(node).await;
            }
            Self::Freeze(node) => {
                fleet.of(node).freeze();
                tokio::time::sleep(FREEZE).await;
                fleet.of(node).thaw();
            }
            Self::FreezeAndKill(frozen, killed) => {
                fleet.of(frozen).freeze();
                fleet.kill(killed);
                tokio::time::sleep(FREEZE).await;
                fleet.of(frozen).thaw();
                fleet.start(killed).await;
            }
            Self::Visit(node) => {
                fleet.start(node).await;
                tokio::time::sleep(CALM).await;
                fleet.remove(node).await;
            }
            Self::KillCoordinator => {
                let broker = tokio::task::block_in_place(|| coordinator(&turn.bootstrap(), &fleet.prefix));
                without(turn, broker).await;
            }
            Self::KillAndBreak(node) => {
                fleet.kill(node);
                for pause in BREAKS {
                    tokio::time::sleep(pause).await;
                    stand_still(turn).await;
                }
                fleet.start(node).await;
            }
            Self::KillBroker(broker) => without(turn, broker).await,
        }
        tokio::time::sleep(CALM).await;
    }
}

async fn stand_still(turn: &mut Alone) {
    turn.with(|cluster| (1..=3).try_for_each(|broker| cluster.pause(broker))).expect("they are there");
    tokio::time::sleep(BREAK).await;
    turn.with(|cluster| (1..=3).try_for_each(|broker| cluster.resume(broker))).expect("they are there");
}

async fn without(turn: &mut Alone, broker: u16) {
    println!("broker {broker} is killed");
    turn.with(|cluster| cluster.kill(broker)).expect("it is there");
    tokio::time::sleep(BROKER_AWAY).await;
    turn.with(|cluster| cluster.start(broker)).expect("it starts again");
}

/// The broker that leads the group: the leader of the partition that the group's name falls on.
fn coordinator(brokers: &str, group: &str) -> u16 {
    let (consumer, offsets) = (topic::consumer(brokers, group), "__consumer_offsets");
    let count = i32::try_from(topic::partitions(&consumer, offsets).len()).expect("a few");
    // Java's hash of a string, made positive as Kafka does.
    let hash = group.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
    let leader = topic::leader(&consumer, offsets, (hash & i32::MAX) % count);
    u16::try_from(leader).expect("there is a leader")
}
