//! The member of the consumer group: one thread that polls, because rebalances are told inside the poll.
//!
//! Only the command topic is subscribed. Being assigned its partition `p` is the right to claim partition `p`
//! of the events; its commands are read from the journaled cursor once the claim has been replayed.

mod feed;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use rdkafka::{
    ClientContext, Offset as At, TopicPartitionList,
    config::{FromClientConfigAndContext, RDKafkaLogLevel},
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::{KafkaError, KafkaResult},
    types::{RDKafkaErrorCode, RDKafkaRespErr},
};
use reenact_events::{CommandRecord, Lease, LogError, Offset, Ownership as News, PartitionId, Released};
use tokio::sync::mpsc as async_mpsc;

use crate::{
    client::{self, Part},
    reader::place,
    writer::{self, Common, Job},
};
use feed::Feeds;

/// Where commands are delivered.
pub(crate) type Sink = async_mpsc::Sender<Result<CommandRecord, LogError>>;

/// What the thread is asked.
pub(crate) enum Request {
    /// Deliver the partition's commands from here on.
    Feed { lease: Lease, from: Offset, sink: Sink },
    /// Leave the group in order.
    Leave,
}

/// How long a withdrawn partition may take to finish what is in flight.
const FINISH_WAIT: Duration = Duration::from_secs(5);
/// How long telling the next owner may take.
const RELEASE_WAIT: Duration = Duration::from_secs(2);
/// How long leaving the group may take.
const LEAVE_WAIT: Duration = Duration::from_secs(10);
/// How long the group's coordinator is asked at a time.
const COORDINATOR_WAIT: Duration = Duration::from_millis(500);
const POLL: Duration = Duration::from_millis(20);
/// Pause before a member that broke joins again.
const REJOIN_PAUSE: Duration = Duration::from_secs(1);

/// The writers of the partitions that are owned.
#[derive(Default)]
pub(crate) struct Writers(Mutex<BTreeMap<PartitionId, mpsc::SyncSender<Job>>>);

impl Writers {
    /// The writer of a partition, if it is owned.
    pub(crate) fn of(&self, partition: PartitionId) -> Option<mpsc::SyncSender<Job>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&partition).cloned()
    }

    fn put(&self, partition: PartitionId, jobs: mpsc::SyncSender<Job>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(partition, jobs);
    }

    fn take(&self, partition: PartitionId) -> Option<mpsc::SyncSender<Job>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&partition)
    }
}

/// What the thread and the callbacks work with.
pub(crate) struct Member {
    pub(crate) common: Arc<Common>,
    pub(crate) writers: Arc<Writers>,
    pub(crate) news: async_mpsc::Sender<News>,
    /// The others know of this member.
    pub(crate) joined: AtomicBool,
}

pub(crate) type Joined = BaseConsumer<Context>;

/// The context of the consumer.
#[derive(Clone)]
pub(crate) struct Context(Arc<Member>);

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        client::log(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        client::note(&self.0.common.trouble, &error, reason);
    }
}

impl ConsumerContext for Context {
    fn rebalance(&self, consumer: &Joined, what: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let done = match what {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => self.0.assign(consumer, list),
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS => {
                self.0.revoke(consumer, list);
                consumer.incremental_unassign(list)
            }
            other => {
                tracing::error!(code = ?RDKafkaErrorCode::from(other), "the group could not be rebalanced");
                self.0.lose(&self.0.common.ownership.all());
                consumer.unassign()
            }
        };
        if let Err(error) = done {
            tracing::error!(%error, "the assignment of partitions could not be followed");
        }
    }
}

