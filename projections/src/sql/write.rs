//! Folding a batch: the position moves and the rows change in one transaction.

use reenact_events::{ChainHash, LogId, Offset, PartitionId, Recorded, Term};
use rusqlite::{TransactionBehavior, params, types::Type};

use super::{
    database::Database,
    gathered::Gathered,
    values::{integer, unsigned},
};
use crate::{Position, ViewError, fold};

/// The name of these views among those that a database may hold.
pub(crate) const PROJECTION: &str = "runs";

/// Folds a batch, all of it or nothing. The position is moved first: whoever does not find it where it
/// expects it has been overtaken and changes nothing.
pub(crate) fn fold_batch(
    database: Database<'_>,
    expected: Position,
    batch: &[Recorded],
) -> Result<Position, ViewError> {
    let next = expected.after(batch)?;
    database.transaction(TransactionBehavior::Immediate, || {
        move_position(database, expected, next)?;
        let mut rows = Gathered::new(database);
        for recorded in batch {
            if let Some(event) = fold::decode(recorded)? {
                fold::apply(&mut rows, recorded, &event)?;
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
        params![
            integer(next.next_offset.0),
            integer(next.term.0),
            next.chain.0,
            PROJECTION,
            expected.partition.0,
            integer(expected.next_offset.0),
            expected.chain.0,
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
        params![
            PROJECTION,
            start.partition.0,
            integer(start.next_offset.0),
            integer(start.term.0),
            start.chain.0,
            log_id.to_string(),
        ],
    )?;
    Ok(())
}

/// How far a partition is folded.
pub(crate) fn position(database: Database<'_>, partition: PartitionId) -> Result<Position, ViewError> {
    let sql = "SELECT next_offset, term, chain FROM projection_position WHERE projection = ?1 AND partition = ?2";
    let found = database.first(sql, params![PROJECTION, partition.0], |row| {
        let chain = <[u8; 32]>::try_from(row.get_ref(2)?.as_blob()?)
            .map_err(|error| rusqlite::Error::FromSqlConversionFailure(2, Type::Blob, Box::new(error)))?;
        Ok(Position {
            partition,
            next_offset: Offset(unsigned(row, 0)?),
            term: Term(unsigned(row, 1)?),
            chain: ChainHash(chain),
        })
    })?;
    found.ok_or_else(|| ViewError::BadRow {
        row: format!("projection_position {partition}").into(),
        reason: "it is not there".into(),
    })
}
