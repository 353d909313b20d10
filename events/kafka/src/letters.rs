//! The dead letters: reading them, and sending one on its way again.

use std::collections::BTreeMap;

use rdkafka::{
    Message, Offset as At,
    consumer::Consumer,
    error::KafkaError,
    message::{BorrowedMessage, Headers},
};
use reenact_events::{CommandId, DeadLetter, LogError, Offset, PartitionId, wire};

use crate::{
    Options,
    client::Trouble,
    producer::{Outgoing, Producer},
    reader::{self, place},
    record,
};

/// A dead letter with its own place, by which it is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// Its offset among the dead letters.
    pub number: u64,
    /// When it became one, milliseconds since 1970.
    pub at_ms: i64,
    /// The topic that it came from.
    pub topic: String,
    /// What it is.
    pub letter: DeadLetter,
}

/// Every dead letter from a number on, oldest first.
///
/// # Errors
/// When the topic cannot be read.
pub fn letters(options: &Options, from: u64) -> Result<Vec<Letter>, LogError> {
    let mut config = options.reader();
    config.set("enable.partition.eof", "true");
    let (consumer, topic) = (reader::consumer(&config, &Trouble::default())?, options.topics().dead_letter);
    let failed = |error| reader::unavailable("the dead letters cannot be read", &error);
    let (low, high) = reader::bounds(&consumer, &topic, PartitionId(0))?;
    // An offset behind the end would be an error of the consumer's.
    if from >= high.0 {
        return Ok(Vec::new());
    }
    let at = At::Offset(i64::try_from(from.max(low.0)).unwrap_or(i64::MAX));
    let list = place(&topic, PartitionId(0), at).map_err(failed)?;
    consumer.assign(&list).map_err(failed)?;
    let mut letters = Vec::new();
    loop {
        match consumer.poll(reader::ASK) {
            Some(Ok(message)) if record::says_nothing(&message) => {}
            Some(Ok(message)) => letters.push(letter(&message)),
            Some(Err(KafkaError::PartitionEOF(_))) => return Ok(letters),
            Some(Err(error)) => return Err(failed(error)),
            None => return Err(LogError::Unavailable { reason: format!("topic `{topic}` does not answer").into() }),
        }
    }
}

/// Why a dead letter was not sent again.
#[derive(Debug, thiserror::Error)]
pub enum RedriveError {
    /// It would only come back.
    #[error("it is still no command ({code}): {reason}; give it another value with `--value`")]
    Unreadable {
        /// For programs: a stable word.
        code: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// It could not be published.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Puts a dead letter among the commands again, with another value if one is given: which command it is now. It
/// goes to its session's partition, or where it came from when it names none, and stays among the dead letters.
/// Sending it once more has no further effect, as long as its id stays the same.
///
/// # Errors
/// When it is no command as it would be sent, or could not be published.
pub fn redrive(
    options: &Options,
    letter: &Letter,
    value: Option<&[u8]>,
    partitions: u32,
) -> Result<CommandId, RedriveError> {
    let (topics, DeadLetter { partition, key, headers, .. }) = (options.topics(), &letter.letter);
    let value = value.or(letter.letter.value.as_deref());
    let header = |name: &str| {
        let found = headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.and_then(|(_, value)| std::str::from_utf8(value.as_deref()?).ok())
    };
    let command = record::command(value.unwrap_or_default(), header, &topics.replies)
        .map_err(|wire::Unreadable { code, reason }| RedriveError::Unreadable { code, reason })?;
    let stream = command.stream();
    let partition = stream.as_ref().map_or(*partition, |stream| stream.partition_of(partitions));
    let failed = |error| reader::unavailable("the dead letter was not published", &error);
    let mut producer = Producer::new(&options.plain_producer(), Trouble::default()).map_err(failed)?;
    let key = stream.as_ref().map(|stream| stream.record_key().as_bytes()).or(key.as_deref());
    let headers = Some(record::redriven_headers(headers, letter.number));
    let partition = Some(reader::number(partition));
    producer.send(Outgoing { topic: &topics.commands, partition, key, value, headers }).map_err(failed)?;
    producer.drain().map_err(failed)?;
    Ok(command.id)
}

fn letter(message: &BorrowedMessage<'_>) -> Letter {
    let mut ours = BTreeMap::new();
    let mut headers = Vec::new();
    for header in message.headers().map(|headers| headers.iter()).into_iter().flatten() {
        match header.key.strip_prefix(record::OURS) {
            Some(name) => {
                let text = header.value.map(|value| String::from_utf8_lossy(value).into_owned());
                ours.insert(name.to_owned(), text.unwrap_or_default());
            }
            None => headers.push((header.key.to_owned(), header.value.map(<[u8]>::to_vec))),
        }
    }
    let text = |name: &str| ours.get(name).cloned().unwrap_or_default();
    Letter {
        number: message.offset().unsigned_abs(),
        at_ms: message.timestamp().to_millis().unwrap_or_default(),
        topic: text("topic"),
        letter: DeadLetter {
            partition: PartitionId(text("partition").parse().unwrap_or_default()),
            offset: Offset(text("offset").parse().unwrap_or_default()),
            code: text("code").into(),
            reason: text("reason").into(),
            key: message.key().map(<[u8]>::to_vec),
            headers,
            value: message.payload().map(<[u8]>::to_vec),
        },
    }
}
