//! The log that something is done to.

use std::{fs::File, sync::Arc};

use anyhow::Context;
use reenact_embedded::{EmbeddedLog, Options, Reader};
use reenact_events::{EventLog, Lease, LogError, NodeId, PartitionId, event::Loss};
use reenact_sealed::{KeyRing, SealedLog};
#[cfg(feature = "kafka")]
use tokio::runtime::Handle;

#[cfg(feature = "kafka")]
use crate::config::Kafka;
use crate::{
    clock::SystemClock,
    config::{Config, LogPlace},
    wiring::{keys, log},
};

/// What stands as the owner in a claim that only accepts a loss.
const NODE: &str = "reenact log accept-loss";

/// See the module. Each is beside what reads it, which opens what is sealed.
pub(super) enum Target {
    Embedded(EmbeddedLog, Arc<dyn EventLog>),
    #[cfg(feature = "kafka")]
    Kafka(reenact_kafka::KafkaLog, Arc<dyn EventLog>),
}

impl Target {
    /// Opens the log. Nothing is made that is not there.
    pub(super) async fn open(config: &Config) -> anyhow::Result<Self> {
        match &config.log {
            LogPlace::Embedded => embedded(config).await,
            #[cfg(feature = "kafka")]
            LogPlace::Kafka(kafka) => on_kafka(config, kafka).await,
            #[cfg(not(feature = "kafka"))]
            LogPlace::Kafka(kafka) => Err(log::no_kafka(&kafka.brokers)),
        }
    }

    pub(super) fn log(&self) -> &dyn EventLog {
        match self {
            Self::Embedded(_, log) => &**log,
            #[cfg(feature = "kafka")]
            Self::Kafka(_, log) => &**log,
        }
    }

    /// Keeps nodes from the data directory, if it has a state store that could be asked, until the result is
    /// dropped. An embedded log does so itself.
    #[cfg_attr(not(feature = "kafka"), expect(unused_variables, reason = "it holds its directory itself"))]
    pub(super) fn hold_state(&self, config: &Config) -> anyhow::Result<Option<File>> {
        match self {
            Self::Embedded(..) => Ok(None),
            #[cfg(feature = "kafka")]
            Self::Kafka(..) => config.data.join("state").is_dir().then(|| log::hold(&config.data)).transpose(),
        }
    }

    /// What the log itself can tell to be lost. An embedded one keeps where it ends with its events.
    #[cfg_attr(not(feature = "kafka"), expect(unused_variables, reason = "it has no partition that could tell"))]
    pub(super) async fn lost(&self, partition: PartitionId) -> Result<Vec<Loss>, LogError> {
        match self {
            Self::Embedded(..) => Ok(Vec::new()),
            #[cfg(feature = "kafka")]
            Self::Kafka(log, _) => log.lost(partition).await,
        }
    }

    /// Who may be serving the partition as if nothing were lost, because the log itself cannot tell.
    pub(super) async fn served_by(&self) -> Result<Vec<String>, LogError> {
        match self {
            Self::Embedded(..) => Ok(Vec::new()),
            #[cfg(feature = "kafka")]
            Self::Kafka(log, _) => log.members().await,
        }
    }

    pub(super) async fn accept(
        &self,
        partition: PartitionId,
        told: Vec<Loss>,
        seen: Vec<Loss>,
    ) -> Result<Lease, LogError> {
        let node = NodeId::trusted(NODE);
        match self {
            Self::Embedded(log, _) => log.accept(partition, node, told.into_iter().chain(seen).collect()).await,
            #[cfg(feature = "kafka")]
            Self::Kafka(log, _) => log.accept(partition, node, told, seen).await,
        }
    }
}

async fn embedded(config: &Config) -> anyhow::Result<Target> {
    let (folder, data, ring) = (log::folder(&config.data), config.data.clone(), keys::look(config)?);
    let open = move || {
        let there = || format!("`{}` cannot be read: say where the data is with `--data`", data.display());
        let partitions = Reader::open(&folder).with_context(there)?.partitions();
        let options = Options { partitions, ..Options::new(Arc::new(SystemClock)) };
        let log = EmbeddedLog::open(&folder, options)?;
        let opened = opened(Arc::new(log.clone()), ring);
        anyhow::Ok(Target::Embedded(log, opened))
    };
    tokio::task::spawn_blocking(open).await.context("opening the log was stopped")?
}

#[cfg(feature = "kafka")]
async fn on_kafka(config: &Config, kafka: &Kafka) -> anyhow::Result<Target> {
    let options = log::kafka_options(kafka, Arc::new(SystemClock), None);
    let (create, exact_partitions, clock_skew_max_ms) = (false, false, None);
    let options = reenact_kafka::Options { create, exact_partitions, clock_skew_max_ms, ..options };
    let log = reenact_kafka::KafkaLog::connect(options).await?;
    let (config, kafka, log_id) = (config.clone(), kafka.clone(), log.log_id());
    let look = move || keys::look_at_shared(&config, &kafka, log_id, &Handle::current());
    let ring = tokio::task::spawn_blocking(look).await.context("looking for the keys was stopped")??;
    let opened = opened(Arc::new(log.clone()), ring);
    Ok(Target::Kafka(log, opened))
}

fn opened(log: Arc<dyn EventLog>, ring: Option<KeyRing>) -> Arc<dyn EventLog> {
    match ring {
        Some(ring) => Arc::new(SealedLog::new(log, ring)),
        None => log,
    }
}
