//! Generations of a deployment that is stopped: the log is read here, and nobody else writes the views.

use std::time::{Duration, Instant};

use anyhow::Context;
use reenact_events::{Offset, PartitionId};
use reenact_projections::{
    Files, GenerationError, Generations, Loader, Schemas, generations::not_behind, rebuild::Standing,
};
use serde_json::{Value, json};

use crate::{
    cli::{
        folding::{Limit, fold_all},
        log_source::Source,
    },
    config::{Config, ViewsPlace},
    http::projections::Generation,
    wiring::log,
};

/// The log's end, by partition.
pub(super) type Ends = Vec<(PartitionId, Offset)>;

async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await.context("the work was stopped")?
}

pub(super) async fn list(config: Config) -> anyhow::Result<Value> {
    on_a_thread(move || {
        let source = Source::open(&config)?;
        standings(&*generations(&config, &source)?, &ends(&source)?)
    })
    .await
}

pub(super) async fn rebuild(config: Config, number: Option<u32>) -> anyhow::Result<u32> {
    on_a_thread(move || {
        let (mut source, files) = open(&config)?;
        if let Some(number) = number {
            files.known(number)?;
        }
        let number = number.map_or_else(|| files.next(), Ok)?;
        let ends = ends(&source)?;
        let mut loader = files.loader(number)?;
        fold_all(&mut source, &mut loader, &ends, Limit::None, &format!("generation {number}"))?;
        loader.finish()?;
        Ok(number)
    })
    .await
}

pub(super) async fn swap(config: Config, number: u32, patience: Duration) -> anyhow::Result<Value> {
    on_a_thread(move || {
        let (mut source, generations) = open(&config)?;
        generations.known(number)?;
        let ends = ends(&source)?;
        let mut loader = generations.loader(number)?;
        let until = Instant::now() + patience;
        fold_all(&mut source, &mut loader, &ends, Limit::Until(until), &format!("generation {number}"))?;
        caught_up(&loader, number, &ends, patience)?;
        let mut loader = Some(loader);
        generations.swap(number, None, &mut |live| {
            let stopped = || GenerationError::Stopped { number, reason: "it was taken away".to_owned() };
            let loader = loader.take().ok_or_else(stopped)?;
            not_behind(number, loader.positions(), live)?;
            Ok(loader.finish()?)
        })?;
        standings(&*generations, &ends)
    })
    .await
}

fn caught_up(loader: &Loader, number: u32, ends: &Ends, waited: Duration) -> Result<(), GenerationError> {
    match not_behind(number, loader.positions(), ends) {
        Err(GenerationError::Behind { number, lag, .. }) => Err(GenerationError::Behind { number, lag, waited }),
        other => other,
    }
}

pub(super) async fn remove(config: Config, number: u32) -> anyhow::Result<()> {
    on_a_thread(move || Ok(open(&config)?.1.remove(number)?)).await
}

/// The log, and the generations to be changed.
fn open(config: &Config) -> anyhow::Result<(Source, Box<dyn Generations>)> {
    let source = Source::open(config)?;
    log::same_as_ever(&config.data, Some(source.log_id()))?;
    let generations: Box<dyn Generations> = match &config.views {
        ViewsPlace::Sqlite => Box::new(Files::open(&config.data, source.log_id(), source.partitions())?),
        ViewsPlace::Postgres(_) => generations(config, &source)?,
    };
    Ok((source, generations))
}

/// The generations to be looked at.
fn generations(config: &Config, source: &Source) -> anyhow::Result<Box<dyn Generations>> {
    let (log_id, partitions) = (source.log_id(), source.partitions());
    Ok(match &config.views {
        ViewsPlace::Sqlite => Box::new(Files::look(&config.data, log_id, partitions)),
        ViewsPlace::Postgres(address) => Box::new(Schemas::of(address, log_id, partitions)?),
    })
}

/// Where the log ends now.
pub(super) fn ends(source: &Source) -> anyhow::Result<Ends> {
    let end = |partition| Ok((partition, source.end(partition)?));
    (0..source.partitions()).map(PartitionId).map(end).collect()
}

fn standings(files: &dyn Generations, ends: &Ends) -> anyhow::Result<Value> {
    let live = files.live()?;
    let mut list = Vec::new();
    for number in files.numbers()? {
        let standing = Standing::of(number, number == live, &files.positions(number)?, ends);
        list.push(json!(Generation::from(&standing)));
    }
    Ok(Value::Array(list))
}
