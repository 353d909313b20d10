//! What a deployment says about its Kafka, and the librdkafka settings that follow from it.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use rdkafka::ClientConfig;
use reenact_events::{Clock, LogId};

use crate::Topics;

/// How to reach the cluster, and how the log lies on it.
#[derive(Clone)]
pub struct Options {
    /// `HOST:PORT`, several with commas between.
    pub brokers: String,
    /// Names the deployment: its topics, its group and its transactional ids begin with it.
    pub prefix: String,
    /// What this node is called; a second process of this name is refused. `None` has no name to defend.
    pub node: Option<Arc<str>>,
    /// The log that this node has worked with before: another one is refused, and none is made in its place.
    pub known: Option<LogId>,
    /// Where this node serves HTTP, told to the others.
    pub endpoint: Option<Arc<str>>,
    /// Make the topics that are missing; without it a log that is not there is an error.
    pub create: bool,
    /// Partitions of a log that is created now; one that exists keeps its own.
    pub partitions: u32,
    /// That number was asked for: a log that has another one is refused.
    pub exact_partitions: bool,
    /// Replicas of topics that are created now; `None` is three, or as many as there are brokers.
    pub replication: Option<u16>,
    /// librdkafka properties that are passed through (TLS, SASL, time-outs).
    pub properties: BTreeMap<String, String>,
    /// Stamps claims.
    pub clock: Arc<dyn Clock>,
    /// A machine whose clock is further from the broker's than so many milliseconds owns nothing: an owner waits
    /// for its predecessor's steps by the clock. `None` asks nobody.
    pub clock_skew_max_ms: Option<i64>,
}

/// A librdkafka property that may not be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the Kafka property `{name}` may not be set: {reason}; leave it out")]
pub struct PropertyError {
    /// Which.
    pub name: String,
    /// What rests on it.
    pub reason: &'static str,
}

/// Properties that the log's guarantees rest on, and why.
const KEPT: &[(&str, &str)] = &[
    ("bootstrap.servers", "the brokers are named by `--log`"),
    ("metadata.broker.list", "the brokers are named by `--log`"),
    ("group.id", "it names the deployment, by `--topic-prefix`"),
    ("group.instance.id", "a static member delays the take-over of its partitions by the whole session time-out"),
    ("transactional.id", "it names the partition: another id does not fence the owner before"),
    ("enable.idempotence", "without it a retry may write an event twice"),
    ("acks", "an acknowledged event must be on all in-sync replicas"),
    ("request.required.acks", "an acknowledged event must be on all in-sync replicas"),
    ("max.in.flight", "events must keep their order"),
    ("max.in.flight.requests.per.connection", "events must keep their order"),
    ("message.timeout.ms", "a record must have arrived or failed before its transaction is given up"),
    ("delivery.timeout.ms", "a record must have arrived or failed before its transaction is given up"),
    ("message.max.bytes", "what a topic takes must be sent: an event that does not fit ends its run"),
    ("isolation.level", "readers must not see events that were never committed"),
    ("enable.auto.commit", "the command cursor moves in the transaction with its events only"),
    ("enable.auto.offset.store", "the command cursor moves in the transaction with its events only"),
    ("auto.offset.reset", "a position that is gone must be an error, never a jump"),
    ("partition.assignment.strategy", "partitions are handed over one by one"),
    ("partitioner", "the runtime computes the partition itself"),
    ("partitioner_cb", "the runtime computes the partition itself"),
    ("enable.partition.eof", "the runtime reads on its own marks"),
];

impl Options {
    /// The defaults for these brokers.
    #[must_use]
    pub fn new(brokers: impl Into<String>, clock: Arc<dyn Clock>) -> Self {
        Self {
            brokers: brokers.into(),
            prefix: "reenact".to_owned(),
            node: None,
            known: None,
            endpoint: None,
            create: true,
            partitions: 6,
            exact_partitions: false,
            replication: None,
            properties: BTreeMap::new(),
            clock,
            clock_skew_max_ms: None,
        }
    }

    /// Refuses properties that the guarantees rest on.
    ///
    /// # Errors
    /// With the first such property and the reason.
    pub fn check(&self) -> Result<(), PropertyError> {
        let kept = |name: &String| {
            let (_, reason) = KEPT.iter().find(|(kept, _)| kept == name)?;
            Some(PropertyError { name: name.clone(), reason })
        };
        self.properties.keys().find_map(kept).map_or(Ok(()), Err)
    }

    /// The deployment's topics.
    #[must_use]
    pub fn topics(&self) -> Topics {
        Topics::new(&self.prefix)
    }

    /// Whether the group follows KIP-848.
    pub(crate) fn is_new_protocol(&self) -> bool {
        self.properties.get("group.protocol").is_some_and(|protocol| protocol == "consumer")
    }

    /// What every client has.
    pub(crate) fn client(&self) -> ClientConfig {
        self.passed(self.base(), false)
    }

