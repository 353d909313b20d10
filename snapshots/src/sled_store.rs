//! x
pub struct SledStore;
