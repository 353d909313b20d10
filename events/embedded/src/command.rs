//! A waiting command as a row.

use reenact_events::{Arrival, Command, CommandRecord, LogError, Offset, PartitionId, wire};
use rusqlite::{Connection, Row};

use crate::{
    ledger::Stop,
    record::{offset, position},
};

/// Selects what [`read`] reads, from a key up to another without that, in order, so many.
pub(crate) const IN_RANGE: &str = "SELECT position, command, crc FROM commands \
    WHERE position >= ?1 AND position < ?2 ORDER BY position LIMIT ?3";

/// Puts a command at its place.
pub(crate) fn insert(
    connection: &Connection,
    partition: PartitionId,
    offset: Offset,
    command: &Command,
) -> Result<(), Stop> {
    let json = wire::encode(command);
    let place = position(partition, offset);
    let sql = "INSERT INTO commands (position, command, crc) VALUES (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute((place, &json, checksum(place, &json)))?;
    Ok(())
}

/// The command of a row, checked.
pub(crate) fn read(partition: PartitionId, row: &Row<'_>) -> Result<CommandRecord, LogError> {
    let place = row.get(0).unwrap_or_default();
    let damaged = |reason: String| LogError::Damaged {
        partition,
        offset: offset(place),
        reason: format!("a waiting command: {reason}").into(),
    };
    let field = |error: rusqlite::Error| damaged(error.to_string());
    let json = row.get_ref(1).map_err(field)?.as_str().map_err(|error| damaged(error.to_string()))?;
    if checksum(place, json) != row.get::<_, u32>(2).map_err(field)? {
        return Err(damaged("its checksum is wrong".to_owned()));
    }
    let own = wire::Attributes { is_handed_round: true, ..wire::Attributes::default() };
    let command = wire::decode(json.as_bytes(), own);
    let command = command.map_err(|error| damaged(error.to_string()))?;
    Ok(CommandRecord { offset: offset(place), arrival: Arrival::Command(Box::new(command)) })
}

fn checksum(place: i64, json: &str) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&place.to_le_bytes());
    hasher.update(json.as_bytes());
    hasher.finalize()
}
