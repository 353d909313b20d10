//! Topics that every node follows whole, from a moment on: the answers and the live frames.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use rdkafka::{ClientConfig, Offset as At, TopicPartitionList, consumer::Consumer, error::KafkaResult};
use reenact_events::LogError;
use tokio::sync::mpsc as async_mpsc;

use crate::{
    client::Trouble,
    reader::{self, Consuming},
};

const POLL: Duration = Duration::from_millis(100);
const RETRY: Duration = Duration::from_millis(500);
/// Records that were read ahead of whoever takes them.
const AHEAD: usize = 4_096;

/// Where following begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// With what comes from now on.
    Now,
    /// With what is still kept.
    Kept,
}

/// A record's key and value.
pub(crate) type Pair = (String, Vec<u8>);

/// Follows all partitions of a topic on a thread of its own, for ever, or until the receiver is dropped.
/// `placed` ends when the place to begin at is fixed.
pub(crate) fn follow(
    config: ClientConfig,
    trouble: Trouble,
    topic: Arc<str>,
    from: From,
    placed: mpsc::SyncSender<()>,
) -> Result<async_mpsc::Receiver<Pair>, LogError> {
    let (sender, receiver) = async_mpsc::channel(AHEAD);
    let follower = move || {
        let mut placed = Some(placed);
        let consumer = loop {
            match begin(&config, &trouble, &topic, from) {
                Ok(consumer) => break consumer,
                Err(error) => {
                    tracing::warn!(%error, topic = &*topic, "a topic cannot be followed yet");
                    thread::sleep(RETRY);
                }
            }
            if sender.is_closed() {
                return;
            }
        };
        drop(placed.take());
        while !sender.is_closed() {
            match consumer.poll(POLL) {
                Some(Ok(message)) => {
                    let (key, value) = reader::text_of(&message);
                    if sender.blocking_send((key.to_owned(), value.to_vec())).is_err() {
                        return;
                    }
                }
                Some(Err(error)) => tracing::debug!(%error, topic = &*topic, "a topic cannot be read now"),
                None => {}
            }
        }
    };
    let thread = thread::Builder::new().name("log follower".to_owned()).spawn(follower);
    thread.map_err(|error| LogError::Unavailable { reason: format!("no thread to follow with: {error}").into() })?;
    Ok(receiver)
}

fn begin(config: &ClientConfig, trouble: &Trouble, topic: &str, from: From) -> Result<Consuming, LogError> {
    let mut config = config.clone();
    // What is old may be deleted under a slow follower, who then goes on with what is left.
    config.set("auto.offset.reset", "earliest");
    let consumer = reader::consumer(&config, trouble)?;
    let failed = |error| reader::unavailable(&format!("topic `{topic}` cannot be followed"), &error);
    let metadata = consumer.fetch_metadata(Some(topic), reader::ASK).map_err(failed)?;
    let partitions: Vec<i32> =
        metadata.topics().iter().flat_map(|topic| topic.partitions()).map(|partition| partition.id()).collect();
    // A broker that does not know a topic yet answers with no partitions; following none would be for ever.
    if partitions.is_empty() {
        let reason = format!("topic `{topic}` cannot be followed: it is not there").into();
        return Err(LogError::Unavailable { reason });
    }
    let list = places(&consumer, topic, &partitions, from).map_err(failed)?;
    consumer.assign(&list).map_err(failed)?;
    Ok(consumer)
}

/// The places are numbers, so that what is written while the reader starts is not missed.
fn places(consumer: &Consuming, topic: &str, partitions: &[i32], from: From) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for partition in partitions {
        let (low, high) = reader::patiently(|| consumer.fetch_watermarks(topic, *partition, reader::ASK))?;
        let offset = if from == From::Now { high } else { low };
        list.add_partition_offset(topic, *partition, At::Offset(offset))?;
    }
    Ok(list)
}
