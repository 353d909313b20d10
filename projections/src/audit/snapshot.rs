//! Rows of one moment, table by table, without knowing what they mean.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use reenact_events::PartitionId;
use rusqlite::{Connection, OpenFlags};
use tokio::runtime::Handle;

use crate::{
    Position, PostgresAddress, ViewError,
    sql::{
        database::Database,
        migrations::JSON,
        postgres::{Postgres, server::Server},
        sqlite::{Sqlite, schema, view_error},
        value::{Cell, Row, Unreadable, Value as Parameter, values},
        write,
    },
};

/// Rows that are fetched from a server at a time.
const TOGETHER: usize = 200;

/// Tables that say nothing of what happened: when the others were made.
const ASIDE: [&str; 1] = ["schema_versions"];

/// What stands in a column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// Nothing.
    Null,
    /// A whole number.
    Integer(i64),
    /// A text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

impl Value {
    fn read(cell: Cell<'_>) -> Self {
        match cell {
            Cell::Null => Self::Null,
            Cell::Integer(integer) => Self::Integer(integer),
            Cell::Text(text) => Self::Text(text.into_owned()),
            Cell::Blob(bytes) => Self::Blob(bytes.to_vec()),
        }
    }

    fn parameter(&self) -> Parameter<'_> {
        match self {
            Self::Null => Parameter::Null,
            Self::Integer(integer) => Parameter::Integer(*integer),
            Self::Text(text) => Parameter::Text(text.into()),
            Self::Blob(bytes) => Parameter::Blob(bytes.into()),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Integer(integer) => integer.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Blob(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

/// What a column holds where it does not hold nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers.
    Integer,
    /// Texts.
    Text,
    /// JSON, as a text.
    Json,
    /// Bytes.
    Blob,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its columns, in order.
    pub columns: Vec<String>,
    /// What they hold, by place.
    pub kinds: Vec<Kind>,
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
pub struct Snapshot {
    rows: Rows,
    positions: Vec<Position>,
}

/// Where they are.
enum Rows {
    File { path: PathBuf, connection: Connection },
    Schema { connection: Box<Postgres>, _server: Server },
}

impl Rows {
    fn database(&self) -> Database<'_> {
        match self {
            Self::File { path, connection } => Database::Sqlite(Sqlite { connection, path }),
            Self::Schema { connection, .. } => Database::Postgres(connection),
        }
    }
}

impl Snapshot {
    /// Opens the rows in a file to read them as they are now. The file is not written.
    ///
    /// # Errors
    /// When it cannot be read, is damaged, or says not how far it is folded.
    pub fn open(path: &Path, partitions: u32) -> Result<Self, ViewError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(|error| view_error(path, &error))?;
        let sqlite = Sqlite { connection: &connection, path };
        sqlite.batch("PRAGMA busy_timeout = 5000; BEGIN;")?;
        schema::known_version(sqlite)?;
        Self::of(Rows::File { path: path.to_owned(), connection }, partitions)
    }

    /// The rows on a server as they are now. Blocks.
    ///
    /// # Errors
    /// When the server does not answer, or what is there is not ours.
    pub fn connect(address: &PostgresAddress, partitions: u32) -> Result<Self, ViewError> {
        let server = Server::look(address)?;
        let connection = Box::new(server.connection(&Handle::current())?);
        connection.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
        Self::of(Rows::Schema { connection, _server: server }, partitions)
    }

    fn of(rows: Rows, partitions: u32) -> Result<Self, ViewError> {
        let at = |partition| write::position(rows.database(), partition);
        let positions = (0..partitions).map(PartitionId).map(at).collect::<Result<_, _>>()?;
        Ok(Self { rows, positions })
    }

    /// How far each partition is folded.
    #[must_use]
    pub fn positions(&self) -> &[Position] {
        &self.positions
    }

    /// What SQLite finds wrong with a file and its indexes, if anything; of a server nothing is known.
    ///
    /// # Errors
    /// When it cannot be looked for.
    pub fn damage(&self) -> Result<Option<String>, ViewError> {
        let Rows::File { .. } = &self.rows else { return Ok(None) };
        let found = self.rows.database().first("PRAGMA integrity_check(1)", &[], |row| row.get::<String>(0))?;
        Ok(found.filter(|found| found != "ok"))
    }

    /// The tables of a file, by name.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn tables(&self) -> Result<Vec<Table>, ViewError> {
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
        let names: Vec<String> = self.rows.database().query(sql, &[], |row| row.get(0))?;
        names.into_iter().filter(|name| !ASIDE.contains(&name.as_str())).map(|name| self.table(name)).collect()
    }

