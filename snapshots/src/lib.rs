//! How far we got: the per-partition state store.
//!
//! A key-value store with the latest state of each entity and small ordered indexes, written after commit
//! only, together with the position it stands for. It is a cache of the log: any doubt about it (opening,
//! checksum, fingerprint, log id, position) means delete it and fold the log again. Nothing is ever lost
//! with it, and nothing durable is ever written with sled or bincode elsewhere.
//!
//! Now and then its content goes to an object store as a *snapshot*, so that a machine that has no store of a
//! partition does not fold the log from its beginning.
//!
//! Reading order: [`store`] (the contract), [`codec`], [`memory`], [`sled_store`], [`exportable`], [`snapshot`].

pub mod codec;
pub mod exportable;
pub mod memory;
mod opening;
mod sealed;
pub mod sled_store;
pub mod snapshot;
pub mod store;

pub use exportable::{Export, ExportableStore};
pub use memory::MemoryStore;
pub use opening::Discarded;
pub use sled_store::SledStore;
pub use snapshot::{Shelf, ShelfError, SnapshotError};
pub use store::{Change, Position, StateStore, StoreError};
