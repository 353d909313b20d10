//! What several test binaries share.

pub mod product;
pub mod stub;
pub mod topic;
