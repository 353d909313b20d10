//! Where a run is, in a word.

use serde::{Deserialize, Serialize};

/// What a run's status is called, as AgentOS spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RunStatus {
    /// Accepted, waits for its turn.
    Pending,
    /// At work.
    Running,
    /// Waits for a decision from outside.
    Paused,
    /// Ended well.
    Completed,
    /// Ended with an error.
    Error,
    /// Was stopped.
    Cancelled,
    /// Had ended, and another run answers in its place.
    Regenerated,
}

impl RunStatus {
    /// Every one.
    pub const ALL: [Self; 7] =
        [Self::Pending, Self::Running, Self::Paused, Self::Completed, Self::Error, Self::Cancelled, Self::Regenerated];

    /// As AgentOS spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Running => "RUNNING",
            Self::Paused => "PAUSED",
            Self::Completed => "COMPLETED",
            Self::Error => "ERROR",
            Self::Cancelled => "CANCELLED",
            Self::Regenerated => "REGENERATED",
        }
    }

    /// Whether the run has ended.
    #[must_use]
    pub fn is_end(self) -> bool {
        matches!(self, Self::Completed | Self::Error | Self::Cancelled | Self::Regenerated)
    }
}
