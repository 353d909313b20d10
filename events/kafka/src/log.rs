//! The handle: hands jobs to the writers, opens readers, publishes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool, mpsc},
    thread,
};

use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use rdkafka::{Offset as At, consumer::Consumer};
use reenact_events::{
    Answer, Batch, BatchId, CommandRecord, CommitOutcome, Committed, EventLog, Forward, Lease, LogError, LogId, NodeId,
    Offset, Owner, Ownership as News, PartitionId, Recorded, Term, log::no_such_partition, wire,
};
use tokio::sync::{mpsc as async_mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    ConnectError, Options,
    answers::{self, From},
    client::{Part, Trouble},
    connect,
    group::{self, Member, Request, Writers},
    ownership::Ownership,
    producer::{Outgoing, Producer},
    reader::{self, Wish, number},
    record, taken, watch,
    writer::{Common, Job},
};

/// Commands that were read ahead of whoever decides them.
const COMMANDS_AHEAD: usize = 1_024;
/// Changes of ownership that nobody has taken up yet.
const NEWS_AHEAD: usize = 1_024;
const REQUESTS_AHEAD: usize = 1_024;

/// A log on Kafka. Clones are handles to the same one.
#[derive(Clone)]
pub struct KafkaLog {
    inner: Arc<Inner>,
}

struct Inner {
    common: Arc<Common>,
    writers: Arc<Writers>,
    /// Reaches the thread that is a member of the group, while there is one.
    group: Mutex<Option<mpsc::SyncSender<Request>>>,
    /// Publishes commands, one caller at a time.
    publisher: Arc<Mutex<Option<Producer>>>,
    /// The watcher ends when this is dropped.
    _watched: mpsc::SyncSender<()>,
}

impl KafkaLog {
    /// Connects: creates the topics that are missing, checks them all, and finds the log's name. Owns nothing
    /// until [`EventLog::ownership`] is followed.
    ///
    /// # Errors
    /// When the cluster does not answer (see [`ConnectError::is_passing`]), a property is refused, or the
    /// topics are unsafe or another log's.
    pub async fn connect(options: Options) -> Result<Self, ConnectError> {
        Self::connect_and_tell(options, |_| {}).await
    }

    /// Connects as [`KafkaLog::connect`] does, and tells what it waits for, if it does.
    ///
    /// # Errors
    /// As [`KafkaLog::connect`].
    pub async fn connect_and_tell(
        options: Options,
        tell: impl Fn(&str) + Send + 'static,
    ) -> Result<Self, ConnectError> {
        let trouble = Trouble::default();
        let (asked, noted) = (options.clone(), trouble.clone());
        let stopped = |_| ConnectError::Unavailable {
            brokers: options.brokers.clone(),
            reason: "the process is going down".to_owned(),
        };
        let connecting = tokio::task::spawn_blocking(move || connect::connect(&asked, &noted, &tell));
        let identity = connecting.await.map_err(stopped)??;
        trouble.forget_words();
        let failed = |error: LogError| ConnectError::Settings { reason: error.to_string() };
        let observer = reader::consumer(&options.reader(), &trouble).map_err(failed)?;
        let common = Common {
            topics: options.topics(),
            options,
            log_id: identity.log_id,
            partitions: identity.partitions,
            ownership: Ownership::default(),
            trouble,
            observer: Arc::new(observer),
        };
        let (watched, stop) = mpsc::sync_channel(1);
        watch::spawn(&common, stop).map_err(failed)?;
        let (writers, group, publisher) = Default::default();
        let common = Arc::new(common);
        Ok(Self { inner: Arc::new(Inner { common, writers, group, publisher, _watched: watched }) })
    }

    fn common(&self) -> &Common {
        &self.inner.common
    }

    /// What a writer works with that is a member of no group.
    pub(crate) fn apart(&self) -> Common {
        let common = self.common();
        Common {
            options: common.options.clone(),
            topics: common.options.topics(),
            log_id: common.log_id,
            partitions: common.partitions,
            ownership: Ownership::default(),
            trouble: common.trouble.clone(),
            observer: common.observer.clone(),
        }
    }

