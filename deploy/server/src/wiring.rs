//! Puts the parts together: the only place that picks implementations.

mod beginnings;
pub mod keys;
pub mod log;
pub mod objects;
pub mod shelf;
mod stores;
mod views;

use std::{convert::Infallible, sync::Arc, time::Duration};

use anyhow::{Context, anyhow, bail};
use reenact_actors::{NodeHandle, Settings, Tools};
use reenact_agents::{AgentSteps, DirBlobs, demo_agent, load_agents};
use reenact_events::{Blobs, Clock, EventLog, LogError, LogId, NodeId, Offset, PartitionId, agent::AgentSpec};
use reenact_projections::{Rebuilds, ViewError, Views};
use reenact_sealed::{KeyRing, SealedBlobs, SealedLog};
use tokio::{sync::Notify, task::JoinSet};

use crate::{
    clock::SystemClock,
    config::{Agents, Config, LogPlace},
    erasure::{self, Erasures},
    http::state::{App, Own, Services},
    retention,
    scrubs::{self, Scrubber},
};

/// What takes commands.
pub type Node = NodeHandle;

/// How often the start looks whether everything is restored.
const POLL: Duration = Duration::from_millis(10);
/// Pause before a log that does not answer is asked again.
const RETRY: Duration = Duration::from_secs(1);

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
    App::new(agents, config.limits, config.prices.clone(), "reenact", Arc::new(SystemClock))
}

/// Everything that runs behind the HTTP API.
pub struct Deployment {
    _chores: JoinSet<Infallible>,
    node: Node,
    // Dropped last, in this order: nobody follows a log that is closed.
    follow: JoinSet<ViewError>,
    _held: Option<std::fs::File>,
}

/// Opens the data directory, starts the node and the views, and opens `app` when both have caught up with
/// the log.
///
/// # Errors
/// When the directory is in use, damaged, foreign, or cannot be used.
pub async fn restore(config: &Config, app: &App) -> anyhow::Result<Deployment> {
    views::look(config).await?;
    keys::same_as_ever(config)?;
    app.stage("the data directory is being opened");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let opened = log::open(config, app, clock.clone()).await?;
    let log_id = opened.log.log_id();
    let ring = keys::open(config, app, log_id).await?;
    let blobs = blobs(config, app, log_id).await?;
    if let Some(ring) = &ring {
        scrubs::begin(&**ring.table(), &config.data).await?;
    }
    let (log, blobs): (Arc<dyn EventLog>, Arc<dyn Blobs>) = match &ring {
        None => (opened.log, blobs),
        Some(ring) => {
            (Arc::new(SealedLog::new(opened.log, ring.clone())), Arc::new(SealedBlobs::new(blobs, ring.clone())))
        }
    };
    let (generations, views) = views::open(config, &*log).await?;
    let rebuilds = Rebuilds::new(generations, views.clone(), log.clone());
    let mut follow = views::follow(app, &views, &log);
    let steps = AgentSteps::new(blobs.clone(), clock.clone()).context("models and tools cannot be called")?;
    let (open_store, forget_store) = stores::stores(config, &*log);
    let tools = Tools {
        log: log.clone(),
        open_store,
        forget_store,
        shelf: config.snapshots.place.as_ref().map(shelf::open).transpose()?,
        blobs: blobs.clone(),
        steps: Arc::new(steps),
        agents: app.agents_by_id(),
        live_bus: opened.live_bus,
        clock,
    };
    let settings = Settings {
        bounds: config.bounds.clone(),
        blob_grace: config.blob_grace,
        snapshot_events: config.snapshots.events,
        snapshot_period: config.snapshots.period,
        ..Settings::of(NodeId::trusted(&config.node))
    };
    let node = NodeHandle::start(tools, settings).await.context("the node cannot be started")?;
    tokio::select! {
        biased;
        damage = damage(&node, &*log, &mut follow) => {
            bail!("{damage}: restore `{}` from a backup", log::folder(&config.data).display());
        }
        caught_up = caught_up(app, &node, &views, &*log) => caught_up?,
    }
    let own = Own { node: config.node.clone(), endpoint: config.advertise.clone() };
    let mut chores = JoinSet::new();
    let erasures = match ring {
        None => None,
        Some(ring) => Some(erasing(config, app, &node, ring, &mut chores).await),
    };
    app.restored(Services::new(node.clone(), views, rebuilds, blobs, log, own, erasures));
    if !config.retention.is_empty() {
        chores.spawn(retention::for_ever(app.clone(), config.retention.clone(), config.retention_period));
    }
    Ok(Deployment { _chores: chores, node, follow, _held: opened.held })
}

