//! placeholder
pub mod query;
