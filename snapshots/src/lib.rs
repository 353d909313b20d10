//! How far we got: the per-partition state store.
//!
//! A key-value store with the latest state of each entity and small ordered indexes, written after commit
//! only, together with the position it stands for. It is a cache of the log: any doubt about it (opening,
//! checksum, fingerprint, log id, position) means delete it and fold the log again. Nothing is ever lost
//! with it, and nothing durable is ever written with sled or bincode elsewhere.
//!
//! Reading order: [`store`] (the contract), [`codec`], [`memory`], [`sled_store`].

pub mod codec;
pub mod memory;
mod opening;
mod sealed;
pub mod sled_store;
pub mod store;

pub use memory::MemoryStore;
pub use opening::Discarded;
pub use sled_store::SledStore;
pub use store::{Change, Position, StateStore, StoreError};
