//! The log contract on local disk: one SQLite database behind one writer.
//!
//! **Guarantees.** An answered commit survives a power cut (unless [`Durability::Relaxed`] was chosen). The
//! directory has one owner at a time; a second one is refused by name. Every event carries a checksum and the
//! chain; damage is reported where it is met and never skipped. After an error of the disk nothing is served
//! from the connection that met it.
//!
//! **Not here.** What the events mean; retention (nothing is ever removed).
//!
//! How a commit goes: a handle ([`EmbeddedLog`]) sends a *request* to the *writer* thread, which takes all that
//! have queued up into one transaction; inside it the *ledger* applies the contract's rules to rows; after the
//! commit the *views* move, which wakes the *streams*; then everybody is answered. The streams fetch their
//! events from the *readers*.
//!
//! Read in this order: `schema`, `record`, `ledger`, `writer`, `streams`, `open`.

mod block;
mod command;
mod directory;
mod ledger;
mod log;
mod open;
mod options;
mod reader;
mod readers;
mod record;
mod request;
mod schema;
mod streams;
mod view;
mod writer;

pub use log::EmbeddedLog;
pub use options::{Durability, OpenError, Options};
pub use reader::Reader;

/// The version of SQLite that the log is kept with.
#[must_use]
pub fn sqlite_version() -> &'static str {
    rusqlite::version()
}
