//! What the gateway sees of a node: submit a command, watch a run, ask for readiness.

use std::{collections::BTreeMap, sync::Arc};

use reenact_events::{Offset, PartitionId, RunId, ScheduleId, SessionId, command::Decision, event::RunStatus};

use crate::schedule::Unfit;

/// A command was taken and is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The session it is about, if it is about one.
    pub session_id: Option<SessionId>,
    /// The schedule it is about, if it is about one.
    pub schedule_id: Option<ScheduleId>,
    /// The run it started or changed.
    pub run_id: Option<RunId>,
    /// Reads that include this place see the command's effect.
    pub partition: PartitionId,
    /// The last offset that the command wrote, or the last known one if it wrote nothing.
    pub offset: Offset,
    /// The run's status after the command, if it is about a run.
    pub status: Option<RunStatus>,
    /// It had taken effect before.
    pub duplicate: bool,
}

/// A rule said no. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such session, or it is another user's.
    #[error("Session not found")]
    SessionNotFound,
    /// No such run in that session.
    #[error("Run not found")]
    RunNotFound,
    /// The session is there already (or its id is taken by another user).
    #[error("session `{0}` already exists")]
    SessionExists(SessionId),
    /// The session has a run that works or waits, and the agent is not to take another meanwhile.
    #[error(
        "session `{0}` is busy: another of its runs works or waits, and the agent has `queue.when_busy = \"reject\"`"
    )]
    SessionBusy(SessionId),
    /// The session is to be deleted as it was seen, and it was used since.
    #[error("session `{0}` is not deleted: it was used since it was looked at, or has a run that has not ended")]
    SessionUsed(SessionId),
    /// The run is not waiting for a decision about that tool call.
    #[error("tool call `{tool_call_id}` of run `{run}` waits for no decision")]
    StepNotInDoubt {
        /// Which run.
        run: RunId,
        /// Which call.
        tool_call_id: Arc<str>,
    },
    /// The run is not one that can be queued again.
    #[error("{0}")]
    NotRequeued(Arc<str>),
    /// Nothing can go on from the run.
    #[error("{0}")]
    NotForked(Arc<str>),
    /// The session is not one that can be copied.
    #[error("{0}")]
    NotCopied(Arc<str>),
    /// Nothing can go on from that place in the run.
    #[error("{0}")]
    ForkPoint(Arc<str>),
    /// The decision is not one that the call can do with.
    #[error("{reason}")]
    DecisionUnfit {
        /// About which run.
        run: RunId,
        /// Which call, what is wrong, and what to say instead.
        reason: Arc<str>,
    },
    /// The time for a decision about the call is over.
    #[error("{reason}")]
    DecisionLate {
        /// About which run.
        run: RunId,
        /// Which call.
        reason: Arc<str>,
    },
    /// The deployment does not serve that agent.
    #[error("Agent not found")]
    AgentNotFound,
    /// The JSON Schema for the answer cannot be used.
    #[error("`output_schema` cannot be used: {0}")]
    OutputSchema(Arc<str>),
    /// No such schedule, or it is another user's.
    #[error("Schedule not found")]
    ScheduleNotFound,
    /// A field of a schedule cannot be used.
    #[error(transparent)]
    ScheduleUnfit(#[from] Unfit),
    /// The schedule, or another one, is in the way.
    #[error("{0}")]
    ScheduleConflict(Arc<str>),
    /// The idempotency key stands for another request.
    #[error("this `Idempotency-Key` was used for another request")]
    KeyUsed,
    /// An event that the command makes would be too large for the log.
    #[error("the request is too large for one event: {0}")]
    TooLarge(Arc<str>),
}

impl Refusal {
    /// The run does not wait for these decisions.
    #[must_use]
    pub(crate) fn not_in_doubt(run: &RunId, decisions: &[Decision]) -> Self {
        let tool_call_id = decisions.first().map_or_else(|| "".into(), |decision| decision.tool_call_id.clone());
        Self::StepNotInDoubt { run: run.clone(), tool_call_id }
    }

    /// The call waits for another kind of decision, or for more.
    #[must_use]
    pub(crate) fn unfit(run: &RunId, tool_call_id: &str, why: &str) -> Self {
        let reason = format!("the decision about tool call `{tool_call_id}` of run `{run}` cannot be used: {why}");
        Self::DecisionUnfit { run: run.clone(), reason: reason.into() }
    }

