//! A failure that the person was told about already.

/// See the module.
#[derive(Debug, thiserror::Error)]
#[error("it was told")]
pub(super) struct Told;
