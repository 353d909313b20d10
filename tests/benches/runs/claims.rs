//! Whether calling the next run costs more the more of them wait.

use std::time::Instant;

use reenact_actors::admission::{Admission, Bounds, Ticket};
use reenact_events::{PartitionId, RunId, SessionId, Timestamp, UserId};

use crate::{line, median};

const PARTITION: PartitionId = PartitionId(0);
/// The lines that are compared,
const SHORT: usize = 10;
const LONG: usize = 10_000;
/// so many claims at a time,
const CLAIMS: usize = 5_000;
/// in so many rounds, by turns.
const ROUNDS: usize = 15;

pub(crate) fn report() {
    for (whose, users) in [("10,000 users", LONG), ("one user", 1)] {
        let (short, long) = seconds(users);
        line(&format!("claim with 10,000 runs of {whose} waiting / with 10"), long / short, "<= 1.2");
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
