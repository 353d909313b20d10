//! What can be read, by whom. Every query takes a [`Scope`], so that forgetting the owner is impossible.

use reenact_events::{Recorded, RunId, SessionId, UserId, event::RunStatus};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fold::usage::Tokens;

/// Who reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Nobody in particular, where no identity is asked for: sees everything.
    Anyone,
    /// A user: sees what is theirs and what has no owner. Anything else is as if it did not exist.
    User(UserId),
}

/// Which page of a list, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paging {
    /// From 1.
    pub page: u64,
    /// Items a page, at least 1.
    pub limit: u64,
}

/// A page with the total that it is cut from.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The items of this page.
    pub items: Vec<T>,
    /// How many items there are on all pages.
    pub total: u64,
}

/// Which way a list is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Smallest first.
    Ascending,
    /// Largest first.
    #[default]
    Descending,
}

/// What a list of sessions is sorted by; ties are broken by the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionSort {
    /// When it was created.
    #[default]
    CreatedAt,
    /// When it last changed.
    UpdatedAt,
}

/// Which sessions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionFilter {
    /// `agent`, `team` or `workflow`.
    pub session_type: Option<String>,
    /// The component's id.
    pub component_id: Option<String>,
    /// Exactly this owner.
    pub user_id: Option<UserId>,
    /// The name holds this text (compared without case).
    pub name: Option<String>,
    /// Sorted by.
    pub sort: SessionSort,
    /// In which order.
    pub order: Order,
}

/// Which runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunFilter {
    /// Of this session.
    pub session_id: Option<SessionId>,
    /// Of this agent.
    pub agent_id: Option<String>,
    /// Exactly this owner.
    pub user_id: Option<UserId>,
    /// With one of these statuses; empty is any.
    pub statuses: Vec<RunStatus>,
    /// Created at or after, epoch seconds.
    pub created_after: Option<i64>,
    /// Created at or before, epoch seconds.
    pub created_before: Option<i64>,
    /// By creation, newest or oldest first.
    pub order: Order,
}

/// How many runs have a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusCount {
    /// The status.
    pub status: RunStatus,
    /// How many have it.
    pub runs: u64,
    /// When the oldest of them was accepted, epoch seconds.
    pub oldest_created_at: i64,
}

/// A row of `sessions`. Times are epoch seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRow {
    /// Which.
    pub session_id: SessionId,
    /// `agent` until there are others.
    pub session_type: String,
    /// The agent it belongs to, if known.
    pub agent_id: Option<String>,
    /// Its owner.
    pub user_id: Option<UserId>,
    /// `{session_state?, session_name?, session_metrics?}` as AgentOS keeps it.
    pub session_data: Value,
    /// The caller's own.
    pub metadata: Option<Value>,
    /// Set by PATCH.
    pub summary: Option<Value>,
    /// Created.
    pub created_at: i64,
    /// Last changed.
    pub updated_at: Option<i64>,
    /// The first run's message, cut to 100 characters: what an unnamed session is called.
    pub first_message: Option<String>,
}

/// A row of `runs`. Times are epoch seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// Which.
    pub run_id: RunId,
    /// Its session.
    pub session_id: SessionId,
    /// `agent` until there are others.
    pub run_type: String,
    /// Who answers.
    pub agent_id: Option<String>,
    /// Whose.
    pub user_id: Option<UserId>,
    /// The run that started it, if one did.
    pub parent_run_id: Option<RunId>,
    /// Where it is.
    pub status: RunStatus,
    /// Place in its session, from 0.
    pub run_index: u64,
    /// AgentOS's RunOutput: short while the run is at work, complete when it has ended.
    pub run_data: Value,
    /// Accepted.
    pub created_at: i64,
    /// Last changed.
    pub updated_at: Option<i64>,
}

/// A stored event of a run, for resuming a stream after the live frames are gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEventRow {
    /// Sequence in the stream: frame index is `seq << 20`.
    pub seq: u64,
    /// When, epoch milliseconds.
    pub at: i64,
    /// The event's type.
    pub kind: String,
    /// Its payload, JSON.
    pub data: String,
}

impl RunEventRow {
    /// What was recorded.
    pub(crate) fn of(recorded: &Recorded) -> Self {
        let event = &recorded.event;
        Self { seq: event.seq, at: event.at.0, kind: event.kind.to_string(), data: event.data.to_string() }
    }
}

/// A row of `run_steps`: one call of a run. Times are epoch seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRow {
    /// Of which run.
    pub run_id: RunId,
    /// Its place in the run, from 0.
    pub step: u32,
    /// Of which session.
    pub session_id: SessionId,
    /// Whose run it is.
    pub user_id: Option<UserId>,
    /// `model`, `tool` or `guardrail`.
    pub kind: String,
    /// The model that was asked last, the tool or the guardrail.
    pub name: Option<String>,
    /// `held`, `confirmed`, `requested`, `waiting` (for its next attempt) or `in_doubt`; at last `completed`, `failed`,
    /// `skipped`, `rejected` or `expired`.
    pub status: String,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was first asked for.
    pub requested_at: i64,
    /// When its outcome came.
    pub completed_at: Option<i64>,
    /// How long the attempts took that came back.
    pub duration_ms: Option<u64>,
    /// What all attempts used, as far as it was said.
    #[serde(flatten)]
    pub tokens: Tokens,
    /// What was wrong last.
    pub error: Option<String>,
}

/// Which waits for somebody.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApprovalFilter {
    /// `pending`, `approved`, `rejected`, `expired` or `cancelled`.
    pub status: Option<String>,
    /// `confirmation`, `user_input`, `external_execution` or `in_doubt`.
    pub pause_type: Option<String>,
    /// Of this agent.
    pub agent_id: Option<String>,
    /// Exactly this owner.
    pub user_id: Option<UserId>,
    /// In this run.
    pub run_id: Option<RunId>,
}

/// A row of `approvals`: a call that waits, or waited, for somebody. Times are epoch seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRow {
    /// Which.
    pub id: String,
    /// In which run.
    pub run_id: RunId,
    /// Of which session.
    pub session_id: SessionId,
    /// Whose call it is.
    pub agent_id: Option<String>,
    /// Whose run it is.
    pub user_id: Option<UserId>,
    /// Which step of the run.
    pub step: u32,
    /// See [`ApprovalFilter::status`].
    pub status: String,
    /// See [`ApprovalFilter::pause_type`].
    pub pause_type: String,
    /// The tool that is called.
    pub tool_name: String,
    /// When the wait began.
    pub created_at: i64,
    /// Last changed.
    pub updated_at: Option<i64>,
    /// When nobody is waited for any more.
    pub expires_at: Option<i64>,
    /// When the wait ended.
    pub resolved_at: Option<i64>,
    /// Who decided, if known.
    pub resolved_by: Option<UserId>,
    /// `{requirement, resolution_data}`: AgentOS's RunRequirement, and what was said with the decision.
    pub data: Value,
}
