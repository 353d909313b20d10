//! What several test binaries share.

pub mod broker;
pub mod product;
pub mod stub;
pub mod topic;
