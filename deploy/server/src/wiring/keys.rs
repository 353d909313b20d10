//! The keys of users' content, where the configuration has it sealed, and that a log keeps to what it was made with.

use std::{path::Path, path::PathBuf, sync::Arc};

use anyhow::{Context, bail};
use reenact_events::LogId;
use reenact_sealed::{KeyRing, MasterKey, SqliteKeys};

use super::log;
use crate::config::{Config, Content};

/// The table of keys in a data directory.
#[must_use]
pub fn file(data: &Path) -> PathBuf {
    data.join("keys.db")
}

/// Refuses another `content` than the one that the log was made with, before anything is opened.
///
/// # Errors
/// When it is another one, or the data directory cannot be read.
pub fn same_as_ever(config: &Config) -> anyhow::Result<()> {
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

/// The keys of this log; none where content is plain. Blocks.
///
/// # Errors
/// When they are another log's, or cannot be used.
pub fn open(config: &Config, log_id: LogId) -> anyhow::Result<Option<KeyRing>> {
    let Content::PerUserKey = &config.content else { return Ok(None) };
    let keys = SqliteKeys::open(&file(&config.data), log_id)?;
    Ok(Some(KeyRing::new(Arc::new(keys), master_key(config)?)))
}

/// The keys in a data directory, only to read with them; none where there are none. Blocks.
///
/// # Errors
/// When they cannot be used.
pub fn look(config: &Config) -> anyhow::Result<Option<KeyRing>> {
    let file = file(&config.data);
    if !file.exists() {
        return Ok(None);
    }
    Ok(Some(KeyRing::new(Arc::new(SqliteKeys::look(&file)?), master_key(config)?)))
}

fn master_key(config: &Config) -> anyhow::Result<Option<MasterKey>> {
    let Some(file) = &config.master_key_file else { return Ok(None) };
    let text = std::fs::read_to_string(file).with_context(|| format!("`{}` cannot be read", file.display()))?;
    let key = MasterKey::parse(&text).with_context(|| format!("`{}` holds no master key", file.display()))?;
    Ok(Some(key))
}
