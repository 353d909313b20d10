//! Opens the log that the configuration names.

use std::{
    fs::File,
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, bail};
use reenact_embedded::{EmbeddedLog, Options};
use reenact_events::{Clock, EventLog, LiveBus, LogId};
use uuid::Uuid;

use super::objects::Mark;
#[cfg(feature = "kafka")]
use crate::clock::SystemClock;
use crate::{
    config::{Config, Durability, Kafka, LogPlace},
    http::state::App,
};

/// The file in the data directory that keeps the log's id.
const LOG_ID: &str = "log-id";
/// Pause before a cluster that does not answer is asked again.
#[cfg(feature = "kafka")]
const RETRY: std::time::Duration = std::time::Duration::from_secs(1);

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

/// The log that a data directory was made with, if it has worked with one.
///
/// # Errors
/// When the file that says so cannot be read, or is not one of ours.
pub fn known(data: &Path) -> anyhow::Result<Option<LogId>> {
    let file = data.join(LOG_ID);
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("`{}` cannot be read", file.display())),
    };
    let id = Uuid::parse_str(text.trim());
    Ok(Some(LogId(id.with_context(|| format!("`{}` holds no log id: restore it from a backup", file.display()))?)))
}

/// Refuses an embedded log that is not the one that the data directory was made with; `None` is none at all. It was
/// removed, emptied or replaced, and what stands beside it would silently be thrown away.
///
/// # Errors
/// When it is not, or the directory cannot be asked.
pub fn same_as_ever(data: &Path, found: Option<LogId>) -> anyhow::Result<()> {
    let Some(known) = known(data)?.filter(|known| Some(*known) != found) else { return Ok(()) };
    let is = found.map_or_else(|| "is gone".to_owned(), |found| format!("is {found}"));
    bail!(
        "the log in `{}` is not the one that this data directory was made with (it was {known}, and {is}): its files \
         were removed, emptied or replaced. Restore them from a backup; to start anew, move the whole of `{}` away",
        folder(data).display(),
        data.display()
    )
}

/// Keeps the log's id beside what is made from it: the whole file or none is there, whatever crashes.
///
/// # Errors
/// When it cannot be written.
pub fn remember(data: &Path, log_id: LogId) -> anyhow::Result<()> {
    let (file, written) = (data.join(LOG_ID), data.join(LOG_ID).with_extension("new"));
    let durably = || {
        let mut new = File::create(&written)?;
        new.write_all(log_id.to_string().as_bytes())?;
        new.sync_all()?;
        std::fs::rename(&written, &file)?;
        File::open(data)?.sync_all()
    };
    durably().with_context(|| format!("`{}` cannot be written", file.display()))
}

async fn embedded(config: &Config, clock: Arc<dyn Clock>) -> anyhow::Result<Opened> {
    let durability = match config.durability {
        Durability::Full => reenact_embedded::Durability::Full,
        Durability::Relaxed => reenact_embedded::Durability::Relaxed,
    };
    let folder = folder(&config.data);
    let options = Options { durability, ..Options::new(clock) };
    let log = super::blocking(move || EmbeddedLog::open(&folder, options)).await??;
    same_as_ever(&config.data, Some(log.log_id()))?;
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
    use reenact_kafka::{KafkaLive, KafkaLog};

    let data = config.data.clone();
    let held = super::blocking(move || hold(&data)).await??;
    let options = reenact_kafka::Options {
        node: Some(config.node.as_str().into()),
        known: known(&config.data)?,
        ..kafka_options(kafka, clock, Some(config.advertise.as_str().into()))
    };
    app.stage(&format!("connecting to kafka at `{}`", kafka.brokers));
    let log = loop {
        let told = app.clone();
        match KafkaLog::connect_and_tell(options.clone(), move |what| told.stage(what)).await {
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

/// Refuses an object store that is not the one in which the other nodes keep the log's texts and files. `found` is
/// the store as its mark names it; nothing is written.
///
/// # Errors
/// When it is another one, or the log cannot say and waiting would not help.
pub async fn fitting_objects(config: &Config, app: &App, log_id: LogId, found: Option<Uuid>) -> anyhow::Result<()> {
    match &config.log {
        LogPlace::Embedded => Ok(()),
        LogPlace::Kafka(kafka) => {
            let named = named_objects(kafka, app, None).await?;
            named.and_then(|named| other_objects(config, kafka, log_id, found, named)).map_or(Ok(()), Err)
        }
    }
}

/// Names the marked store to the other nodes, unless they have one.
///
/// # Errors
/// As [`fitting_objects`]: somebody else may have been first since.
pub async fn same_objects(config: &Config, app: &App, mark: Mark) -> anyhow::Result<()> {
    match &config.log {
        LogPlace::Embedded => Ok(()),
        LogPlace::Kafka(kafka) => {
            let named = named_objects(kafka, app, Some(mark.store)).await?;
            let other = |named| other_objects(config, kafka, mark.log_id, Some(mark.store), named);
            named.and_then(other).map_or(Ok(()), Err)
        }
    }
}

#[cfg(not(feature = "kafka"))]
async fn named_objects(kafka: &Kafka, _: &App, _: Option<Uuid>) -> anyhow::Result<Option<Uuid>> {
    Err(no_kafka(&kafka.brokers))
}

/// The object store that the log names; `offered` is it from now on when it names none.
#[cfg(feature = "kafka")]
async fn named_objects(kafka: &Kafka, app: &App, offered: Option<Uuid>) -> anyhow::Result<Option<Uuid>> {
    let options = kafka_options(kafka, Arc::new(SystemClock), None);
    loop {
        let options = options.clone();
        let ask = move || match offered {
            Some(store) => reenact_kafka::object_store(&options, store).map(Some),
            None => reenact_kafka::named_object_store(&options),
        };
        match super::blocking(ask).await? {
            Ok(named) => return Ok(named),
            Err(error) => {
                tracing::warn!(%error, "the log does not say which object store is its own, trying again");
                app.stage(&error.to_string());
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// What is said when the object store is not the one that the log names.
#[must_use]
pub fn other_objects(
    config: &Config,
    kafka: &Kafka,
    log_id: LogId,
    found: Option<Uuid>,
    named: Uuid,
) -> Option<anyhow::Error> {
    let right = format!(r#"{{"log_id":"{log_id}","store":"{named}"}}"#);
    let (folder, prefix, file) = (config.objects.display(), &kafka.prefix, super::objects::MARK);
    let is = found.map_or_else(|| "none yet".to_owned(), |found| found.to_string());
    (Some(named) != found).then(|| {
        anyhow::anyhow!(
            "`{folder}` is not the object store of log `{prefix}.*`, whose texts and files lie in store {named} (this \
             is {is}): give every node of the deployment the same `--objects`. If that store was lost, restore it from \
             a backup; to go on without what was in it, put `{right}` into `{folder}/{file}` of a new one"
        )
    })
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
        exact_partitions: kafka.partitions_asked,
        replication: kafka.replication,
        properties: kafka.properties.clone(),
        clock_skew_max_ms: Some(CLOCK_SKEW_MAX_MS),
        ..reenact_kafka::Options::new(&kafka.brokers, clock)
    }
}

/// Keeps other processes from the data directory as long as the file is open.
///
/// # Errors
/// When another process has it, or it cannot be used.
#[cfg(feature = "kafka")]
pub fn hold(data: &Path) -> anyhow::Result<File> {
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
