//! The rules, by what they are about.

pub(crate) mod answering;
pub(crate) mod batches;
pub(crate) mod claiming;
pub(crate) mod commands;
pub(crate) mod reading;
pub(crate) mod surviving;
