//! What a snapshot says about itself, in its first line and in its name.

use std::fmt;

use reenact_events::{LogId, Offset, PartitionId, Term};
use serde::{Deserialize, Serialize};

use super::SnapshotError;
use crate::Position;

const MAGIC: &str = "reenact-snapshot";
/// Raised whenever the layout changes; a snapshot of another format is not read.
const FORMAT: u32 = 1;
/// How keys find their partitions. Snapshots of another rule hold other keys.
const PARTITIONER: &str = "murmur2";
const SUFFIX: &str = ".snap";

/// Of what the content is: any difference makes a snapshot worthless here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The log.
    pub log_id: LogId,
    /// The partition.
    pub partition: PartitionId,
    /// How many partitions the log has.
    pub partitions: u32,
    /// The shapes of the values ([`crate::codec::fingerprint`]).
    pub fingerprint: u64,
}

impl Origin {
    /// The folder of its snapshots.
    #[must_use]
    pub fn folder(&self) -> String {
        format!("{}/p{}", self.log_id, self.partition)
    }
}

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    magic: String,
    format: u32,
    /// The moment of the log that it stands for.
    pub position: Position,
    partitions: u32,
    partitioner: String,
    fingerprint: String,
    /// The version of the program that made it, for people.
    pub app_version: String,
}

impl Header {
    /// The header of what is made now.
    #[must_use]
    pub fn new(origin: &Origin, position: Position) -> Self {
        Self {
            magic: MAGIC.to_owned(),
            format: FORMAT,
            position,
            partitions: origin.partitions,
            partitioner: PARTITIONER.to_owned(),
            fingerprint: shown(origin.fingerprint),
            app_version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// The name that a snapshot with this header has in its folder.
    #[must_use]
    pub fn name(&self) -> SnapshotName {
        SnapshotName { term: self.position.term, next_offset: self.position.next_offset }
    }

    /// Refuses what was made of another log, partition, layout or set of shapes.
    ///
    /// # Errors
    /// With the first difference.
    pub fn check(&self, origin: &Origin) -> Result<(), SnapshotError> {
        let wanted =
            Self::new(origin, Position { log_id: origin.log_id, partition: origin.partition, ..self.position });
        let (is, should) = (&self.position, &wanted.position);
        differs("magic", &self.magic, &wanted.magic)?;
        differs("format", &self.format, &wanted.format)?;
        differs("log", &is.log_id, &should.log_id)?;
        differs("partition", &is.partition, &should.partition)?;
        differs("number of partitions", &self.partitions, &wanted.partitions)?;
        differs("partitioner", &self.partitioner, &wanted.partitioner)?;
        differs("fingerprint of shapes", &self.fingerprint, &wanted.fingerprint)
    }

    pub(super) fn line(&self) -> Result<Vec<u8>, SnapshotError> {
        let mut line = serde_json::to_vec(self)
            .map_err(|error| SnapshotError::unfit(format!("its header cannot be written: {error}")))?;
        line.push(b'\n');
        Ok(line)
    }

    pub(super) fn parse(line: &[u8]) -> Result<Self, SnapshotError> {
        serde_json::from_slice(line)
            .map_err(|error| SnapshotError::unfit(format!("its first line is no header: {error}")))
    }
}

fn shown(fingerprint: u64) -> String {
    format!("{fingerprint:016x}")
}

fn differs<T: PartialEq + fmt::Display>(what: &str, is: &T, should: &T) -> Result<(), SnapshotError> {
    if is == should {
        return Ok(());
    }
    Err(SnapshotError::unfit(format!("its {what} is `{is}`, not `{should}`")))
}

/// The name of a snapshot in its folder. A later owner's comes after an earlier one's, however far that got: a
/// zombie that still uploads never has the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotName {
    /// The ownership under which it was made.
    pub term: Term,
    /// The first offset that is not in it.
    pub next_offset: Offset,
}

impl SnapshotName {
    /// Reads the last part of an object's name; `None` for one that is not ours.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let file = name.rsplit('/').next()?;
        let (term, next_offset) = file.strip_suffix(SUFFIX)?.split_once('-')?;
        let parsed = Self { term: Term(term.parse().ok()?), next_offset: Offset(next_offset.parse().ok()?) };
        // Only what this program writes: else two names would mean the same.
        (parsed.to_string() == file).then_some(parsed)
    }
}

impl fmt::Display for SnapshotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As many digits as the largest number has, so that names order as numbers do.
        write!(f, "{:020}-{:020}{SUFFIX}", self.term.0, self.next_offset.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_order_by_term_and_then_by_offset() {
        let name = |term, next_offset| SnapshotName { term: Term(term), next_offset: Offset(next_offset) };
        let ordered = [name(2, 900), name(10, 5), name(10, 11), name(u64::MAX, 0)];
        assert!(ordered.is_sorted());
        assert!(ordered.map(|name| name.to_string()).is_sorted());
        for name in ordered {
            assert_eq!(SnapshotName::parse(&format!("a-b/p0/{name}")), Some(name));
        }
    }

    #[test]
    fn names_that_are_not_ours_are_left_alone() {
        for other in ["", "1-2.snap", "x.snap", "00000000000000000001-00000000000000000002.tmp"] {
            assert_eq!(SnapshotName::parse(other), None, "{other}");
        }
    }
}
