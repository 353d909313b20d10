//! `reenact audit export`: the log as anybody can read it, with what is needed to check it without this program.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::Args;
use reenact_events::{ChainHash, Clock, Offset, PartitionId, Recorded};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    as_of::{draft, keep, refuse_target, unwritable},
    cut::rfc3339,
};
use crate::{
    cli::{
        folding::{Told, progress_line, read_ahead},
        log_source::At,
        output,
    },
    clock::SystemClock,
};

/// The list of what was written.
const MANIFEST: &str = "manifest.json";

/// Write the events with their chain as JSON lines, for somebody else to verify.
///
/// The folder gets a file for each partition and `manifest.json`, which has their SHA-256, their first and last
/// offsets and where the chain ends.
#[derive(Debug, Args)]
pub(in crate::cli) struct Export {
    /// The folder that is made.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    at: At,
}

/// What is written of a partition.
struct Part {
    partition: PartitionId,
    name: String,
    out: BufWriter<File>,
    sha256: Sha256,
    events: u64,
    first: Option<Offset>,
    last: Option<(Offset, ChainHash)>,
}

impl Export {
    pub(super) fn execute(self, json: bool) -> anyhow::Result<()> {
        refuse_target(&self.to)?;
        let mut source = self.at.open()?;
        let draft = draft(&self.to)?;
        fs::create_dir(&draft).with_context(|| unwritable(&draft))?;
        let (mut ranges, mut parts) = (Vec::new(), Vec::new());
        for partition in (0..source.partitions()).map(PartitionId) {
            ranges.push((partition, source.bounds(partition)?.0, source.end(partition)?));
            parts.push(Part::begin(&draft, partition)?);
        }
        let (told, _telling) = progress_line();
        read_ahead(
            &mut source,
            &ranges,
            |events| events,
            |(partition, events)| {
                let part = parts.iter_mut().find(|part| part.partition == partition);
                let part = part.context("an event of a partition that the log does not have")?;
                part.write(&events?, &told)?;
                Ok(true)
            },
        )?;
        let parts = parts.into_iter().map(Part::end).collect::<anyhow::Result<Vec<_>>>()?;
        let made = rfc3339(SystemClock.now());
        let manifest =
            json!({ "format": "reenact export 1", "log_id": source.log_id(), "created_at": made, "partitions": parts });
        let file = draft.join(MANIFEST);
        fs::write(&file, format!("{manifest:#}\n")).with_context(|| unwritable(&file))?;
        keep(&draft, &self.to)?;
        if json {
            return output::json(&manifest);
        }
        let events: u64 =
            manifest["partitions"].as_array().into_iter().flatten().filter_map(|part| part["events"].as_u64()).sum();
        output::lines([format!("{events} events written to {}, with `{MANIFEST}`", self.to.display())])
    }
}

impl Part {
    fn begin(folder: &Path, partition: PartitionId) -> anyhow::Result<Self> {
        let name = format!("events-p{partition}.jsonl");
        let file = folder.join(&name);
        let out = BufWriter::new(File::create_new(&file).with_context(|| unwritable(&file))?);
        Ok(Self { partition, name, out, sha256: Sha256::new(), events: 0, first: None, last: None })
    }

    fn write(&mut self, events: &[Recorded], told: &Told) -> anyhow::Result<()> {
        for event in events {
            let line = format!("{}\n", line(event));
            self.sha256.update(line.as_bytes());
            self.out.write_all(line.as_bytes()).with_context(|| unwritable(Path::new(&self.name)))?;
            self.first.get_or_insert(event.offset);
            self.last = Some((event.offset, event.chain));
        }
        self.events += events.len() as u64;
        told.say(format!("{} events of partition {} are written", self.events, self.partition));
        Ok(())
    }

    fn end(mut self) -> anyhow::Result<Value> {
        let flushed = self.out.flush().and_then(|()| self.out.get_ref().sync_all());
        flushed.with_context(|| unwritable(Path::new(&self.name)))?;
        let sha256: String = self.sha256.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(json!({
            "partition": self.partition, "file": self.name, "sha256": sha256, "events": self.events,
            "first_offset": self.first, "last_offset": self.last.map(|(offset, _)| offset),
            "chain": self.last.map(|(_, chain)| chain.to_string()),
        }))
    }
}

/// Everything that the chain is computed over, as it is; `data` is the JSON text itself, not a tree of it.
fn line(recorded: &Recorded) -> Value {
    let event = &recorded.event;
    json!({
        "partition": recorded.partition,
        "offset": recorded.offset,
        "term": recorded.term,
        "batch": recorded.batch,
        "id": event.id,
        "type": &*event.kind,
        "stream": event.key,
        "seq": event.seq,
        "at_ms": event.at.0,
        "cause": event.cause,
        "owner": event.owner,
        "subject": event.subject,
        "data": recorded.stored.as_deref().unwrap_or(&event.data),
        "chain": recorded.chain.to_string(),
    })
}
