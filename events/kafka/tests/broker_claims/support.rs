//! A cluster for all tests of this binary, and clients with the settings that the log uses.

use std::{
    env,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use futures::executor::block_on;
use rdkafka::{
    ClientConfig, ClientContext, Message, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer, ConsumerContext, ConsumerGroupMetadata, Rebalance},
    error::{KafkaError, RDKafkaError},
    producer::{BaseProducer, BaseRecord, Producer},
    types::RDKafkaErrorCode,
    util::Timeout,
};
use reenact_kafka_rig::{Cluster, DEFAULT_VERSION, Options};
use tempfile::TempDir;

/// Nothing here takes this long unless it is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The brokers that all tests share. `REENACT_KAFKA_NODES` and `REENACT_KAFKA_VERSION` choose others.
pub(crate) fn bootstrap() -> String {
    static SHARED: OnceLock<(Mutex<Cluster>, TempDir)> = OnceLock::new();
    let (cluster, _) = SHARED.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a folder");
        let nodes = env::var("REENACT_KAFKA_NODES").map_or(1, |nodes| nodes.parse().expect("a number"));
        let cluster = Cluster::up(Options::new(dir.path()).nodes(nodes).version(version())).expect("a cluster");
        (Mutex::new(cluster), dir)
    });
    cluster.lock().expect("no test panics inside").bootstrap()
}

/// Which Kafka the tests run against.
pub(crate) fn version() -> String {
    env::var("REENACT_KAFKA_VERSION").unwrap_or_else(|_| DEFAULT_VERSION.to_owned())
}

/// A name that no other test of this run has.
pub(crate) fn unique(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn client() -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap()).set("broker.address.family", "v4");
    config
}

pub(crate) fn topic(partitions: i32) -> String {
    let name = unique("topic");
    let admin: AdminClient<DefaultClientContext> = client().create().expect("an admin client");
    let topic = NewTopic::new(&name, partitions, TopicReplication::Fixed(-1));
    let made = block_on(admin.create_topics([&topic], &AdminOptions::new().operation_timeout(Some(PATIENCE))));
    made.expect("an answer")[0].as_ref().expect("the topic is made");
    name
}

/// A transactional producer as the log configures it, not yet initialised.
pub(crate) fn producer(id: &str) -> BaseProducer {
    producer_with(id, 10_000)
}

pub(crate) fn producer_with(id: &str, transaction_timeout_ms: u32) -> BaseProducer {
    let mut config = client();
    config.set("transactional.id", id).set("transaction.timeout.ms", transaction_timeout_ms.to_string());
    config.set("message.timeout.ms", (transaction_timeout_ms * 4 / 5).to_string());
    // The next transaction's first requests meet the end of the one before: they are told to try again, and with the
    // default of 100 ms every transaction takes that long.
    config.set("retry.backoff.ms", "2").set("linger.ms", "0").set("compression.type", "lz4");
    config.create().expect("a producer")
}

/// The same, initialised and with one transaction begun.
pub(crate) fn begun(id: &str) -> BaseProducer {
    let producer = producer(id);
    producer.init_transactions(PATIENCE).expect("initialised");
    producer.begin_transaction().expect("begun");
    producer
}

/// Sends one record and waits for its acknowledgement.
pub(crate) fn send(producer: &BaseProducer, topic: &str, value: &str) {
    enqueue(producer, topic, value);
    drain(producer);
}

/// Sends one record and does not wait.
pub(crate) fn enqueue(producer: &BaseProducer, topic: &str, value: &str) {
    let record = BaseRecord::to(topic).partition(0).key("k").payload(value);
    producer.send(record).map_err(|(error, _)| error).expect("enqueued");
}

/// Waits until nothing is on its way.
pub(crate) fn drain(producer: &BaseProducer) {
    let deadline = Instant::now() + PATIENCE;
    while producer.in_flight_count() > 0 {
        assert!(Instant::now() < deadline, "records stay on their way");
        producer.poll(Duration::from_millis(1));
    }
}

pub(crate) fn commit(producer: &BaseProducer) {
    drain(producer);
    producer.commit_transaction(Timeout::Never).expect("committed");
}

/// One record in a transaction of its own.
pub(crate) fn commit_one(producer: &BaseProducer, topic: &str, value: &str) {
    producer.begin_transaction().expect("begun");
    send(producer, topic, value);
    commit(producer);
}

/// What librdkafka says about a failed call of a transactional producer.
pub(crate) fn transactional(error: KafkaError) -> RDKafkaError {
    match error {
        KafkaError::Transaction(error) => error,
        other => panic!("not an error of a transaction: {other}"),
    }
}

