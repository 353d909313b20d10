//! `reenact schema`: what a command on the topic may look like.

use anyhow::anyhow;
use clap::Args;
use reenact_events::wire;
use serde_json::{Map, Value};

use super::output;

/// Show the JSON Schema of a kind of command, or of all by their names.
#[derive(Debug, Args)]
pub(super) struct Schema {
    /// Which kind, for example `StartRun`.
    kind: Option<String>,
}

impl Schema {
    pub(super) fn write(&self) -> anyhow::Result<()> {
        let known = |kind: &str| {
            let kinds = wire::KINDS.join(", ");
            wire::schema(kind).ok_or_else(|| anyhow!("there is no command `{kind}`; there are {kinds}"))
        };
        let schema = match &self.kind {
            Some(kind) => known(kind)?,
            None => {
                let all = wire::KINDS.iter().map(|kind| Ok(((*kind).to_owned(), known(kind)?)));
                Value::Object(all.collect::<anyhow::Result<Map<_, _>>>()?)
            }
        };
        output::lines([format!("{schema:#}")])
    }
}
