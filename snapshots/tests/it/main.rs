//! The state store's contract on every implementation, what sled does when its files or its process are
//! taken from it, and snapshots.

mod contract;
mod corruption;
mod kill;
mod snapshot;
mod support;
