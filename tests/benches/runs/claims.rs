//! Whether claiming the next run costs more the more of them wait: what a claim is to whoever waits, from the end of
//! a run until the next one's start is durable, and the part of it that the line itself has.

use std::{path::Path, sync::Arc, time::Instant};

use futures::{StreamExt, stream};

use reenact_actors::admission::{Admission, Bounds, Ticket};
use reenact_events::{PartitionId, RunId, SessionId, Timestamp, UserId};

use tempfile::TempDir;
use tokio::sync::Semaphore;

use crate::{
    Figures,
    client::{Client, session_name},
    deployment::Deployment,
    line, median, part,
    steps::{ASK, InstantSteps},
};

const PARTITION: PartitionId = PartitionId(0);
/// The lines that are compared,
const SHORT: usize = 10;
const LONG: usize = 10_000;
/// so many claims at a time,
const CLAIMS: usize = 5_000;
/// in so many rounds, by turns.
const ROUNDS: usize = 15;

/// Sessions stay in memory, in both lines.
const IDLE_MS: u64 = 3_600_000;
/// Runs are accepted so many at a time.
const AT_A_TIME: usize = 64;
/// Claims of a round through the whole node.
const WHOLE_CLAIMS: usize = 40;

pub(crate) fn report() {
    let figures = part::measure("claims", part::folder().path());
    let (short, long) = (figures["short"], figures["long"]);
    line("claim through node and log with 10,000 runs waiting / with 10", long / short, "<= 1.2");
    println!("  ({:.0} and {:.0} microseconds, the fsync of the start among them)", long * 1e6, short * 1e6);
    of_the_line();
}

/// Runs that wait for one slot of a real node, each of a user and a session of its own.
struct Waiting {
    deployment: Deployment,
    permits: Arc<Semaphore>,
    begun: usize,
    claimed: usize,
    _folder: TempDir,
}

/// Claims by turns from a short line and from a long one, in nodes of their own.
pub(crate) async fn whole(folder: &Path) -> Figures {
    let (mut short, mut long) = (Waiting::of(folder, SHORT).await, Waiting::of(folder, LONG).await);
    for _ in 0..ROUNDS {
        short.claim().await;
        long.claim().await;
    }
    let seconds = [("short", short.seconds().await), ("long", long.seconds().await)];
    seconds.map(|(name, seconds)| (name.to_owned(), seconds)).into()
}

impl Waiting {
    async fn of(folder: &Path, length: usize) -> Self {
        let permits = Arc::new(Semaphore::new(0));
        let steps = InstantSteps { permits: Some(permits.clone()) };
        let folder = TempDir::new_in(folder).expect("a folder");
        let bounds = Bounds { node: 1, ..Bounds::default() };
        let deployment = Deployment::bound(folder.path(), IDLE_MS, bounds, steps).await;
        let mut waiting = Self { deployment, permits, begun: 0, claimed: 0, _folder: folder };
        // One has the slot.
        waiting.stand(length + 1).await;
        assert_eq!(waiting.deployment.node.load(), (1, length), "these many are at work, and these many wait");
        waiting
    }

    /// So many more are accepted.
    async fn stand(&mut self, count: usize) {
        let client = &Client::of(&self.deployment);
        let begin = |number: usize| async move {
            let user = Some(UserId::trusted(&format!("u{number}")));
            client.begin_for(user, &session_name(number), 0, ASK).await
        };
        let numbers = self.begun..self.begun + count;
        stream::iter(numbers).map(begin).buffer_unordered(AT_A_TIME).map(drop).collect::<()>().await;
        self.begun += count;
        self.deployment.views_catch_up().await;
    }

    /// The run at work ends, the next one begins, and another one joins, so many times.
    async fn claim(&mut self) {
        for _ in 0..WHOLE_CLAIMS {
            self.permits.add_permits(1);
            self.claimed += 1;
            self.deployment.counts.claims(self.claimed).await;
            self.stand(1).await;
        }
    }

    async fn seconds(&self) -> f64 {
        median(self.deployment.counts.claims(self.claimed).await)
    }
}

fn of_the_line() {
    for (whose, users) in [("10,000 users", LONG), ("one user", 1)] {
        let (short, long) = seconds(users);
        line(&format!("the line's part, 10,000 runs of {whose} waiting / 10"), long / short, "<= 1.2");
        println!("  ({:.1} and {:.1} microseconds)", long * 1e6, short * 1e6);
    }
}

/// Seconds for each claim from a short line and from a long one.
fn seconds(users: usize) -> (f64, f64) {
    let (mut short, mut long) = (Line::of(SHORT, users), Line::of(LONG, users));
    let (mut of_short, mut of_long) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        of_short.push(short.claims());
        of_long.push(long.claims());
    }
    (median(of_short), median(of_long))
}

/// One slot, and a line for it that stays as long as it is.
struct Line {
    admission: Admission,
    users: usize,
    next: usize,
}

impl Line {
    fn of(length: usize, users: usize) -> Self {
        let admission = Admission::new(Bounds { node: 1, ..Bounds::default() });
        let mut line = Self { admission, users, next: 0 };
        (0..length).for_each(|_| line.stand());
        line
    }

    fn stand(&mut self) {
        let number = self.next;
        self.next += 1;
        let ticket = Ticket {
            session: SessionId::trusted("s"),
            user: Some(UserId::trusted(&format!("u{}", number % self.users))),
            provider: "p".into(),
            priority: 0,
            queued_at: Timestamp(i64::try_from(number).expect("small")),
        };
        self.admission.stand_in_line(PARTITION, &RunId::trusted(&format!("r{number}")), ticket);
    }

    /// Seconds for each claim: the next one is called, ends, and another one joins.
    fn claims(&mut self) -> f64 {
        let began = Instant::now();
        for _ in 0..CLAIMS {
            let (_, _, run) = self.admission.call().expect("somebody waits and the slot is free");
            self.admission.release(PARTITION, &run);
            self.stand();
        }
        began.elapsed().as_secs_f64() / CLAIMS as f64
    }
}