    /// Nobody is waited for any more.
    #[must_use]
    pub(crate) fn late(run: &RunId, tool_call_id: &str) -> Self {
        let reason = format!("the time for a decision about tool call `{tool_call_id}` of run `{run}` is over");
        Self::DecisionLate { run: run.clone(), reason: reason.into() }
    }
}

/// Why a command was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// A rule said no: asking again will not help.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The queue is full: nothing was accepted, ask again later.
    #[error("the queue is full: {queued} runs wait, at most {limit} may")]
    QueueFull {
        /// How many wait.
        queued: usize,
        /// How many may.
        limit: usize,
        /// When asking again makes sense.
        retry_after_s: u32,
    },
    /// The node cannot take commands now.
    #[error("the node cannot take commands now: {reason}")]
    Unavailable {
        /// Why, and what to do.
        reason: Arc<str>,
    },
}

/// Whether the node does its work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Readiness {
    /// Why it does not; empty when it does.
    pub reasons: Vec<String>,
    /// Partitions whose log is not what it must be, with what is wrong and what to do: waiting does not help.
    pub refused: BTreeMap<PartitionId, String>,
    /// Partitions that it owns and has not restored yet.
    pub restoring: Vec<PartitionId>,
    /// Whether it answers all the same. A partition that is not served here holds up its own commands only, and
    /// they wait in the log for whoever serves it.
    pub answers: bool,
    /// Everything that it owns is restored or refused, and nothing else is wrong.
    pub is_decided: bool,
}

impl Readiness {
    /// From what holds up everything, which partitions failed and which are on their way. Where other nodes own
    /// partitions too, a partition moves whenever one of them comes or goes, and that is no reason against a node.
    pub(crate) fn of(
        general: Vec<String>,
        refused: BTreeMap<PartitionId, String>,
        failed: Vec<String>,
        restoring: Vec<PartitionId>,
        is_shared: bool,
    ) -> Self {
        let lasting = refused.iter().map(|(number, what)| format!("partition {number}: {what}"));
        let awaited = restoring.iter().filter(|_| !is_shared).map(|number| format!("partition {number}: restoring"));
        let is_decided = general.is_empty() && failed.is_empty() && restoring.is_empty();
        let partitions: Vec<_> = lasting.chain(failed).chain(awaited).collect();
        let answers = general.is_empty() && (is_shared || partitions.is_empty());
        Self { reasons: general.into_iter().chain(partitions).collect(), refused, restoring, answers, is_decided }
    }

    /// It does what it should.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.reasons.is_empty()
    }

    /// It is ready, and nothing that it owns waits to be restored.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.is_ready() && self.restoring.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readiness(general: &[&str], failed: &[&str], restoring: &[PartitionId], is_shared: bool) -> Readiness {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Readiness::of(owned(general), BTreeMap::new(), owned(failed), restoring.to_vec(), is_shared)
    }

    #[test]
    fn a_partition_that_comes_from_another_node_is_no_reason_against_a_node() {
        let restoring = readiness(&[], &[], &[PartitionId(0)], true);
        assert!(restoring.answers && restoring.is_ready() && !restoring.is_settled());
    }

    #[test]
    fn a_partition_that_cannot_be_served_is_a_reason_and_keeps_nobody_from_asking_for_others() {
        let refused = BTreeMap::from([(PartitionId(0), "its log has lost events".to_owned())]);
        let refused = Readiness::of(Vec::new(), refused, Vec::new(), Vec::new(), true);
        assert!(refused.answers && !refused.is_ready() && refused.is_decided, "waiting for it does not help");
        assert_eq!(refused.reasons, ["partition 0: its log has lost events"]);
        let failed = readiness(&[], &["partition 0: its disk is full"], &[], true);
        assert!(failed.answers && !failed.is_ready() && !failed.is_decided);
        assert!(!readiness(&["joining"], &[], &[], true).answers);
    }

    #[test]
    fn a_node_that_owns_all_answers_when_it_has_restored_all() {
        let restoring = readiness(&[], &[], &[PartitionId(0)], false);
        assert!(!restoring.answers && !restoring.is_ready());
        assert!(readiness(&[], &[], &[], false).answers);
    }
}
