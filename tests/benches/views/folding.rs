//! Batches as the live views fold them, and pages of many runs.

use std::time::{Duration, Instant};

use reenact_events::PartitionId;
use reenact_postgres_rig::Server;
use reenact_projections::{
    Position, PostgresAddress, Views,
    query::{Paging, RunFilter, Scope, SessionFilter},
};

use crate::{
    history::{History, LOG},
    talks::Talks,
};

const EVENTS: usize = 100_000;
const RUNS: u64 = 100_000;
const BATCH: usize = 500;
const PAGE: u64 = 20;
const READS: usize = 40;

/// Runs that were accepted, and nothing more.
fn many_runs() -> History {
    let mut history = History::new(1);
    for number in 0..RUNS {
        history.queue(&format!("session-{}", number / 200), &format!("run-{number}"), number % 200, None, "hello");
    }
    history
}

async fn fold(views: &Views, history: &History) -> Duration {
    let began = Instant::now();
    let mut position = Position::start(PartitionId(0));
    for batch in history.partition(0).chunks(BATCH) {
        position = views.apply(position, batch.to_vec()).await.expect("folds");
    }
    began.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

async fn runs(views: &Views, page: u64) -> Duration {
    let mut times = Vec::new();
    for _ in 0..READS {
        let began = Instant::now();
        let paging = Paging { page, limit: PAGE };
        let read = views.runs(&Scope::Anyone, &RunFilter::default(), paging).await.expect("reads");
        assert_eq!(read.items.len() as u64, PAGE);
        times.push(began.elapsed());
    }
    median(times)
}

async fn sessions(views: &Views) -> Duration {
    let mut times = Vec::new();
    for _ in 0..READS {
        let began = Instant::now();
        let paging = Paging { page: 1, limit: PAGE };
        views.sessions(&Scope::Anyone, &SessionFilter::default(), paging).await.expect("reads");
        times.push(began.elapsed());
    }
    median(times)
}

pub(crate) async fn report() {
    let (folder, server) = (tempfile::tempdir().expect("a folder"), Server::start().expect("a server"));
    let file = async |name: &str| Views::open(&folder.path().join(name), LOG, 1).expect("opens");
    let table = async |name: &str| {
        let address = PostgresAddress::parse(&server.url("postgres"), name).expect("is an address");
        Views::connect(&address, LOG, 1).await.expect("opens")
    };
    let history = Talks::new().history(EVENTS);
    let folded = (fold(&file("talks").await, &history).await, fold(&table("talks").await, &history).await);
    let rate = |time: Duration| EVENTS as f64 / time.as_secs_f64();
    let ratio = rate(folded.1) / rate(folded.0);
    println!(
        "folding in batches of {BATCH}: {:.0} events/s in SQLite, {:.0} on PostgreSQL ({ratio:.2})",
        rate(folded.0),
        rate(folded.1)
    );
    let history = many_runs();
    for (name, views) in [("SQLite", file("runs").await), ("PostgreSQL", table("runs").await)] {
        fold(&views, &history).await;
        if name == "PostgreSQL" {
            server.execute("postgres", "vacuum analyze").expect("analyses");
        }
        let (first, deep, last) = (runs(&views, 1).await, runs(&views, 500).await, runs(&views, RUNS / PAGE).await);
        let of_first = |time: Duration| time.as_secs_f64() / first.as_secs_f64();
        println!(
            "{name}, {RUNS} runs: page 1 {first:?}, page 500 {:.2} of that, the last page {:.2}; a page of sessions {:?}",
            of_first(deep),
            of_first(last),
            sessions(&views).await
        );
    }
}
