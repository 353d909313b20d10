//! `reenact audit anchor`: signs where the chain is.

use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use clap::Args;
use futures::StreamExt;
use reenact_events::{Clock, PartitionId};
use reenact_snapshots::Shelf;
use serde_json::json;
use tokio::runtime::Handle;

use super::{as_of::unwritable, cut::rfc3339};
use crate::{
    anchors::{self, Anchor},
    cli::{
        log_source::{At, Source},
        output,
    },
    clock::SystemClock,
    config::SnapshotPlace,
    wiring::shelf,
};

/// The folder of anchors in an object store.
const FOLDER: &str = "anchors";

/// Sign what the log's chain is now, or make the key for it.
///
/// An anchor proves, as long as it is kept where whoever can write the log cannot, that nothing up to it was changed.
/// Making one every hour is usual.
#[derive(Debug, Args)]
pub(in crate::cli) struct Anchoring {
    /// Make a key instead: FILE gets the private half, FILE.pub the public one.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "to"])]
    new_key: Option<PathBuf>,
    /// The private key.
    #[arg(long, value_name = "FILE", required_unless_present = "new_key")]
    key: Option<PathBuf>,
    /// The file that the anchors are added to, or an object store: `file:///FOLDER`, `s3://BUCKET[/PREFIX]`, `gs://…`.
    #[arg(long, value_name = "PLACE", required_unless_present = "new_key")]
    to: Option<String>,
    #[command(flatten)]
    at: At,
}

impl Anchoring {
    pub(super) fn execute(self, json: bool) -> anyhow::Result<()> {
        if let Some(file) = &self.new_key {
            anchors::new_key(file)?;
            let public = anchors::public_file(file);
            let (file, public) = (file.display().to_string(), public.display().to_string());
            if json {
                return output::json(&json!({ "key": file, "public_key": public }));
            }
            return output::lines([
                format!(
                    "the private key is in {file}: whoever has it can sign anchors, so keep it where the log is not"
                ),
                format!("the public key is in {public}: give it to whoever verifies"),
            ]);
        }
        let (Some(key), Some(to)) = (&self.key, &self.to) else { bail!("`--key` and `--to` are needed") };
        let key = anchors::private_key(key)?;
        let signed = anchor_all(&self.at.open()?, &key)?;
        let place = put(to, &signed)?;
        if json {
            return output::json(&serde_json::to_value(&signed)?);
        }
        let line =
            |anchor: &Anchor| format!("partition {}, offset {}: {}", anchor.partition, anchor.offset, anchor.chain);
        output::lines(signed.iter().map(line).chain([format!("signed and added to {place}")]))
    }
}

/// An anchor for each partition that has an event.
fn anchor_all(source: &Source, key: &ed25519_dalek::SigningKey) -> anyhow::Result<Vec<Anchor>> {
    let now = SystemClock.now();
    let mut signed = Vec::new();
    for partition in (0..source.partitions()).map(PartitionId) {
        let Some(last) = source.last(partition)? else { continue };
        let events = source.read(partition, last)?;
        let event = events.first().filter(|event| event.offset == last);
        let event =
            event.with_context(|| format!("partition {partition}: the event at offset {last} cannot be read"))?;
        signed.push(Anchor::sign(source.log_id(), partition, (last, event.chain), now, key));
    }
    if signed.is_empty() {
        bail!("the log is empty: there is nothing to anchor");
    }
    Ok(signed)
}

fn put(to: &str, signed: &[Anchor]) -> anyhow::Result<String> {
    let mut text = String::new();
    for anchor in signed {
        text.push_str(&serde_json::to_string(anchor)?);
        text.push('\n');
    }
    match SnapshotPlace::parse(to) {
        None => append(Path::new(to), &text).with_context(|| unwritable(Path::new(to))).map(|()| to.to_owned()),
        Some(place) => {
            let name = format!("{FOLDER}/{}/{}.jsonl", signed[0].log_id, rfc3339(SystemClock.now()));
            let pieces = futures::stream::once(std::future::ready(Ok(text.into()))).boxed();
            let shelf = shelf::open(&place)?;
            Handle::current()
                .block_on(shelf.put(&name, pieces))
                .with_context(|| format!("`{to}` cannot be written"))?;
            Ok(format!("{to} as {name}"))
        }
    }
}

fn append(file: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// The anchors that were put into this file or object store.
pub(super) fn read(from: &str) -> anyhow::Result<Vec<Anchor>> {
    let Some(place) = SnapshotPlace::parse(from) else {
        let text = std::fs::read_to_string(from).with_context(|| format!("`{from}` cannot be read"))?;
        return anchors::parse(&text, from);
    };
    let shelf = shelf::open(&place)?;
    let texts = Handle::current().block_on(texts(&*shelf)).with_context(|| format!("`{from}` cannot be read"))?;
    let anchors = texts.iter().map(|(name, text)| anchors::parse(text, name));
    Ok(anchors.collect::<anyhow::Result<Vec<_>>>()?.into_iter().flatten().collect())
}

async fn texts(shelf: &dyn Shelf) -> anyhow::Result<Vec<(String, String)>> {
    let mut texts = Vec::new();
    for name in shelf.list(FOLDER).await? {
        // Whatever prefix the store has, `get` adds it again.
        let name = name.rfind(FOLDER).map_or(name.as_str(), |at| &name[at..]).to_owned();
        let (mut pieces, mut whole) = (shelf.get(&name), Vec::new());
        while let Some(piece) = pieces.next().await {
            whole.extend_from_slice(&piece?);
        }
        drop(pieces);
        texts.push((name, String::from_utf8(whole).context("it is no text")?));
    }
    texts.sort();
    Ok(texts)
}
