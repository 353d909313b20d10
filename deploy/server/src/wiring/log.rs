//! Opens the log that the configuration names.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

#[cfg(feature = "kafka")]
use anyhow::{Context, bail};
use reenact_embedded::{EmbeddedLog, Options};
use reenact_events::{Clock, EventLog, LiveBus};

use crate::{
    config::{Config, Durability, Kafka, LogPlace},
    http::state::App,
};

/// The folder of the embedded log in a data directory.
#[must_use]
pub fn folder(data: &Path) -> PathBuf {
    data.join("log")
}

/// A log that is open.
pub struct Opened {
    /// The log.
    pub log: Arc<dyn EventLog>,
    /// What carries live frames between the nodes of a log that several share.
    pub live_bus: Option<Arc<dyn LiveBus>>,
    /// Keeps others from the data directory, where the log does not.
    pub held: Option<File>,
}

/// Opens the log.
///
/// # Errors
/// When it cannot be used, and waiting would not help.
pub async fn open(config: &Config, app: &App, clock: Arc<dyn Clock>) -> anyhow::Result<Opened> {
    match &config.log {
        LogPlace::Embedded => embedded(config, clock).await,
        LogPlace::Kafka(kafka) => on_kafka(config, kafka, app, clock).await,
    }
}

async fn embedded(config: &Config, clock: Arc<dyn Clock>) -> anyhow::Result<Opened> {
    let durability = match config.durability {
        Durability::Full => reenact_embedded::Durability::Full,
        Durability::Relaxed => reenact_embedded::Durability::Relaxed,
    };
    let folder = folder(&config.data);
    let options = Options { durability, ..Options::new(clock) };
    let log = super::blocking(move || EmbeddedLog::open(&folder, options)).await??;
    Ok(Opened { log: Arc::new(log), live_bus: None, held: None })
}

/// What a build says that has no Kafka in it.
#[cfg(not(feature = "kafka"))]
#[must_use]
pub fn no_kafka(brokers: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "this build has no Kafka in it (`{brokers}`): build with `--features kafka`, which needs make and OpenSSL's \
         headers beside a C compiler, or use a release build"
    )
}

#[cfg(not(feature = "kafka"))]
async fn on_kafka(_: &Config, kafka: &Kafka, _: &App, _: Arc<dyn Clock>) -> anyhow::Result<Opened> {
    Err(no_kafka(&kafka.brokers))
}

#[cfg(feature = "kafka")]
async fn on_kafka(config: &Config, kafka: &Kafka, app: &App, clock: Arc<dyn Clock>) -> anyhow::Result<Opened> {
    use std::time::Duration;

    use reenact_kafka::{KafkaLive, KafkaLog};

    /// Pause before a cluster that does not answer is asked again.
    const RETRY: Duration = Duration::from_secs(1);

    let data = config.data.clone();
    let held = super::blocking(move || hold(&data)).await??;
    let options = kafka_options(kafka, clock, Some(config.advertise.as_str().into()));
    let log = loop {
        match KafkaLog::connect(options.clone()).await {
            Ok(log) => break log,
            Err(error) if error.is_passing() => {
                tracing::warn!(%error, "the log is not available, trying again");
                app.stage(&error.to_string());
                tokio::time::sleep(RETRY).await;
            }
            Err(error) => return Err(error.into()),
        }
    };
    let live = KafkaLive::new(&options)?;
    Ok(Opened { log: Arc::new(log), live_bus: Some(Arc::new(live)), held: Some(held) })
}

/// Half of what an owner adds to the time for which it waits for its predecessor's steps.
#[cfg(feature = "kafka")]
const CLOCK_SKEW_MAX_MS: i64 = 500;

/// The options of the log on this cluster.
#[cfg(feature = "kafka")]
#[must_use]
pub fn kafka_options(kafka: &Kafka, clock: Arc<dyn Clock>, endpoint: Option<Arc<str>>) -> reenact_kafka::Options {
    reenact_kafka::Options {
        prefix: kafka.prefix.clone(),
        endpoint,
        partitions: kafka.partitions,
        replication: kafka.replication,
        properties: kafka.properties.clone(),
        clock_skew_max_ms: Some(CLOCK_SKEW_MAX_MS),
        ..reenact_kafka::Options::new(&kafka.brokers, clock)
    }
}

/// Keeps other processes from the data directory as long as the file is open.
#[cfg(feature = "kafka")]
fn hold(data: &Path) -> anyhow::Result<File> {
    let file = data.join("LOCK");
    std::fs::create_dir_all(data).with_context(|| format!("`{}` cannot be made", data.display()))?;
    let lock = File::create(&file).with_context(|| format!("`{}` cannot be written", file.display()))?;
    if lock.try_lock().is_err() {
        bail!(
            "the data directory `{}` is in use by another process: stop it, or give this node another `--data`",
            data.display()
        );
    }
    Ok(lock)
}
        exact_partitions: kafka.partitions_asked,
