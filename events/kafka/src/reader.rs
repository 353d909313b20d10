//! Readers at positions of their own: replays, tails, and looks at the end of a partition.

use std::{
    mem::take,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use rdkafka::{
    ClientConfig, Message, Offset as At, TopicPartitionList,
    config::FromClientConfigAndContext,
    consumer::{BaseConsumer, Consumer},
    error::{KafkaError, KafkaResult},
    message::{BorrowedMessage, OwnedMessage},
    types::RDKafkaErrorCode,
};
use reenact_events::{LogError, Offset, PartitionId, Recorded};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    client::{Plain, Trouble},
    record::{self, EventRecord},
};

/// How long a question to the brokers may take.
pub(crate) const ASK: Duration = Duration::from_secs(10);
/// How often a reader without news looks whether anybody still listens.
const POLL: Duration = Duration::from_millis(100);
/// How long nothing may come before a reader asks whether anything can.
const QUIET: Duration = Duration::from_secs(3);
/// Events that are told at once, when so many are there: waking the other side for each one costs more than reading.
const CHUNK: usize = 256;
/// Chunks that were read ahead of whoever folds them.
const AHEAD: usize = 4;

pub(crate) type Consuming = BaseConsumer<Plain>;

/// A consumer that joins no group.
pub(crate) fn consumer(config: &ClientConfig, trouble: &Trouble) -> Result<Consuming, LogError> {
    let context = Plain { trouble: trouble.clone() };
    BaseConsumer::from_config_and_context(config, context).map_err(|error| unavailable("no consumer", &error))
}

/// Lets a consumer say what it has noticed beside the answers to calls: it does so only while it is polled.
pub(crate) fn hear(consumer: &Consuming) {
    const EVENTS_MAX: usize = 64;
    for _ in 0..EVENTS_MAX {
        // Its context takes the words down; nothing is assigned yet, so no record is lost here.
        let _said = consumer.poll(Duration::ZERO);
    }
}

/// Something that the brokers could not be asked now.
pub(crate) fn unavailable(what: &str, error: &KafkaError) -> LogError {
    LogError::Unavailable { reason: format!("{what}: {error}").into() }
}

pub(crate) fn number(partition: PartitionId) -> i32 {
    i32::try_from(partition.0).unwrap_or(i32::MAX)
}

pub(crate) fn at(offset: Offset) -> At {
    At::Offset(i64::try_from(offset.0).unwrap_or(i64::MAX))
}

/// One partition at a position.
pub(crate) fn place(topic: &str, partition: PartitionId, offset: At) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::with_capacity(1);
    list.add_partition_offset(topic, number(partition), offset)?;
    Ok(list)
}

/// Asks again while the cluster is still finding its feet: a topic that was just made, or a leader that moves.
pub(crate) fn patiently<T>(mut ask: impl FnMut() -> KafkaResult<T>) -> KafkaResult<T> {
    let deadline = Instant::now() + ASK;
    loop {
        match ask() {
            Err(error) if is_settling(&error) && Instant::now() < deadline => std::thread::sleep(POLL / 4),
            answer => return answer,
        }
    }
}

fn is_settling(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::NotLeaderForPartition
                | RDKafkaErrorCode::LeaderNotAvailable
                | RDKafkaErrorCode::UnknownTopicOrPartition
                | RDKafkaErrorCode::UnknownTopic
                | RDKafkaErrorCode::UnknownPartition
                | RDKafkaErrorCode::NotCoordinator
                | RDKafkaErrorCode::CoordinatorLoadInProgress
                | RDKafkaErrorCode::CoordinatorNotAvailable
                | RDKafkaErrorCode::OffsetNotAvailable
                | RDKafkaErrorCode::BrokerTransportFailure
        )
    )
}

/// The first offset and the one behind the last that a reader may see.
pub(crate) fn bounds(consumer: &Consuming, topic: &str, partition: PartitionId) -> Result<(Offset, Offset), LogError> {
    let (low, high) = patiently(|| consumer.fetch_watermarks(topic, number(partition), ASK))
        .map_err(|error| unavailable(&format!("topic `{topic}` cannot be asked for its offsets"), &error))?;
    Ok((Offset(low.unsigned_abs()), Offset(high.unsigned_abs())))
}

/// Behind the last record that this consumer may see: for one that reads what is committed, no transaction before
/// it is open.
pub(crate) fn end(consumer: &Consuming, topic: &str, partition: PartitionId, wait: Duration) -> KafkaResult<Offset> {
    let ask = || {
        let asked = consumer.offsets_for_times(place(topic, partition, At::End)?, wait)?;
        let elements = asked.elements();
        let Some(element) = elements.first() else { return Ok(Offset(0)) };
        element.error()?;
        let end = element.offset().to_raw().and_then(|end| u64::try_from(end).ok());
        Ok(Offset(end.unwrap_or_default()))
    };
    ask().inspect_err(|_| {
        // A consumer that reads nothing hears of a new leader only when it asks; the next try is told why it fails.
        consumer.fetch_metadata(Some(topic), wait).map(drop).unwrap_or_default();
    })
}

