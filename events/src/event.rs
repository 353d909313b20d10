//! The facts, one enum per entity, each with a versioned name.
//!
//! Payloads are JSON objects; unknown fields are ignored at read and survive in the stored bytes. Adding an
//! optional field keeps the version; anything else makes a new version and an upcaster ([`crate::upcast`]).
//! Enums inside payloads are externally tagged, so that the state store's binary codec can hold them too.

mod blobs;
mod fork;
mod hold;
mod run;
mod schedule;
mod status;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    AgentId, CommandId, LogId, NodeId, Offset, RawJson, RunId, SessionId, Timestamp, UserId, agent::AgentSpec,
    command::KeyUse, session_state::StateChanges,
};

/// Why a stored event could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// No reader knows this type.
    #[error("event type `{name}` is unknown to this version")]
    UnknownType {
        /// The stored type.
        name: String,
    },
    /// Its owner's content is sealed, and whoever reads it has no keys.
    #[error("its content is sealed: say `--content per_user_key`, and where the keys are")]
    Sealed,
    /// The payload is not what its type promises.
    #[error("event of type `{name}` has a payload that cannot be read")]
    Payload {
        /// The stored type.
        name: String,
        /// What the JSON reader said.
        source: serde_json::Error,
    },
}

pub use fork::*;
pub use hold::*;
pub use run::*;
pub use schedule::*;
pub use status::*;