    pub(crate) fn check(&self, partition: PartitionId) -> Result<(), LogError> {
        if partition.0 < self.common().partitions {
            return Ok(());
        }
        Err(LogError::Unavailable { reason: no_such_partition(partition, self.common().partitions) })
    }

    /// Asks the writer of a partition; `None` when the partition is not owned any more.
    async fn ask<T>(&self, partition: PartitionId, job: impl FnOnce(oneshot::Sender<T>) -> Job) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.inner.writers.of(partition)?.send(job(reply)).ok()?;
        answer.await.ok()
    }

    fn request(&self, request: Request) {
        let group = self.inner.group.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = &*group {
            // The thread has left the group: nothing is owned, and nobody waits.
            group.send(request).unwrap_or_default();
        }
    }

    fn events(
        &self,
        partition: PartitionId,
        from: Offset,
        until: Option<&Lease>,
    ) -> BoxStream<'static, Result<Recorded, LogError>> {
        if let Err(error) = self.check(partition) {
            return stream::iter([Err(error)]).boxed();
        }
        let common = self.inner.common.clone();
        let (topic, last) = (common.topics.events.as_str().into(), until.map(Lease::claim_offset));
        let wish = Wish { topic, partition, from, last };
        let term = until.map(|lease| lease.term);
        let (config, trouble) = (common.options.reader(), common.trouble.clone());
        let holds = move || term.is_none_or(|term| common.ownership.holds(partition, term));
        reader::stream(config, trouble, wish, holds)
    }
}

impl EventLog for KafkaLog {
    fn partitions(&self) -> u32 {
        self.common().partitions
    }

    fn log_id(&self) -> LogId {
        self.common().log_id
    }

