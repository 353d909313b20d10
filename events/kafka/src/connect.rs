//! From an address to a log: the topics are made or checked, and the log's name is found.

use std::{
    collections::BTreeMap,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use futures::executor::block_on;
use rdkafka::{
    Offset as At,
    admin::{AdminClient, AdminOptions, ConfigResource, NewTopic, ResourceSpecifier, TopicReplication},
    client::DefaultClientContext,
    config::FromClientConfigAndContext,
    consumer::Consumer,
    error::KafkaError,
    metadata::Metadata,
    types::RDKafkaErrorCode,
};
use reenact_events::{LogId, PartitionId};
use uuid::Uuid;

use crate::{
    Options, PropertyError,
    client::{Plain, Trouble},
    producer::{Outgoing, Producer},
    reader::{self, ASK, Consuming},
    survey::{Found, Survey},
    topics::{Partitions, Wanted, prefix_fault},
};

/// What stands before the log's id in the key of the first record of the owners' topic.
const LOG_KEY: &str = "log:";
/// How long a topic that was just made may take to be there on all brokers.
const APPEAR_WAIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);

/// Why a log could not be connected.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A property that the guarantees rest on was set.
    #[error(transparent)]
    Property(#[from] PropertyError),
    /// The cluster does not answer, for now: trying again may help.
    #[error(
        "Kafka at `{brokers}` cannot be used: {reason}. Is the address right, is a broker running, are the credentials right?"
    )]
    Unavailable {
        /// Who was asked.
        brokers: String,
        /// What came of it.
        reason: String,
    },
    /// The cluster has too few brokers for the replicas that were asked for: more of them may be on their way.
    #[error(
        "`--kafka-replication {wanted}` asks for more replicas than there are brokers: Kafka at `{brokers}` has {has}; \
         start more brokers, or ask for at most as many"
    )]
    TooFewBrokers {
        /// Who was asked.
        brokers: String,
        /// How many there are.
        has: usize,
        /// How many replicas were asked for.
        wanted: u16,
    },
    /// A property is not understood, or its value is not.
    #[error("the Kafka properties cannot be used: {reason}")]
    Settings {
        /// What librdkafka said.
        reason: String,
    },
    /// A topic is not set so that the guarantees hold.
    #[error("topics of this deployment are unsafe:{}", .faults.iter().map(|fault| format!("\n  {fault}")).collect::<String>())]
    UnsafeTopics {
        /// What is wrong, one sentence for each setting.
        faults: Vec<String>,
    },
    /// The topics could not have these names.
    #[error("the topics cannot begin with `{prefix}`: {reason}; choose another `--topic-prefix`")]
    Prefix {
        /// What they should begin with.
        prefix: String,
        /// Which rule it breaks.
        reason: String,
    },
    /// The log has another number of partitions than was asked for.
    #[error(
        "topic `{topic}` has {has} partitions and `--kafka-partitions {wanted}` asks for another number: it stays for \
         the log's whole life, so leave the option out, or name another `--topic-prefix` for a new log"
    )]
    Partitions {
        /// Which topic.
        topic: String,
        /// How many it has.
        has: u32,
        /// How many were asked for.
        wanted: u32,
    },
    /// Another process of the deployment has this node's name.
    #[error(
        "node `{node}` is in the deployment already, at `{host}`: stop that one, or give this one another `--node`"
    )]
    NameTaken {
        /// The name.
        node: Arc<str>,
        /// Where the other one is.
        host: String,
    },
    /// The cluster does not make topics like these.
    #[error(
        "Kafka at `{brokers}` does not make topic `{topic}` with {partitions} partitions for the log and {replication} \
         replicas: {code}. Ask for what it takes with `--kafka-partitions` and `--kafka-replication`"
    )]
    NotMade {
        /// Which topic.
        topic: String,
        /// Who was asked.
        brokers: String,
        /// How many partitions the log was to have.
        partitions: u32,
        /// How many replicas.
        replication: i32,
        /// What the cluster says.
        code: RDKafkaErrorCode,
    },
    /// There is no such log.
    #[error("there is no topic `{topic}` at `{brokers}`: is the prefix right? `reenact serve` makes the topics")]
    Missing {
        /// A topic that is not there.
        topic: String,
        /// Who was asked.
        brokers: String,
    },
    /// The topics are not those of the log that this node has worked with.
    #[error(
        "the log `{prefix}.*` at `{brokers}` is not the one that this data directory was made with (it was {known}, and \
         {}): its topics were removed or recreated, or this is another deployment's directory. Name the right brokers \
         and prefix, or choose another `--data`",
        found_instead(.found.as_ref())
    )]
    Another {
        /// The deployment.
        prefix: String,
        /// Who was asked.
        brokers: String,
        /// Which it was.
        known: LogId,
        /// Which is there, if one is.
        found: Option<LogId>,
    },
    /// The topics are not those of one log.
    #[error("topic `{topic}` is not this log's: {reason}")]
    Foreign {
        /// Which.
        topic: String,
        /// Why.
        reason: String,
    },
}