/// What a stream of events reads.
pub(crate) struct Wish {
    pub(crate) topic: Arc<str>,
    pub(crate) partition: PartitionId,
    pub(crate) from: Offset,
    /// The last offset to read; for ever without one.
    pub(crate) last: Option<Offset>,
}

/// Events as a stream. `holds` is asked before the last one is told: when it says no, the stream ends with a
/// fence instead, so that what was read never looks complete.
pub(crate) fn stream(
    config: ClientConfig,
    trouble: Trouble,
    wish: Wish,
    holds: impl Fn() -> bool + Send + Sync + 'static,
) -> BoxStream<'static, Result<Recorded, LogError>> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    let (name, holds) = (format!("log reader {}", wish.partition), Arc::new(holds));
    let (still_holds, last, partition) = (holds.clone(), wish.last, wish.partition);
    let failed = sender.clone();
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        if let Err(error) = read(&config, &trouble, &wish, &*holds, &sender) {
            // Whoever listened may have left.
            sender.blocking_send(Err(error)).unwrap_or_default();
        }
    });
    if let Err(error) = thread {
        let reason = format!("no thread to read with: {error}").into();
        failed.try_send(Err(LogError::Unavailable { reason })).unwrap_or_default();
    }
    // Records wait here before they are told, and meanwhile somebody may claim.
    let told = move |event: Result<Recorded, LogError>| match event {
        Ok(recorded) if last.is_some_and(|last| recorded.offset >= last) && !still_holds() => {
            Err(LogError::Fenced { partition })
        }
        event => event,
    };
    let chunk = |read: Result<Vec<Recorded>, LogError>| match read {
        Ok(events) => stream::iter(events.into_iter().map(Ok).collect::<Vec<_>>()),
        Err(error) => stream::iter(vec![Err(error)]),
    };
    ReceiverStream::new(receiver).flat_map(chunk).map(told).boxed()
}

