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
    config::{Config, Content, Durability, Kafka, LogPlace},
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

/// Keeps the log's id beside what is made from it.
///
/// # Errors
/// When it cannot be written.
pub fn remember(data: &Path, log_id: LogId) -> anyhow::Result<()> {
    keep(&data.join(LOG_ID), &log_id.to_string())
}

/// Writes a small file durably: the whole of it or none is there, whatever crashes.
///
/// # Errors
/// When it cannot be written.
pub fn keep(file: &Path, text: &str) -> anyhow::Result<()> {
    let written = file.with_extension("new");
    let durably = || {
        let mut new = File::create(&written)?;
        new.write_all(text.as_bytes())?;
        new.sync_all()?;
        std::fs::rename(&written, file)?;
        file.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
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

/// The object store that the log names; `offered` is it from now on when it names none.
async fn named_objects(kafka: &Kafka, app: &App, offered: Option<Uuid>) -> anyhow::Result<Option<Uuid>> {
    Ok(facts::object_store(kafka, app, offered).await?.as_deref().and_then(store_id))
}

/// As the start asks for the object store that the log names, asked once. Blocks.
///
/// # Errors
/// When it cannot be asked.
#[cfg(feature = "kafka")]
pub fn look_at_objects(options: &reenact_kafka::Options) -> Result<Option<Uuid>, reenact_events::LogError> {
    Ok(reenact_kafka::said(options, reenact_kafka::Fact::ObjectStore)?.as_deref().and_then(store_id))
}

fn store_id(said: &str) -> Option<Uuid> {
    Uuid::parse_str(said).ok()
}

/// What the log says of its deployment.
#[cfg(feature = "kafka")]
mod facts {
    use std::sync::Arc;

    use reenact_events::LogError;
    use reenact_kafka::{Fact, Options, is_new, said, settled};
    use uuid::Uuid;

    use super::{App, Content, Kafka, RETRY, SystemClock, kafka_options};

    pub(super) async fn object_store(
        kafka: &Kafka,
        app: &App,
        offered: Option<Uuid>,
    ) -> anyhow::Result<Option<String>> {
        ask(kafka, app, move |options| match offered {
            Some(store) => settled(options, Fact::ObjectStore, &store.to_string()).map(Some),
            None => said(options, Fact::ObjectStore),
        })
        .await
    }

    pub(super) async fn content(kafka: &Kafka, app: &App, offered: Option<Content>) -> anyhow::Result<Option<String>> {
        ask(kafka, app, move |options| match offered {
            Some(content) => settled(options, Fact::Content, content.as_str()).map(Some),
            None => content_of(options),
        })
        .await
    }

    /// What nothing is said of was made before it was said, and is plain, or is not made yet.
    pub(super) fn content_of(options: &Options) -> Result<Option<String>, LogError> {
        match said(options, Fact::Content)? {
            Some(content) => Ok(Some(content)),
            None => Ok((!is_new(options)?).then(|| Content::Plain.as_str().to_owned())),
        }
    }

    /// Asks until the cluster answers.
    async fn ask(
        kafka: &Kafka,
        app: &App,
        question: impl Fn(&Options) -> Result<Option<String>, LogError> + Clone + Send + 'static,
    ) -> anyhow::Result<Option<String>> {
        let options = kafka_options(kafka, Arc::new(SystemClock), None);
        loop {
            let (options, question) = (options.clone(), question.clone());
            match super::super::blocking(move || question(&options)).await? {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    tracing::warn!(%error, "the log does not say what is its own, trying again");
                    app.stage(&error.to_string());
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }
}

/// What a build without Kafka says.
#[cfg(not(feature = "kafka"))]
mod facts {
    use uuid::Uuid;

    use super::{App, Content, Kafka, no_kafka};

    pub(super) async fn object_store(kafka: &Kafka, _: &App, _: Option<Uuid>) -> anyhow::Result<Option<String>> {
        Err(no_kafka(&kafka.brokers))
    }

    pub(super) async fn content(kafka: &Kafka, _: &App, _: Option<Content>) -> anyhow::Result<Option<String>> {
        Err(no_kafka(&kafka.brokers))
    }
}

/// How the log stores users' content, if it says so; `offered` is it from now on when it does not.
///
/// # Errors
/// When it says something that is unknown here.
pub async fn content(kafka: &Kafka, app: &App, offered: Option<Content>) -> anyhow::Result<Option<Content>> {
    facts::content(kafka, app, offered).await?.map(|said| known_content(kafka, &said)).transpose()
}

/// As [`content`], asked once and without changing anything. Blocks.
///
/// # Errors
/// When it cannot be asked, or says something that is unknown here.
#[cfg(feature = "kafka")]
pub fn look_at_content(kafka: &Kafka) -> anyhow::Result<Option<Content>> {
    let said = facts::content_of(&kafka_options(kafka, Arc::new(SystemClock), None))?;
    said.map(|said| known_content(kafka, &said)).transpose()
}

fn known_content(kafka: &Kafka, said: &str) -> anyhow::Result<Content> {
    let unknown = || format!("log `{}.*` has content `{said}`, which this version does not know", kafka.prefix);
    Content::parse(said).with_context(unknown)
}

/// What is said when users' content is not to be stored as the log has it.
#[must_use]
pub fn other_content(kafka: &Kafka, wanted: Content, known: Content) -> Option<anyhow::Error> {
    let (prefix, known_text, wanted_text) = (&kafka.prefix, known.as_str(), wanted.as_str());
    let is = match known {
        Content::Plain => "stands there as it is",
        Content::PerUserKey => "is sealed there with keys of theirs",
    };
    (wanted != known).then(|| {
        anyhow::anyhow!(
            "users' content in log `{prefix}.*` {is}, and `content` is `{wanted_text}`: say `--content {known_text}`. It \
             is fixed when a log is made; for another one name another `--topic-prefix`"
        )
    })
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