async fn blobs(config: &Config, app: &App, log_id: LogId) -> anyhow::Result<Arc<dyn Blobs>> {
    let (data, objects) = (config.data.clone(), config.objects.clone());
    let looked = blocking(move || anyhow::Ok((log::known(&data)?.is_some(), objects::own(&objects, log_id)?)));
    let (was_here, found) = looked.await??;
    log::fitting_objects(config, app, log_id, found.map(|mark| mark.store)).await?;
    // Nothing was written so far: a start that is refused binds neither a folder nor a store to a log.
    let (data, objects, is_embedded) = (config.data.clone(), config.objects.clone(), config.log == LogPlace::Embedded);
    let opened = blocking(move || {
        let (mark, is_new) = objects::mark(&objects, log_id)?;
        if was_here && is_new && is_embedded {
            tracing::error!(
                "THE OBJECT STORE IS EMPTY: the long texts and the files of earlier runs are not in `{}` any more; runs \
                 that need them fail with `blob_unavailable`. Restore it from a backup if that was not intended",
                objects.display()
            );
        }
        anyhow::Ok((mark, Arc::new(DirBlobs::open(&objects)?) as Arc<dyn Blobs>))
    });
    let (mark, blobs) = opened.await??;
    log::same_objects(config, app, mark).await?;
    if !was_here {
        blocking(move || log::remember(&data, log_id)).await??;
    }
    Ok(blobs)
}

/// Does before anything is served what erasures have asked of the node while it was away, unless a partition is refused
/// whose store then stays as it is; and goes on with erasures afterwards.
async fn erasing(
    config: &Config,
    app: &App,
    node: &Node,
    ring: KeyRing,
    chores: &mut JoinSet<Infallible>,
) -> Arc<Erasures> {
    let asked = Arc::new(Notify::new());
    let name = NodeId::trusted(&config.node);
    let scrubber = Scrubber::new(ring.table().clone(), node.clone(), name, &config.data, asked.clone());
    while let Err(error) = scrubber.look().await {
        app.stage(&format!("the states still hold what erased users have said: {error:#}"));
        if !node.readiness().refused.is_empty() {
            break;
        }
        tokio::time::sleep(RETRY).await;
    }
    chores.spawn(scrubber.for_ever());
    let erasures = Arc::new(Erasures::new(ring, config.blob_grace, asked));
    chores.spawn(erasure::for_ever(app.clone(), erasures.clone()));
    erasures
}

/// Waits until something stored turns out not to be readable, where nobody else could make it so again: then there
/// is nothing to wait for. What the node says of its partitions tells more than what its views met, and comes first.
async fn damage(node: &Node, log: &dyn EventLog, follow: &mut JoinSet<ViewError>) -> String {
    if log.is_shared() {
        return std::future::pending().await;
    }
    let mut of_views: Option<String> = None;
    loop {
        let readiness = node.readiness();
        let refusal = readiness.refused.into_values().next();
        if refusal.is_some() || (of_views.is_some() && readiness.is_decided) {
            let further = of_views.filter(|of_views| refusal.as_ref() != Some(of_views));
            return refusal.into_iter().chain(further).collect::<Vec<_>>().join("; the views: ");
        }
        tokio::select! {
            Some(Ok(error)) = follow.join_next() => of_views = Some(error.to_string()),
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

/// The last event that there is now. A cluster of brokers may be away for a while; what of it is damaged, nobody
/// waits for.
async fn last_event(app: &App, log: &dyn EventLog, partition: PartitionId) -> anyhow::Result<Option<Offset>> {
    loop {
        match log.last_event(partition).await {
            Ok(last) => return Ok(last),
            Err(error) if !log.is_shared() => return Err(error.into()),
            Err(error @ LogError::Damaged { .. }) => {
                tracing::error!(%partition, %error, "the end of a partition cannot be read");
                return Ok(None);
            }
            Err(error) => {
                app.stage(&error.to_string());
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// Waits until the node has its partitions, as far as they can be had, and reads see everything that was in the log
/// by then. A log that several nodes share has partitions that can be served while others cannot.
async fn caught_up(app: &App, node: &Node, views: &Views, log: &dyn EventLog) -> anyhow::Result<()> {
    loop {
        let readiness = node.readiness();
        if readiness.is_settled() || (log.is_shared() && readiness.is_decided) {
            break;
        }
        let restoring = readiness.restoring.iter().map(|partition| format!("partition {partition} is being restored"));
        app.stage(&readiness.reasons.iter().cloned().chain(restoring).collect::<Vec<_>>().join("; "));
        tokio::time::sleep(POLL).await;
    }
    for partition in (0..log.partitions()).map(PartitionId) {
        let is_hopeless =
            || log.is_shared() && (node.readiness().refused.contains_key(&partition) || app.is_damaged(partition));
        let Some(last) = last_event(app, log, partition).await? else { continue };
        while views.position(partition) <= last && !is_hopeless() {
            tokio::time::sleep(POLL).await;
        }
    }
    Ok(())
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
