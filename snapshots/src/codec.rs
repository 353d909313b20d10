//! x
pub struct Codec;
