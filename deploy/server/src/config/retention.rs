//! How long sessions are kept.

use super::{ConfigError, Layers};
use crate::retention::Policy;

pub(super) fn policy(layers: &Layers) -> Result<Policy, ConfigError> {
    let days: u32 = layers.parse("retention-days", "a whole number of days; 0 is for ever")?;
    let newest: u64 = layers.parse("retention-sessions", "a whole number of sessions; 0 is all")?;
    Ok(Policy { user_id: None, days: Some(days).filter(|days| *days > 0), newest: Some(newest).filter(|n| *n > 0) })
}
