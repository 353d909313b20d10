//! `reenact audit verify`: the log by itself, what is stored beside it, and the rows against it.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use reenact_agents::DirBlobs;
use reenact_events::{BlobRef, Blobs, Offset, PartitionId, Recorded};
use reenact_projections::{
    Decoded, Files, GenerationError, Generations, Loader, Position, ViewError,
    audit::{Snapshot, Walk, compare},
};
use serde_json::json;
use tokio::runtime::Handle;

use super::{
    anchor,
    cut::{self, Cut},
    findings::Report,
};
use crate::{
    anchors::{self, Anchor},
    cli::{
        folding::{Told, progress_line, read_ahead},
        log_source::{At, Source},
        output,
        told::Told as Failed,
    },
    config::{Config, ViewsPlace},
};

/// Check the log, the stored texts and files, and that the rows are what the log gives.
///
/// Every event is read: the hash chain, the ownership terms, the sequences of each stream and what may happen to a
/// run. The rows are folded once more, in a temporary file, and compared with those that are read. A deployment may
/// be running meanwhile: its rows are compared as of the moment at which this began.
#[derive(Debug, Args)]
pub(in crate::cli) struct Verify {
    /// Anchors that must stand in the log: a file, or the object store that they were put into.
    #[arg(long, value_name = "PLACE", requires = "public_key")]
    anchors: Option<String>,
    /// The public key that they are signed with.
    #[arg(long, value_name = "FILE", requires = "anchors")]
    public_key: Option<PathBuf>,
    /// The folder of large texts and files, if it is not the configured one.
    #[arg(long, value_name = "DIR")]
    objects: Option<PathBuf>,
    /// Where the rows are folded for comparing: about as large as the live ones. The system's folder for temporary
    /// files, unless said.
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    at: At,
}

impl Verify {
    pub(super) fn execute(self, json: bool) -> anyhow::Result<()> {
        let config = self.at.config()?;
        let source = Source::open(&config)?;
        let report = self.verify(&config, source)?;
        if json {
            output::json(&report.to_json())?;
        } else {
            output::lines(report.lines())?;
        }
        if report.findings.is_empty() { Ok(()) } else { Err(Failed.into()) }
    }

    fn verify(&self, config: &Config, mut source: Source) -> anyhow::Result<Report> {
        let mut report = Report::default();
        let (told, _telling) = progress_line();
        let anchors = self.anchors(&source, &mut report)?;
        let scratch = match &self.scratch {
            Some(folder) => tempfile::tempdir_in(folder),
            None => tempfile::tempdir(),
        };
        let scratch = scratch.context("there is no room for a fold of the log: name another `--scratch`")?;
        let shadow = scratch.path().join("rows.db");
        // The live rows first: what comes to the log after them is none of theirs.
        let live = live_rows(config, &source, &mut report)?;
        let mut pass = Pass::begin(&source, anchors, live.as_ref(), &shadow)?;
        pass.over_the_log(&mut source, &mut report, &told)?;
        let Pass { walks, anchors, loader, .. } = pass;
        let is_whole = loader.is_some();
        drop(loader);
        tell_log(&source, &walks, &mut report);
        for anchor in anchors.into_values().flatten() {
            report.found("anchors", format!("{}: no event of the log was met there", place(&anchor)));
        }
        let objects = self.objects.as_ref().unwrap_or(&config.objects);
        check_blobs(&DirBlobs::look(objects), &walks, &mut report, &told)?;
        if let Some(live) = live.filter(|_| is_whole) {
            told.say("the rows are compared".to_owned());
            compare_rows(&live, &Snapshot::open(&shadow, source.partitions())?, &mut report, &told)?;
        }
        Ok(report)
    }

