//! The live views beside the fastest writer that the log allows.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use reenact_events::EventLog;
use reenact_projections::Views;

use crate::{
    Size, line,
    measured::{Figures, folder, measure, named},
    talks::{P, Writer, open_log},
};

/// The writer writes for so long.
const WRITES_FOR: Duration = Duration::from_secs(10);
/// The views may take so long for the rest.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) fn report(size: Size) {
    let folder = folder();
    let figures = measure("lag", folder.path().to_str().expect("UTF-8"), size);
    line("seconds until the live views have all, after the fastest writer", figures["seconds"], "<= 1");
    line("events folded by its end / events written", figures["folded"] / figures["written"], "~ 1");
    println!("  ({:.0} events written in a second)", figures["written"] / WRITES_FOR.as_secs_f64());
}

/// Writes and follows.
pub(crate) async fn lag(folder: &Path, _size: Size) -> Figures {
    let log = Arc::new(open_log(folder));
    let views = Views::open(&folder.join("views.db"), log.log_id(), 1).expect("opens");
    let (followed, tail) = (views.clone(), log.clone());
    let following = tokio::spawn(async move { followed.follow(tail, P, |_| {}).await });
    let mut writer = Writer::of(&log).await;
    let (began, mut last) = (Instant::now(), None);
    while began.elapsed() < WRITES_FOR {
        let batch = writer.make();
        last = Some(writer.commit(&log, &batch).await);
    }
    let (last, stopped) = (last.expect("something was written"), Instant::now());
    let folded = views.position(P);
    views.wait_for(P, last, PATIENCE).await.expect("the views come to the end");
    let seconds = stopped.elapsed().as_secs_f64();
    following.abort();
    named([("seconds", seconds), ("written", last.0 as f64), ("folded", folded.0 as f64)])
}
