//! An event as a row, and the checksum over everything that the row holds.
//!
//! Rows of all partitions share one table whose key is partition and offset in one integer, so that a
//! partition is one range, an append needs no second index, and a scan needs no sort.

use reenact_events::{CommandId, LogError, Offset, PartitionId, Recorded, RunId, UserId};
use rusqlite::{Connection, ErrorCode, Row};

const OFFSET_BITS: u32 = 48;

/// A log may have this many partitions: what is left of a positive integer beside the offset.
pub(crate) const PARTITIONS_MAX: u32 = 1 << (63 - OFFSET_BITS);

const OFFSET_MAX: u64 = (1 << OFFSET_BITS) - 1;

/// The key of a row. Offsets beyond the partition's range stand at its end.
pub(crate) fn position(partition: PartitionId, offset: Offset) -> i64 {
    (u64::from(partition.0) << OFFSET_BITS | offset.0.min(OFFSET_MAX)).cast_signed()
}

/// The offset in a key.
pub(crate) fn offset(position: i64) -> Offset {
    Offset(position.cast_unsigned() & OFFSET_MAX)
}

/// The partition in a key.
pub(crate) fn partition(position: i64) -> PartitionId {
    PartitionId(u32::try_from(position.cast_unsigned() >> OFFSET_BITS).unwrap_or(u32::MAX))
}

/// The last key that a partition can have.
pub(crate) fn last_position(partition: PartitionId) -> i64 {
    position(partition, Offset(OFFSET_MAX))
}

const INSERT: &str = "INSERT INTO events \
    (position, term, batch, id, kind, stream, seq, at, cause, owner, subject, data, chain, crc) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";

macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT position, term, batch, id, kind, stream, seq, at, cause, owner, subject, data, chain, crc ",
            "FROM events WHERE ",
            $condition
        )
    };
}

/// Selects what [`Packed::of_row`] reads, from a key up to another without that, in order.
pub(crate) const IN_RANGE: &str = select!("position >= ?1 AND position < ?2 ORDER BY position");

/// Selects what [`Packed::of_row`] reads, between two keys, so many, the last first.
pub(crate) const LAST_OF_RANGE: &str = select!("position BETWEEN ?1 AND ?2 ORDER BY position DESC LIMIT ?3");

/// A row without its texts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packed {
    pub(crate) position: i64,
    pub(crate) term: i64,
    pub(crate) seq: i64,
    pub(crate) at: i64,
    pub(crate) batch: [u8; 16],
    pub(crate) id: [u8; 16],
    pub(crate) chain: [u8; 32],
    /// The length of each text in the order of [`Texts`]; [`ABSENT`] when there is none.
    pub(crate) lengths: [u32; 6],
}

/// Type, stream, cause, owner, subject, payload.
type Texts<'a> = [Option<&'a str>; 6];

/// No text has this length: SQLite's limit is 1 GB.
pub(crate) const ABSENT: u32 = u32::MAX;

/// Appends texts to a buffer and says their lengths.
fn pack(buffer: &mut String, texts: Texts<'_>) -> [u32; 6] {
    texts.map(|text| match text {
        Some(text) => {
            buffer.push_str(text);
            u32::try_from(text.len()).unwrap_or(ABSENT)
        }
        None => ABSENT,
    })
}

impl Packed {
    /// Packs an event; its texts go to the end of the buffer.
    fn of(recorded: &Recorded, buffer: &mut String) -> Self {
        let event = &recorded.event;
        let texts = [
            Some(&*event.kind),
            Some(event.key.as_str()),
            event.cause.as_ref().map(CommandId::as_str),
            event.owner.as_ref().map(UserId::as_str),
            event.subject.as_ref().map(RunId::as_str),
            Some(&*event.data),
        ];
        Self {
            position: position(recorded.partition, recorded.offset),
            term: recorded.term.0.cast_signed(),
            seq: event.seq.cast_signed(),
            at: event.at.0,
            batch: *recorded.batch.0.as_bytes(),
            id: *event.id.as_bytes(),
            chain: recorded.chain.0,
            lengths: pack(buffer, texts),
        }
    }

