//! Whether the rows that are read are what the log says, and where they are not.
//!
//! [`Walk`] looks at the log by itself: its chain, its terms, its sequences and what may follow what. [`compare()`] sets
//! the live rows beside rows that were folded from the log a moment ago: each table is summed up in 256 buckets, and
//! where those differ, the first row that does is named. The memory that this takes follows from the buckets and not
//! from the tables.

mod compare;
mod digest;
mod snapshot;
mod walk;

pub use compare::{Difference, TableReport, compare};
pub use digest::{BUCKETS, TableDigest};
pub use snapshot::{Kind, Snapshot, Table, Value};
pub use walk::{Walk, WalkError};