/// Whether the same request will never do.
fn is_about_the_request(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::PolicyViolation | RDKafkaErrorCode::InvalidPartitions | RDKafkaErrorCode::InvalidConfig
    )
}

fn found_instead(found: Option<&LogId>) -> String {
    found.map_or_else(|| "is gone".to_owned(), |found| format!("is {found}"))
}

impl ConnectError {
    /// Whether trying again may help.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::TooFewBrokers { .. })
    }
}

/// What a connected log knows.
pub(crate) struct Identity {
    pub(crate) log_id: LogId,
    pub(crate) partitions: u32,
}

/// Checks the topics that are there, makes those that are missing, and finds the log's name.
pub(crate) fn connect(options: &Options, trouble: &Trouble, tell: &dyn Fn(&str)) -> Result<Identity, ConnectError> {
    let session = Session::open(options, trouble)?;
    let (topics, mut survey) = (options.topics(), session.survey()?);
    // Everything that is there must be right before anything is made: a refused start leaves nothing behind.
    survey.refusal(options).map_or(Ok(()), Err)?;
    session.refuse_another(&survey)?;
    let missing = survey.missing(&topics);
    if !missing.is_empty() {
        session.create(&survey, &missing)?;
        survey = session.survey()?;
        survey.refusal(options).map_or(Ok(()), Err)?;
    }
    let not_there = || ConnectError::Missing { topic: topics.events.clone(), brokers: options.brokers.clone() };
    let partitions = survey.partitions(&topics).ok_or_else(not_there)?;
    let log_id = session.log_id()?;
    session.wait_for_the_name(tell)?;
    Ok(Identity { log_id, partitions })
}

/// What the cluster is asked through.
pub(crate) struct Session<'a> {
    pub(crate) options: &'a Options,
    trouble: &'a Trouble,
    pub(crate) admin: AdminClient<DefaultClientContext>,
    pub(crate) consumer: Consuming,
}

impl<'a> Session<'a> {
    /// Refuses options that nobody can work with; asks nobody yet.
    pub(crate) fn open(options: &'a Options, trouble: &'a Trouble) -> Result<Self, ConnectError> {
        options.check()?;
        if let Some(reason) = prefix_fault(&options.prefix) {
            return Err(ConnectError::Prefix { prefix: options.prefix.clone(), reason });
        }
        let settings = |error: KafkaError| ConnectError::Settings { reason: without_values(&error) };
        let admin: AdminClient<DefaultClientContext> =
            AdminClient::from_config_and_context(&options.client(), DefaultClientContext).map_err(settings)?;
        let context = Plain { trouble: trouble.clone() };
        let consumer: Consuming = Consuming::from_config_and_context(&options.reader(), context).map_err(settings)?;
        // What the others are told is checked now, and not when they are needed.
        Consuming::from_config_and_context(&options.member(), Plain { trouble: trouble.clone() }).map_err(settings)?;
        Producer::new(&options.owner(&options.prefix), trouble.clone()).map_err(settings)?;
        Ok(Self { options, trouble, admin, consumer })
    }

    pub(crate) fn unavailable(&self, what: &str, error: &KafkaError) -> ConnectError {
        reader::hear(&self.consumer);
        // The client's own words (wrong credentials, refused connections) say more than the call's time-out.
        let noted = self.trouble.words().map(|noted| format!(" ({noted})")).unwrap_or_default();
        let reason = format!("{what}: {error}{noted}");
        ConnectError::Unavailable { brokers: self.options.brokers.clone(), reason }
    }

    pub(crate) fn metadata(&self) -> Result<Metadata, ConnectError> {
        self.consumer.fetch_metadata(None, ASK).map_err(|error| self.unavailable("it was not reached", &error))
    }

