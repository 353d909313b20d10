//! Live rows beside rows that were folded again: which tables differ, and in which row and column first.

use super::{
    Snapshot, Table, TableDigest, Value,
    digest::{bucket, hash},
};
use crate::ViewError;

/// How two tables compare.
#[derive(Debug, Clone, PartialEq)]
pub struct TableReport {
    /// Its name.
    pub table: String,
    /// How many rows are read.
    pub rows: u64,
    /// How many the log gives.
    pub expected_rows: u64,
    /// The digest of what is read.
    pub digest: String,
    /// In how many of the 256 buckets they differ.
    pub differing_buckets: usize,
    /// The first row that differs.
    pub first: Option<Difference>,
}

/// A row that is not what the log gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// In which table.
    pub table: String,
    /// Which row: its key's columns and values.
    pub key: String,
    /// In which column; none when the whole row is there on one side only.
    pub column: Option<String>,
    /// What is read; none when there is no such row.
    pub found: Option<Value>,
    /// What the log gives; none when it gives no such row.
    pub expected: Option<Value>,
}

/// Compares what is read (`found`) with what the log gives (`expected`), table by table. `on_table` is told each
/// table's name before it is read.
///
/// # Errors
/// When either cannot be read.
pub fn compare(
    found: &Snapshot,
    expected: &Snapshot,
    mut on_table: impl FnMut(&str),
) -> Result<Vec<TableReport>, ViewError> {
    // The newly folded rows have the schema of this program; what is read must have the same tables.
    let mut reports = Vec::new();
    for table in expected.tables()? {
        on_table(&table.name);
        reports.push(compare_table(found, expected, &table)?);
    }
    Ok(reports)
}

fn compare_table(found: &Snapshot, expected: &Snapshot, table: &Table) -> Result<TableReport, ViewError> {
    let (ours, theirs) = (digest(found, table)?, digest(expected, table)?);
    let differing = ours.differing(&theirs);
    let first = match differing.first() {
        Some(bucket) => first_difference(found, expected, table, *bucket)?,
        None => None,
    };
    Ok(TableReport {
        table: table.name.clone(),
        rows: ours.rows(),
        expected_rows: theirs.rows(),
        digest: ours.hex(),
        differing_buckets: differing.len(),
        first,
    })
}

fn digest(snapshot: &Snapshot, table: &Table) -> Result<TableDigest, ViewError> {
    let mut digest = TableDigest::default();
    snapshot.rows::<ViewError>(table, false, |row| {
        digest.add(&table.key_of(row), row);
        Ok(())
    })?;
    Ok(digest)
}

/// A row's key, and the hash of the whole row.
type Hashed = (Vec<Value>, [u8; 32]);

/// The keys of a bucket with the hashes of their rows, in the order of the keys.
fn bucket_of(snapshot: &Snapshot, table: &Table, wanted: usize) -> Result<Vec<Hashed>, ViewError> {
    let mut rows = Vec::new();
    snapshot.rows::<ViewError>(table, false, |row| {
        let key = table.key_of(row);
        if bucket(&key) == wanted {
            rows.push((key, hash(row)));
        }
        Ok(())
    })?;
    rows.sort();
    Ok(rows)
}

/// The first row of a bucket that differs. Where a key stands several times, which it must not, that is told as a row
/// that the log does not give.
fn first_difference(
    found: &Snapshot,
    expected: &Snapshot,
    table: &Table,
    bucket: usize,
) -> Result<Option<Difference>, ViewError> {
    let (ours, theirs) = (bucket_of(found, table, bucket)?, bucket_of(expected, table, bucket)?);
    let place = ours.iter().zip(&theirs).position(|(ours, theirs)| ours != theirs);
    let place = place.unwrap_or(ours.len().min(theirs.len()));
    let key = match (ours.get(place), theirs.get(place)) {
        (Some((ours, _)), Some((theirs, _))) if theirs < ours => theirs,
        (Some((key, _)), _) | (None, Some((key, _))) => key,
        (None, None) => return Ok(None),
    };
    let (ours, theirs) = (found.row(table, key)?, expected.row(table, key)?);
    Ok(Some(difference(table, key, ours, theirs)))
}

fn difference(table: &Table, key: &[Value], found: Option<Vec<Value>>, expected: Option<Vec<Value>>) -> Difference {
    let whole =
        Difference { table: table.name.clone(), key: table.told(key), column: None, found: None, expected: None };
    let presence = |there: bool| there.then(|| Value::Text("the row".to_owned()));
    let (Some(ours), Some(theirs)) = (&found, &expected) else {
        return Difference { found: presence(found.is_some()), expected: presence(expected.is_some()), ..whole };
    };
    let sides = ours.iter().zip(theirs).zip(&table.columns);
    let differing = sides.into_iter().find(|((ours, theirs), _)| ours != theirs);
    let Some(((ours, theirs), column)) = differing else {
        return Difference { found: presence(true), ..whole };
    };
    Difference { column: Some(column.clone()), found: Some(ours.clone()), expected: Some(theirs.clone()), ..whole }
}
