//! Looks every so often whether the cluster is there: a node that commits nothing would not notice, and one that
//! fails to commit would not notice when it could again.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use rdkafka::consumer::Consumer;
use reenact_events::LogError;

use crate::{
    client::{Part, Trouble},
    reader::{self, Consuming},
    writer::Common,
};

const EVERY: Duration = Duration::from_secs(2);
const ASK: Duration = Duration::from_secs(3);

/// Watches until the sender of `stop` is dropped.
pub(crate) fn spawn(common: &Common, stop: mpsc::Receiver<()>) -> Result<(), LogError> {
    let mut config = common.options.reader();
    // A broker that is frozen is not asked again and again.
    config.set("socket.timeout.ms", "3000");
    let (trouble, topic, brokers) =
        (common.trouble.clone(), common.topics.events.clone(), common.options.brokers.clone());
    let consumer = reader::consumer(&config, &trouble)?;
    let watching = move || {
        while stop.recv_timeout(EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
            // One broker of several that does not answer is no trouble: the next question goes to another.
            let look = || look(&consumer, &topic, &brokers, &trouble);
            let seen = look().or_else(|_| look());
            if seen.is_ok() {
                trouble.forget_words();
            }
            trouble.set(Part::Cluster, seen.err());
        }
    };
    let thread = thread::Builder::new().name("log watcher".to_owned()).spawn(watching);
    thread
        .map(drop)
        .map_err(|error| LogError::Unavailable { reason: format!("no thread to watch with: {error}").into() })
}

/// Why the events cannot be read or written, if they cannot.
fn look(consumer: &Consuming, topic: &str, brokers: &str, trouble: &Trouble) -> Result<(), Arc<str>> {
    let metadata = consumer.fetch_metadata(Some(topic), ASK).map_err(|error| {
        reader::hear(consumer);
        let words = trouble.words().map(|words| format!(" ({words})")).unwrap_or_default();
        format!("Kafka does not answer at `{brokers}`: {error}{words}")
    })?;
    let partitions = metadata.topics().first().map(|topic| topic.partitions()).unwrap_or_default();
    if partitions.is_empty() {
        return Err(format!("topic `{topic}` is not there").into());
    }
    let is_alone = |partition: &&rdkafka::metadata::MetadataPartition| partition.leader() < 0;
    match partitions.iter().find(is_alone) {
        Some(partition) => Err(format!("partition {} of topic `{topic}` has no leader now", partition.id()).into()),
        None => Ok(()),
    }
}
