//! The keys of users' content, where the configuration has it sealed, and that a log keeps to what it was made with.
//!
//! A data directory is one node's, so its keys are in a file there. Nodes that share a log on Kafka share the keys, in the
//! database that they share.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, anyhow, bail};
use reenact_events::{LogId, keys::KeyTable};
use reenact_projections::{PostgresAddress, PostgresKeys};
use reenact_sealed::{KeyRing, MasterKey, SqliteKeys};

use super::{blocking, log};
use crate::{
    config::{Config, Content, Kafka, LogPlace, ViewsPlace},
    http::state::App,
};

/// The table of keys in a data directory.
#[must_use]
pub fn file(data: &Path) -> PathBuf {
    data.join("keys.db")
}

/// Refuses another `content` than the one that an embedded log was made with, before anything is opened.
///
/// # Errors
/// When it is another one, or the data directory cannot be read.
pub fn same_as_ever(config: &Config) -> anyhow::Result<()> {
    if config.log != LogPlace::Embedded {
        return Ok(());
    }
    let file = file(&config.data);
    let (has_keys, is_known) = (file.exists(), log::known(&config.data)?.is_some());
    match config.content {
        Content::Plain if has_keys => bail!(
            "the content of this log is sealed with its users' keys (`{}`), and `content` is `plain`: say `--content \
             per_user_key`. It is fixed when a log is made",
            file.display()
        ),
        Content::PerUserKey if is_known && !has_keys => bail!(
            "there are no keys in `{}`, and the log in `{}` is not new: either it was made with `--content plain`, and \
             keeps that, or the keys are lost: restore them from a backup",
            file.display(),
            log::folder(&config.data).display()
        ),
        _ => Ok(()),
    }
}

/// The keys of this log; none where content is plain. A log on Kafka says itself how content is stored in it, and that
/// it is told when it is new; nothing else is written when it says something else.
///
/// # Errors
/// When it does, or the keys are another log's, or cannot be used.
pub async fn open(config: &Config, app: &App, log_id: LogId) -> anyhow::Result<Option<KeyRing>> {
    let table = match &config.log {
        LogPlace::Embedded => in_file(config, log_id).await?,
        LogPlace::Kafka(kafka) => shared(config, kafka, app, log_id).await?,
    };
    ring(config, table)
}

async fn in_file(config: &Config, log_id: LogId) -> anyhow::Result<Option<Arc<dyn KeyTable>>> {
    let Content::PerUserKey = &config.content else { return Ok(None) };
    let file = file(&config.data);
    let keys = blocking(move || SqliteKeys::open(&file, log_id)).await??;
    Ok(Some(Arc::new(keys)))
}

async fn shared(config: &Config, kafka: &Kafka, app: &App, log_id: LogId) -> anyhow::Result<Option<Arc<dyn KeyTable>>> {
    let known = log::content(kafka, app, None).await?;
    let other = |known| log::other_content(kafka, config.content, known).map_or(Ok(()), Err);
    known.map_or(Ok(()), other)?;
    let table: Option<Arc<dyn KeyTable>> = match (config.content, known) {
        (Content::Plain, _) => None,
        (Content::PerUserKey, Some(_)) => Some(Arc::new(PostgresKeys::open(&address(config)?, log_id).await?)),
        (Content::PerUserKey, None) => Some(Arc::new(PostgresKeys::make(&address(config)?, log_id).await?)),
    };
    // Somebody else may have been first since.
    log::content(kafka, app, Some(config.content)).await?.map_or(Ok(()), other)?;
    Ok(table)
}

/// The keys of an embedded log, only to read with them; none where there are none. Blocks.
///
/// # Errors
/// When they cannot be used.
pub fn look(config: &Config) -> anyhow::Result<Option<KeyRing>> {
    let file = file(&config.data);
    if !file.exists() {
        return Ok(None);
    }
    ring(config, Some(Arc::new(SqliteKeys::look(&file)?)))
}

/// The keys of a log on Kafka, only to read with them; none where it says that content is plain. Blocks, on a thread
/// of `runtime` that may.
///
/// # Errors
/// When it cannot be asked, or they cannot be used.
#[cfg(feature = "kafka")]
pub fn look_at_shared(
    config: &Config,
    kafka: &Kafka,
    log_id: LogId,
    runtime: &tokio::runtime::Handle,
) -> anyhow::Result<Option<KeyRing>> {
    let Some(Content::PerUserKey) = log::look_at_content(kafka)? else { return Ok(None) };
    ring(config, Some(Arc::new(runtime.block_on(PostgresKeys::open(&address(config)?, log_id))?)))
}

fn address(config: &Config) -> anyhow::Result<PostgresAddress> {
    match &config.views {
        ViewsPlace::Postgres(address) => address.of_keys().map_err(|reason| anyhow!(reason)),
        ViewsPlace::Sqlite => bail!(
            "users' content of this log is sealed with keys that are in PostgreSQL: name the database with `--database \
             postgres://…`, as its nodes do"
        ),
    }
}

fn ring(config: &Config, table: Option<Arc<dyn KeyTable>>) -> anyhow::Result<Option<KeyRing>> {
    table.map(|table| Ok(KeyRing::new(table, master_key(config)?))).transpose()
}

fn master_key(config: &Config) -> anyhow::Result<Option<MasterKey>> {
    let Some(file) = &config.master_key_file else { return Ok(None) };
    let text = std::fs::read_to_string(file).with_context(|| format!("`{}` cannot be read", file.display()))?;
    let key = MasterKey::parse(&text).with_context(|| format!("`{}` holds no master key", file.display()))?;
    Ok(Some(key))
}