    fn table(&self, name: String) -> Result<Table, ViewError> {
        let database = self.rows.database();
        let sql = "SELECT info.name, info.pk, info.type, sql FROM sqlite_schema, pragma_table_info(?1) AS info
                   WHERE sqlite_schema.type = 'table' AND sqlite_schema.name = ?1 ORDER BY cid";
        let (mut known, mut kinds) = (Vec::<(String, usize)>::new(), Vec::new());
        database.query(sql, &values![&name], |row| {
            kinds.push(kind_of(&row.text(0)?, &row.text(2)?, &row.text(3)?));
            known.push((row.get(0)?, place(row, 1)?));
            Ok(())
        })?;
        let mut key: Vec<_> = (0..known.len()).filter(|place| known[*place].1 > 0).collect();
        key.sort_by_key(|place| known[*place].1);
        if key.is_empty() {
            let sql = "SELECT info.cid FROM pragma_index_list(?1) AS list, pragma_index_info(list.name) AS info
                       WHERE list.\"unique\" = 1 ORDER BY list.seq, info.seqno";
            key = database.query(sql, &values![&name], |row| place(row, 0))?;
        }
        let columns: Vec<_> = known.into_iter().map(|(column, _)| column).collect();
        if key.is_empty() {
            key = (0..columns.len()).collect();
        }
        Ok(Table { name, columns, kinds, key })
    }

    /// Hands every row of a table to `take`; in the order of the key if that is asked for.
    ///
    /// # Errors
    /// When a row cannot be read, or `take` fails.
    pub fn rows<E: From<ViewError>>(
        &self,
        table: &Table,
        in_order: bool,
        take: impl FnMut(&[Value]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut sql = format!("SELECT {} FROM {}", table.columns.join(", "), table.name);
        if in_order {
            let key: Vec<_> = table.key.iter().map(|place| table.columns[*place].as_str()).collect();
            sql = format!("{sql} ORDER BY {}", key.join(", "));
        }
        let count = table.columns.len();
        match &self.rows {
            Rows::File { path, connection } => rows_of_file(Sqlite { connection, path }, &sql, count, take),
            Rows::Schema { connection, .. } => rows_of_server(connection, (&table.name, &sql), count, take),
        }
    }

    /// The row of a key, if there is one.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn row(&self, table: &Table, key: &[Value]) -> Result<Option<Vec<Value>>, ViewError> {
        let conditions: Vec<_> = table.key.iter().map(|place| format!("{} = ?", table.columns[*place])).collect();
        let (columns, conditions) = (table.columns.join(", "), conditions.join(" AND "));
        let sql = format!("SELECT {columns} FROM {} WHERE {conditions} LIMIT 1", table.name);
        let key: Vec<_> = key.iter().map(Value::parameter).collect();
        self.rows.database().first(&sql, &key, |row| read(row, table.columns.len()))
    }
}

/// Row by row, however many there are.
fn rows_of_file<E: From<ViewError>>(
    sqlite: Sqlite<'_>,
    sql: &str,
    count: usize,
    mut take: impl FnMut(&[Value]) -> Result<(), E>,
) -> Result<(), E> {
    let failed = |error: rusqlite::Error| E::from(view_error(sqlite.path, &error));
    let mut statement = sqlite.connection.prepare(sql).map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let row = read(&Row::Sqlite(row), count).map_err(|error| E::from(sqlite.unreadable(&error)))?;
        take(&row)?;
    }
    Ok(())
}

/// Some rows at a time.
fn rows_of_server<E: From<ViewError>>(
    postgres: &Postgres,
    (table, sql): (&str, &str),
    count: usize,
    mut take: impl FnMut(&[Value]) -> Result<(), E>,
) -> Result<(), E> {
    // What is fetched by one name has the same columns each time.
    let cursor = format!("audited_{table}");
    postgres.batch(&format!("DECLARE {cursor} NO SCROLL CURSOR FOR {sql}"))?;
    loop {
        let rows = postgres.query(&format!("FETCH {TOGETHER} FROM {cursor}"), &[], |row| read(row, count))?;
        if rows.is_empty() {
            break;
        }
        rows.iter().try_for_each(|row| take(row))?;
    }
    Ok(postgres.batch(&format!("CLOSE {cursor}"))?)
}

/// What a column of a STRICT table holds; SQLite has no type for JSON, so the definition says it beside.
fn kind_of(column: &str, declared: &str, definition: &str) -> Kind {
    let is_own = |line: &&str| line.split_whitespace().next() == Some(column);
    match declared {
        "INTEGER" => Kind::Integer,
        "BLOB" => Kind::Blob,
        _ if definition.lines().find(is_own).is_some_and(|line| line.contains(JSON)) => Kind::Json,
        _ => Kind::Text,
    }
}

/// A place in a list, counted by SQLite.
fn place(row: &Row<'_>, column: usize) -> Result<usize, Unreadable> {
    Ok(usize::try_from(row.get::<u32>(column)?).unwrap_or(usize::MAX))
}

fn read(row: &Row<'_>, count: usize) -> Result<Vec<Value>, Unreadable> {
    (0..count).map(|column| row.cell(column).map(Value::read)).collect()
}