macro_rules! catalog {
    ($($(#[$edoc:meta])* $entity:ident as $group:ident { $($(#[$doc:meta])* $variant:ident($payload:ident) = $name:literal,)+ })+) => {
        /// Any fact of the log.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Event { $($(#[$edoc])* $entity($group),)+ }

        $($(#[$edoc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $group { $($(#[$doc])* $variant($payload),)+ })+

        $(impl $group {
            /// The versioned type, as in `ce_type`.
            #[must_use]
            pub fn type_name(&self) -> &'static str {
                match self { $(Self::$variant(_) => $name,)+ }
            }

            /// The payload as JSON.
            ///
            /// # Errors
            /// Never for the payloads of this catalogue; the signature is `serde_json`'s.
            pub fn encode(&self) -> Result<String, serde_json::Error> {
                match self { $(Self::$variant(payload) => serde_json::to_string(payload),)+ }
            }
        }

        impl From<$group> for Event {
            fn from(event: $group) -> Self { Self::$entity(event) }
        }

        $(impl From<$payload> for $group {
            fn from(payload: $payload) -> Self { Self::$variant(payload) }
        }
        impl From<$payload> for Event {
            fn from(payload: $payload) -> Self { Self::$entity($group::$variant(payload)) }
        })+)+

        impl Event {
            /// The versioned type, as in `ce_type`.
            #[must_use]
            pub fn type_name(&self) -> &'static str {
                match self { $(Self::$entity(event) => event.type_name(),)+ }
            }

            /// The payload as JSON.
            ///
            /// # Errors
            /// Never for the payloads of this catalogue; the signature is `serde_json`'s.
            pub fn encode(&self) -> Result<String, serde_json::Error> {
                match self { $(Self::$entity(event) => event.encode(),)+ }
            }

            /// Reads a payload of a *current* type; [`crate::upcast::decode`] reads old ones too.
            ///
            /// # Errors
            /// When the type is unknown or the payload is not of that type.
            pub fn decode_current(name: &str, json: &str) -> Result<Self, DecodeError> {
                let payload = |source| DecodeError::Payload { name: name.to_owned(), source };
                match name {
                    $($($name => serde_json::from_str(json)
                        .map(|event| Self::$entity($group::$variant(event)))
                        .map_err(payload),)+)+
                    _ => Err(DecodeError::UnknownType { name: name.to_owned() }),
                }
            }
        }

        /// Every current type, in catalogue order.
        pub const CURRENT_TYPES: &[&str] = &[$($($name,)+)+];
    };
}

catalog! {
    /// About a partition.
    Partition as PartitionEvent {
        /// A node took the partition; the offset of this event is the term.
        Claimed(PartitionClaimed) = "dev.reenact.partition.claimed.v1",
    }
    /// About a component, in the stream of the session that first uses it in a partition.
    Component as ComponentEvent {
        /// A version of an agent is used in this partition from here on.
        Registered(ComponentRegistered) = "dev.reenact.component.registered.v1",
    }
    /// About a session.
    Session as SessionEvent {
        /// The session exists from here on.
        Created(SessionCreated) = "dev.reenact.session.created.v1",
        /// Some of its fields were replaced.
        Updated(SessionUpdated) = "dev.reenact.session.updated.v1",
        /// The session and its runs are gone from every read.
        Deleted(SessionDeleted) = "dev.reenact.session.deleted.v1",
    }
    /// About an idempotency key.
    Key as KeyEvent {
        /// A request is the first under this key: its run is the one that the key stands for.
        Used(KeyUsed) = "dev.reenact.key.used.v1",
    }
    /// About a user, in the stream of their schedules.
    Subject as SubjectEvent {
        /// The keys of the user's content are destroyed.
        Erased(SubjectErased) = "dev.reenact.subject.erased.v1",
    }
    /// About a schedule, in the stream of its owner's schedules.
    Schedule as ScheduleEvent {
        /// The schedule exists from here on.
        Created(ScheduleCreated) = "dev.reenact.schedule.created.v1",
        /// It does something else from here on.
        Updated(ScheduleUpdated) = "dev.reenact.schedule.updated.v1",
        /// It is due again.
        Enabled(ScheduleEnabled) = "dev.reenact.schedule.enabled.v1",
        /// It is not due any more.
        Disabled(ScheduleDisabled) = "dev.reenact.schedule.disabled.v1",
        /// It is gone.
        Deleted(ScheduleDeleted) = "dev.reenact.schedule.deleted.v1",
        /// It was due, or triggered, and brings a run.
        Fired(ScheduleFired) = "dev.reenact.schedule.fired.v1",
        /// It was due and brings none.
        Skipped(ScheduleSkipped) = "dev.reenact.schedule.skipped.v1",
        /// A run of a fire is asked for, in the same batch.
        AttemptStarted(AttemptStarted) = "dev.reenact.schedule.attempt.started.v1",
        /// A run of a fire has ended, or waits for a decision.
        AttemptReported(AttemptReported) = "dev.reenact.schedule.attempt.reported.v1",
    }
    /// About a run.
    Run as RunEvent {
        /// The run was accepted: from here on it will end.
        Queued(RunQueued) = "dev.reenact.run.queued.v1",
        /// The run got its turn.
        Started(RunStarted) = "dev.reenact.run.started.v1",
        /// An attempt of a step is about to be made.
        StepRequested(StepRequested) = "dev.reenact.run.step.requested.v1",
        /// An attempt succeeded.
        StepCompleted(StepCompleted) = "dev.reenact.run.step.completed.v1",
        /// An attempt failed.
        StepFailed(StepFailed) = "dev.reenact.run.step.failed.v1",
        /// It cannot be known whether an attempt happened.
        StepInDoubt(StepInDoubt) = "dev.reenact.run.step.in_doubt.v1",
        /// Somebody decided about a step in doubt.
        StepResolved(StepResolved) = "dev.reenact.run.step.resolved.v1",
        /// A tool call is not made before somebody has decided about it.
        StepHeld(StepHeld) = "dev.reenact.run.step.held.v1",
        /// Somebody decided about a held call.
        StepAnswered(StepAnswered) = "dev.reenact.run.step.answered.v1",
        /// Nobody decided about a held call in time.
        StepExpired(StepExpired) = "dev.reenact.run.step.expired.v1",
        /// The run waits for a decision from outside.
        Paused(RunPaused) = "dev.reenact.run.paused.v1",
        /// The run goes on.
        Continued(RunContinued) = "dev.reenact.run.continued.v1",
        /// Somebody asked for the run to stop.
        CancelRequested(RunCancelRequested) = "dev.reenact.run.cancel_requested.v1",
        /// The run ended well.
        Completed(RunCompleted) = "dev.reenact.run.completed.v1",
        /// The run ended with an error.
        Failed(RunFailed) = "dev.reenact.run.failed.v1",
        /// The run was stopped.
        Cancelled(RunCancelled) = "dev.reenact.run.cancelled.v1",
        /// A run that had failed or was stopped waits for its turn once more, to go on from its last completed step.
        Requeued(RunRequeued) = "dev.reenact.run.requeued.v1",
        /// A run that goes on from another one has this step from it, and does not make it.
        StepTakenOver(StepTakenOver) = "dev.reenact.run.step.taken_over.v1",
        /// Another run answers in place of this one, which is history no more.
        Regenerated(RunRegenerated) = "dev.reenact.run.regenerated.v1",
    }
}

/// See [`PartitionEvent::Claimed`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionClaimed {
    /// Who claims.
    pub node: NodeId,
    /// Which log this is; tells a recreated or restored log from the one that was known.
    pub log_id: LogId,
    /// Tells two claims of one node apart.
    pub nonce: uuid::Uuid,
    /// Where the node serves HTTP, if it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Arc<str>>,
    /// How often events were lost here and somebody accepted it, this time included. A state that knows of fewer and
    /// does not fit the log has seen what was lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub losses: u32,
    /// What this claim accepts to be lost. Runs that are open at it may have done more than the log tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepts: Vec<Loss>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What a partition has lost, as whoever accepted it was told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Of what.
    pub of: LossOf,
    /// What stood before this offset is still there.
    pub from: Offset,
    /// Something stood before this offset that is not there any more.
    pub until: Offset,
    /// How that is known.
    pub reason: Arc<str>,
    /// Runs that were accepted, had not ended and have no event any more, as far as whoever has seen them says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<LostRun>,
}

impl Loss {
    /// The same without the runs, which the log itself cannot tell.
    #[must_use]
    pub fn unnamed(&self) -> Self {
        Self { runs: Vec::new(), ..self.clone() }
    }
}

/// A run of which only a state store or a snapshot tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostRun {
    /// Which.
    pub run_id: RunId,
    /// In which session.
    pub session_id: SessionId,
    /// Whose.
    pub user_id: Option<UserId>,
    /// Who was to answer.
    pub agent_id: AgentId,
    /// When it was accepted.
    pub queued_at: Timestamp,
}

