//! What several test binaries share.

pub mod stub;
