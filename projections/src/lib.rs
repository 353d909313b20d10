//! What it adds up to: tables of sessions and runs, folded from the log.

pub mod error;
pub mod expand;
pub mod position;
pub mod query;
pub mod views;

pub use error::{Lagging, ViewError};
pub use expand::expand;
pub use position::{Position, Progress};
pub use views::Views;
