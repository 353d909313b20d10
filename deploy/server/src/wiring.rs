//! Puts the parts together: the only place that picks implementations.

use std::{
    collections::BTreeMap,
    io::Write,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, anyhow, bail};
use reenact_actors::{NodeHandle, OpenStore, Settings, Tools, keys::SHAPES};
use reenact_agents::{AgentSteps, DirBlobs, demo_agent, load_agents};
use reenact_embedded::{EmbeddedLog, Options, Reader};
use reenact_events::{Blobs, Clock, EventLog, LogError, LogId, NodeId, Offset, PartitionId, agent::AgentSpec};
use reenact_projections::{Progress, ViewError, Views};
use reenact_snapshots::{SledStore, StateStore, codec};
use tokio::task::JoinSet;

use crate::{
    clock::SystemClock,
    config::{Agents, Config, Durability},
    http::state::{App, Services},
};

/// What takes commands.
pub type Node = NodeHandle;

/// Pauses before the views are followed again after a failure: doubling from the first to the last.
const FOLLOW_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// How often the start looks whether everything is restored.
const POLL: Duration = Duration::from_millis(10);

/// The log's folder in a data directory.
#[must_use]
pub fn log_folder(data: &Path) -> std::path::PathBuf {
    data.join("log")
}

/// The agents that the configuration names.
///
/// # Errors
/// With everything that is wrong in their files, each with its place.
pub fn agents(config: &Config) -> anyhow::Result<Vec<AgentSpec>> {
    let folder = match &config.agents {
        Agents::Folder(folder) => folder,
        Agents::FolderOrDemo(folder) if folder.is_dir() => folder,
        Agents::FolderOrDemo(_) => return Ok(vec![demo_agent()]),
    };
    let agents = load_agents(folder).map_err(|errors| {
        let lines: Vec<_> = errors.iter().map(|error| format!("\n  {error}")).collect();
        anyhow!("the agents in `{}` cannot be loaded:{}", folder.display(), lines.concat())
    })?;
    if agents.is_empty() {
        bail!("there is no agent in `{}`: put a file `NAME.toml` there, or leave `--agents` out", folder.display());
    }
    Ok(agents)
}

/// An app that serves the configured agents and has nothing restored yet.
#[must_use]
pub fn app(config: &Config, agents: Vec<AgentSpec>) -> App {
    App::new(agents, config.limits, "reenact", Arc::new(SystemClock))
}

/// Everything that runs behind the HTTP API.
pub struct Deployment {
    node: Node,
    // Dropped last, in this order: nobody follows a log that is closed.
    follow: JoinSet<ViewError>,
}

/// Opens the data directory, starts the node and the views, and opens `app` when both have caught up with
/// the log.
///
/// # Errors
/// When the directory is in use, damaged, foreign, or cannot be used.
pub async fn restore(config: &Config, app: &App) -> anyhow::Result<Deployment> {
    app.stage("the data directory is being opened");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let (log, blobs) = open(config, clock.clone()).await?;
    let views = {
        let (path, log_id, partitions) = (config.data.join("views.db"), log.log_id(), log.partitions());
        blocking(move || Views::open(&path, log_id, partitions)).await??
    };
    let mut follow = follow(app, &views, &log);
    let steps = AgentSteps::new(blobs.clone(), clock.clone()).context("models and tools cannot be called")?;
    let tools = Tools {
        log: log.clone(),
        open_store: stores(config, &*log),
        blobs: blobs.clone(),
        steps: Arc::new(steps),
        agents: app.agents_by_id(),
        live_bus: None,
        clock,
    };
    let settings = Settings {
        concurrency_max: config.max_concurrency,
        queue_depth_max: config.max_queue_depth,
        blob_grace: config.blob_grace,
        ..Settings::of(NodeId::trusted(&config.node))
    };
    let node = NodeHandle::start(tools, settings).await.context("the node cannot be started")?;
    let log_folder = log_folder(&config.data);
    tokio::select! {
        biased;
        damage = damage(&node, &mut follow) => {
            bail!("{damage}: restore `{}` from a backup", log_folder.display());
        }
        caught_up = caught_up(app, &node, &views, &log_folder) => caught_up?,
    }
    app.restored(Services::new(node.clone(), views, blobs, log.log_id()));
    Ok(Deployment { node, follow })
}

async fn open(config: &Config, clock: Arc<dyn Clock>) -> anyhow::Result<(Arc<dyn EventLog>, Arc<dyn Blobs>)> {
    let (data, durability) = (config.data.clone(), config.durability);
    blocking(move || {
        let durability = match durability {
            Durability::Full => reenact_embedded::Durability::Full,
            Durability::Relaxed => reenact_embedded::Durability::Relaxed,
        };
        let log = EmbeddedLog::open(&log_folder(&data), Options { durability, ..Options::new(clock) })?;
        same_log_as_ever(&data, log.log_id())?;
        let blobs = DirBlobs::open(&data.join("blobs"))?;
        Ok((Arc::new(log) as Arc<dyn EventLog>, Arc::new(blobs) as Arc<dyn Blobs>))
    })
    .await?
}

