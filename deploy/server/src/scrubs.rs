//! What every node does for an erasure: nothing of what was removed is left in its stores of states and its snapshots.
//!
//! It is asked for in rounds, which stand in the table of keys. A node looks there before it serves, and every so often
//! while it does. Which round its disk has seen stands on that disk, so a data directory that was away, or was restored
//! from a backup, is scrubbed when it comes back.

use std::{
    convert::Infallible,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, anyhow};
use reenact_events::{NodeId, keys::KeyTable};
use tokio::sync::Notify;

use crate::wiring::{Node, log};

/// The file in the data directory that keeps the latest round.
const DONE: &str = "scrubbed";
/// How often the table is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// Before a node has its first store there is nothing to scrub: what it begins with was scrubbed by those that are
/// there, or is when they do what is asked for later.
///
/// # Errors
/// When the table or the data directory cannot be used.
pub async fn begin(table: &dyn KeyTable, data: &Path) -> anyhow::Result<()> {
    let done = data.join(DONE);
    if done.exists() || data.join("state").exists() {
        return Ok(());
    }
    log::keep(&done, &table.scrubs().await?.asked.to_string())
}

/// What a node scrubs with.
pub struct Scrubber {
    table: Arc<dyn KeyTable>,
    node: Node,
    name: NodeId,
    done: PathBuf,
    asked: Arc<Notify>,
}

impl Scrubber {
    /// That of a node with this name and data directory; `asked` tells it to look at once.
    #[must_use]
    pub fn new(table: Arc<dyn KeyTable>, node: Node, name: NodeId, data: &Path, asked: Arc<Notify>) -> Self {
        Self { table, node, name, done: data.join(DONE), asked }
    }

    /// Does what was asked for since the last time, and tells the others.
    ///
    /// # Errors
    /// When the table cannot be used, or something here cannot be scrubbed now.
    pub async fn look(&self) -> anyhow::Result<()> {
        let scrubs = self.table.scrubs().await?;
        let mut done = self.done()?;
        if done < scrubs.asked {
            self.node.scrub().await.map_err(|why| anyhow!(why))?;
            done = scrubs.asked;
            log::keep(&self.done, &done.to_string())?;
            tracing::info!(round = done, "states and snapshots have nothing any more of users who are erased");
        }
        if scrubs.done.get(&self.name) != Some(&done) {
            self.table.scrubbed(&self.name, done).await?;
        }
        Ok(())
    }

    fn done(&self) -> anyhow::Result<u64> {
        let shown = self.done.display();
        match std::fs::read_to_string(&self.done) {
            Ok(text) => text.trim().parse().with_context(|| format!("`{shown}` holds no number: remove it")),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error).with_context(|| format!("`{shown}` cannot be read")),
        }
    }

    /// Looks for ever.
    pub async fn for_ever(self) -> Infallible {
        loop {
            if let Err(error) = self.look().await {
                tracing::warn!(error = format!("{error:#}"), "states are not scrubbed yet, it is tried again");
            }
            tokio::select! {
                () = self.asked.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }
}
