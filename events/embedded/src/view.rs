//! What is durable, as the streams see it: the writer publishes after each commit, the streams wait for it.

use reenact_events::{LogError, Offset, Term};
use tokio::sync::watch;

use crate::ledger::Standing;

/// Where a partition stands, without what only the writer needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) term: Option<Term>,
    pub(crate) next: Offset,
    pub(crate) next_command: Offset,
    pub(crate) cursor: Offset,
}

impl From<&Standing> for View {
    fn from(standing: &Standing) -> Self {
        let Standing { term, next, next_command, cursor, .. } = *standing;
        Self { term, next, next_command, cursor }
    }
}

/// Follows one partition.
pub(crate) type Views = watch::Receiver<View>;

/// What everything says once the log was closed.
pub(crate) fn closed() -> LogError {
    LogError::Unavailable { reason: "the log was closed".into() }
}

/// Waits for the next commit to the partition.
pub(crate) async fn changed(views: &mut Views) -> Result<(), LogError> {
    views.changed().await.map_err(|_| closed())
}
