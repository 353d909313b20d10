//! Lists whose rows are many and large, against the same lists with few rows.

use std::time::{Duration, Instant};

use reenact_projections::{
    Position, Views,
    query::{Paging, RunFilter, Scope, SessionFilter},
};

use crate::{
    Size,
    history::{History, LOG, session},
    line,
    measured::folder,
    median,
    talks::P,
};

const SESSIONS: u64 = 500;
/// Runs of a session, in the two that are compared.
const RUNS: [u64; 2] = [2, 200];
const ROUNDS: usize = 200;

/// A list that somebody asks for.
#[derive(Debug, Clone, Copy)]
enum List {
    Sessions,
    Runs,
    RunsOfSession,
}

pub(crate) async fn report(size: Size) {
    let folder = folder();
    let few = filled(&Views::open(&folder.path().join("few.db"), LOG, 1).expect("opens"), RUNS[0], size).await;
    let many = filled(&Views::open(&folder.path().join("many.db"), LOG, 1).expect("opens"), RUNS[1], size).await;
    for (list, name) in [(List::Sessions, "sessions"), (List::Runs, "runs"), (List::RunsOfSession, "a session's runs")]
    {
        let (mut of_few, mut of_many) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            of_few.push(page(&few, list).await.as_secs_f64());
            of_many.push(page(&many, list).await.as_secs_f64());
        }
        let (few, many) = (median(of_few), median(of_many));
        line(&format!("page of {name}, 500 sessions with 200 runs each / with 2"), many / few, "<= 1.2");
        println!("  ({:.0} and {:.0} microseconds, runs of {} KB)", many * 1e6, few * 1e6, size.kib);
    }
}

/// Whole runs, half of each the question and half the answer.
async fn filled(views: &Views, runs: u64, size: Size) -> Views {
    let (mut history, mut position) = (History::new(1), Position::start(P));
    let words = "some words ".repeat(size.kib * 1024 / 2 / 11);
    for number in 0..SESSIONS * runs {
        let (name, run) = (format!("session-{}", number % SESSIONS), format!("run-{number}"));
        history.queue(&name, &run, number / SESSIONS, None, &words);
        history.start(&name, &run);
        history.complete(&name, &run, &words);
        if number % 50 == 49 {
            // The last one stays: the next one is linked to it.
            let list = history.recorded.get_mut(&P).expect("known");
            let last = list.last().expect("has events").clone();
            let mut batch = std::mem::replace(list, vec![last]);
            batch.retain(|event| event.offset >= position.next_offset);
            position = views.apply(position, batch).await.expect("folds");
        }
    }
    views.clone()
}

async fn page(views: &Views, list: List) -> Duration {
    let began = Instant::now();
    match list {
        List::Sessions => {
            let paging = Paging { page: 1, limit: 20 };
            let read = views.sessions(&Scope::Anyone, &SessionFilter::default(), paging).await.expect("reads");
            assert_eq!(read.items.len(), 20);
        }
        List::Runs => assert_eq!(runs(views, RunFilter::default(), 20).await, 20),
        List::RunsOfSession => {
            let filter = RunFilter { session_id: Some(session("session-77")), ..RunFilter::default() };
            assert_eq!(runs(views, filter, RUNS[0]).await, 2);
        }
    }
    began.elapsed()
}

async fn runs(views: &Views, filter: RunFilter, limit: u64) -> usize {
    views.runs(&Scope::Anyone, &filter, Paging { page: 1, limit }).await.expect("reads").items.len()
}
