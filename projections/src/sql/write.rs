//! Folding a batch: the position moves and the rows change in one transaction.

use reenact_events::{ChainHash, LogId, Offset, PartitionId, Recorded, Term};

use super::{
    database::{Database, Transaction},
    gathered::Gathered,
    value::values,
};
use crate::{Decoded, Position, ViewError, fold};

/// The name of these views among those that a database may hold.
pub(crate) const PROJECTION: &str = "runs";

/// Folds a batch, all of it or nothing, and says where the rows stand then.
pub(crate) fn fold_batch(
    database: Database<'_>,
    expected: Position,
    batch: &[Recorded],
) -> Result<Position, ViewError> {
    expected.after(batch.get(..1).unwrap_or_default())?;
    match Decoded::read(batch)? {
        Some(batch) => fold_decoded(database, expected, &batch),
        None => Ok(expected),
    }
}

/// The same with what is behind `expected` of a batch that is read already. The position is moved first: whoever does
/// not find it where it expects it has been overtaken and changes nothing.
pub(crate) fn fold_decoded<R: AsRef<[Recorded]>>(
    database: Database<'_>,
    expected: Position,
    batch: &Decoded<R>,
) -> Result<Position, ViewError> {
    let (recorded, events) = batch.from(expected.next_offset);
    let Some(first) = recorded.first() else { return Ok(expected) };
    expected.after(std::slice::from_ref(first))?;
    let next = batch.end();
    database.transaction(Transaction::Write, || {
        database.stay()?;
        move_position(database, expected, next)?;
        let mut rows = Gathered::read_ahead(database, events.iter().flatten())?;
        for (recorded, event) in recorded.iter().zip(events) {
            if let Some(event) = event {
                fold::apply(&mut rows, recorded, event)?;
            }
        }
        rows.write()?;
        Ok(next)
    })
}

fn move_position(database: Database<'_>, expected: Position, next: Position) -> Result<(), ViewError> {
    let moved = database.execute(
        "UPDATE projection_position SET next_offset = ?1, term = ?2, chain = ?3
         WHERE projection = ?4 AND partition = ?5 AND next_offset = ?6 AND chain = ?7",
        &values![
            next.next_offset.0,
            next.term.0,
            &next.chain.0,
            PROJECTION,
            expected.partition.0,
            expected.next_offset.0,
            &expected.chain.0,
        ],
    )?;
    if moved == 1 {
        return Ok(());
    }
    Err(ViewError::Overtaken { partition: expected.partition, expected: expected.next_offset })
}

/// Begins a partition.
pub(crate) fn insert_position(database: Database<'_>, log_id: LogId, start: Position) -> Result<(), ViewError> {
    database.execute(
        "INSERT INTO projection_position (projection, partition, next_offset, term, chain, log_id)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        &values![PROJECTION, start.partition.0, start.next_offset.0, start.term.0, &start.chain.0, log_id.to_string(),],
    )?;
    Ok(())
}

/// The partitions that the rows are of, each with its log.
pub(crate) fn followed(database: Database<'_>) -> Result<Vec<(u32, String)>, ViewError> {
    let sql = "SELECT partition, log_id FROM projection_position WHERE projection = ?1 ORDER BY partition";
    database.query(sql, &values![PROJECTION], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// How far a partition is folded.
pub(crate) fn position(database: Database<'_>, partition: PartitionId) -> Result<Position, ViewError> {
    let sql = "SELECT next_offset, term, chain FROM projection_position WHERE projection = ?1 AND partition = ?2";
    let found = database.first(sql, &values![PROJECTION, partition.0], |row| {
        Ok(Position {
            partition,
            next_offset: Offset(row.get(0)?),
            term: Term(row.get(1)?),
            chain: ChainHash(row.bytes(2)?),
        })
    })?;
    found.ok_or_else(|| ViewError::BadRow {
        row: format!("projection_position {partition}").into(),
        reason: "it is not there".into(),
    })
}

/// Puts a partition back to its beginning.
pub(crate) fn put_back(database: Database<'_>, partition: PartitionId) -> Result<(), ViewError> {
    let start = Position::start(partition);
    database.execute(
        "UPDATE projection_position SET next_offset = ?1, term = ?2, chain = ?3 WHERE projection = ?4 AND partition = ?5",
        &values![start.next_offset.0, start.term.0, &start.chain.0, PROJECTION, partition.0],
    )?;
    Ok(())
}
