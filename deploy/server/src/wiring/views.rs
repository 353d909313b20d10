//! Opens the views, keeps them following the log, and tells when they cannot.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use reenact_events::{EventLog, LogError, PartitionId};
use reenact_projections::{Files, GenerationError, Generations, Schemas, ViewError, Views};
use tokio::task::JoinSet;

use super::{beginnings, blocking};
use crate::{
    config::{Config, ViewsPlace},
    http::state::App,
};

/// Pauses before the views are followed again after a failure: doubling from the first to the last.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// What a start says when the views cannot be had on a server.
const NOT_OPENED: &str = "the views cannot be opened in what `--database` and `--database-schema` name";

/// Asks whether the database is there, before anything is made for a log.
pub(super) async fn look(config: &Config) -> anyhow::Result<()> {
    if let ViewsPlace::Postgres(address) = &config.views {
        address.server_version().await.context(NOT_OPENED)?;
    }
    Ok(())
}

/// Opens the views where the configuration has them, and what other generations of them there are.
pub(super) async fn open(config: &Config, log: &dyn EventLog) -> anyhow::Result<(Arc<dyn Generations>, Views)> {
    let (log_id, partitions) = (log.log_id(), log.partitions());
    match &config.views {
        ViewsPlace::Sqlite => {
            let data = config.data.clone();
            let opened = blocking(move || {
                let files = Files::open(&data, log_id, partitions)?;
                let views = Views::open(&files.file(files.live()?), log_id, partitions)?;
                Ok::<_, GenerationError>((files, views))
            });
            let (files, views) = opened.await??;
            Ok((Arc::new(files), views))
        }
        ViewsPlace::Postgres(address) => {
            let views = Views::connect(address, log_id, partitions).await.context(NOT_OPENED)?;
            let schemas = Schemas::of(address, log_id, partitions).context(NOT_OPENED)?;
            Ok((Arc::new(schemas), views))
        }
    }
}

/// Follows every partition, for as long as the result is kept.
pub(super) fn follow(app: &App, views: &Views, log: &Arc<dyn EventLog>) -> JoinSet<ViewError> {
    let mut tasks = JoinSet::new();
    for partition in (0..log.partitions()).map(PartitionId) {
        tasks.spawn(for_ever(app.clone(), views.clone(), log.clone(), partition));
    }
    if log.is_shared() {
        let watched = beginnings::watch(app.clone(), log.clone());
        tasks.spawn(async move { match watched.await {} });
    }
    tasks
}

/// Keeps a partition's views following, whatever stops them for a while; what stopped them for good. What is damaged
/// in a log that others write to may be mended or accepted from there.
async fn for_ever(app: App, views: Views, log: Arc<dyn EventLog>, partition: PartitionId) -> ViewError {
    let mut pause = PAUSE.0;
    loop {
        let began = views.position(partition);
        let error = views.follow(log.clone(), partition, |progress| app.views_are_at(&progress)).await;
        match error {
            ViewError::Closed => return error,
            // Another generation took the place of the rows, or they were discarded, which was told.
            ViewError::Discarded { .. } => continue,
            _ => {}
        }
        if matches!(error, ViewError::Log(LogError::Damaged { .. } | LogError::OutOfRange { .. })) {
            app.views_are_damaged(partition, &error);
            if !log.is_shared() {
                tracing::error!(%partition, %error, "the views stopped for good");
                return error;
            }
        }
        if log.is_shared() && matches!(error, ViewError::Diverged { .. }) {
            // What was promised to be visible may be what was lost.
            app.forget_marks(partition);
        }
        if views.position(partition) != began {
            pause = PAUSE.0;
        }
        app.views_wait(partition, &error);
        tracing::warn!(%partition, %error, pause_ms = pause.as_millis(), "the views stopped and are followed again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}