impl Member {
    fn assign(&self, consumer: &Joined, list: &mut TopicPartitionList) -> KafkaResult<()> {
        // Nothing is delivered before the claim says where to begin.
        list.set_all_offsets(At::Beginning)?;
        consumer.incremental_assign(list)?;
        consumer.pause(list)?;
        let granted = partitions(list);
        let Some(group) = consumer.group_metadata() else {
            tracing::error!("the group gave no metadata: nothing may be written");
            return Ok(());
        };
        tracing::info!(?granted, "the group has rebalanced");
        self.common.ownership.rebalanced(group, &granted);
        self.common.trouble.set(Part::Group, None);
        for partition in granted {
            match writer::spawn(self.common.clone(), partition) {
                Ok(jobs) => self.writers.put(partition, jobs),
                Err(error) => tracing::error!(%error, partition = partition.0, "no thread to write with"),
            }
            self.tell(News::Granted(partition));
        }
        // Before, a node that is granted something would look for a moment as if it were ready with nothing.
        self.tell_joined();
        Ok(())
    }

    fn tell_joined(&self) {
        if !self.joined.swap(true, Ordering::SeqCst) {
            self.tell(News::Joined);
        }
    }

    /// With KIP-848 a member for whom there is nothing is told nothing. That the group's coordinator answers is
    /// all there is to know then.
    fn look_for_group(&self, consumer: &Joined) {
        if !self.common.options.is_new_protocol() || self.joined.load(Ordering::SeqCst) {
            return;
        }
        let list = place(&self.common.topics.commands, PartitionId(0), At::Invalid);
        match list.and_then(|list| consumer.committed_offsets(list, COORDINATOR_WAIT)) {
            Ok(_) => self.tell_joined(),
            Err(error) => tracing::debug!(%error, "the group's coordinator does not answer yet"),
        }
    }

    /// Lets go of partitions: in order when they are asked back, at once when somebody may have them already.
    fn revoke(&self, consumer: &Joined, list: &TopicPartitionList) {
        let leaving = partitions(list);
        if consumer.assignment_lost() {
            tracing::warn!(?leaving, "partitions were lost: this process was away for too long");
            return self.lose(&leaving);
        }
        tracing::info!(?leaving, "partitions are given up");
        // The group is a generation ahead of what the writers hold: without this, what is in flight is refused.
        // Nobody else gets the partitions before this callback has ended, and who does fences our producers.
        if let Some(group) = consumer.group_metadata() {
            self.common.ownership.rebalanced(group, &[]);
        }
        let mut finished = Vec::with_capacity(leaving.len());
        for partition in &leaving {
            let (released, dropped) = Released::new();
            finished.push(dropped);
            self.tell(News::Withdrawn { partition: *partition, released });
        }
        if !all_within(finished, FINISH_WAIT) {
            tracing::warn!(?leaving, "what was in flight did not finish in time");
        }
        let told: Vec<_> = leaving.iter().filter_map(|partition| self.release(*partition)).collect();
        let deadline = Instant::now() + RELEASE_WAIT;
        for done in told {
            // One that does not answer in time leaves its successor to wait for the steps' time.
            done.recv_timeout(deadline.saturating_duration_since(Instant::now())).unwrap_or_default();
        }
        self.leave(&leaving);
    }

    fn release(&self, partition: PartitionId) -> Option<mpsc::Receiver<()>> {
        let (done, told) = mpsc::sync_channel(1);
        // A writer with a full queue answers nobody in time.
        self.writers.of(partition)?.try_send(Job::Release { done }).ok()?;
        Some(told)
    }

    /// Lets go of partitions that somebody else may have.
    pub(crate) fn lose(&self, partitions: &[PartitionId]) {
        self.leave(partitions);
        for partition in partitions {
            self.tell(News::Lost(*partition));
        }
    }

    fn leave(&self, partitions: &[PartitionId]) {
        for partition in partitions {
            self.common.ownership.leave(*partition);
            self.common.trouble.set(Part::Partition(*partition), None);
            self.writers.take(*partition);
        }
    }

    fn tell(&self, news: News) {
        // Whoever followed has left; then nothing is owned for long.
        self.news.blocking_send(news).unwrap_or_default();
    }
}