fn read(
    config: &ClientConfig,
    trouble: &Trouble,
    wish: &Wish,
    holds: &dyn Fn() -> bool,
    sender: &mpsc::Sender<Result<Vec<Recorded>, LogError>>,
) -> Result<(), LogError> {
    let Wish { topic, partition, from, last } = wish;
    let consumer = consumer(config, trouble)?;
    let (low, high) = bounds(&consumer, topic, *partition)?;
    if *from < low {
        return Err(gone(topic, *partition, *from, low));
    }
    if *from > last.map_or(high, Offset::next) {
        tracing::error!(topic = &**topic, %partition, wanted = from.0, end = high.0, "a position is not in the topic");
        return Err(LogError::OutOfRange { partition: *partition, wanted: *from, low });
    }
    if last.is_some_and(|last| *from > last) {
        return Ok(());
    }
    let list = place(topic, *partition, at(*from)).and_then(|list| consumer.assign(&list));
    list.map_err(|error| unavailable("a reader cannot begin", &error))?;
    let (mut chunk, mut wanted, mut quiet_since) = (Vec::new(), *from, Instant::now());
    let tell = |chunk: &mut Vec<Recorded>| chunk.is_empty() || sender.blocking_send(Ok(take(chunk))).is_ok();
    while !sender.is_closed() {
        let wait = if chunk.is_empty() { POLL } else { Duration::ZERO };
        let read = next(&consumer, topic, *partition, *from, wait);
        let event = read.and_then(|message| message.map(|message| record::event(&message)).transpose());
        match event {
            Ok(Some(EventRecord { recorded, .. })) => {
                let is_last = last.is_some_and(|last| recorded.offset >= last);
                (wanted, quiet_since) = (recorded.offset.next(), Instant::now());
                chunk.push(recorded);
                let is_full = is_last || chunk.len() >= CHUNK;
                let is_heard = !is_full || tell(&mut chunk);
                if is_last || !is_heard {
                    return Ok(());
                }
            }
            Ok(None) if chunk.is_empty() && !holds() => return Err(LogError::Fenced { partition: *partition }),
            Ok(None) if chunk.is_empty() && quiet_since.elapsed() > QUIET => {
                check_place(&consumer, topic, *partition, wanted)?;
                quiet_since = Instant::now();
            }
            Ok(None) => {
                tell(&mut chunk);
            }
            Err(error) => {
                tell(&mut chunk);
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Whether what a reader waits for can still come: it hears nothing of a topic that was made anew meanwhile.
fn check_place(consumer: &Consuming, topic: &str, partition: PartitionId, wanted: Offset) -> Result<(), LogError> {
    match end(consumer, topic, partition, QUIET) {
        Ok(end) if end < wanted => {
            let reason = format!(
                "topic `{topic}` ends at {end}, before {wanted}: it was recreated, or an older broker was restored"
            );
            Err(LogError::Damaged { partition, offset: wanted, reason: reason.into() })
        }
        // Brokers that are away come back.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The next message, or nothing yet. What passes (a broker that is away) is nothing yet.
fn next<'c>(
    consumer: &'c Consuming,
    topic: &str,
    partition: PartitionId,
    from: Offset,
    wait: Duration,
) -> Result<Option<BorrowedMessage<'c>>, LogError> {
    match consumer.poll(wait) {
        None => Ok(None),
        Some(Ok(message)) => Ok(Some(message)),
        Some(Err(error)) => match error.rdkafka_error_code() {
            _ if is_gone(&error) => {
                let (low, _) = bounds(consumer, topic, partition)?;
                Err(gone(topic, partition, from, low))
            }
            Some(RDKafkaErrorCode::TopicAuthorizationFailed) => {
                Err(unavailable(&format!("topic `{topic}` cannot be read"), &error))
            }
            // It may come back as another one, of which this reader would never hear.
            Some(
                RDKafkaErrorCode::UnknownTopicOrPartition
                | RDKafkaErrorCode::UnknownTopic
                | RDKafkaErrorCode::UnknownPartition
                | RDKafkaErrorCode::UnknownTopicId,
            ) => Err(unavailable(&format!("topic `{topic}` is not there"), &error)),
            _ => Ok(None),
        },
    }
}

/// Whether a reader's position is not there any more.
fn is_gone(error: &KafkaError) -> bool {
    matches!(error.rdkafka_error_code(), Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange))
}

/// What can be done about events that were deleted at the beginning.
pub(crate) const NO_BEGINNING: &str = "Restore them from a backup, or start a node whose data directory or snapshots have seen them; a log without its \
     beginning cannot be accepted as it is, only one that was made anew and is empty (delete and create the topic with \
     the same partitions and settings, then `reenact log accept-loss`)";

/// What was at a position is not there.
fn gone(topic: &str, partition: PartitionId, from: Offset, low: Offset) -> LogError {
    let reason = if from < low {
        format!("topic `{topic}` begins at {low} there: the events from {from} on were deleted. {NO_BEGINNING}")
    } else {
        format!("topic `{topic}` has nothing at {from} any more: it was recreated, or an older broker was restored")
    };
    LogError::Damaged { partition, offset: from, reason: reason.into() }
}

/// Events of a range that nobody appends to, oldest first.
pub(crate) fn range(
    consumer: &Consuming,
    topic: &str,
    partition: PartitionId,
    from: Offset,
    end: Offset,
) -> Result<Vec<EventRecord>, LogError> {
    messages(consumer, topic, partition, (from, end))?.iter().map(record::event).collect()
}

/// Records of a range, oldest first.
pub(crate) fn messages(
    consumer: &Consuming,
    topic: &str,
    partition: PartitionId,
    (from, end): (Offset, Offset),
) -> Result<Vec<OwnedMessage>, LogError> {
    let list = place(topic, partition, at(from)).and_then(|list| consumer.assign(&list));
    list.map_err(|error| unavailable("a reader cannot begin", &error))?;
    let (mut found, deadline) = (Vec::new(), Instant::now() + 3 * ASK);
    loop {
        match consumer.poll(POLL) {
            Some(Ok(message)) => {
                let offset = Offset(message.offset().unsigned_abs());
                if offset < end {
                    found.push(message.detach());
                }
                if offset.next() >= end {
                    return Ok(found);
                }
            }
            // Markers of transactions stand behind the last record: only this tells that nothing else comes.
            Some(Err(KafkaError::PartitionEOF(_))) => return Ok(found),
            Some(Err(error)) if is_gone(&error) => {
                return Err(gone(topic, partition, from, bounds(consumer, topic, partition)?.0));
            }
            Some(Err(error)) if Instant::now() > deadline => return Err(unavailable("the end cannot be read", &error)),
            None if Instant::now() > deadline => {
                let reason = format!("topic `{topic}` did not answer in {} s", 3 * ASK.as_secs()).into();
                return Err(LogError::Unavailable { reason });
            }
            _ => {}
        }
    }
}

/// The last event of a partition that nobody appends to.
pub(crate) fn last(
    consumer: &Consuming,
    topic: &str,
    partition: PartitionId,
    bounds: (Offset, Offset),
) -> Result<Option<EventRecord>, LogError> {
    let (low, end) = bounds;
    // Offsets have gaps of any length, so how far back the last event is must be tried.
    let mut back = 4;
    loop {
        let from = Offset(end.0.saturating_sub(back)).max(low);
        if from >= end {
            return Ok(None);
        }
        if let Some(last) = range(consumer, topic, partition, from, end)?.pop() {
            return Ok(Some(last));
        }
        if from == low {
            return Ok(None);
        }
        back *= 16;
    }
}

/// A message that is not about a partition's events.
pub(crate) fn text_of(message: &impl Message) -> (&str, &[u8]) {
    let key = message.key().and_then(|key| std::str::from_utf8(key).ok()).unwrap_or_default();
    (key, message.payload().unwrap_or_default())
}