    /// Packs a row that was selected, and checks it; its texts go to the end of the buffer.
    ///
    /// # Errors
    /// [`LogError::Damaged`] when the row is not what was written.
    pub(crate) fn of_row(row: &Row<'_>, buffer: &mut String) -> Result<Self, LogError> {
        let position = row.get(0).unwrap_or_default();
        let damaged = |reason: String| LogError::Damaged {
            partition: partition(position),
            offset: offset(position),
            reason: reason.into(),
        };
        let start = buffer.len();
        let (packed, stored) = Self::unchecked(position, row, buffer)
            .map_err(|error| damaged(format!("a field cannot be read: {error}")))?;
        let computed = packed.checksum(&buffer[start..]);
        if computed != stored {
            return Err(damaged(format!("the checksum is {computed:08x}, the stored one {stored:08x}")));
        }
        Ok(packed)
    }

    fn unchecked(position: i64, row: &Row<'_>, buffer: &mut String) -> rusqlite::Result<(Self, u32)> {
        let text = |column| row.get_ref(column)?.as_str_or_null().map_err(rusqlite::Error::from);
        let texts = [
            Some(row.get_ref(4)?.as_str()?),
            Some(row.get_ref(5)?.as_str()?),
            text(8)?,
            text(9)?,
            text(10)?,
            Some(row.get_ref(11)?.as_str()?),
        ];
        let packed = Self {
            position,
            term: row.get(1)?,
            seq: row.get(6)?,
            at: row.get(7)?,
            batch: row.get(2)?,
            id: row.get(3)?,
            chain: row.get(12)?,
            lengths: pack(buffer, texts),
        };
        Ok((packed, row.get(13)?))
    }

    /// CRC-32 over every field, in two pieces: it is slow at small ones. The lengths keep neighbouring texts
    /// apart, and an absent one from an empty one.
    fn checksum(&self, texts: &str) -> u32 {
        let mut fixed = [0; 120];
        let (numbers, rest) = fixed.split_at_mut(32);
        for (place, number) in numbers.chunks_exact_mut(8).zip([self.position, self.term, self.seq, self.at]) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let (names, lengths) = rest.split_at_mut(64);
        names[..16].copy_from_slice(&self.batch);
        names[16..32].copy_from_slice(&self.id);
        names[32..].copy_from_slice(&self.chain);
        for (place, length) in lengths.chunks_exact_mut(4).zip(self.lengths) {
            place.copy_from_slice(&length.to_le_bytes());
        }
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&fixed);
        hasher.update(texts.as_bytes());
        hasher.finalize()
    }
}

/// Appends the row of an event.
pub(crate) fn insert(connection: &Connection, recorded: &Recorded) -> rusqlite::Result<()> {
    let event = &recorded.event;
    let mut texts = String::with_capacity(event.data.len() + 256);
    let packed = Packed::of(recorded, &mut texts);
    connection.prepare_cached(INSERT)?.execute((
        packed.position,
        packed.term,
        &packed.batch[..],
        &packed.id[..],
        &*event.kind,
        event.key.as_str(),
        packed.seq,
        packed.at,
        event.cause.as_ref().map(CommandId::as_str),
        event.owner.as_ref().map(UserId::as_str),
        event.subject.as_ref().map(RunId::as_str),
        &*event.data,
        &packed.chain[..],
        packed.checksum(&texts),
    ))?;
    Ok(())
}

/// What an error of SQLite means to a reader who was at `offset`.
pub(crate) fn read_error(partition: PartitionId, offset: Offset, error: &rusqlite::Error) -> LogError {
    let reason = error.to_string().into();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => LogError::Damaged { partition, offset, reason },
        _ => LogError::Unavailable { reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_keeps_partition_and_offset_apart() {
        for (number, place) in [(0, 0), (1, 0), (PARTITIONS_MAX - 1, OFFSET_MAX), (7, 12_345)] {
            let key = position(PartitionId(number), Offset(place));
            assert_eq!((partition(key), offset(key)), (PartitionId(number), Offset(place)));
            assert!(key >= 0 && key <= last_position(PartitionId(number)));
        }
        assert_eq!(position(PartitionId(1), Offset(u64::MAX)), last_position(PartitionId(1)));
    }
}
