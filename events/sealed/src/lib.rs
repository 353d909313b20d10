//! Content that is readable as long as its owner's key is there.
//!
//! [`SealedLog`] stands between the runtime and any log. An event that belongs to a user is stored as what may stay
//! readable of it (`events::erased`) with the whole of it beside that, sealed with the user's key. When it is read it
//! is whole again; once the key is destroyed what is read is what was left readable. The hash chain is over what is
//! stored, so it holds either way. [`SealedBlobs`] does the same for large texts and files.
//!
//! **Not here.** Which fields those are (`events`), and what else an erasure has to reach (`deploy/server`).

mod blobs;
mod cipher;
mod log;
mod ring;
mod sqlite;

pub use blobs::SealedBlobs;
pub use cipher::{MasterKey, MasterKeyError};
pub use log::SealedLog;
pub use ring::{FRESH_FOR, KeyRing, OpenError};
pub use sqlite::SqliteKeys;
