//! x
/// x
pub struct MemoryLog;
