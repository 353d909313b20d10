//! Transactions that the coordinator takes for complete while a partition has never heard of their end.
//!
//! A coordinator that finds no leader for a partition takes the partition for deleted: it writes no marker there and
//! answers all the same that the transaction is committed (seen with Apache Kafka 4.3.1 after a broker was frozen
//! until its controller fenced it). What was written stays undecided, and the next end of a transaction of the same
//! id in that partition decides it, whichever way that one ends. So a batch counts as committed once it can be read,
//! and whoever takes the id aborts what is undecided, which nobody was told of.

use std::{
    thread,
    time::{Duration, Instant},
};

use rdkafka::{
    consumer::Consumer,
    error::{KafkaError, KafkaResult},
    types::RDKafkaErrorCode,
};
use reenact_events::{LogError, Offset, PartitionId};

use super::{
    Writer,
    transact::{self, Failed, TRANSACTION_TIME},
};
use crate::{
    failure::{Action, Stage},
    producer::{Outgoing, Producer},
    reader::{self, Consuming, number},
};

/// How long the marker of a transaction that is committed may be on its way before its outcome counts as unknown.
const MARKER_WAIT: Duration = Duration::from_secs(5);
/// How long the brokers may take to say where a partition ends.
pub(super) const END_WAIT: Duration = Duration::from_secs(2);
/// How long it is waited before they are asked again, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(50));

impl Writer {
    /// Waits until an event whose transaction was said to be committed can be read.
    pub(super) fn confirm(&mut self, last: Offset) -> Result<(), Failed> {
        match self.decided_behind(last) {
            Ok(end) => {
                self.end = Some(end);
                Ok(())
            }
            Err(reason) => {
                self.producer = None;
                let what = "the transaction was said to be committed, but its last event";
                Err(Failed::with(Action::Unknown, format!("{what} {reason}")))
            }
        }
    }

    /// Where the next event will stand. When something hangs, whoever takes the id anew ends it.
    pub(super) fn end(&mut self) -> Result<Offset, Failed> {
        let end = self.end.take().map_or_else(|| self.settled_end(), Ok);
        end.map_err(|error| {
            self.producer = None;
            Failed::with(Action::AbortAndResend, error.to_string())
        })
    }

    /// The end of what is decided, once it is behind this record.
    fn decided_behind(&self, last: Offset) -> Result<Offset, String> {
        let (topic, deadline) = (&self.common.topics.events, Instant::now() + MARKER_WAIT);
        let mut pause = PAUSE.0;
        loop {
            let end = reader::end(&self.common.observer, topic, self.partition, END_WAIT);
            match end {
                Ok(end) if end > last => return Ok(end),
                end if Instant::now() > deadline => {
                    let waited = MARKER_WAIT.as_secs();
                    return Err(format!(
                        "at offset {last} of topic `{topic}` cannot be read after {waited} s ({end:?})"
                    ));
                }
                _ => thread::sleep(pause),
            }
            pause = (2 * pause).min(PAUSE.1);
        }
    }

    /// Aborts what is still undecided once the id was taken, when its coordinator knows of nothing any more.
    pub(super) fn end_undecided(&mut self) -> Result<(), LogError> {
        if !self.is_undecided()? {
            return Ok(());
        }
        let partition = self.partition;
        tracing::warn!(%partition, "a transaction was left undecided by the brokers: it is aborted");
        let Some(mut producer) = self.producer.take() else { return Ok(()) };
        let failed = self.put_nothing(&mut producer).err();
        let failed = failed.unwrap_or_else(|| Failed::with(Action::AbortAndResend, "it is meant to be".to_owned()));
        self.producer = self.aborted(producer, &failed);
        if failed.action == Action::Fenced {
            return Err(LogError::Fenced { partition });
        }
        tracing::debug!(%partition, reason = failed.reason, "the transaction that ends it was aborted");
        self.beside_is_gone();
        self.settled_end().map(drop)
    }

    /// The end of the partition, once everything in it is decided.
    fn settled_end(&self) -> Result<Offset, LogError> {
        let (all, deadline) = (self.seeing_all()?, Instant::now() + MARKER_WAIT);
        loop {
            let (decided, written) = self.ends(&all)?;
            if decided >= written {
                return Ok(decided.max(self.next));
            }
            if Instant::now() > deadline {
                let (topic, partition) = (&self.common.topics.events, self.partition);
                let reason = format!(
                    "partition {partition} of topic `{topic}` holds a transaction that is neither committed nor \
                     aborted (`kafka-transactions.sh find-hanging` shows whose it is)"
                );
                return Err(LogError::Unavailable { reason: reason.into() });
            }
            thread::sleep(PAUSE.1 / 10);
        }
    }

