//! Rows of one moment, table by table, without knowing what they mean.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use reenact_events::PartitionId;
use rusqlite::{Connection, OpenFlags, Row, params_from_iter, types::ValueRef};

use crate::{
    Position, ViewError,
    sql::{
        database::{Database, view_error},
        schema,
        values::unreadable,
        write,
    },
};

/// Tables that say nothing of what happened: when the others were made.
const ASIDE: [&str; 1] = ["schema_versions"];

/// What stands in a column.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub enum Value {
    /// Nothing.
    Null,
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Real(f64),
    /// A text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

impl Value {
    fn read(value: ValueRef<'_>) -> Result<Self, std::str::Utf8Error> {
        Ok(match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(integer) => Self::Integer(integer),
            ValueRef::Real(real) => Self::Real(real),
            ValueRef::Text(text) => Self::Text(std::str::from_utf8(text)?.to_owned()),
            ValueRef::Blob(bytes) => Self::Blob(bytes.to_vec()),
        })
    }

    fn to_sql(&self) -> rusqlite::types::Value {
        match self {
            Self::Null => rusqlite::types::Value::Null,
            Self::Integer(integer) => (*integer).into(),
            Self::Real(real) => (*real).into(),
            Self::Text(text) => text.clone().into(),
            Self::Blob(bytes) => bytes.clone().into(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Integer(integer) => integer.fmt(f),
            Self::Real(real) => real.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Blob(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its columns, in order.
    pub columns: Vec<String>,
    /// Which of them tell its rows apart, by place.
    pub key: Vec<usize>,
}

impl Table {
    /// The part of a row that is its key.
    #[must_use]
    pub fn key_of(&self, row: &[Value]) -> Vec<Value> {
        self.key.iter().filter_map(|place| row.get(*place).cloned()).collect()
    }

    /// The key's columns with their values, for people.
    #[must_use]
    pub fn told(&self, key: &[Value]) -> String {
        let columns = self.key.iter().filter_map(|place| self.columns.get(*place));
        columns.zip(key).map(|(column, value)| format!("{column}={value}")).collect::<Vec<_>>().join(" ")
    }
}

/// The rows of one moment, however others go on writing.
#[derive(Debug)]
pub struct Snapshot {
    connection: Connection,
    path: PathBuf,
    positions: Vec<Position>,
}

impl Snapshot {
    /// Opens the rows to read them as they are now. A file is not written.
    ///
    /// # Errors
    /// When it cannot be read, is damaged, or says not how far it is folded.
    pub fn open(path: &Path, partitions: u32) -> Result<Self, ViewError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(|error| view_error(path, &error))?;
        let database = Database { connection: &connection, path };
        database.batch("PRAGMA busy_timeout = 5000; BEGIN;")?;
        schema::known_version(database)?;
        let at = |partition| write::position(database, partition);
        let positions = (0..partitions).map(PartitionId).map(at).collect::<Result<_, _>>()?;
        Ok(Self { connection, path: path.to_owned(), positions })
    }

    fn database(&self) -> Database<'_> {
        Database { connection: &self.connection, path: &self.path }
    }

    /// How far each partition is folded.
    #[must_use]
    pub fn positions(&self) -> &[Position] {
        &self.positions
    }

    /// What SQLite finds wrong with the file and its indexes, if anything.
    ///
    /// # Errors
    /// When it cannot be looked for.
    pub fn damage(&self) -> Result<Option<String>, ViewError> {
        let found = self.database().first("PRAGMA integrity_check(1)", [], |row| row.get::<_, String>(0))?;
        Ok(found.filter(|found| found != "ok"))
    }

    /// The tables, by name.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn tables(&self) -> Result<Vec<Table>, ViewError> {
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
        let names: Vec<String> = self.database().query(sql, [], |row| row.get(0))?;
        names.into_iter().filter(|name| !ASIDE.contains(&name.as_str())).map(|name| self.table(name)).collect()
    }

    fn table(&self, name: String) -> Result<Table, ViewError> {
        let database = self.database();
        let sql = "SELECT name, pk FROM pragma_table_info(?1) ORDER BY cid";
        let known: Vec<(String, usize)> = database.query(sql, [&name], |row| Ok((row.get(0)?, place(row, 1)?)))?;
        let mut key: Vec<_> = (0..known.len()).filter(|place| known[*place].1 > 0).collect();
        key.sort_by_key(|place| known[*place].1);
        if key.is_empty() {
            let sql = "SELECT info.cid FROM pragma_index_list(?1) AS list, pragma_index_info(list.name) AS info
                       WHERE list.\"unique\" = 1 ORDER BY list.seq, info.seqno";
            key = database.query(sql, [&name], |row| place(row, 0))?;
        }
        let columns: Vec<_> = known.into_iter().map(|(column, _)| column).collect();
        if key.is_empty() {
            key = (0..columns.len()).collect();
        }
        Ok(Table { name, columns, key })
    }

    /// Hands every row of a table to `take`; in the order of the key if that is asked for.
    ///
    /// # Errors
    /// When a row cannot be read, or `take` fails.
    pub fn rows<E: From<ViewError>>(
        &self,
        table: &Table,
        in_order: bool,
        mut take: impl FnMut(&[Value]) -> Result<(), E>,
    ) -> Result<(), E> {
        let database = self.database();
        let failed = |error: rusqlite::Error| E::from(database.error(&error));
        let mut sql = format!("SELECT {} FROM {}", table.columns.join(", "), table.name);
        if in_order {
            let key: Vec<_> = table.key.iter().map(|place| table.columns[*place].as_str()).collect();
            sql = format!("{sql} ORDER BY {}", key.join(", "));
        }
        let mut statement = self.connection.prepare(&sql).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            take(&values(row, table.columns.len()).map_err(failed)?)?;
        }
        Ok(())
    }

    /// The row of a key, if there is one.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn row(&self, table: &Table, key: &[Value]) -> Result<Option<Vec<Value>>, ViewError> {
        let conditions: Vec<_> = table.key.iter().map(|place| format!("{} IS ?", table.columns[*place])).collect();
        let (columns, conditions) = (table.columns.join(", "), conditions.join(" AND "));
        let sql = format!("SELECT {columns} FROM {} WHERE {conditions}", table.name);
        let key = params_from_iter(key.iter().map(Value::to_sql));
        self.database().first(&sql, key, |row| values(row, table.columns.len()))
    }
}

/// A place in a list, counted by SQLite.
fn place(row: &Row<'_>, column: usize) -> rusqlite::Result<usize> {
    let place: i64 = row.get(column)?;
    usize::try_from(place).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, place))
}

fn values(row: &Row<'_>, count: usize) -> rusqlite::Result<Vec<Value>> {
    let value = |column| Value::read(row.get_ref(column)?).map_err(|error| unreadable(column, error));
    (0..count).map(value).collect()
}
