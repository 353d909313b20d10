//! The log on Kafka against the least that the same broker allows, as ratios of one run.
//!
//! * Commits of 1, 16 and 100 events, against a bare transactional producer that sends the same bytes in the same
//!   batches. The two take turns; the median of the rounds counts.
//! * A replay with decoding, against a bare consumer of the same topic.
//! * From a published command to its answer, against a bare transaction of one record until a reader has it.
//! * From the death, or the stop, of a run's node to the run's next call of a tool.
//!
//! `cargo bench --workspace --bench kafka`; the program must have been built with Kafka. Nothing fails.

mod bare;
mod nodes;
mod owner;

use std::time::{Duration, Instant};

use reenact_kafka_rig::{Cluster, Options};

const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 5;

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::up(Options::new(folder.path())).expect("a broker");
    let brokers = cluster.bootstrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    println!("{:<44} {:>12} {:>12} {:>7} {:>7}", "", "bare", "reenact", "ratio", "target");
    runtime.block_on(log(&brokers));
    runtime.block_on(nodes::acceptance(&brokers));
    for is_killed in [true, false] {
        runtime.block_on(nodes::take_over(&brokers, is_killed));
    }
}

async fn log(brokers: &str) {
    let mut owner = owner::Owner::of(brokers, "bench").await;
    // Of the same kind, so its topics have the same settings.
    let beside = owner::Owner::of(brokers, "bare").await;
    let mut bare = bare::Writer::new(brokers, "bare.events");
    for events in [1, 16, 100] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (began, mut count) = (Instant::now(), 0);
            while began.elapsed() < ROUND {
                tokio::task::block_in_place(|| bare.commit(&owner.texts(events)));
                count += events;
            }
            theirs.push(per_second(count, began));
            let (began, mut count) = (Instant::now(), 0);
            while began.elapsed() < ROUND {
                owner.commit(events).await;
                count += events;
            }
            ours.push(per_second(count, began));
        }
        report(&format!("events/s in commits of {events}"), median(theirs), median(ours), "≥ 0.6");
    }
    drop(beside);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        theirs.push(per_second(tokio::task::block_in_place(|| bare::read(brokers, "bench.events")), began));
        let began = Instant::now();
        ours.push(per_second(owner.replay().await, began));
    }
    report("events/s replayed", median(theirs), median(ours), "≥ 0.6");
}

#[expect(clippy::cast_precision_loss, reason = "a figure to be read")]
fn per_second(count: usize, began: Instant) -> f64 {
    count as f64 / began.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn report(what: &str, bare: f64, ours: f64, target: &str) {
    println!("{what:<44} {bare:>12.1} {ours:>12.1} {:>7.2} {target:>7}", ours / bare);
}
