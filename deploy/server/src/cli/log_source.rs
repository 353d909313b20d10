//! A log that a command reads itself: in a data directory, or on Kafka.

use anyhow::Context;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use futures::future::try_join_all;
use reenact_embedded::Reader;
use reenact_events::{LogError, LogId, Offset, PartitionId, Recorded};
use reenact_sealed::KeyRing;
use tokio::runtime::Handle;

use super::options::{Configured, with_keys};
use crate::{
    config::{Config, KEYS, Kafka, LogPlace},
    wiring::{keys, log},
};

/// The keys that say where a log and its rows are; the rest of the configuration counts as for `serve` and needs no option.
const WHERE: [&str; 7] =
    ["data", "log", "database", "database-schema", "topic-prefix", "kafka-properties", "master-key-file"];

/// Which log: as `serve` is told, by the command line, the environment or the configuration file.
#[derive(Debug, Default)]
pub(super) struct At(Configured);

impl Args for At {
    fn augment_args(command: Command) -> Command {
        with_keys(command, KEYS.iter().filter(|key| WHERE.contains(&key.name)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for At {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Configured::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl At {
    /// The whole configuration.
    pub(super) fn config(&self) -> anyhow::Result<Config> {
        Ok(self.0.config()?)
    }

    /// The log's place.
    pub(super) fn place(&self) -> anyhow::Result<LogPlace> {
        Ok(self.0.config()?.log)
    }

    /// Whether the command line says where the log or the data is.
    pub(super) fn is_said(&self) -> bool {
        !self.0.flags.is_empty()
    }

    /// Opens the log to read it. Blocks, and so does what comes back: both are for a thread of their own.
    pub(super) fn open(&self) -> anyhow::Result<Source> {
        Source::open(&self.0.config()?)
    }
}

/// A log that is read.
pub(super) enum Source {
    /// In a directory, with the keys of its users' content if it is sealed.
    Directory(Reader, Option<(KeyRing, Handle)>),
    /// On Kafka, opened likewise.
    #[cfg(feature = "kafka")]
    Topics(kafka::Topics),
}

impl Source {
    /// The log of this configuration.
    pub(super) fn open(config: &Config) -> anyhow::Result<Self> {
        match &config.log {
            LogPlace::Embedded => {
                let reader = Reader::open(&log::folder(&config.data)).with_context(|| {
                    format!("`{}` cannot be read: say where the data is with `--data`", config.data.display())
                })?;
                Ok(Self::Directory(reader, keys::look(config)?.map(|ring| (ring, Handle::current()))))
            }
            LogPlace::Kafka(kafka) => topics(config, kafka),
        }
    }

    /// Names the log.
    pub(super) fn log_id(&self) -> LogId {
        match self {
            Self::Directory(reader, _) => reader.log_id(),
            #[cfg(feature = "kafka")]
            Self::Topics(topics) => topics.log_id(),
        }
    }

    /// The last event of a partition, if there is one.
    pub(super) fn last(&self, partition: PartitionId) -> Result<Option<Offset>, LogError> {
        match self {
            Self::Directory(reader, _) => reader.last(partition),
            #[cfg(feature = "kafka")]
            Self::Topics(topics) => topics.last(partition),
        }
    }

    /// The first offset behind it.
    pub(super) fn end(&self, partition: PartitionId) -> Result<Offset, LogError> {
        Ok(self.last(partition)?.map_or(Offset(0), Offset::next))
    }

    pub(super) fn partitions(&self) -> u32 {
        match self {
            Self::Directory(reader, _) => reader.partitions(),
            #[cfg(feature = "kafka")]
            Self::Topics(topics) => topics.partitions(),
        }
    }

    pub(super) fn bounds(&self, partition: PartitionId) -> Result<(Offset, Offset), LogError> {
        match self {
            Self::Directory(reader, _) => reader.bounds(partition),
            #[cfg(feature = "kafka")]
            Self::Topics(topics) => topics.bounds(partition),
        }
    }

    /// The next events at and after `from`, some of them; none when there is none yet.
    pub(super) fn read(&self, partition: PartitionId, from: Offset) -> Result<Vec<Recorded>, LogError> {
        match self {
            Self::Directory(reader, None) => reader.read(partition, from),
            Self::Directory(reader, Some((ring, runtime))) => {
                let opened = reader.read(partition, from)?.into_iter().map(|recorded| ring.open(recorded));
                runtime.block_on(try_join_all(opened))
            }
            #[cfg(feature = "kafka")]
            Self::Topics(topics) => topics.read(partition, from),
        }
    }
}

#[cfg(not(feature = "kafka"))]
fn topics(_: &Config, kafka: &Kafka) -> anyhow::Result<Source> {
    Err(log::no_kafka(&kafka.brokers))
}

#[cfg(feature = "kafka")]
fn topics(config: &Config, place: &Kafka) -> anyhow::Result<Source> {
    kafka::Topics::open(config, place).map(Source::Topics)
}

#[cfg(feature = "kafka")]
mod kafka {
    use std::{cell::RefCell, collections::BTreeMap, sync::Arc, time::Duration};

    use futures::{StreamExt, stream::BoxStream};
    use reenact_events::{EventLog, LogError, LogId, Offset, PartitionId, Recorded};
    use reenact_kafka::KafkaLog;
    use reenact_sealed::SealedLog;
    use tokio::runtime::Handle;

    use super::{Config, Kafka, keys, log};
    use crate::clock::SystemClock;

    /// Events that are handed on together.
    const TOGETHER: usize = 500;
    /// How long a partition whose end was reached is asked for more.
    const MORE_WAIT: Duration = Duration::from_millis(20);

    type Tail = (Offset, BoxStream<'static, Vec<Result<Recorded, LogError>>>);

    /// The events of a log on Kafka, read partition by partition.
    pub(in crate::cli) struct Topics {
        log: Arc<dyn EventLog>,
        runtime: Handle,
        tails: RefCell<BTreeMap<PartitionId, Tail>>,
    }

    impl Topics {
        pub(super) fn open(config: &Config, kafka: &Kafka) -> anyhow::Result<Self> {
            let options = log::kafka_options(kafka, Arc::new(SystemClock), None);
            let runtime = Handle::current();
            let log = runtime.block_on(KafkaLog::connect(reenact_kafka::Options {
                create: false,
                exact_partitions: false,
                ..options
            }))?;
            let log: Arc<dyn EventLog> = match keys::look_at_shared(config, kafka, log.log_id(), &runtime)? {
                Some(ring) => Arc::new(SealedLog::new(Arc::new(log), ring)),
                None => Arc::new(log),
            };
            Ok(Self { log, runtime, tails: RefCell::default() })
        }

        pub(super) fn partitions(&self) -> u32 {
            self.log.partitions()
        }

        pub(super) fn log_id(&self) -> LogId {
            self.log.log_id()
        }

        pub(super) fn last(&self, partition: PartitionId) -> Result<Option<Offset>, LogError> {
            self.runtime.block_on(self.log.last_event(partition))
        }

        pub(super) fn bounds(&self, partition: PartitionId) -> Result<(Offset, Offset), LogError> {
            self.runtime.block_on(self.log.bounds(partition))
        }

        pub(super) fn read(&self, partition: PartitionId, from: Offset) -> Result<Vec<Recorded>, LogError> {
            let mut tails = self.tails.borrow_mut();
            let known = tails.remove(&partition).filter(|(next, _)| *next == from);
            let (_, mut tail) = match known {
                Some(known) => known,
                None => {
                    let (low, _) = self.bounds(partition)?;
                    let tail = self.log.tail(partition, from.max(low)).ready_chunks(TOGETHER).boxed();
                    (from, tail)
                }
            };
            let last = self.runtime.block_on(self.log.last_event(partition))?;
            let there = last.is_some_and(|last| last >= from);
            let next = async {
                if there { Ok(tail.next().await) } else { tokio::time::timeout(MORE_WAIT, tail.next()).await }
            };
            let events = self.runtime.block_on(next).unwrap_or_default().unwrap_or_default();
            let events = events.into_iter().collect::<Result<Vec<_>, _>>()?;
            let next = events.last().map_or(from, |last| last.offset.next());
            tails.insert(partition, (next, tail));
            Ok(events)
        }
    }
}
