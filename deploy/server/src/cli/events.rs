//! `reenact events`: reads the log itself, beside a running server or without one.

use std::{io::Write, time::Duration};

use anyhow::Context;
use chrono::{DateTime, SecondsFormat};
use clap::{Args, Subcommand};
use reenact_events::{Offset, PartitionId, Recorded};
use serde_json::{Value, json};

use super::{
    log_source::{At, Source},
    output::{kind, short},
};

/// How often a log that is followed is asked for more.
const POLL: Duration = Duration::from_millis(200);
/// Offsets have gaps; rarely does an event take more than so many of them.
const OFFSETS_PER_EVENT: u64 = 8;

/// Read the log of a stopped or running deployment.
#[derive(Debug, Subcommand)]
pub(super) enum Events {
    /// List the events that are there.
    List(List),
    /// Show the last events, then those that come, until interrupted.
    Tail(Tail),
}

/// Which events, and where they are.
#[derive(Debug, Args)]
struct Which {
    #[command(flatten)]
    at: At,
    /// Of this session.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// About this run.
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// Of a type that holds this text, for example `run.step`.
    #[arg(long = "type", value_name = "TEXT")]
    kind: Option<String>,
    /// Of this partition; without it of all.
    #[arg(long, value_name = "NUMBER")]
    partition: Option<u32>,
}

/// List the events that are there.
#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    which: Which,
    /// From this offset on.
    #[arg(long, default_value_t = 0, value_name = "OFFSET")]
    from: u64,
    /// At most so many.
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
}

/// Show the last events, then those that come.
#[derive(Debug, Args)]
pub(super) struct Tail {
    #[command(flatten)]
    which: Which,
    /// How many of those that are there are shown first.
    #[arg(long, default_value_t = 10, value_name = "COUNT")]
    last: usize,
}

impl Events {
    pub(super) async fn execute(self, json: bool) -> anyhow::Result<()> {
        // The reader blocks, so it has a thread of its own.
        tokio::task::spawn_blocking(move || match self {
            Self::List(list) => list.execute(json),
            Self::Tail(tail) => tail.execute(json),
        })
        .await
        .context("reading the log was stopped")?
    }
}

impl Which {
    fn open(&self) -> anyhow::Result<(Source, Vec<PartitionId>)> {
        let source = self.at.open()?;
        let partitions = match self.partition {
            Some(partition) => vec![PartitionId(partition)],
            None => (0..source.partitions()).map(PartitionId).collect(),
        };
        Ok((source, partitions))
    }

    fn wants(&self, recorded: &Recorded) -> bool {
        let event = &recorded.event;
        let of_session = |wanted: &str| event.key.as_session().is_some_and(|session| session.as_str() == wanted);
        self.session.as_deref().is_none_or(of_session)
            && self
                .run
                .as_deref()
                .is_none_or(|run| event.subject.as_ref().is_some_and(|subject| subject.as_str() == run))
            && self.kind.as_deref().is_none_or(|kind| event.kind.contains(kind))
    }
}

impl List {
    fn execute(&self, json: bool) -> anyhow::Result<()> {
        let (reader, partitions) = self.which.open()?;
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        let mut left = self.limit.unwrap_or(usize::MAX);
        for partition in partitions {
            let mut from = Offset(self.from);
            while left > 0 {
                let events = reader.read(partition, from)?;
                let Some(last) = events.last() else { break };
                from = last.offset.next();
                for event in events.iter().filter(|event| self.which.wants(event)).take(left) {
                    writeln!(out, "{}", line(event, json))?;
                    left -= 1;
                }
            }
        }
        Ok(out.flush()?)
    }
}

impl Tail {
    fn execute(&self, json: bool) -> anyhow::Result<()> {
        let (reader, partitions) = self.which.open()?;
        let begin = |partition| Ok::<_, anyhow::Error>((partition, self.begin(reader.bounds(partition)?.1)));
        let mut places = partitions.into_iter().map(begin).collect::<Result<Vec<_>, _>>()?;
        let mut recent = std::collections::VecDeque::new();
        for (partition, from) in &mut places {
            self.read_on(&reader, *partition, from, |event| {
                recent.push_back(line(event, json));
                if recent.len() > self.last {
                    recent.pop_front();
                }
                Ok(())
            })?;
        }
        let mut out = std::io::stdout().lock();
        for line in recent {
            writeln!(out, "{line}")?;
        }
        loop {
            for (partition, from) in &mut places {
                self.read_on(&reader, *partition, from, |event| Ok(writeln!(out, "{}", line(event, json))?))?;
            }
            out.flush()?;
            std::thread::sleep(POLL);
        }
    }

    /// Where to look for the last events: anywhere when only some are wanted, else near the end.
    fn begin(&self, end: Offset) -> Offset {
        let Which { session, run, kind, .. } = &self.which;
        if session.is_some() || run.is_some() || kind.is_some() {
            return Offset(0);
        }
        Offset(end.0.saturating_sub(self.last as u64 * OFFSETS_PER_EVENT))
    }

    fn read_on(
        &self,
        reader: &Source,
        partition: PartitionId,
        from: &mut Offset,
        mut take: impl FnMut(&Recorded) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        loop {
            let events = reader.read(partition, *from)?;
            let Some(last) = events.last() else { return Ok(()) };
            *from = last.offset.next();
            events.iter().filter(|event| self.which.wants(event)).try_for_each(&mut take)?;
        }
    }
}

fn line(recorded: &Recorded, json: bool) -> String {
    let event = &recorded.event;
    let at = DateTime::from_timestamp_millis(event.at.0).unwrap_or_default();
    let at = at.to_rfc3339_opts(SecondsFormat::Millis, true);
    if json {
        return json!({
            "partition": recorded.partition,
            "offset": recorded.offset,
            "term": recorded.term,
            "batch": recorded.batch,
            "id": event.id,
            "type": &*event.kind,
            "stream": event.key,
            "seq": event.seq,
            "time": at,
            "run": event.subject,
            "owner": event.owner,
            "cause": event.cause,
            "data": serde_json::from_str::<Value>(&event.data).unwrap_or_else(|_| json!(&*event.data)),
        })
        .to_string();
    }
    let kind = kind(&event.kind);
    format!(
        "{:>3}/{:<8} {at} {kind:<28} {} #{} {}",
        recorded.partition,
        recorded.offset,
        event.key,
        event.seq,
        short(&event.data, 120)
    )
}