    fn claim(&self, partition: PartitionId, node: NodeId) -> BoxFuture<'_, Result<Lease, LogError>> {
        async move {
            self.check(partition)?;
            let claimed = self.ask(partition, |reply| Job::Claim { node, reply }).await;
            if let Some(Err(LogError::Damaged { .. })) = claimed {
                // Whoever claims tells why it is refused; the log can be used for the others.
                self.common().trouble.set(Part::Partition(partition), None);
            }
            claimed.unwrap_or(Err(LogError::Fenced { partition }))
        }
        .boxed()
    }

    fn replay(&self, lease: &Lease, from: Offset) -> BoxStream<'static, Result<Recorded, LogError>> {
        self.events(lease.partition, from, Some(lease))
    }

    fn commit<'a>(&'a self, lease: &'a Lease, batch: &'a Batch) -> BoxFuture<'a, CommitOutcome> {
        async move {
            let (partition, lease, batch) = (lease.partition, lease.clone(), batch.clone());
            let outcome = self.ask(partition, |reply| Job::Commit { lease, batch, reply }).await;
            outcome.unwrap_or(CommitOutcome::Fenced)
        }
        .boxed()
    }

    fn resolve<'a>(&'a self, lease: &'a Lease, batch: BatchId) -> BoxFuture<'a, Result<Option<Committed>, LogError>> {
        async move {
            let (partition, lease) = (lease.partition, lease.clone());
            let outcome = self.ask(partition, |reply| Job::Resolve { lease, batch, reply }).await;
            outcome.unwrap_or(Err(LogError::Fenced { partition }))
        }
        .boxed()
    }

    fn tail(&self, partition: PartitionId, from: Offset) -> BoxStream<'static, Result<Recorded, LogError>> {
        self.events(partition, from, None)
    }

    fn bounds(&self, partition: PartitionId) -> BoxFuture<'_, Result<(Offset, Offset), LogError>> {
        async move {
            self.check(partition)?;
            let common = self.inner.common.clone();
            blocking(move || {
                let consumer = reader::consumer(&common.options.reader(), &common.trouble)?;
                reader::bounds(&consumer, &common.topics.events, partition)
            })
            .await
        }
        .boxed()
    }

    fn last_event(&self, partition: PartitionId) -> BoxFuture<'_, Result<Option<Offset>, LogError>> {
        async move {
            self.check(partition)?;
            let common = self.inner.common.clone();
            blocking(move || {
                let mut config = common.options.reader();
                config.set("enable.partition.eof", "true");
                let (consumer, topic) = (reader::consumer(&config, &common.trouble)?, &common.topics.events);
                let bounds = reader::bounds(&consumer, topic, partition)?;
                Ok(reader::last(&consumer, topic, partition, bounds)?.map(|last| last.recorded.offset))
            })
            .await
        }
        .boxed()
    }

    /// That the brokers went away, and that they came back, is noticed within seconds.
    fn trouble(&self) -> Option<Arc<str>> {
        self.common().trouble.get()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn commands(&self, lease: &Lease) -> BoxStream<'static, Result<CommandRecord, LogError>> {
        let (log, lease) = (self.clone(), lease.clone());
        let opened = async move {
            let partition = lease.partition;
            let (sink, commands) = async_mpsc::channel(COMMANDS_AHEAD);
            let term = lease.term;
            let from = log.ask(partition, |reply| Job::Cursor { term, reply }).await.flatten();
            match from {
                Some(from) => log.request(Request::Feed { lease, from, sink }),
                // Whoever opened it just now is there to be told.
                None => sink.send(Err(LogError::Fenced { partition })).await.unwrap_or_default(),
            }
            ReceiverStream::new(commands)
        };
        opened.into_stream().flatten().boxed()
    }

    fn publish(&self, commands: Vec<Forward>) -> BoxFuture<'_, Result<(), LogError>> {
        async move {
            commands.iter().try_for_each(|forward| self.check(forward.partition))?;
            let (common, publisher) = (self.inner.common.clone(), self.inner.publisher.clone());
            blocking(move || publish(&common, &publisher, &commands)).await
        }
        .boxed()
    }

    fn answers(&self) -> BoxStream<'static, Result<Answer, LogError>> {
        let (common, (placed, is_placed)) = (self.common(), mpsc::sync_channel(1));
        let mut config = common.options.reader();
        config.set("fetch.wait.max.ms", "20");
        let topic = common.topics.replies.as_str().into();
        let opened = answers::follow(config, common.trouble.clone(), topic, From::Now, placed);
        let pairs = match opened {
            Ok(pairs) => ReceiverStream::new(pairs),
            Err(error) => return stream::iter([Err(error)]).boxed(),
        };
        // What is committed after this call must be seen, so the place is fixed before it returns. A cluster
        // that does not answer holds nobody up for long: nothing can be committed to it either.
        if is_placed.recv_timeout(reader::ASK) == Err(mpsc::RecvTimeoutError::Timeout) {
            tracing::warn!("the answers cannot be followed yet");
        }
        let answers = pairs.filter_map(|(_, value)| async move {
            match serde_json::from_slice(&value) {
                Ok(answer) => Some(Ok(answer)),
                Err(error) => {
                    tracing::warn!(%error, "an answer of somebody else's among the answers");
                    None
                }
            }
        });
        answers.boxed()
    }

    fn ownership(&self) -> BoxStream<'static, News> {
        let (news, told) = async_mpsc::channel(NEWS_AHEAD);
        let (requests, queue) = mpsc::sync_channel(REQUESTS_AHEAD);
        let (common, writers) = (self.inner.common.clone(), self.inner.writers.clone());
        let member = Member { common, writers, news, joined: AtomicBool::default() };
        *self.inner.group.lock().unwrap_or_else(PoisonError::into_inner) = Some(requests.clone());
        let thread = match group::join(Arc::new(member), queue) {
            Ok(thread) => Some(thread),
            Err(error) => {
                tracing::error!(%error, "no thread to be a member of the group with");
                None
            }
        };
        let membership = Leaving { requests, thread };
        ReceiverStream::new(told)
            .map(move |news| {
                let _kept = &membership;
                news
            })
            .boxed()
    }

    fn owners(&self) -> BoxFuture<'_, Result<Vec<Owner>, LogError>> {
        let common = self.inner.common.clone();
        blocking(move || owners(&common)).boxed()
    }

    fn drop_taken_commands(&self) -> BoxFuture<'_, Result<Vec<(PartitionId, Offset)>, LogError>> {
        let common = self.inner.common.clone();
        blocking(move || taken::drop_taken(&common)).boxed()
    }
}

