//! How long those who are refused should wait: as long as those who wait now need to get their turn, at the pace of
//! late.

use std::collections::VecDeque;

use reenact_events::Timestamp;

/// So many turns are looked back.
const TURNS: usize = 32;
/// Nobody is told to stay away for longer, since the pace may change.
const SECONDS_MAX: i64 = 600;

/// When runs that had waited got their turn. The first moment is the one that the others are counted from.
#[derive(Debug, Default)]
pub(super) struct Pace(VecDeque<Timestamp>);

impl Pace {
    /// The first one waits: what was before says nothing about its line.
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.0.clear();
        self.0.push_back(now);
    }

    /// One that waited has its turn.
    pub(super) fn turn(&mut self, now: Timestamp) {
        self.0.push_back(now);
        if self.0.len() > TURNS + 1 {
            self.0.pop_front();
        }
    }

    /// Seconds in which `waiting` get their turn, at least one. A line that stands still takes longer the longer it
    /// does.
    pub(super) fn seconds_for(&self, waiting: usize, now: Timestamp) -> u32 {
        let Some(first) = self.0.front() else { return 1 };
        let turns = i64::try_from(self.0.len() - 1).unwrap_or(i64::MAX).max(1);
        let waiting = i64::try_from(waiting).unwrap_or(i64::MAX);
        let needed_ms = now.ms_since(*first).max(0).saturating_mul(waiting) / turns;
        let seconds = needed_ms.saturating_add(999) / 1_000;
        u32::try_from(seconds.clamp(1, SECONDS_MAX)).unwrap_or(1)
    }
}
