//! How a rebuild goes, for people who wait for it.

use std::time::Duration;

use reenact_events::{Offset, PartitionId};
use tokio::time::Instant;

use super::{Behind, behind};
use crate::Position;

/// What a rebuild is at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// Folding what the log has.
    Filling,
    /// Making the indexes.
    Indexing,
    /// At the log's end, and staying there: it can be swapped to.
    Following,
    /// Stopped by this; it can be gone on with, or dropped.
    Failed(String),
}

/// How far a rebuild has come.
#[derive(Debug, Clone, PartialEq)]
pub struct Filling {
    /// What it is at.
    pub stage: Stage,
    /// Where each partition stands; empty until that is known.
    pub partitions: Vec<Behind>,
    /// Events folded since it began, or was gone on with.
    pub events: u64,
    began: Instant,
    began_behind: u64,
}

impl Filling {
    /// Nothing is known yet.
    #[must_use]
    pub fn begun() -> Self {
        let began = Instant::now();
        Self { stage: Stage::Filling, partitions: Vec::new(), events: 0, began, began_behind: 0 }
    }

    /// Where it begins.
    pub fn stands(&mut self, positions: &[Position], ends: &[(PartitionId, Offset)]) {
        self.partitions = behind(positions, ends);
        self.began_behind = self.lag();
    }

    /// Where the log ends by now.
    pub fn log_is_at(&mut self, ends: &[(PartitionId, Offset)]) {
        for (partition, end) in ends {
            if let Some(known) = self.of(*partition) {
                known.end = known.end.max(*end);
            }
        }
    }

    /// So many events were folded, and the partition stands there now.
    pub fn came(&mut self, position: Position, count: usize) {
        self.events += count as u64;
        if let Some(known) = self.of(position.partition) {
            known.position = position.next_offset;
            known.end = known.end.max(position.next_offset);
        }
    }

    fn of(&mut self, partition: PartitionId) -> Option<&mut Behind> {
        self.partitions.iter_mut().find(|known| known.partition == partition)
    }

    /// The indexes are there.
    pub(super) fn follows(&mut self, ends: &[(PartitionId, Offset)]) {
        self.stage = Stage::Following;
        self.log_is_at(ends);
    }

    /// Whether the log's end was reached for the first time.
    pub(super) fn is_filled(&self) -> bool {
        self.stage == Stage::Filling && !self.partitions.is_empty() && self.lag() == 0
    }

    /// Whether it can be swapped to.
    pub(super) fn is_current(&self) -> bool {
        self.stage == Stage::Following && self.lag() == 0
    }

    /// How many offsets are missing, over all partitions.
    #[must_use]
    pub fn lag(&self) -> u64 {
        self.partitions.iter().map(Behind::lag).sum()
    }

    /// Events folded in a second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub fn events_per_s(&self) -> f64 {
        let seconds = self.began.elapsed().as_secs_f64();
        if seconds > 0.0 { self.events as f64 / seconds } else { 0.0 }
    }

    /// How long it will take to come to the log's end at the pace so far; unknown before anything was folded.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "an estimate for people")]
    pub fn left(&self) -> Option<Duration> {
        let (left, done) = (self.lag() as f64, self.began_behind.saturating_sub(self.lag()) as f64);
        if left == 0.0 {
            return Some(Duration::ZERO);
        }
        Duration::try_from_secs_f64(self.began.elapsed().as_secs_f64() * left / done).ok()
    }
}

/// One line for a terminal.
impl std::fmt::Display for Filling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (events, rate, lag) = (self.events, self.events_per_s(), self.lag());
        match &self.stage {
            Stage::Filling => write!(f, "{events} events folded, {rate:.0} a second, {lag} offsets behind")?,
            Stage::Indexing => return write!(f, "{events} events folded, the indexes are being made"),
            Stage::Following => return write!(f, "{events} events folded, {lag} offsets behind"),
            Stage::Failed(reason) => return write!(f, "stopped: {reason}"),
        }
        match self.left() {
            Some(left) => write!(f, ", about {} s left", left.as_secs()),
            None => Ok(()),
        }
    }
}