/// Leaves the group when the stream of ownership is dropped, and waits until it has: a process that ends before
/// keeps its partitions from the others for a whole session time-out.
struct Leaving {
    requests: mpsc::SyncSender<Request>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        // A thread that has ended has left.
        self.requests.send(Request::Leave).unwrap_or_default();
        let Some(thread) = self.thread.take() else { return };
        if thread.join().is_err() {
            tracing::error!("the thread of the group had panicked");
        }
    }
}

/// Sends commands and waits until they are on all in-sync replicas.
fn publish(common: &Common, publisher: &Mutex<Option<Producer>>, commands: &[Forward]) -> Result<(), LogError> {
    let mut publisher = publisher.lock().unwrap_or_else(PoisonError::into_inner);
    let failed = |error| reader::unavailable("the command was not published", &error);
    let mut producer = match publisher.take() {
        Some(producer) => producer,
        None => Producer::new(&common.options.plain_producer(), common.trouble.clone()).map_err(failed)?,
    };
    producer.clear();
    for forward in commands {
        let stream = forward.command.stream();
        producer
            .send(Outgoing {
                topic: &common.topics.commands,
                partition: Some(number(forward.partition)),
                key: stream.as_ref().map(|stream| stream.record_key().as_bytes()),
                value: Some(wire::encode(&forward.command).as_bytes()),
                headers: Some(record::handed_round()),
            })
            .map_err(failed)?;
    }
    producer.drain().map_err(failed)?;
    *publisher = Some(producer);
    Ok(())
}

/// The latest owner of each partition.
fn owners(common: &Common) -> Result<Vec<Owner>, LogError> {
    let mut config = common.options.reader();
    config.set("enable.partition.eof", "true");
    let (consumer, topic) = (reader::consumer(&config, &common.trouble)?, &common.topics.owners);
    let failed = |error| reader::unavailable("the owners cannot be read", &error);
    let list = reader::place(topic, PartitionId(0), At::Beginning).map_err(failed)?;
    consumer.assign(&list).map_err(failed)?;
    let mut owners = BTreeMap::new();
    loop {
        match consumer.poll(reader::ASK) {
            Some(Ok(message)) => {
                let (_, value) = reader::text_of(&message);
                if let Some(owner) = owner(value) {
                    owners.insert(owner.partition, owner);
                }
            }
            Some(Err(rdkafka::error::KafkaError::PartitionEOF(_))) => return Ok(owners.into_values().collect()),
            Some(Err(error)) => return Err(failed(error)),
            None => return Err(LogError::Unavailable { reason: format!("topic `{topic}` does not answer").into() }),
        }
    }
}

/// The record that names the log is no owner.
fn owner(value: &[u8]) -> Option<Owner> {
    let json: serde_json::Value = serde_json::from_slice(value).ok()?;
    Some(Owner {
        partition: PartitionId(u32::try_from(json["partition"].as_u64()?).ok()?),
        term: Term(json["term"].as_u64()?),
        node: NodeId::trusted(json["node"].as_str()?),
        endpoint: json["endpoint"].as_str().map(Into::into),
    })
}

pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LogError> + Send + 'static,
) -> Result<T, LogError> {
    let stopped = |_| LogError::Unavailable { reason: "the process is going down".into() };
    tokio::task::spawn_blocking(work).await.map_err(stopped)?
}
