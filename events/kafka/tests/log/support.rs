//! Clusters, deployments on them, and members of a deployment.

use std::{
    env,
    future::Future,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, stream::BoxStream};
use rdkafka::{
    ClientConfig, Message, TopicPartitionList,
    admin::{AdminClient, AdminOptions},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer},
    message::OwnedMessage,
};
use reenact_events::{
    Batch, BatchId, Command, CommandBody, CommandId, CommitOutcome, Committed, EventLog, Forward, Lease, LogError,
    NewEvent, NodeId, Offset, Ownership, PartitionId, Recorded, SessionId, StreamKey, Timestamp, event::SessionUpdated,
    ids,
};
use reenact_kafka::{KafkaLog, Options};
use reenact_kafka_rig::{Cluster, DEFAULT_VERSION};
use tempfile::TempDir;

pub(crate) const FIRST: PartitionId = PartitionId(0);
/// Nothing here takes this long unless it is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A cluster and the folder that it lives in.
pub(crate) struct Own {
    pub(crate) cluster: Cluster,
    _dir: TempDir,
}

fn version_text() -> String {
    env::var("REENACT_KAFKA_VERSION").unwrap_or_else(|_| DEFAULT_VERSION.to_owned())
}

/// Which Kafka it is, as far as it matters.
pub(crate) fn version() -> (u32, u32) {
    let text = version_text();
    let mut numbers = text.split('.').map(|number| number.parse().expect("a number"));
    (numbers.next().expect("a version"), numbers.next().expect("a version"))
}

/// What a test asks of its cluster.
pub(crate) fn rig() -> (reenact_kafka_rig::Options, TempDir) {
    let dir = tempfile::tempdir().expect("a folder");
    let version = version_text();
    (reenact_kafka_rig::Options::new(dir.path()).version(version), dir)
}

/// A cluster that a test may disturb.
pub(crate) fn own(adjust: impl FnOnce(reenact_kafka_rig::Options) -> reenact_kafka_rig::Options) -> Own {
    let (options, dir) = rig();
    Own { cluster: Cluster::up(adjust(options)).expect("Kafka comes up"), _dir: dir }
}

/// The one broker that all tests share that leave it alone.
pub(crate) fn shared() -> String {
    static SHARED: OnceLock<Mutex<Own>> = OnceLock::new();
    let own = SHARED.get_or_init(|| Mutex::new(own(|options| options)));
    own.lock().expect("no test panics inside").cluster.bootstrap()
}

/// A deployment that no other test has, whose members are missed soon.
pub(crate) fn deployment(brokers: &str, partitions: u32) -> Options {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let prefix = format!("log{}", NEXT.fetch_add(1, Ordering::Relaxed));
    named(brokers, &prefix, partitions)
}

/// A deployment by its name.
pub(crate) fn named(brokers: &str, prefix: &str, partitions: u32) -> Options {
    let clock = Arc::new(Timestamp(1_700_000_000_000));
    let mut options = Options { prefix: prefix.to_owned(), partitions, ..Options::new(brokers, clock) };
    for (name, value) in [("session.timeout.ms", "6000"), ("heartbeat.interval.ms", "500")] {
        options.properties.insert(name.to_owned(), value.to_owned());
    }
    options
}

/// The future's outcome, which must come.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what} takes too long"))
}

/// A process of the deployment, or what stands for one.
pub(crate) struct Member {
    pub(crate) log: KafkaLog,
    /// In a mutex so that a task may hold the member.
    news: Mutex<BoxStream<'static, Ownership>>,
    pub(crate) node: NodeId,
}

impl Member {
    /// Joins; nothing is granted yet.
    pub(crate) async fn join(options: &Options, node: &str) -> Self {
        let log = soon("connecting", KafkaLog::connect(options.clone())).await.expect("connects");
        let news = Mutex::new(log.ownership());
        Self { log, news, node: NodeId::trusted(node) }
    }

    /// What it is told next of what it owns.
    pub(crate) async fn told(&mut self) -> Ownership {
        loop {
            let news = self.news.get_mut().expect("no test panics inside");
            match soon("ownership", news.next()).await.expect("has no end") {
                Ownership::Joined => {}
                news => return news,
            }
        }
    }

    /// Takes part, with nothing granted.
    pub(crate) async fn joined(&mut self) {
        let news = self.news.get_mut().expect("no test panics inside");
        let told = soon("joining", news.next()).await.expect("has no end");
        assert!(matches!(told, Ownership::Joined), "{told:?}");
    }

    pub(crate) async fn granted(&mut self) -> PartitionId {
        match self.told().await {
            Ownership::Granted(partition) => partition,
            other => panic!("told {other:?}"),
        }
    }

    pub(crate) async fn claim(&self, partition: PartitionId) -> Lease {
        soon("claiming", self.log.claim(partition, self.node.clone())).await.expect("claims")
    }