    /// Whether something in the partition, the group's cursor, or elsewhere that this id writes, is neither committed
    /// nor aborted.
    fn is_undecided(&self) -> Result<bool, LogError> {
        let all = self.seeing_all()?;
        let (decided, written) = self.ends(&all)?;
        Ok(decided < written || self.is_cursor_undecided(&self.inspector()?) || self.hangs_beside(&all)?)
    }

    /// Whether something elsewhere is undecided for longer than a transaction takes. It may be another owner's: then
    /// what is done about it here does not help, and does no harm.
    fn hangs_beside(&self, all: &Consuming) -> Result<bool, LogError> {
        let failed = |error: KafkaError| reader::unavailable("the deployment's topics cannot be asked", &error);
        let end = |consumer: &Consuming, (topic, partition): &(&str, i32)| {
            reader::end(consumer, topic, PartitionId(partition.unsigned_abs()), END_WAIT)
        };
        let deadline = Instant::now() + MARKER_WAIT;
        let mut open = Vec::new();
        for place in self.places().map_err(failed)?.into_iter().skip(1) {
            let written = reader::patiently(|| end(all, &place)).map_err(failed)?;
            open.push((place, written));
        }
        loop {
            open.retain(|(place, written)| {
                end(&self.common.observer, place).map_or(true, |decided| decided < *written)
            });
            match open.first() {
                None => return Ok(false),
                Some(((topic, partition), written)) if Instant::now() > deadline => {
                    tracing::warn!(topic, partition, %written, "something before this offset is neither committed nor aborted");
                    return Ok(true);
                }
                Some(_) => thread::sleep(PAUSE.1 / 10),
            }
        }
    }

    fn seeing_all(&self) -> Result<Consuming, LogError> {
        reader::consumer(&self.common.options.undecided(), &self.common.trouble)
    }

    /// Where what is decided ends, and where what is written does. Only who reads everything sees the latter.
    fn ends(&self, all: &Consuming) -> Result<(Offset, Offset), LogError> {
        let topic = &self.common.topics.events;
        let failed = |error: KafkaError| reader::unavailable(&format!("topic `{topic}` cannot be asked"), &error);
        let end = |consumer| reader::patiently(|| reader::end(consumer, topic, self.partition, END_WAIT));
        let written = end(all).map_err(failed)?;
        Ok((end(&self.common.observer).map_err(failed)?, written))
    }

    fn is_cursor_undecided(&self, inspector: &Consuming) -> bool {
        let asked = inspector.committed_offsets(self.cursor_place(), END_WAIT);
        let waits = |code| matches!(code, RDKafkaErrorCode::OperationTimedOut | RDKafkaErrorCode::UnstableOffsetCommit);
        asked.is_err_and(|error| error.rdkafka_error_code().is_some_and(waits))
    }

    /// Puts a record without content wherever the id may have left something, in a transaction that will be aborted:
    /// the markers of its end decide what stands before them.
    fn put_nothing(&self, producer: &mut Producer) -> Result<(), Failed> {
        let deadline = Instant::now() + TRANSACTION_TIME;
        let membership = self.common.ownership.membership(self.partition);
        let membership = membership.ok_or_else(|| Failed::with(Action::Fenced, "not owned".to_owned()))?;
        let failed = |error: KafkaError| Failed::at(Stage::Produce, &error);
        producer.begin().map_err(failed)?;
        for (topic, partition) in self.places().map_err(failed)? {
            // A compacted topic takes no record without a key.
            let (partition, key) = (Some(partition), Some(b"undecided".as_slice()));
            producer.send(Outgoing { topic, partition, key, value: None, headers: None }).map_err(failed)?;
        }
        producer.drain().map_err(|error| Failed::at(Stage::Deliver, &error))?;
        let offsets = self.offsets(self.cursor, "")?;
        transact::send_offsets(producer, &offsets, &membership, deadline).map(drop)
    }

    /// Where this id writes.
    fn places(&self) -> KafkaResult<Vec<(&str, i32)>> {
        let topics = &self.common.topics;
        let mut places = vec![(topics.events.as_str(), number(self.partition))];
        for topic in [&topics.commands, &topics.replies, &topics.dead_letter, &topics.owners] {
            let metadata = self.common.observer.fetch_metadata(Some(topic), END_WAIT)?;
            let partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
            places.extend(partitions.map(|partition| (topic.as_str(), partition.id())));
        }
        Ok(places)
    }
}
