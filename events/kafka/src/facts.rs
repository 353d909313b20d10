//! What the log itself says of its deployment: a node that brings something else is found out, also when two begin at
//! once.
//!
//! The first record of a fact in the owners' topic counts. What is said is in the record's key, so compaction keeps all
//! that was ever said, and its order.

use rdkafka::consumer::Consumer;
use reenact_events::{LogError, Offset, PartitionId};

use crate::{
    Options,
    client::Trouble,
    producer::{Outgoing, Producer},
    reader,
};

/// What is said once and stays for the log's whole life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// Which object store the log's texts and files lie in.
    ObjectStore,
    /// How users' content is stored.
    Content,
}

impl Fact {
    /// What stands before it in its record's key.
    fn key(self) -> &'static str {
        match self {
            Self::ObjectStore => "objects:",
            Self::Content => "content:",
        }
    }
}

/// What the log says: what was said first, which is `offered` when nothing was. Blocks.
///
/// # Errors
/// When the topic cannot be read or written.
pub fn settled(options: &Options, fact: Fact, offered: &str) -> Result<String, LogError> {
    if let Some(said) = said(options, fact)? {
        return Ok(said);
    }
    let failed = |error| reader::unavailable("the log cannot be told what is its own", &error);
    let (topic, key) = (options.topics().owners, format!("{}{offered}", fact.key()));
    let mut producer = Producer::new(&options.plain_producer(), Trouble::default()).map_err(failed)?;
    let (key, value) = (Some(key.as_bytes()), Some(&b"{}"[..]));
    producer.send(Outgoing { topic: &topic, partition: Some(0), key, value, headers: None }).map_err(failed)?;
    producer.drain().map_err(failed)?;
    // Of two that say it at once one is first.
    let gone = || LogError::Unavailable { reason: format!("topic `{topic}` does not have what was written").into() };
    said(options, fact)?.ok_or_else(gone)
}

/// What the log says, if it was told. Blocks.
///
/// # Errors
/// When the topic cannot be read.
pub fn said(options: &Options, fact: Fact) -> Result<Option<String>, LogError> {
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
                if let Some(said) = key.strip_prefix(fact.key()) {
                    return Ok(Some(said.to_owned()));
                }
            }
            Some(Err(rdkafka::error::KafkaError::PartitionEOF(_))) => return Ok(None),
            Some(Err(error)) => return Err(failed(error)),
            None => return Err(LogError::Unavailable { reason: format!("topic `{topic}` does not answer").into() }),
        }
    }
}

/// Whether no event was ever written to the log. Blocks.
///
/// # Errors
/// When the topic cannot be asked.
pub fn is_new(options: &Options) -> Result<bool, LogError> {
    let (consumer, topic) = (reader::consumer(&options.reader(), &Trouble::default())?, options.topics().events);
    let failed = |error| reader::unavailable("the events cannot be asked for", &error);
    let metadata = reader::patiently(|| consumer.fetch_metadata(Some(&topic), reader::ASK)).map_err(failed)?;
    for partition in metadata.topics().iter().flat_map(|topic| topic.partitions()) {
        let (_, end) = reader::bounds(&consumer, &topic, PartitionId(partition.id().unsigned_abs()))?;
        if end > Offset(0) {
            return Ok(false);
        }
    }
    Ok(true)
}