/// Waits for all, without needing a runtime; whether they came in time.
fn all_within(futures: Vec<BoxFuture<'static, ()>>, wait: Duration) -> bool {
    let (done, all_done) = mpsc::sync_channel(1);
    thread::spawn(move || {
        futures::executor::block_on(futures::future::join_all(futures));
        // Whoever waited may have given up.
        done.send(()).unwrap_or_default();
    });
    all_done.recv_timeout(wait).is_ok()
}

fn partitions(list: &TopicPartitionList) -> Vec<PartitionId> {
    list.elements().iter().map(|element| PartitionId(element.partition().unsigned_abs())).collect()
}

/// Joins the group, on a thread of its own, until it is asked to leave.
pub(crate) fn join(member: Arc<Member>, requests: mpsc::Receiver<Request>) -> std::io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name("log group".to_owned()).spawn(move || {
        while let Err(error) = stay(&member, &requests) {
            tracing::error!(%error, "the membership broke, joining the group again");
            member.common.trouble.set(Part::Group, Some(format!("the group was left: {error}").into()));
            member.lose(&member.common.ownership.all());
            thread::sleep(REJOIN_PAUSE);
        }
    })
}

/// Is a member until it is asked to leave, or the membership breaks.
fn stay(member: &Arc<Member>, requests: &mpsc::Receiver<Request>) -> KafkaResult<()> {
    let config = member.common.options.member();
    let consumer: Joined = BaseConsumer::from_config_and_context(&config, Context(member.clone()))?;
    let topic = &member.common.topics.commands;
    consumer.subscribe(&[topic])?;
    let mut feeds = Feeds::new(topic.as_str().into());
    loop {
        loop {
            match requests.try_recv() {
                Ok(Request::Feed { lease, from, sink }) => feeds.begin(&lease, from, sink),
                Ok(Request::Leave) | Err(mpsc::TryRecvError::Disconnected) => {
                    leave(&consumer);
                    return Ok(());
                }
                Err(mpsc::TryRecvError::Empty) => break,
            }
        }
        member.look_for_group(&consumer);
        feeds.deliver(&consumer, &member.common.ownership);
        match consumer.poll(POLL) {
            None => {}
            Some(Ok(message)) => {
                member.common.trouble.set(Part::Group, None);
                feeds.take(&consumer, &message, &member.common.topics.replies);
            }
            Some(Err(error)) if is_broken(&error) => return Err(error),
            Some(Err(error)) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AutoOffsetReset) => {
                feeds.out_of_range(&consumer);
            }
            Some(Err(error)) => {
                tracing::debug!(%error, "the commands cannot be read now");
                // What concerns the cluster is noticed, and seen to pass, by the watcher.
                if is_lasting(&error) {
                    let reason = format!("this node cannot be a member of the group, or read the commands: {error}");
                    member.common.trouble.set(Part::Group, Some(reason.into()));
                }
            }
        }
    }
}

/// Errors that stay until somebody changes something; a message or an assignment tells that it was done.
fn is_lasting(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::TopicAuthorizationFailed
                | RDKafkaErrorCode::GroupAuthorizationFailed
                | RDKafkaErrorCode::UnknownTopicOrPartition
                | RDKafkaErrorCode::InvalidSessionTimeout
                | RDKafkaErrorCode::InconsistentGroupProtocol
                | RDKafkaErrorCode::InvalidGroupId
                | RDKafkaErrorCode::GroupMaxSizeReached
                | RDKafkaErrorCode::UnsupportedVersion
                | RDKafkaErrorCode::UnsupportedAssignor
        )
    )
}

fn is_broken(error: &KafkaError) -> bool {
    matches!(error, KafkaError::MessageConsumptionFatal(_))
        || error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal)
}

/// Gives everything up in order, so that the others have it at once.
fn leave(consumer: &Joined) {
    consumer.unsubscribe();
    let deadline = Instant::now() + LEAVE_WAIT;
    while Instant::now() < deadline && consumer.assignment().is_ok_and(|assigned| assigned.count() > 0) {
        if let Some(Err(error)) = consumer.poll(POLL) {
            tracing::debug!(%error, "while the group is left");
        }
    }
}
