//! An event as a row, and the checksum over everything that the row holds.
//!
//! Rows of all partitions share one table whose key is partition and offset in one integer, so that a
//! partition is one range, an append needs no second index, and a scan needs no sort.

use std::sync::Arc;

use reenact_events::{
    BatchId, ChainHash, CommandId, LogError, NewEvent, Offset, PartitionId, Recorded, RunId, StreamKey, Term,
    Timestamp, UserId,
};
use rusqlite::{Connection, ErrorCode, Row};
use uuid::Uuid;

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

fn partition(position: i64) -> PartitionId {
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

/// Selects what [`Rows::read`] reads, from a key up to another without that, in order.
pub(crate) const IN_RANGE: &str = select!("position >= ?1 AND position < ?2 ORDER BY position");

/// Selects what [`Rows::read`] reads, between two keys, so many, the last first.
pub(crate) const LAST_OF_RANGE: &str = select!("position BETWEEN ?1 AND ?2 ORDER BY position DESC LIMIT ?3");

/// Appends the row of an event.
pub(crate) fn insert(connection: &Connection, recorded: &Recorded) -> rusqlite::Result<()> {
    let event = &recorded.event;
    connection.prepare_cached(INSERT)?.execute((
        position(recorded.partition, recorded.offset),
        recorded.term.0.cast_signed(),
        &recorded.batch.0.as_bytes()[..],
        &event.id.as_bytes()[..],
        &*event.kind,
        event.key.as_str(),
        event.seq.cast_signed(),
        event.at.0,
        event.cause.as_ref().map(CommandId::as_str),
        event.owner.as_ref().map(UserId::as_str),
        event.subject.as_ref().map(RunId::as_str),
        &*event.data,
        &recorded.chain.0[..],
        checksum(recorded),
    ))?;
    Ok(())
}

/// CRC-32 over every field. Texts are length-prefixed and an absent one differs from an empty one.
fn checksum(recorded: &Recorded) -> u32 {
    let event = &recorded.event;
    let numbers = [
        position(recorded.partition, recorded.offset),
        recorded.term.0.cast_signed(),
        event.seq.cast_signed(),
        event.at.0,
    ];
    // One piece, because the checksum is slow at small ones.
    let mut fixed = [0; 96];
    let (head, rest) = fixed.split_at_mut(32);
    for (place, number) in head.chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    rest[..16].copy_from_slice(recorded.batch.0.as_bytes());
    rest[16..32].copy_from_slice(event.id.as_bytes());
    rest[32..].copy_from_slice(&recorded.chain.0);
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&fixed);
    let mut text = |text: Option<&str>| match text {
        Some(text) => {
            hasher.update(&(text.len() as u64 + 1).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        None => hasher.update(&0_u64.to_le_bytes()),
    };
    text(Some(&event.kind));
    text(Some(event.key.as_str()));
    text(event.cause.as_ref().map(CommandId::as_str));
    text(event.owner.as_ref().map(UserId::as_str));
    text(event.subject.as_ref().map(RunId::as_str));
    text(Some(&event.data));
    hasher.finalize()
}

/// Reads rows in order. Neighbours mostly share stream, owner and subject: those are kept and handed on, which
/// spares an allocation for each.
#[derive(Default)]
pub(crate) struct Rows {
    kinds: Vec<Arc<str>>,
    stream: Option<StreamKey>,
    owner: Option<UserId>,
    subject: Option<RunId>,
}

impl Rows {
    /// The event of a row, checked.
    ///
    /// # Errors
    /// [`LogError::Damaged`] when the row is not what was written.
    pub(crate) fn read(&mut self, row: &Row<'_>) -> Result<Recorded, LogError> {
        let position = row.get(0).unwrap_or_default();
        let damaged = |reason: String| LogError::Damaged {
            partition: partition(position),
            offset: offset(position),
            reason: reason.into(),
        };
        let (recorded, stored) =
            self.fields(position, row).map_err(|error| damaged(format!("a field cannot be read: {error}")))?;
        let computed = checksum(&recorded);
        if computed != stored {
            return Err(damaged(format!("the checksum is {computed:08x}, the stored one {stored:08x}")));
        }
        Ok(recorded)
    }

    fn fields(&mut self, position: i64, row: &Row<'_>) -> rusqlite::Result<(Recorded, u32)> {
        let text = |column| -> rusqlite::Result<Option<&str>> { Ok(row.get_ref(column)?.as_str_or_null()?) };
        let event = NewEvent {
            id: uuid(row, 3)?,
            kind: self.kind(row.get_ref(4)?.as_str()?),
            key: keep(&mut self.stream, row.get_ref(5)?.as_str()?, StreamKey::as_str, StreamKey::trusted),
            seq: row.get::<_, i64>(6)?.cast_unsigned(),
            at: Timestamp(row.get(7)?),
            cause: text(8)?.map(CommandId::trusted),
            owner: text(9)?.map(|text| keep(&mut self.owner, text, UserId::as_str, UserId::trusted)),
            subject: text(10)?.map(|text| keep(&mut self.subject, text, RunId::as_str, RunId::trusted)),
            data: row.get_ref(11)?.as_str()?.into(),
        };
        let recorded = Recorded {
            partition: partition(position),
            offset: offset(position),
            term: Term(row.get::<_, i64>(1)?.cast_unsigned()),
            batch: BatchId(uuid(row, 2)?),
            chain: ChainHash(row.get(12)?),
            event,
        };
        Ok((recorded, row.get(13)?))
    }

    fn kind(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.kinds.iter().find(|known| &***known == text) {
            return known.clone();
        }
        let kind: Arc<str> = text.into();
        self.kinds.push(kind.clone());
        kind
    }
}

fn uuid(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    row.get(column).map(Uuid::from_bytes)
}

/// The last value again when the text is the same.
fn keep<T: Clone>(last: &mut Option<T>, text: &str, as_str: fn(&T) -> &str, parse: fn(&str) -> T) -> T {
    match last {
        Some(known) if as_str(known) == text => known.clone(),
        _ => last.insert(parse(text)).clone(),
    }
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
