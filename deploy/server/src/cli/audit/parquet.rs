//! Rows as Parquet, which most programs for data read by themselves: with the types of the columns, and NULL apart from
//! what is empty.

use std::{io::Write, sync::Arc};

use parquet::{
    basic::{Compression, LogicalType, Repetition, Type as Physical},
    data_type::{ByteArray, ByteArrayType, Int64Type},
    file::{
        properties::WriterProperties,
        writer::{SerializedFileWriter, SerializedRowGroupWriter},
    },
    schema::types::Type,
};
use reenact_projections::audit::{Kind, Value};

/// The rows that are kept in memory until they are written together: so many bytes,
const GROUP_BYTES: usize = 16 << 20;
/// and so many rows.
const GROUP_ROWS: usize = 100_000;

/// Why rows cannot be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum ParquetError {
    #[error(transparent)]
    Library(#[from] parquet::errors::ParquetError),
    #[error("column `{column}` holds `{value}`, and only {kind:?} can stand there")]
    Kind { column: String, value: String, kind: Kind },
}

/// A file on its way.
pub(super) struct Parquet<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
}

/// What a column has in the rows that are not written yet.
struct Column {
    name: String,
    kind: Kind,
    values: Values,
    /// 1 for a value, 0 for NULL.
    levels: Vec<i16>,
}

/// Without NULLs.
enum Values {
    Integers(Vec<i64>),
    Bytes(Vec<ByteArray>),
}

impl<W: Write + Send> Parquet<W> {
    /// Begins a file of rows with these columns.
    pub(super) fn begin<'c>(
        out: W,
        name: &str,
        columns: impl Iterator<Item = (&'c str, Kind)>,
    ) -> Result<Self, ParquetError> {
        let columns: Vec<_> = columns.map(|(name, kind)| Column::of(name, kind)).collect();
        let fields = columns.iter().map(Column::field).collect::<Result<Vec<_>, _>>()?;
        let schema = Type::group_type_builder(name).with_fields(fields).build()?;
        let properties = WriterProperties::builder().set_compression(Compression::ZSTD(Default::default())).build();
        let writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
        Ok(Self { writer, columns, rows: 0, bytes: 0 })
    }

    /// Adds a row.
    pub(super) fn push(&mut self, row: &[Value]) -> Result<(), ParquetError> {
        for (column, value) in self.columns.iter_mut().zip(row) {
            self.bytes += column.push(value)?;
        }
        self.rows += 1;
        if self.rows >= GROUP_ROWS || self.bytes >= GROUP_BYTES {
            self.write_group()?;
        }
        Ok(())
    }

    /// Writes what is left and the file's end.
    pub(super) fn end(mut self) -> Result<(), ParquetError> {
        if self.rows > 0 {
            self.write_group()?;
        }
        self.writer.close()?;
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        self.columns.iter_mut().try_for_each(|column| column.write(&mut group))?;
        group.close()?;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }
}

impl Column {
    fn of(name: &str, kind: Kind) -> Self {
        let values = match kind {
            Kind::Integer => Values::Integers(Vec::new()),
            Kind::Text | Kind::Json | Kind::Blob => Values::Bytes(Vec::new()),
        };
        Self { name: name.to_owned(), kind, values, levels: Vec::new() }
    }

    fn field(&self) -> Result<Arc<Type>, ParquetError> {
        let (physical, logical) = match self.kind {
            Kind::Integer => (Physical::INT64, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Json => (Physical::BYTE_ARRAY, Some(LogicalType::Json)),
            Kind::Blob => (Physical::BYTE_ARRAY, None),
        };
        let field = Type::primitive_type_builder(&self.name, physical).with_repetition(Repetition::OPTIONAL);
        Ok(Arc::new(field.with_logical_type(logical).build()?))
    }

    /// Keeps a value and says how many bytes that takes.
    fn push(&mut self, value: &Value) -> Result<usize, ParquetError> {
        let bytes = match (&mut self.values, value) {
            (_, Value::Null) => 0,
            (Values::Integers(integers), Value::Integer(integer)) => {
                integers.push(*integer);
                size_of::<i64>()
            }
            (Values::Bytes(texts), Value::Text(text)) if self.kind != Kind::Blob => {
                texts.push(text.as_str().into());
                size_of::<ByteArray>() + text.len()
            }
            (Values::Bytes(blobs), Value::Blob(blob)) if self.kind == Kind::Blob => {
                blobs.push(blob.as_slice().into());
                size_of::<ByteArray>() + blob.len()
            }
            (_, other) => {
                let (column, value) = (self.name.clone(), other.to_string());
                return Err(ParquetError::Kind { column, value, kind: self.kind });
            }
        };
        self.levels.push(i16::from(*value != Value::Null));
        Ok(bytes + size_of::<i16>())
    }

    fn write<W: Write + Send>(&mut self, group: &mut SerializedRowGroupWriter<'_, W>) -> Result<(), ParquetError> {
        let Some(mut writer) = group.next_column()? else { return Ok(()) };
        match &mut self.values {
            Values::Integers(integers) => {
                writer.typed::<Int64Type>().write_batch(integers, Some(&self.levels), None)?;
                integers.clear();
            }
            Values::Bytes(values) => {
                writer.typed::<ByteArrayType>().write_batch(values, Some(&self.levels), None)?;
                values.clear();
            }
        }
        self.levels.clear();
        Ok(writer.close()?)
    }
}