    /// The anchors of this log whose signatures are good.
    fn anchors(&self, source: &Source, report: &mut Report) -> anyhow::Result<Vec<Anchor>> {
        let (Some(from), Some(key)) = (&self.anchors, &self.public_key) else { return Ok(Vec::new()) };
        let (mut read, key) = (anchor::read(from)?, anchors::public_key(key)?);
        if read.is_empty() {
            bail!("there are no anchors in `{from}`");
        }
        report.looked_at("anchors", &format!("{} are looked at", read.len()), json!({ "checked": read.len() }));
        read.retain(|anchor| {
            let wrong = if !anchor.is_signed_by(&key) {
                "it is not signed with this key".to_owned()
            } else if anchor.log_id != source.log_id() {
                format!("it is of log {}, and this is log {}", anchor.log_id, source.log_id())
            } else {
                return true;
            };
            report.found("anchors", format!("{}: {wrong}", place(anchor)));
            false
        });
        Ok(read)
    }
}

fn place(anchor: &Anchor) -> String {
    format!("the anchor of partition {}, offset {}, made {}", anchor.partition, anchor.offset, anchor.time)
}

/// The rows that are read, if there are any and they can be.
fn live_rows(config: &Config, source: &Source, report: &mut Report) -> anyhow::Result<Option<Snapshot>> {
    let opened = match &config.views {
        ViewsPlace::Postgres(address) => Snapshot::connect(address, source.partitions()),
        ViewsPlace::Sqlite => {
            let files = Files::look(&config.data, source.log_id(), source.partitions());
            match files.live() {
                Ok(number) => Snapshot::open(&files.file(number), source.partitions()),
                // Rows are there, and nothing says which are read.
                Err(error @ GenerationError::BadPointer { .. }) if !files.numbers()?.is_empty() => {
                    report.found("views", error);
                    return Ok(None);
                }
                Err(GenerationError::BadPointer { reason, .. }) => {
                    report.looked_at("views", &format!("not compared: {reason}"), json!(null));
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
    };
    let snapshot = match opened {
        Ok(snapshot) => snapshot,
        Err(error @ (ViewError::Corrupt { .. } | ViewError::BadRow { .. } | ViewError::Foreign { .. })) => {
            report.found("views", format!("the rows cannot be read: {error}"));
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    for position in snapshot.positions() {
        let (partition, next, end) = (position.partition, position.next_offset, source.end(position.partition)?);
        if next > end {
            let what = format!("the rows of partition {partition} are at offset {next}, and the log ends at {end}");
            report.found("views", what);
            return Ok(None);
        }
    }
    Ok(Some(snapshot))
}

/// One reading of the whole log, for everything that is asked of it.
struct Pass {
    walks: BTreeMap<PartitionId, Walk>,
    /// Those that were not met yet.
    anchors: BTreeMap<(PartitionId, Offset), Vec<Anchor>>,
    /// Up to where rows are folded, by partition.
    until: Vec<Position>,
    /// Absent when there is nothing to compare with, or the log is broken.
    loader: Option<Loader>,
}

impl Pass {
    fn begin(
        source: &Source,
        anchors: Vec<Anchor>,
        live: Option<&Snapshot>,
        shadow: &std::path::Path,
    ) -> anyhow::Result<Self> {
        let log_id = source.log_id();
        let walks = (0..source.partitions()).map(PartitionId).map(|partition| (partition, Walk::of(log_id, partition)));
        let mut by_place: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for anchor in anchors {
            by_place.entry((anchor.partition, anchor.offset)).or_default().push(anchor);
        }
        let until = live.map(|live| live.positions().to_vec()).unwrap_or_default();
        let loader = live.map(|_| Loader::open(shadow, log_id, source.partitions())).transpose()?;
        Ok(Self { walks: walks.collect(), anchors: by_place, until, loader })
    }

    fn over_the_log(&mut self, source: &mut Source, report: &mut Report, told: &Told) -> anyhow::Result<()> {
        let mut ranges = Vec::new();
        for partition in self.walks.keys().copied().collect::<Vec<_>>() {
            let (low, end) = (source.bounds(partition)?.0, source.end(partition)?);
            if low > Offset(0) {
                report
                    .found("log", format!("partition {partition} begins at offset {low}: what was before it is gone"));
                self.give_up(partition);
            } else {
                ranges.push((partition, low, end));
            }
        }
        read_ahead(
            source,
            &ranges,
            |events| events,
            |(partition, events)| {
                let done = match events {
                    Ok(events) => self.take(partition, &events, report),
                    Err(error) => {
                        report.found("log", error);
                        self.give_up(partition);
                        Ok(())
                    }
                };
                let events: u64 = self.walks.values().map(Walk::events).sum();
                told.say(format!("{events} events of the log are checked"));
                done.map(|()| true)
            },
        )
    }

    /// Nothing more is learnt of a partition, and rows without it would differ.
    fn give_up(&mut self, partition: PartitionId) {
        self.walks.remove(&partition);
        self.loader = None;
    }

    fn take(&mut self, partition: PartitionId, events: &[Recorded], report: &mut Report) -> anyhow::Result<()> {
        for event in events {
            let Some(walk) = self.walks.get_mut(&partition) else { return Ok(()) };
            if let Err(error) = walk.see(event) {
                report.found("log", error);
                self.give_up(partition);
                return Ok(());
            }
            self.meet_anchors(event, report);
        }
        let until = self.until.iter().find(|until| until.partition == partition).map(|until| until.next_offset);
        if let (Some(loader), Some(until)) = (&mut self.loader, until) {
            let known = events.partition_point(|event| event.offset < until);
            if let Some(batch) = Decoded::read(&events[..known])? {
                loader.fold(&batch)?;
            }
        }
        Ok(())
    }

    fn meet_anchors(&mut self, event: &Recorded, report: &mut Report) {
        for anchor in self.anchors.remove(&(event.partition, event.offset)).unwrap_or_default() {
            if anchor.chain != event.chain.to_string() {
                let (place, chain) = (place(&anchor), event.chain);
                report
                    .found("anchors", format!("{place}, says {}, and the log's chain is {chain} there", anchor.chain));
            }
        }
    }
}

fn tell_log(source: &Source, walks: &BTreeMap<PartitionId, Walk>, report: &mut Report) {
    let events: u64 = walks.values().map(Walk::events).sum();
    let heads = walks.iter().map(|(partition, walk)| {
        let last = walk.last();
        json!({
            "partition": partition, "events": walk.events(),
            "last_offset": last.map(|(offset, _)| offset), "chain": last.map(|(_, chain)| chain.to_string()),
        })
    });
    let json = json!({ "log_id": source.log_id(), "events": events, "partitions": heads.collect::<Vec<_>>() });
    let words = format!("{events} events: chain, terms, sequences and runs are looked at");
    report.looked_at("log", &words, json);
}

fn check_blobs(
    blobs: &DirBlobs,
    walks: &BTreeMap<PartitionId, Walk>,
    report: &mut Report,
    told: &Told,
) -> anyhow::Result<()> {
    let referred: std::collections::BTreeSet<&BlobRef> = walks.values().flat_map(Walk::blobs).collect();
    for (place, blob) in referred.iter().enumerate() {
        told.say(format!("{place} of {} stored texts and files are checked", referred.len()));
        if let Err(error) = Handle::current().block_on(blobs.get(blob)) {
            report.found("blobs", error);
        }
    }
    let words = format!("{} stored texts and files are read and compared with their names", referred.len());
    report.looked_at("blobs", &words, json!({ "checked": referred.len() }));
    Ok(())
}

fn compare_rows(live: &Snapshot, shadow: &Snapshot, report: &mut Report, told: &Told) -> anyhow::Result<()> {
    let cut: Cut = live.positions().iter().map(|position| (position.partition, position.next_offset)).collect();
    if let Some(damage) = live.damage().unwrap_or_else(|error| Some(error.to_string())) {
        report.found("views", format!("the database is damaged: {damage}"));
    }
    let compared = compare(live, shadow, |table| told.say(format!("table {table} is compared")));
    let reports = match compared {
        Ok(reports) => reports,
        Err(error) => {
            report.found("views", format!("the rows cannot be compared: {error}"));
            return Ok(());
        }
    };
    let rows: u64 = reports.iter().map(|table| table.rows).sum();
    let tables: Vec<_> = reports.iter().map(|table| report.table(table)).collect();
    let words =
        format!("{rows} rows of {} tables are compared with a fold of the log as of {}", tables.len(), cut::told(&cut));
    report.looked_at("views", &words, json!({ "cut": cut::told(&cut), "tables": tables }));
    Ok(())
}
