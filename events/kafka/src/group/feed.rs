//! The commands of each owned partition, on their way to its owner: bounded, and never blocking the poll.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use rdkafka::{TopicPartitionList, consumer::Consumer, error::KafkaResult, message::BorrowedMessage, util::Timeout};
use reenact_events::{CommandRecord, Lease, LogError, Offset, PartitionId, Term};
use tokio::sync::mpsc::error::TrySendError;

use super::{Joined, Sink};
use crate::{
    ownership::Ownership,
    reader::{at, number, place},
    record,
};

/// Commands that wait here before the partition is paused; pausing throws away what was fetched, so it is for
/// owners that are far behind.
const BACKLOG_MAX: usize = 2_000;
const SEEK_WAIT: std::time::Duration = std::time::Duration::from_millis(500);

/// See the module.
pub(super) struct Feeds {
    topic: Arc<str>,
    feeds: BTreeMap<PartitionId, Feed>,
}

struct Feed {
    sink: Sink,
    /// Commands are delivered to the lease that asked for them, and to no later one.
    term: Term,
    /// The offset of the next command to deliver.
    next: Offset,
    backlog: VecDeque<CommandRecord>,
    flow: Flow,
}

/// Whether the partition's records come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// It has to be set to its place first.
    Unplaced,
    Flowing,
    Paused,
}

impl Feeds {
    pub(super) fn new(topic: Arc<str>) -> Self {
        Self { topic, feeds: BTreeMap::new() }
    }

    pub(super) fn begin(&mut self, lease: &Lease, from: Offset, sink: Sink) {
        let (term, backlog) = (lease.term, VecDeque::new());
        self.feeds.insert(lease.partition, Feed { sink, term, next: from, backlog, flow: Flow::Unplaced });
    }

    /// Takes a record that came.
    pub(super) fn take(&mut self, consumer: &Joined, message: &BorrowedMessage<'_>, replies: &str) {
        let (partition, offset) = record::place(message);
        let Some(feed) = self.feeds.get_mut(&partition) else { return };
        if feed.flow == Flow::Unplaced || offset < feed.next {
            return;
        }
        feed.next = offset.next();
        if record::says_nothing(message) {
            return;
        }
        feed.backlog.push_back(CommandRecord { offset, arrival: record::arrival(message, replies) });
        feed.push();
        if feed.backlog.len() >= BACKLOG_MAX && feed.flow == Flow::Flowing {
            let paused = self.list(partition).and_then(|list| consumer.pause(&list));
            self.flows(partition, paused, Flow::Paused);
        }
    }

    /// Delivers what waits, and keeps each partition flowing as its owner can take it.
    pub(super) fn deliver(&mut self, consumer: &Joined, ownership: &Ownership) {
        self.feeds.retain(|partition, feed| {
            if !ownership.holds(*partition, feed.term) {
                // A listener that is behind sees its channel end, which says the same.
                feed.sink.try_send(Err(LogError::Fenced { partition: *partition })).unwrap_or_default();
                return false;
            }
            !feed.sink.is_closed()
        });
        self.feeds.values_mut().for_each(Feed::push);
        let standing: Vec<_> = self
            .feeds
            .iter()
            .filter(|(_, feed)| feed.flow != Flow::Flowing && feed.backlog.is_empty())
            .map(|(partition, feed)| (*partition, feed.next))
            .collect();
        for (partition, next) in standing {
            let flowing = self.flow_from(consumer, partition, next);
            let is_stuck = flowing.is_err();
            self.flows(partition, flowing, Flow::Flowing);
            // Each try takes its time while a broker is away, and the group wants to be polled meanwhile.
            if is_stuck {
                return;
            }
        }
    }

    /// The position of some partition is gone; the error does not say which.
    pub(super) fn out_of_range(&mut self, consumer: &Joined) {
        let topic = &self.topic;
        self.feeds.retain(|partition, feed| {
            let Ok((low, end)) = consumer.fetch_watermarks(topic, number(*partition), SEEK_WAIT) else {
                // Placed again, it meets the same error, and the question is asked once more.
                feed.flow = Flow::Unplaced;
                return true;
            };
            let (low, end) = (Offset(low.unsigned_abs()), Offset(end.unsigned_abs()));
            if feed.next < low {
                record::commands_lost(topic, *partition, feed.next, low);
                (feed.next, feed.flow) = (low, Flow::Unplaced);
            }
            // A partition that had this error is stopped, and cannot be set to a place before it is assigned anew.
            let again = place(topic, *partition, at(feed.next));
            let again = again.and_then(|list| {
                consumer.incremental_unassign(&list)?;
                consumer.incremental_assign(&list)
            });
            if let Err(error) = again {
                tracing::error!(%error, partition = partition.0, "the commands cannot be read from their new place");
            }
            let is_there = feed.next <= end;
            if !is_there {
                let reason = record::commands_missing(topic, feed.next, end).into();
                let damaged = LogError::Damaged { partition: *partition, offset: feed.next, reason };
                // A listener that is behind sees its channel end; its next claim meets the same error.
                feed.sink.try_send(Err(damaged)).unwrap_or_default();
            }
            is_there
        });
    }

    fn flow_from(&self, consumer: &Joined, partition: PartitionId, next: Offset) -> KafkaResult<()> {
        consumer.seek(&self.topic, number(partition), at(next), Timeout::After(SEEK_WAIT))?;
        consumer.resume(&self.list(partition)?)
    }

    fn list(&self, partition: PartitionId) -> KafkaResult<TopicPartitionList> {
        place(&self.topic, partition, rdkafka::Offset::Invalid)
    }

    /// It flows so now, or is tried again at the next turn.
    fn flows(&mut self, partition: PartitionId, done: KafkaResult<()>, flow: Flow) {
        match done {
            Ok(()) => {
                if let Some(feed) = self.feeds.get_mut(&partition) {
                    feed.flow = flow;
                }
            }
            Err(error) => tracing::debug!(%error, partition = partition.0, "the flow of commands was not changed yet"),
        }
    }
}

impl Feed {
    fn push(&mut self) {
        while let Some(record) = self.backlog.pop_front() {
            if let Err(TrySendError::Full(Ok(record))) = self.sink.try_send(Ok(record)) {
                self.backlog.push_front(record);
                return;
            }
        }
    }
}
