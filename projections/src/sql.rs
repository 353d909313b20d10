//! The views in SQL: schema, connections, rows and queries. Nothing outside knows a line of it.
//!
//! There is one set of statements, for files ([`sqlite`]) and for a server ([`postgres`]); [`database`] is the door
//! to both. Tables are ordinary rowid tables (wide `WITHOUT ROWID` tables were measured 2–15 times slower), with the
//! JSON in the last columns, so that counting and sorting never read it.

pub(crate) mod approvals;
pub(crate) mod database;
mod gathered;
pub(crate) mod metrics;
pub(crate) mod migrations;
pub(crate) mod postgres;
pub(crate) mod read;
pub(crate) mod retention;
mod rows;
pub(crate) mod schedules;
mod select;
pub(crate) mod sqlite;
mod steps;
pub(crate) mod store;
pub(crate) mod value;
pub(crate) mod write;
