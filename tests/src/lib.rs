//! What several test binaries share.

pub mod broker;
pub mod postgres;
pub mod product;
pub mod stub;
pub mod topic;
