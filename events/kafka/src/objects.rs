//! Which object store the log's texts and files lie in. The log itself says so: a node that brings another one
//! is found out, also when two begin at once.
//!
//! The first record `objects:<id>` of the owners' topic counts. Each id is a key of its own, so compaction keeps
//! them all and their order.

use rdkafka::consumer::Consumer;
use reenact_events::{LogError, PartitionId};
use uuid::Uuid;

use crate::{
    Options,
    client::Trouble,
    producer::{Outgoing, Producer},
    reader,
};

/// What stands before the store's id in its record's key.
const KEY: &str = "objects:";

/// The object store of this log: the one that was named first, which is `store` when none was. Blocks.
///
/// # Errors
/// When the topic cannot be read or written.
pub fn object_store(options: &Options, store: Uuid) -> Result<Uuid, LogError> {
    if let Some(named) = named_object_store(options)? {
        return Ok(named);
    }
    let failed = |error| reader::unavailable("the object store cannot be named", &error);
    let (topic, key) = (options.topics().owners, format!("{KEY}{store}"));
    let mut producer = Producer::new(&options.plain_producer(), Trouble::default()).map_err(failed)?;
    let (key, value) = (Some(key.as_bytes()), Some(&b"{}"[..]));
    producer.send(Outgoing { topic: &topic, partition: Some(0), key, value, headers: None }).map_err(failed)?;
    producer.drain().map_err(failed)?;
    // Of two that name theirs at once one is first.
    let gone = || LogError::Unavailable { reason: format!("topic `{topic}` does not have what was written").into() };
    named_object_store(options)?.ok_or_else(gone)
}

/// The object store that the log names, if it names one. Blocks.
///
/// # Errors
/// When the topic cannot be read.
pub fn named_object_store(options: &Options) -> Result<Option<Uuid>, LogError> {
    let mut config = options.reader();
    config.set("enable.partition.eof", "true");
    let (consumer, topic) = (reader::consumer(&config, &Trouble::default())?, options.topics().owners);
    let failed = |error| reader::unavailable("the owners cannot be read", &error);
    let list = reader::place(&topic, PartitionId(0), rdkafka::Offset::Beginning).map_err(failed)?;
    consumer.assign(&list).map_err(failed)?;
    loop {
        match consumer.poll(reader::ASK) {
            Some(Ok(message)) => {
                let (key, _) = reader::text_of(&message);
                if let Some(id) = key.strip_prefix(KEY).and_then(|id| Uuid::parse_str(id).ok()) {
                    return Ok(Some(id));
                }
            }
            Some(Err(rdkafka::error::KafkaError::PartitionEOF(_))) => return Ok(None),
            Some(Err(error)) => return Err(failed(error)),
            None => return Err(LogError::Unavailable { reason: format!("topic `{topic}` does not answer").into() }),
        }
    }
}
