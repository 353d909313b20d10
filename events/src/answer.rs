//! What travels back from a command: its answer, or its place among the dead letters.
//!
//! Both are written in the batch that moves the command's cursor, so a command is answered once and is
//! either decided or a dead letter, never both and never neither.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{CommandId, Committed, LogId, Offset, PartitionId, RunId, ScheduleId, SessionId, Token, event::RunStatus};

/// Where a command's answer goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplyTo {
    /// The topic of answers; the log's own when absent, and no other is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Arc<str>>,
    /// Comes back with the answer, so that the publisher knows which command it answers.
    pub correlation_id: Arc<str>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It took effect.
    Accepted,
    /// A rule said no; nothing was changed.
    Rejected,
    /// It had taken effect before.
    Duplicate,
}

/// What the publisher of a command is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// From the command's `reply_to`.
    pub correlation_id: Arc<str>,
    /// Which command.
    pub command_id: CommandId,
    /// How it ended.
    pub outcome: Outcome,
    /// The run it started or is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The session it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The schedule it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_id: Option<ScheduleId>,
    /// The run's status after the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// Why it was rejected, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
    /// Why it was rejected, for programs: a stable word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Arc<str>>,
    /// Seconds after which asking again makes sense.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u32>,
    /// A read token: reads that are given it see the command's effect. Filled in by the log when it is
    /// committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<String>,
}

/// An answer on its way into a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAnswer {
    /// What is told, without its position.
    pub answer: Answer,
    /// The place in the batch of the last event that the command made, if it made any.
    pub event: Option<usize>,
    /// The position to tell when it made none: the last offset known before.
    pub known: Offset,
}

impl NewAnswer {
    /// The answer with its position, once it is known where the batch's events stand.
    #[must_use]
    pub fn placed(&self, log_id: LogId, partition: PartitionId, batch: &Committed) -> Answer {
        let offset = self.event.and_then(|event| batch.offsets.get(event).copied()).unwrap_or(self.known);
        let token = Token { log_id, places: vec![(partition, offset)] };
        Answer { position: Some(token.encode()), ..self.answer.clone() }
    }
}

/// A record of the command topic that is no command, kept as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Where it stood.
    pub partition: PartitionId,
    /// Where in it.
    pub offset: Offset,
    /// Why it is no command, for programs: a stable word.
    pub code: Arc<str>,
    /// Why, for people: what was wrong, where, and what to do.
    pub reason: Arc<str>,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its headers, in order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Its value.
    pub value: Option<Vec<u8>>,
}
