//! What goes into a statement and what comes out of a row, whichever database it is.

use std::{borrow::Cow, sync::Arc};

use reenact_events::event::RunStatus;
use serde::de::DeserializeOwned;

/// What stands for a question mark.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'v> {
    /// Nothing.
    Null,
    /// A whole number.
    Integer(i64),
    /// A text, or JSON as text.
    Text(Cow<'v, str>),
    /// Bytes.
    Blob(Cow<'v, [u8]>),
    /// The texts that a column may be one of: see `Database::among`.
    Texts(Vec<Cow<'v, str>>),
}

impl Value<'_> {
    /// The same, without a borrow.
    pub(crate) fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Integer(number) => Value::Integer(number),
            Self::Text(text) => Value::Text(text.into_owned().into()),
            Self::Blob(bytes) => Value::Blob(bytes.into_owned().into()),
            Self::Texts(texts) => Value::Texts(texts.into_iter().map(|text| text.into_owned().into()).collect()),
        }
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Self::Integer(integer(number))
    }
}

impl<'v> From<&'v str> for Value<'v> {
    fn from(text: &'v str) -> Self {
        Self::Text(text.into())
    }
}

impl<'v> From<&'v String> for Value<'v> {
    fn from(text: &'v String) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl<'v> From<&'v [u8; 32]> for Value<'v> {
    fn from(bytes: &'v [u8; 32]) -> Self {
        Self::Blob(Cow::Borrowed(bytes.as_slice()))
    }
}

impl<'v> From<&'v [u8]> for Value<'v> {
    fn from(bytes: &'v [u8]) -> Self {
        Self::Blob(Cow::Borrowed(bytes))
    }
}

impl<'v, T: Into<Value<'v>>> From<Option<T>> for Value<'v> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The values of a statement, in the order of its question marks.
macro_rules! values {
    ($($value:expr),* $(,)?) => { [$($crate::sql::value::Value::from($value)),*] };
}
pub(crate) use values;

/// What stands in a column of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell<'r> {
    /// Nothing.
    Null,
    /// A whole number.
    Integer(i64),
    /// A text, or JSON as text.
    Text(Cow<'r, str>),
    /// Bytes.
    Blob(&'r [u8]),
}

/// A column holds what was not written by this program.
#[derive(Debug, Clone, thiserror::Error)]
#[error("column {column}: {reason}")]
pub(crate) struct Unreadable {
    column: usize,
    reason: Arc<str>,
}

/// What cannot be read in a column.
pub(crate) fn unreadable(column: usize, error: impl ToString) -> Unreadable {
    Unreadable { column, reason: error.to_string().into() }
}

/// A row of a query.
pub(crate) enum Row<'r> {
    /// Of SQLite.
    Sqlite(&'r rusqlite::Row<'r>),
    /// Of PostgreSQL.
    Postgres(&'r tokio_postgres::Row),
}

/// What a column can be read as.
pub(crate) trait Column: Sized {
    /// Reads it, if it is that.
    fn read(cell: Cell<'_>) -> Option<Self>;
}

impl Column for i64 {
    fn read(cell: Cell<'_>) -> Option<Self> {
        if let Cell::Integer(number) = cell { Some(number) } else { None }
    }
}

impl Column for u32 {
    fn read(cell: Cell<'_>) -> Option<Self> {
        i64::read(cell)?.try_into().ok()
    }
}

/// Numbers from 0 that [`integer`] wrote.
impl Column for u64 {
    fn read(cell: Cell<'_>) -> Option<Self> {
        i64::read(cell)?.try_into().ok()
    }
}

impl Column for String {
    fn read(cell: Cell<'_>) -> Option<Self> {
        if let Cell::Text(text) = cell { Some(text.into_owned()) } else { None }
    }
}

impl Column for Vec<u8> {
    fn read(cell: Cell<'_>) -> Option<Self> {
        if let Cell::Blob(bytes) = cell { Some(bytes.to_vec()) } else { None }
    }
}

impl<T: Column> Column for Option<T> {
    fn read(cell: Cell<'_>) -> Option<Self> {
        if cell == Cell::Null { Some(None) } else { T::read(cell).map(Some) }
    }
}

impl Row<'_> {
    /// A column, whatever it holds.
    pub(crate) fn cell(&self, column: usize) -> Result<Cell<'_>, Unreadable> {
        use rusqlite::types::ValueRef;
        match self {
            Self::Postgres(row) => row.try_get(column).map_err(|error| unreadable(column, error)),
            Self::Sqlite(row) => match row.get_ref(column).map_err(|error| unreadable(column, error))? {
                ValueRef::Null => Ok(Cell::Null),
                ValueRef::Integer(number) => Ok(Cell::Integer(number)),
                ValueRef::Real(number) => Err(unreadable(column, format!("`{number}` is no whole number"))),
                ValueRef::Blob(bytes) => Ok(Cell::Blob(bytes)),
                ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                    Ok(text) => Ok(Cell::Text(text.into())),
                    Err(error) => Err(unreadable(column, error)),
                },
            },
        }
    }

    /// A column as what it is known to be.
    pub(crate) fn get<T: Column>(&self, column: usize) -> Result<T, Unreadable> {
        let cell = self.cell(column)?;
        T::read(cell).ok_or_else(|| unreadable(column, "it is of another type"))
    }

    /// A column that holds a text.
    pub(crate) fn text(&self, column: usize) -> Result<Cow<'_, str>, Unreadable> {
        let text = self.text_or_null(column)?;
        text.ok_or_else(|| unreadable(column, "it is empty"))
    }

    /// A column that holds a text or nothing.
    pub(crate) fn text_or_null(&self, column: usize) -> Result<Option<Cow<'_, str>>, Unreadable> {
        match self.cell(column)? {
            Cell::Null => Ok(None),
            Cell::Text(text) => Ok(Some(text)),
            Cell::Integer(_) | Cell::Blob(_) => Err(unreadable(column, "it is no text")),
        }
    }

    /// A column that holds so many bytes.
    pub(crate) fn bytes<const N: usize>(&self, column: usize) -> Result<[u8; N], Unreadable> {
        match self.cell(column)? {
            Cell::Blob(bytes) => bytes.try_into().map_err(|error| unreadable(column, error)),
            Cell::Null | Cell::Integer(_) | Cell::Text(_) => Err(unreadable(column, "it holds no bytes")),
        }
    }

    /// A column that holds an id or nothing.
    pub(crate) fn id<T>(&self, column: usize, take: impl FnOnce(&str) -> T) -> Result<Option<T>, Unreadable> {
        Ok(self.text_or_null(column)?.map(|text| take(&text)))
    }

    /// A column that holds JSON or nothing.
    pub(crate) fn json<T: DeserializeOwned>(&self, column: usize) -> Result<Option<T>, Unreadable> {
        let text = self.text_or_null(column)?;
        text.map(|text| serde_json::from_str(&text).map_err(|error| unreadable(column, error))).transpose()
    }

    /// A column that holds a run's status.
    pub(crate) fn status(&self, column: usize) -> Result<RunStatus, Unreadable> {
        let text = self.text(column)?;
        let known = RunStatus::ALL.into_iter().find(|status| status.as_str() == text);
        known.ok_or_else(|| unreadable(column, format!("`{text}` is no status of a run")))
    }
}

/// A number as databases can hold it. Offsets and sequences count from 0 and stay far below the limit.
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
