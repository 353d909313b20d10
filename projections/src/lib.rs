//! What it adds up to: tables of sessions and runs, folded from the log.
//!
//! The log is the truth and these tables are a view of it: [`Views`] can be deleted at any moment and come back
//! the same. It goes like this:
//!
//! 1. [`Views::follow`] reads a partition's events from the stored [`Position`] on.
//! 2. [`fold::apply()`] turns each into changes of rows. It is pure, and there is one set of it for SQL and memory.
//! 3. Rows and position change in one transaction, guarded by the expected position: the database is the
//!    fence, so two workers on one partition are harmless.
//! 4. Readers ask with a [`query::Scope`]; who wrote at (partition, offset) reads after [`Views::wait_for`].
//!
//! **Guarantees.** No event is skipped or folded twice; a batch is in the rows whole or not at all. An event
//! costs the same in the thousandth run of a session as in the first. Pages and totals are of one moment.
//! Another user's row is as if it did not exist. Views that are damaged, of another log or of another past are
//! discarded and folded again, never read.
//!
//! **Not here.** Deciding anything, sending commands (`actors`), live streams, HTTP shapes (`deploy/server`).
//!
//! **Beside the views**, [`PostgresKeys`]: the keys of users' content are no view and cannot be folded again, but the
//! way to a PostgreSQL server, its locks and what its errors mean are in this room.
//!
//! Read in this order: [`query`], [`position`], [`fold`], [`memory`], [`views`], then `sql`.

pub mod audit;
mod decoded;
pub mod dump;
pub mod error;
pub mod expand;
pub mod fold;
mod follow;
pub mod generations;
mod loader;
pub mod memory;
pub mod metrics;
pub mod position;
pub mod prices;
pub mod query;
pub mod rebuild;
pub mod retention;
pub mod schedules;
mod sql;
pub mod views;

pub use decoded::Decoded;
pub use dump::{Digest, Dump, digest};
pub use error::{Lagging, ViewError};
pub use expand::expand;
pub use fold::RunView;
pub use generations::{Files, GenerationError, Generations, Schemas};
pub use loader::{Loader, TOGETHER_BYTES, TOGETHER_EVENTS};
pub use memory::MemoryViews;
pub use position::{Position, Progress};
pub use rebuild::Rebuilds;
pub use sql::postgres::{address::PostgresAddress, keys::PostgresKeys};
pub use views::Views;