    fn base(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers);
        config.set("client.id", &self.prefix);
        // Seconds after which a broker that comes back is found again; the default waits for ten.
        config.set("reconnect.backoff.max.ms", "1000");
        config
    }

    /// The deployment's properties win over ours.
    fn passed(&self, mut config: ClientConfig, is_member: bool) -> ClientConfig {
        for (name, value) in self.properties.iter().filter(|(name, _)| is_member || !is_of_members(name)) {
            config.set(name, value);
        }
        config
    }

    /// A reader at positions of its own.
    pub(crate) fn reader(&self) -> ClientConfig {
        self.passed(self.reading(), false)
    }

    /// A client that sees what is not decided yet, too.
    pub(crate) fn undecided(&self) -> ClientConfig {
        let mut config = self.reader();
        config.set("isolation.level", "read_uncommitted");
        config
    }

    fn reading(&self) -> ClientConfig {
        let mut config = self.base();
        config
            .set("group.id", format!("{}.readers", self.prefix))
            .set("isolation.level", "read_committed")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("fetch.wait.max.ms", "100")
            .set("fetch.error.backoff.ms", "50")
            .set("queued.max.messages.kbytes", "16384")
            // A replay fills that quickly; by default it is then waited for a second before more is fetched.
            .set("fetch.queue.backoff.ms", "5");
        config
    }

    /// The member of the group that reads the commands.
    pub(crate) fn member(&self) -> ClientConfig {
        let mut config = self.reading();
        config.set("group.id", &self.prefix).set("max.poll.interval.ms", "60000");
        config.set("client.id", self.member_name());
        if !self.is_new_protocol() {
            config
                .set("group.protocol", "classic")
                .set("partition.assignment.strategy", "cooperative-sticky")
                .set("session.timeout.ms", "10000")
                .set("heartbeat.interval.ms", "2000");
        }
        self.passed(config, true)
    }

    /// What the member is called in the group, for people and for a process of the same name.
    pub(crate) fn member_name(&self) -> String {
        let named = self.node.as_ref().map(|node| format!("{}/{node}", self.prefix));
        named.unwrap_or_else(|| self.prefix.clone())
    }

    /// How long a member that died stays one.
    pub(crate) fn session_timeout(&self) -> Duration {
        let said = self.member().get("session.timeout.ms").and_then(|said| said.parse().ok());
        said.map_or(SESSION_TIMEOUT_DEFAULT, Duration::from_millis)
    }

    /// A producer without transactions.
    pub(crate) fn plain_producer(&self) -> ClientConfig {
        self.passed(self.producing(), false)
    }

    fn producing(&self) -> ClientConfig {
        let mut config = self.base();
        config.set("enable.idempotence", "true").set("acks", "all").set("linger.ms", "0");
        config.set("message.max.bytes", RECORD_BYTES_MAX).set("message.timeout.ms", "8000");
        config
    }

    /// The producer of the partition's owner.
    pub(crate) fn owner(&self, transactional_id: &str) -> ClientConfig {
        let mut config = self.producing();
        config
            .set("transactional.id", transactional_id)
            .set("transaction.timeout.ms", "10000")
            .set("compression.type", "lz4")
            // A transaction right after another is told to wait until that is finished, which takes a
            // millisecond or two; the default makes it a tenth of a second.
            .set("retry.backoff.ms", "2")
            // A coordinator that is frozen must be given up before the transaction times out.
            .set("socket.timeout.ms", "4000");
        self.passed(config, false)
    }
}

/// What librdkafka takes when nobody says anything.
const SESSION_TIMEOUT_DEFAULT: Duration = Duration::from_secs(45);
/// A dead letter is a whole record of the command topic with headers of ours.
const RECORD_BYTES_MAX: &str = "2097152";

/// Properties that only a member of a group understands.
fn is_of_members(name: &str) -> bool {
    matches!(
        name,
        "group.protocol"
            | "group.remote.assignor"
            | "session.timeout.ms"
            | "heartbeat.interval.ms"
            | "max.poll.interval.ms"
    )
}

impl fmt::Debug for Options {
    /// Values of properties may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("brokers", &self.brokers)
            .field("prefix", &self.prefix)
            .field("partitions", &self.partitions)
            .field("properties", &self.properties.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use reenact_events::Timestamp;

    use super::*;

    fn options(name: &str, value: &str) -> Options {
        let properties = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        Options { properties, ..Options::new("127.0.0.1:1", Arc::new(Timestamp(0))) }
    }

    #[test]
    fn a_property_that_the_guarantees_rest_on_is_refused_with_the_reason() {
        for (name, reason) in KEPT {
            let error = options(name, "x").check().expect_err(name);
            assert!(error.to_string().contains(name) && error.to_string().contains(reason), "{error}");
        }
        assert_eq!(options("security.protocol", "SASL_SSL").check(), Ok(()));
    }

    #[test]
    fn a_property_of_members_reaches_the_member_only() {
        let options = options("session.timeout.ms", "6000");
        assert_eq!(options.member().get("session.timeout.ms"), Some("6000"));
        assert_eq!(options.owner("id").get("session.timeout.ms"), None);
    }

    #[test]
    fn a_property_that_is_passed_through_wins_over_ours() {
        assert_eq!(options("compression.type", "zstd").owner("id").get("compression.type"), Some("zstd"));
        assert_eq!(options("fetch.wait.max.ms", "7").member().get("fetch.wait.max.ms"), Some("7"));
        assert_eq!(options("group.protocol", "consumer").member().get("session.timeout.ms"), None);
    }

    #[test]
    fn secrets_are_not_printed() {
        let text = format!("{:?}", options("sasl.password", "hunter2"));
        assert!(text.contains("sasl.password") && !text.contains("hunter2"), "{text}");
    }
}