/// Refuses a log that is not the one this data directory was made with: it was removed, emptied or replaced,
/// and what stands beside it would silently be thrown away.
fn same_log_as_ever(data: &Path, log_id: LogId) -> anyhow::Result<()> {
    let file = data.join("log-id");
    let known = match std::fs::read_to_string(&file) {
        Ok(known) => known,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return durably(&file, &log_id.to_string())
                .with_context(|| format!("`{}` cannot be written", file.display()));
        }
        Err(error) => return Err(error).with_context(|| format!("`{}` cannot be read", file.display())),
    };
    if known.trim() != log_id.to_string() {
        bail!(
            "the log in `{}` is not the one that this data directory was made with (it was {}, and is {log_id}): its \
             files were removed, emptied or replaced. Restore them from a backup; to start anew, move the whole of \
             `{}` away",
            log_folder(data).display(),
            known.trim(),
            data.display()
        );
    }
    Ok(())
}

fn durably(file: &Path, text: &str) -> std::io::Result<()> {
    let mut written = std::fs::File::create(file)?;
    written.write_all(text.as_bytes())?;
    written.sync_all()
}

fn stores(config: &Config, log: &dyn EventLog) -> OpenStore {
    let (folder, log_id, fingerprint) = (config.data.join("state"), log.log_id(), codec::fingerprint(SHAPES));
    // A partition that is restored again goes on with the store that is open: sled locks its folder.
    let opened: Mutex<BTreeMap<PartitionId, Arc<dyn StateStore>>> = Mutex::default();
    Arc::new(move |partition| {
        let mut opened = opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = opened.get(&partition) {
            return Ok(store.clone());
        }
        let (store, discarded) = SledStore::open(&folder, log_id, partition, fingerprint)?;
        if let Some(discarded) = discarded {
            tracing::warn!(%partition, reason = discarded.reason, "the state store is discarded and folded again");
        }
        let store: Arc<dyn StateStore> = Arc::new(store);
        opened.insert(partition, store.clone());
        Ok(store)
    })
}

fn follow(app: &App, views: &Views, log: &Arc<dyn EventLog>) -> JoinSet<ViewError> {
    let mut tasks = JoinSet::new();
    for partition in (0..log.partitions()).map(PartitionId) {
        tasks.spawn(follow_for_ever(app.clone(), views.clone(), log.clone(), partition));
    }
    tasks
}

/// Keeps a partition's views following, whatever stops them for a while; what stopped them for good.
async fn follow_for_ever(app: App, views: Views, log: Arc<dyn EventLog>, partition: PartitionId) -> ViewError {
    let mut pause = FOLLOW_PAUSE.0;
    loop {
        let began = views.position(partition);
        let stage = |progress: Progress| app.stage(&catching_up(progress));
        let error = views.follow(log.clone(), partition, stage).await;
        if matches!(error, ViewError::Closed) {
            return error;
        }
        if matches!(error, ViewError::Log(LogError::Damaged { .. })) {
            tracing::error!(%partition, %error, "the views stopped for good");
            return error;
        }
        if views.position(partition) != began {
            pause = FOLLOW_PAUSE.0;
        }
        app.stage(&error.to_string());
        tracing::warn!(%partition, %error, pause_ms = pause.as_millis(), "the views stopped and are followed again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(FOLLOW_PAUSE.1);
    }
}

fn catching_up(progress: Progress) -> String {
    let Progress { partition, position, end, events_per_s, .. } = progress;
    format!("the views of partition {partition} are at offset {position} of {end} ({events_per_s:.0} events/s)")
}

/// Waits until something stored turns out not to be readable: then there is nothing else to wait for.
async fn damage(node: &Node, follow: &mut JoinSet<ViewError>) -> String {
    loop {
        if let Some(damage) = node.readiness().damage {
            return damage;
        }
        tokio::select! {
            Some(Ok(error)) = follow.join_next() => return error.to_string(),
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

/// Waits until the node owns its partitions and reads see everything that was in the log by then.
async fn caught_up(app: &App, node: &Node, views: &Views, log_folder: &Path) -> anyhow::Result<()> {
    while !node.readiness().is_ready() {
        app.stage(&node.readiness().reasons.join("; "));
        tokio::time::sleep(POLL).await;
    }
    let folder = log_folder.to_owned();
    for (partition, last) in blocking(move || last_events(&folder)).await?? {
        while views.position(partition) <= last {
            tokio::time::sleep(POLL).await;
        }
    }
    Ok(())
}

/// The last event of each partition that has one.
fn last_events(log_folder: &Path) -> anyhow::Result<Vec<(PartitionId, Offset)>> {
    let reader = Reader::open(log_folder)?;
    let mut last = Vec::new();
    for partition in (0..reader.partitions()).map(PartitionId) {
        let (low, end) = reader.bounds(partition)?;
        // Offsets have gaps of any length, so how far back the last event is must be tried.
        let mut back = 2;
        loop {
            let from = Offset(end.0.saturating_sub(back)).max(low);
            if let Some(offset) = last_from(&reader, partition, from)? {
                last.push((partition, offset));
                break;
            }
            if from <= low {
                break;
            }
            back *= 64;
        }
    }
    Ok(last)
}

fn last_from(reader: &Reader, partition: PartitionId, mut from: Offset) -> anyhow::Result<Option<Offset>> {
    let mut last = None;
    while let Some(event) = reader.read(partition, from)?.pop() {
        last = Some(event.offset);
        from = event.offset.next();
    }
    Ok(last)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await.context("a task that opens files was stopped")
}

impl Deployment {
    /// How many runs are at work and how many wait.
    #[must_use]
    pub fn load(&self) -> (usize, usize) {
        self.node.load()
    }

    /// Stops admitting, gives the runs at work `drain` to end, and stops.
    pub async fn close(mut self, drain: Duration) {
        self.node.shutdown(drain).await;
        self.follow.shutdown().await;
    }
}
