//! The views in SQLite: schema, connections, rows and queries. Nothing outside knows a line of SQL.
//!
//! Tables are ordinary rowid tables (wide `WITHOUT ROWID` tables were measured 2–15 times slower), with the
//! JSON in the last columns, so that counting and sorting never read it.

pub(crate) mod approvals;
pub(crate) mod connections;
pub(crate) mod database;
mod gathered;
pub(crate) mod load;
pub(crate) mod metrics;
pub(crate) mod read;
mod rows;
pub(crate) mod schema;
mod select;
pub(crate) mod values;
pub(crate) mod write;