    /// Claims as a node does that was fenced: again, until the partition is its own.
    pub(crate) async fn reclaim(&self, partition: PartitionId) -> Lease {
        let claiming = async {
            loop {
                match self.log.claim(partition, self.node.clone()).await {
                    Ok(lease) => return lease,
                    Err(LogError::Fenced { .. } | LogError::Unavailable { .. }) => {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        };
        soon("claiming again", claiming).await
    }

    /// Joins a deployment of one partition and owns it.
    pub(crate) async fn owner(options: &Options, node: &str) -> (Self, Lease) {
        let mut member = Self::join(options, node).await;
        assert_eq!(member.granted().await, FIRST);
        let lease = member.claim(FIRST).await;
        (member, lease)
    }

    pub(crate) async fn commit(&self, lease: &Lease, batch: &Batch) -> CommitOutcome {
        soon("committing", self.log.commit(lease, batch)).await
    }

    pub(crate) async fn committed(&self, lease: &Lease, batch: &Batch) -> Committed {
        self.persist(lease, batch).await.unwrap_or_else(|other| panic!("not committed: {other:?}"))
    }

    /// Commits as the partition's actor does: whatever is told, until the outcome is known.
    pub(crate) async fn persist(&self, lease: &Lease, batch: &Batch) -> Result<Committed, CommitOutcome> {
        loop {
            match self.commit(lease, batch).await {
                CommitOutcome::Committed(committed) => return Ok(committed),
                CommitOutcome::Resend { .. } => {}
                CommitOutcome::Unknown { .. } => match self.resolved(lease, batch.id).await {
                    Ok(Some(committed)) => return Ok(committed),
                    Ok(None) => {}
                    Err(_) => return Err(CommitOutcome::Fenced),
                },
                other => return Err(other),
            }
        }
    }

    /// What became of a batch, as a node learns it: it asks again while the brokers cannot say.
    pub(crate) async fn resolved(&self, lease: &Lease, batch: BatchId) -> Result<Option<Committed>, LogError> {
        let resolving = async {
            loop {
                match self.log.resolve(lease, batch).await {
                    Err(LogError::Unavailable { .. }) => tokio::time::sleep(Duration::from_millis(100)).await,
                    resolved => return resolved,
                }
            }
        };
        soon("resolving", resolving).await
    }

    /// All events of the partition.
    pub(crate) async fn history(&self, partition: PartitionId) -> Vec<Recorded> {
        let Some(last) = soon("the last event", self.log.last_event(partition)).await.expect("answers") else {
            return Vec::new();
        };
        let mut tail = self.log.tail(partition, Offset(0));
        let mut events = Vec::new();
        while events.last().is_none_or(|event: &Recorded| event.offset < last) {
            events.push(soon("reading", tail.next()).await.expect("has no end").expect("an event"));
        }
        events
    }
}

/// The texts of the events that [`batch`] made.
pub(crate) fn texts(history: &[Recorded]) -> Vec<String> {
    let text = |event: &Recorded| {
        let data: serde_json::Value = serde_json::from_str(&event.event.data).expect("JSON");
        data["name"].as_str().map(str::to_owned)
    };
    history.iter().filter_map(text).collect()
}

pub(crate) fn session(name: &str) -> SessionId {
    SessionId::trusted(name)
}

/// One event with this text, in a batch that is named by it.
pub(crate) fn batch(text: &str) -> Batch {
    let session_id = session("s");
    let (key, name) = (StreamKey::session(&session_id), Some(text.to_owned()));
    let event = SessionUpdated { session_id, name, state: None, metadata: None, summary: None };
    let event = NewEvent::new(key, 0, Timestamp(5), None, None, &event.into()).expect("encodes");
    Batch::new(BatchId(ids::derived("batch", &[text])), vec![event])
}

/// A command for a partition.
pub(crate) fn command(id: &str, partition: PartitionId) -> Forward {
    let body = CommandBody::DeleteSession { session_id: session("s"), runs: None, reason: None };
    Forward {
        partition,
        command: Command { id: CommandId::trusted(id), user_id: None, reply_to: None, key: None, body, sealed: None },
    }
}

pub(crate) fn client(brokers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    config
}

pub(crate) fn admin(brokers: &str) -> AdminClient<DefaultClientContext> {
    client(brokers).create().expect("an admin client")
}

pub(crate) fn asking() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE))
}

/// Deletes what a topic's first partition has before this offset.
pub(crate) async fn delete_records(brokers: &str, topic: &str, before: u64) {
    let mut list = TopicPartitionList::new();
    let offset = i64::try_from(before).expect("an offset");
    list.add_partition_offset(topic, 0, rdkafka::Offset::Offset(offset)).expect("a place");
    admin(brokers).delete_records(&list, &asking()).await.expect("deleted");
}

/// The first `count` committed records of a topic's first partition.
pub(crate) fn records(brokers: &str, topic: &str, count: usize) -> Vec<OwnedMessage> {
    let mut config = client(brokers);
    config.set("group.id", "unused").set("isolation.level", "read_committed").set("enable.auto.commit", "false");
    let reader: BaseConsumer = config.create().expect("a consumer");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, rdkafka::Offset::Beginning).expect("a place");
    reader.assign(&list).expect("assigned");
    let next = || reader.poll(PATIENCE).expect("in time").expect("a record").detach();
    (0..count).map(|_| next()).collect()
}

/// A record's value as text.
pub(crate) fn value(message: &OwnedMessage) -> String {
    String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned()
}