/// The error's code, and which of its three classes it is in.
pub(crate) fn class(error: KafkaError) -> (RDKafkaErrorCode, &'static str) {
    let error = transactional(error);
    let class = match (error.is_fatal(), error.txn_requires_abort(), error.is_retriable()) {
        (true, _, _) => "fatal",
        (_, true, _) => "abortable",
        (_, _, true) => "retriable",
        _ => "none",
    };
    (error.code(), class)
}

pub(crate) fn offset_list(topic: &str, offset: i64) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, rdkafka::Offset::Offset(offset)).expect("an offset");
    list
}

/// A reader of partition 0 from its begin, outside any group.
pub(crate) fn reader(topic: &str, isolation: &str) -> BaseConsumer {
    let mut config = client();
    config.set("group.id", "unused").set("isolation.level", isolation).set("enable.auto.commit", "false");
    config.set("fetch.wait.max.ms", "100");
    let reader: BaseConsumer = config.create().expect("a consumer");
    reader.assign(&offset_list(topic, 0)).expect("assigned");
    reader
}

/// Offsets and values up to the record with the value `last`.
pub(crate) fn read_until(reader: &BaseConsumer, last: &str) -> Vec<(i64, String)> {
    let mut found = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while found.last().is_none_or(|(_, value)| value != last) {
        assert!(Instant::now() < deadline, "`{last}` is not to be read after {found:?}");
        if let Some(record) = reader.poll(Duration::from_millis(100)) {
            let record = record.expect("a record");
            let value = String::from_utf8(record.payload().expect("a value").to_vec()).expect("text");
            found.push((record.offset(), value));
        }
    }
    found
}

/// Remembers what the group told it.
#[derive(Default)]
pub(crate) struct Watcher {
    pub(crate) events: Mutex<Vec<(&'static str, usize)>>,
}

impl ClientContext for Watcher {}

impl ConsumerContext for Watcher {
    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let event = match rebalance {
            Rebalance::Assign(list) => ("assign", list.count()),
            Rebalance::Revoke(list) => ("revoke", list.count()),
            Rebalance::Error(_) => ("error", 0),
        };
        self.events.lock().expect("not poisoned").push(event);
    }
}

pub(crate) type Member = BaseConsumer<Watcher>;

/// A member of a group as the log configures it.
pub(crate) fn member(group: &str, topic: &str, protocol: &str) -> Member {
    let mut config = client();
    config.set("group.id", group).set("group.protocol", protocol).set("isolation.level", "read_committed");
    config.set("enable.auto.commit", "false").set("enable.auto.offset.store", "false");
    config.set("auto.offset.reset", "earliest");
    if protocol == "classic" {
        config.set("partition.assignment.strategy", "cooperative-sticky");
        config.set("session.timeout.ms", "6000").set("heartbeat.interval.ms", "500");
    }
    let member: Member = config.create_with_context(Watcher::default()).expect("a consumer");
    member.subscribe(&[topic]).expect("subscribed");
    member
}

/// Polls all members until the first of them has so many partitions.
pub(crate) fn poll_until_assigned(members: &[&Member], partitions: &[usize]) {
    let counts =
        || members.iter().map(|member| member.assignment().expect("an assignment").count()).collect::<Vec<_>>();
    let deadline = Instant::now() + PATIENCE;
    while counts() != partitions {
        assert!(Instant::now() < deadline, "assigned {:?} and not {partitions:?}", counts());
        poll_all(members);
    }
}

/// Lets the members take part. A broker of several may not know a topic yet that another has just made.
pub(crate) fn poll_all(members: &[&Member]) {
    for member in members {
        match member.poll(Duration::from_millis(20)) {
            None | Some(Ok(_) | Err(KafkaError::MessageConsumption(RDKafkaErrorCode::UnknownTopicOrPartition))) => {}
            Some(Err(error)) => panic!("{error}"),
        }
    }
}

pub(crate) fn metadata<C: ConsumerContext>(member: &BaseConsumer<C>) -> ConsumerGroupMetadata {
    member.group_metadata().expect("metadata of a group")
}

/// The group's committed offset for partition 0, `None` when there is none.
pub(crate) fn committed<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    topic: &str,
    patience: Duration,
) -> Result<Option<i64>, KafkaError> {
    let mut list = TopicPartitionList::new();
    list.add_partition(topic, 0);
    let list = consumer.committed_offsets(list, patience)?;
    let element = list.elements()[0].offset();
    Ok(match element {
        rdkafka::Offset::Offset(offset) => Some(offset),
        _ => None,
    })
}
