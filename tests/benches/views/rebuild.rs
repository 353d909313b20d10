//! A rebuild, against what no rebuild can do without: reading the log and decoding it.

use std::{
    hint::black_box,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::StreamExt;
use reenact_embedded::EmbeddedLog;
use reenact_events::{EventLog, NodeId, Offset};
use reenact_postgres_rig::Server;
use reenact_projections::{Files, Generations, PostgresAddress, Rebuilds, Schemas, Views, rebuild::Stage};

use crate::{
    Size, line,
    measured::{Figures, Watched, folder, measure, named, processor_seconds},
    median,
    talks::{P, Writer, open_log},
};

/// How often each is measured, by turns.
const ROUNDS: usize = 3;
/// How often it is asked whether a rebuild is done: each time opens the databases.
const POLL: Duration = Duration::from_millis(200);
/// The schema of the views on a server.
const SCHEMA: &str = "bench";

pub(crate) fn report(size: Size) {
    let (folder, server) = (folder(), Server::start().expect("a server"));
    let place = folder.path().to_str().expect("UTF-8");
    let (url, events) = (server.url("postgres"), measure("write", place, size)["events"]);
    let (mut alone, mut in_file, mut on_server) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        alone.push(measure("decode", place, size));
        in_file.push(measure("rebuild file", place, size));
        on_server.push(measure("rebuild server", &format!("{url} {place}"), size));
    }
    let of = |figures: &[Figures], name: &str| median(figures.iter().map(|figures| figures[name]).collect());
    let rate = |figures: &[Figures]| events / of(figures, "seconds");
    for (where_to, figures, target) in [("SQLite", &in_file, ">= 0.4"), ("PostgreSQL", &on_server, ">= 0.25")] {
        line(
            &format!("rebuild on {where_to} / reading and decoding the log alone"),
            rate(figures) / rate(&alone),
            target,
        );
        line("  the same in processor time of this process", of(&alone, "processor") / of(figures, "processor"), "-");
        line(&format!("  MB of memory beyond the base at most, {where_to}"), of(figures, "memory") / 1e6, "-");
    }
    println!(
        "  ({events:.0} events; {:.0} a second decoded, {:.0} rebuilt on SQLite, {:.0} on PostgreSQL)",
        rate(&alone),
        rate(&in_file),
        rate(&on_server)
    );
}

/// Writes the log.
pub(crate) async fn write(folder: &Path, size: Size) -> Figures {
    let log = open_log(folder);
    let mut writer = Writer::of(&log).await;
    let mut events = 0;
    while events < size.events {
        let batch = writer.make();
        events += batch.events.len() as u64;
        writer.commit(&log, &batch).await;
    }
    named([("events", events as f64)])
}

/// Reads all of it and decodes it, the fastest way that there is.
pub(crate) async fn decode(folder: &Path) -> Figures {
    let log = open_log(folder);
    let lease = log.claim(P, NodeId::trusted("bench")).await.expect("claims");
    let (began, processor) = (Instant::now(), processor_seconds());
    let mut replay = log.replay(&lease, Offset(0));
    while let Some(recorded) = replay.next().await {
        black_box(recorded.expect("reads").decode().expect("decodes"));
    }
    named([("seconds", began.elapsed().as_secs_f64()), ("processor", processor_seconds() - processor)])
}

/// Rebuilds into another file beside the live one.
pub(crate) async fn in_file(folder: &Path) -> Figures {
    let log = Arc::new(open_log(folder));
    let files = Arc::new(Files::open(folder, log.log_id(), 1).expect("opens"));
    let views = Views::open(&files.file(files.live().expect("is named")), log.log_id(), 1).expect("opens");
    rebuild(files, views, log).await
}

/// The same in a schema beside the live one.
pub(crate) async fn on_server(place: &str) -> Figures {
    let (url, folder) = place.split_once(' ').expect("a URL and a folder");
    let log = Arc::new(open_log(folder.as_ref()));
    let address = PostgresAddress::parse(url, SCHEMA).expect("is an address");
    let views = Views::connect(&address, log.log_id(), 1).await.expect("opens");
    let schemas = Arc::new(Schemas::of(&address, log.log_id(), 1).expect("opens"));
    rebuild(schemas, views, log).await
}

async fn rebuild(generations: Arc<dyn Generations>, views: Views, log: Arc<EmbeddedLog>) -> Figures {
    let rebuilds = Rebuilds::new(generations, views, log);
    let watched = Watched::begin();
    let (began, processor) = (Instant::now(), processor_seconds());
    let number = rebuilds.begin(None).await.expect("begins");
    while !is_whole(&rebuilds, number).await {
        tokio::time::sleep(POLL).await;
    }
    let figures = [
        ("seconds", began.elapsed().as_secs_f64()),
        ("processor", processor_seconds() - processor),
        ("memory", watched.end()),
    ];
    rebuilds.remove(number).await.expect("is dropped");
    named(figures)
}

/// Whether all is folded and indexed.
async fn is_whole(rebuilds: &Rebuilds, number: u32) -> bool {
    let standings = rebuilds.list().await.expect("lists");
    let filling =
        standings.into_iter().find(|standing| standing.number == number).and_then(|standing| standing.filling);
    match filling.expect("is filled here").stage {
        Stage::Filling | Stage::Indexing => false,
        Stage::Following => true,
        Stage::Failed(reason) => panic!("{reason}"),
    }
}
