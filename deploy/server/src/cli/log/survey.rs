//! What is left of a partition: where it ends, and which runs have not ended there.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anyhow::{Context, anyhow};
use futures::StreamExt;
use reenact_events::{
    Event, EventLog, Offset, PartitionId, Recorded, RunEvent, RunId, SessionEvent, SessionId, Timestamp,
    event::PartitionEvent,
};

/// A run that was accepted and has no end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenRun {
    pub(super) session: SessionId,
    /// The type of its last event.
    pub(super) last: Arc<str>,
    pub(super) at: Timestamp,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) last: Option<Recorded>,
    /// Behind the last event that is no claim: starts that were refused have added claims and nothing else.
    pub(super) worked_until: Offset,
    /// How often a loss was accepted here.
    pub(super) losses: u32,
    /// The last event accepts a loss.
    pub(super) is_accepted: bool,
    pub(super) open: BTreeMap<RunId, OpenRun>,
    pub(super) ended: BTreeSet<RunId>,
}

impl Survey {
    /// Reads a partition from its first event to its last.
    pub(super) async fn of(log: &dyn EventLog, partition: PartitionId) -> anyhow::Result<Self> {
        let (mut survey, (low, _)) = (Self::default(), log.bounds(partition).await?);
        let Some(last) = log.last_event(partition).await? else { return Ok(survey) };
        let mut events = log.tail(partition, low);
        while survey.last.as_ref().is_none_or(|seen| seen.offset < last) {
            let recorded = events.next().await.ok_or_else(|| anyhow!("the log ends before its last event"))??;
            survey.take(recorded)?;
        }
        Ok(survey)
    }

    /// Whether the log tells of a run, except that its session was deleted.
    pub(super) fn knows(&self, run: &RunId) -> bool {
        self.open.contains_key(run) || self.ended.contains(run)
    }

    fn take(&mut self, recorded: Recorded) -> anyhow::Result<()> {
        let at = || format!("the event at offset {} cannot be read", recorded.offset);
        let (event, session) = (recorded.decode().with_context(at)?, recorded.event.key.as_session());
        self.is_accepted = false;
        match (event, session) {
            (Event::Partition(PartitionEvent::Claimed(claimed)), _) => {
                self.losses = claimed.losses;
                self.is_accepted = !claimed.accepts.is_empty();
            }
            (event, session) => {
                self.worked_until = recorded.offset.next();
                if let Some(session) = session {
                    self.take_work(&event, session, &recorded);
                }
            }
        }
        self.last = Some(recorded);
        Ok(())
    }

    fn take_work(&mut self, event: &Event, session: SessionId, recorded: &Recorded) {
        match event {
            Event::Run(run) if run.is_end() => {
                self.open.remove(run.run_id());
                self.ended.insert(run.run_id().clone());
            }
            Event::Run(run) if matches!(run, RunEvent::Queued(_)) || self.open.contains_key(run.run_id()) => {
                let (last, at) = (recorded.event.kind.clone(), recorded.event.at);
                self.open.insert(run.run_id().clone(), OpenRun { session, last, at });
            }
            Event::Session(SessionEvent::Deleted(_)) => self.open.retain(|_, run| run.session != session),
            _ => {}
        }
    }
}