    /// Looks at the deployment's topics.
    pub(crate) fn survey(&self) -> Result<Survey, ConnectError> {
        let (metadata, topics) = (self.metadata()?, self.options.topics());
        let known = |name: &str| metadata.topics().iter().find(|topic| topic.name() == name);
        let there: Vec<_> = topics.wanted().iter().filter_map(|wanted| known(wanted.name)).collect();
        let mut survey = Survey { found: BTreeMap::new(), brokers: metadata.brokers().len() };
        if there.is_empty() {
            return Ok(survey);
        }
        let names: Vec<_> = there.iter().map(|topic| topic.name()).collect();
        for (topic, described) in there.into_iter().zip(self.settings(&names)?) {
            let replicas = topic.partitions().iter().map(|partition| partition.replicas().len()).min();
            let settings = described.entries.into_iter().map(|entry| (entry.name, entry.value.unwrap_or_default()));
            let (partitions, replicas) = (topic.partitions().len(), replicas.unwrap_or_default());
            survey.found.insert(topic.name().to_owned(), Found { partitions, replicas, settings: settings.collect() });
        }
        Ok(survey)
    }

    /// Makes topics, and waits until they are there.
    fn create(&self, survey: &Survey, missing: &[Wanted<'_>]) -> Result<(), ConnectError> {
        if !self.options.create {
            let topic = missing.first().map(|wanted| wanted.name.to_owned()).unwrap_or_default();
            return Err(ConnectError::Missing { topic, brokers: self.options.brokers.clone() });
        }
        if survey.brokers == 1 {
            tracing::warn!("ONE BROKER: what it loses is lost; three brokers keep everything when one dies");
        }
        let asking = AdminOptions::new().operation_timeout(Some(APPEAR_WAIT)).request_timeout(Some(APPEAR_WAIT));
        self.ask_to_create(survey, missing, &asking)?;
        let deadline = Instant::now() + APPEAR_WAIT;
        while Instant::now() < deadline && !self.all_are_there(missing)? {
            thread::sleep(POLL);
        }
        Ok(())
    }

    pub(crate) fn ask_to_create(
        &self,
        survey: &Survey,
        missing: &[Wanted<'_>],
        asking: &AdminOptions,
    ) -> Result<(), ConnectError> {
        let brokers = i32::try_from(survey.brokers).unwrap_or(i32::MAX);
        let replicas = self.options.replication.map_or_else(|| brokers.clamp(1, 3), i32::from);
        let in_sync = if replicas >= 3 { "2" } else { "1" };
        let of_log = survey.partitions(&self.options.topics()).unwrap_or(self.options.partitions);
        let created: Vec<NewTopic<'_>> = missing
            .iter()
            .map(|wanted| {
                let partitions = match wanted.partitions {
                    Partitions::AsTheLog => i32::try_from(of_log).unwrap_or(i32::MAX),
                    Partitions::Few(few) => few,
                };
                let topic = NewTopic::new(wanted.name, partitions, TopicReplication::Fixed(replicas));
                let topic = topic.set("min.insync.replicas", in_sync);
                wanted.settings.iter().fold(topic, |topic, setting| topic.set(setting.name, setting.created))
            })
            .collect();
        let results = block_on(self.admin.create_topics(&created, asking));
        for result in results.map_err(|error| self.unavailable("the topics cannot be created", &error))? {
            match result {
                Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((topic, code)) if is_about_the_request(code) => {
                    let (brokers, replication) = (self.options.brokers.clone(), replicas);
                    return Err(ConnectError::NotMade { topic, brokers, partitions: of_log, replication, code });
                }
                Err((topic, code)) => {
                    let what = format!("topic `{topic}` cannot be created");
                    return Err(self.unavailable(&what, &KafkaError::AdminOp(code)));
                }
            }
        }
        Ok(())
    }

    fn all_are_there(&self, wanted: &[Wanted<'_>]) -> Result<bool, ConnectError> {
        let metadata = self.metadata()?;
        let led = |name: &str| {
            let topic = metadata.topics().iter().find(|topic| topic.name() == name);
            topic.is_some_and(|topic| {
                !topic.partitions().is_empty() && topic.partitions().iter().all(|partition| partition.leader() >= 0)
            })
        };
        Ok(wanted.iter().all(|wanted| led(wanted.name)))
    }

    /// The topics' settings, once every broker knows them: one that does not yet answers with none.
    fn settings(&self, names: &[&str]) -> Result<Vec<ConfigResource>, ConnectError> {
        let specifiers: Vec<_> = names.iter().map(|name| ResourceSpecifier::Topic(name)).collect();
        let (deadline, asking) = (Instant::now() + APPEAR_WAIT, AdminOptions::new().request_timeout(Some(ASK)));
        loop {
            let described = block_on(self.admin.describe_configs(&specifiers, &asking));
            let described =
                described.map_err(|error| self.unavailable("the topics' settings cannot be read", &error))?;
            let described: Result<Vec<_>, _> = described.into_iter().collect();
            match described {
                Ok(described) if described.iter().all(|topic| !topic.entries.is_empty()) => return Ok(described),
                Ok(_) | Err(RDKafkaErrorCode::UnknownTopicOrPartition) if Instant::now() < deadline => {
                    thread::sleep(POLL);
                }
                Ok(_) => {
                    let what = "the topics' settings cannot be read: may this user describe their configuration?";
                    return Err(
                        self.unavailable(what, &KafkaError::AdminOp(RDKafkaErrorCode::TopicAuthorizationFailed))
                    );
                }
                Err(code) => {
                    return Err(self.unavailable("the topics' settings cannot be read", &KafkaError::AdminOp(code)));
                }
            }
        }
    }

    /// Refuses a log that is not the one that this node has worked with.
    pub(crate) fn refuse_another(&self, survey: &Survey) -> Result<(), ConnectError> {
        let Some(known) = self.options.known else { return Ok(()) };
        let is_there = survey.found.contains_key(&self.options.topics().owners);
        let found = if is_there { self.named()? } else { None };
        if found == Some(known) {
            return Ok(());
        }
        let (prefix, brokers) = (self.options.prefix.clone(), self.options.brokers.clone());
        Err(ConnectError::Another { prefix, brokers, known, found })
    }

    /// The name of the log. When two processes make the log at once, both write one and both read the first.
    fn log_id(&self) -> Result<LogId, ConnectError> {
        if let Some(named) = self.named()? {
            return Ok(named);
        }
        let failed = |error: KafkaError| self.unavailable("the log cannot be named", &error);
        self.name_the_log(&self.options.topics().owners).map_err(failed)?;
        self.named()?.ok_or_else(|| failed(KafkaError::MessageConsumption(RDKafkaErrorCode::NoOffset)))
    }

    /// The first record of the owners' topic names the log; `None` when there is none yet.
    fn named(&self) -> Result<Option<LogId>, ConnectError> {
        let topic = self.options.topics().owners;
        let failed = |error: KafkaError| self.unavailable("the log's name cannot be read", &error);
        let (low, high) = reader::patiently(|| self.consumer.fetch_watermarks(&topic, 0, ASK)).map_err(failed)?;
        if low == high {
            return Ok(None);
        }
        let list = reader::place(&topic, PartitionId(0), At::Beginning).map_err(failed)?;
        self.consumer.assign(&list).map_err(failed)?;
        let deadline = Instant::now() + ASK;
        while Instant::now() < deadline {
            let Some(Ok(message)) = self.consumer.poll(POLL) else { continue };
            let (key, _) = reader::text_of(&message);
            let id = key.strip_prefix(LOG_KEY).and_then(|id| Uuid::parse_str(id).ok());
            let reason = "its first record does not name a log: it was emptied, or is not this program's".to_owned();
            return id.map(|id| Some(LogId(id))).ok_or(ConnectError::Foreign { topic, reason });
        }
        Err(failed(KafkaError::MessageConsumption(RDKafkaErrorCode::OperationTimedOut)))
    }

    #[expect(clippy::disallowed_methods, reason = "a log's name follows from nothing: two logs must never share one")]
    fn name_the_log(&self, topic: &str) -> Result<(), KafkaError> {
        let mut producer = Producer::new(&self.options.plain_producer(), self.trouble.clone())?;
        let (key, value) = (format!("{LOG_KEY}{}", Uuid::new_v4()), "{}");
        let (key, value) = (Some(key.as_bytes()), Some(value.as_bytes()));
        producer.send(Outgoing { topic, partition: Some(0), key, value, headers: None })?;
        producer.drain()
    }
}

/// What is wrong with a property, without its value, which may be a secret: librdkafka's own words repeat it.
fn without_values(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(_, _, name, _) => {
            format!("`{name}` is not a property of this build of librdkafka, or its value is not one that it takes")
        }
        other => other.to_string(),
    }
}
