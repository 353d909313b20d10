//! placeholder
pub mod api;
pub mod live;
pub mod step;
