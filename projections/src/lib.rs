//! What it adds up to: tables of sessions and runs, folded from the log.

pub mod dump;
pub mod error;
pub mod expand;
pub mod fold;
mod follow;
pub mod memory;
pub mod position;
pub mod query;
mod sql;
pub mod views;

pub use dump::{Digest, Dump, digest};
pub use error::{Lagging, ViewError};
pub use expand::expand;
pub use fold::RunView;
pub use memory::MemoryViews;
pub use position::{Position, Progress};
pub use views::Views;
