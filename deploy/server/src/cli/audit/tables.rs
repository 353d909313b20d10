//! Rows as files, one for each table.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
};

use anyhow::Context;
use reenact_projections::{
    ViewError,
    audit::{Snapshot, Table, Value as Column},
};
use serde_json::{Map, Value, json};

use super::{
    as_of::unwritable,
    parquet::{Parquet, ParquetError},
};

/// How a table's file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableFormat {
    Jsonl,
    Csv,
    Parquet,
}

/// What keeps a table from being written.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error(transparent)]
    Rows(#[from] ViewError),
    #[error(transparent)]
    File(#[from] std::io::Error),
    #[error(transparent)]
    Csv(#[from] csv::Error),
    #[error(transparent)]
    Parquet(#[from] ParquetError),
}

/// How a table is written in one format.
type Writer = fn(&Snapshot, &Table, File) -> Result<(), WriteError>;

/// Writes every table into the folder.
pub(super) fn write_tables(rows: &Snapshot, folder: &Path, format: TableFormat) -> anyhow::Result<()> {
    for table in rows.tables()? {
        let (ending, write): (_, Writer) = match format {
            TableFormat::Jsonl => ("jsonl", write_jsonl),
            TableFormat::Csv => ("csv", write_csv),
            TableFormat::Parquet => ("parquet", write_parquet),
        };
        let file = folder.join(format!("{}.{ending}", table.name));
        let opened = File::create_new(&file).with_context(|| unwritable(&file))?;
        write(rows, &table, opened).with_context(|| unwritable(&file))?;
    }
    Ok(())
}

/// A row is an object; JSON in a column stays the text that it is there, and bytes are hexadecimal digits.
fn write_jsonl(rows: &Snapshot, table: &Table, file: File) -> Result<(), WriteError> {
    let mut out = BufWriter::new(file);
    rows.rows::<WriteError>(table, true, |row| {
        let object: Map<_, _> = table.columns.iter().cloned().zip(row.iter().map(to_json)).collect();
        Ok(writeln!(out, "{}", Value::Object(object))?)
    })?;
    Ok(out.flush()?)
}

fn to_json(column: &Column) -> Value {
    match column {
        Column::Null => Value::Null,
        Column::Integer(integer) => json!(integer),
        Column::Text(text) => json!(text),
        Column::Blob(_) => json!(column.to_string()),
    }
}

/// A header, then the rows; NULL is empty, as CSV has no word for it.
fn write_csv(rows: &Snapshot, table: &Table, file: File) -> Result<(), WriteError> {
    let mut out = csv::Writer::from_writer(file);
    out.write_record(&table.columns)?;
    rows.rows::<WriteError>(table, true, |row| {
        let text = |column: &Column| if *column == Column::Null { String::new() } else { column.to_string() };
        Ok(out.write_record(row.iter().map(text))?)
    })?;
    Ok(out.flush()?)
}

/// The types of the columns, and NULL, are those of the table.
fn write_parquet(rows: &Snapshot, table: &Table, file: File) -> Result<(), WriteError> {
    let columns = table.columns.iter().map(String::as_str).zip(table.kinds.iter().copied());
    let mut out = Parquet::begin(file, &table.name, columns)?;
    rows.rows::<WriteError>(table, true, |row| Ok(out.push(row)?))?;
    Ok(out.end()?)
}