/// See [`Loss`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossOf {
    /// Acknowledged events.
    Events,
    /// Commands; the events that followed from those that were taken are there.
    Commands,
}

/// See [`KeyEvent::Used`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyUsed {
    /// The key, and the request that has it from here on.
    pub by: KeyUse,
    /// The session that it went to.
    pub session_id: SessionId,
}

/// The type of [`SubjectErased`].
pub const SUBJECT_ERASED: &str = "dev.reenact.subject.erased.v1";

/// See [`SubjectEvent::Erased`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubjectErased {
    /// Whose.
    pub user_id: UserId,
    /// The names of all keys that the user's content was ever sealed with.
    pub keys: Vec<uuid::Uuid>,
}

/// See [`ComponentEvent::Registered`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentRegistered {
    /// What [`AgentSpec::version`] says of `spec`.
    pub version: Arc<str>,
    /// The agent as it stood.
    pub spec: AgentSpec,
    /// A person gave it other instructions: it is no agent of the deployment's, and no other user's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own: bool,
}

/// See [`SessionEvent::Created`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCreated {
    /// Which.
    pub session_id: SessionId,
    /// Its owner for good; a session without one is shared.
    pub user_id: Option<UserId>,
    /// The agent it was made with, if any.
    pub agent_id: Option<AgentId>,
    /// Its name; unnamed sessions are shown by their first message.
    pub name: Option<String>,
    /// A JSON object that tools and prompts share.
    pub state: Option<RawJson>,
    /// A JSON object for the caller's own use.
    pub metadata: Option<RawJson>,
    /// The session that it is a copy of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from_session_id: Option<SessionId>,
}

/// See [`SessionEvent::Updated`]. Absent fields stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionUpdated {
    /// Which.
    pub session_id: SessionId,
    /// The new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The new state, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<RawJson>,
    /// The new metadata, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RawJson>,
    /// The new summary, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<RawJson>,
}

/// See [`SessionEvent::Deleted`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionDeleted {
    /// Which.
    pub session_id: SessionId,
    /// The rule that had it deleted; nothing when somebody asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
}

impl PartitionClaimed {
    /// The claim of a node that accepts nothing.
    #[must_use]
    pub fn new(node: NodeId, log_id: LogId, nonce: uuid::Uuid) -> Self {
        Self { node, log_id, nonce, endpoint: None, losses: 0, accepts: Vec::new() }
    }

    /// The same in a partition where so many losses were accepted before, accepting these too.
    #[must_use]
    pub fn after(self, losses: u32, accepts: Vec<Loss>) -> Self {
        let more = accepts.iter().any(|loss| loss.of == LossOf::Events);
        Self { losses: losses + u32::from(more), accepts, ..self }
    }
}

impl RunEvent {
    /// The run that the event is about.
    #[must_use]
    pub fn run_id(&self) -> &RunId {
        match self {
            Self::Queued(event) => &event.run_id,
            Self::Started(event) => &event.run_id,
            Self::StepRequested(event) => &event.run_id,
            Self::StepCompleted(event) => &event.run_id,
            Self::StepFailed(event) => &event.run_id,
            Self::StepInDoubt(event) => &event.run_id,
            Self::StepResolved(event) => &event.run_id,
            Self::StepHeld(event) => &event.run_id,
            Self::StepAnswered(event) => &event.run_id,
            Self::StepExpired(event) => &event.run_id,
            Self::Paused(event) => &event.run_id,
            Self::Continued(event) => &event.run_id,
            Self::CancelRequested(event) => &event.run_id,
            Self::Completed(event) => &event.run_id,
            Self::Failed(event) => &event.run_id,
            Self::Cancelled(event) => &event.run_id,
            Self::Requeued(event) => &event.run_id,
            Self::StepTakenOver(event) => &event.run_id,
            Self::Regenerated(event) => &event.run_id,
        }
    }

    /// What it changes in its session's state.
    #[must_use]
    pub fn state_changes(&self) -> Option<&StateChanges> {
        match self {
            Self::Queued(event) => event.session_state.as_deref(),
            Self::StepCompleted(event) => event.session_state.as_deref(),
            _ => None,
        }
    }

    /// Whether nothing follows this event in its run, unless somebody queues it again.
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self, Self::Completed(_) | Self::Failed(_) | Self::Cancelled(_))
    }
}

/// The command that made an event, as the envelope carries it.
pub type Cause = Option<CommandId>;
