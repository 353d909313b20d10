//! The state store's contract on every implementation, and what sled does when its files or its process are
//! taken from it.

mod contract;
mod corruption;
mod kill;
mod support;
