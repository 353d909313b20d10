//! What can be asked for. A command may come from HTTP, from the log of commands, or from another
//! partition's decision; it takes effect once per id.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    AgentId, CommandId, MediaRef, PartitionId, RawJson, ReplyTo, RunId, SessionId, StreamKey, Text, UserId,
    agent::AgentSpec,
    hold::Verdict,
    schedule::{ScheduleCommand, ScheduledBy},
};

/// A request to change something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Names the request: a repeat has the same id and no further effect.
    pub id: CommandId,
    /// Who asks; `None` is nobody in particular. An owner's things are invisible to another user.
    pub user_id: Option<UserId>,
    /// Where the answer goes, for who is not waiting in this process.
    pub reply_to: Option<ReplyTo>,
    /// The key that this run is asked for with: its stream decides first.
    pub key: Option<Box<KeyUse>>,
    /// What is asked.
    pub body: CommandBody,
    /// The whole of it, sealed with the key of whoever asks, on its way through the log: then the rest of it is only
    /// what may be read there.
    pub sealed: Option<Arc<str>>,
}

/// One request under an idempotency key: whoever is first under the key has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyUse {
    /// Which key of which user.
    pub key: Uuid,
    /// What tells this request from others under the key: another one is refused.
    pub request: Arc<str>,
}

impl Command {
    /// A command that nobody far away waits for.
    #[must_use]
    pub fn new(id: CommandId, user_id: Option<UserId>, body: CommandBody) -> Self {
        Self { id, user_id, reply_to: None, key: None, body, sealed: None }
    }

    /// The stream that decides this command next; `None` when only the run is named.
    #[must_use]
    pub fn stream(&self) -> Option<StreamKey> {
        match (&self.key, &self.body) {
            (Some(used), _) => Some(StreamKey::idempotency(used.key)),
            (None, CommandBody::Schedule(_)) => Some(StreamKey::schedules(self.user_id.as_ref())),
            (None, _) => self.body.session_id().map(StreamKey::session),
        }
    }
}

/// The kinds of request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandBody {
    /// Start a run, creating the session if there is none.
    StartRun(Box<StartRun>),
    /// Stop a run.
    CancelRun {
        /// In which session; without it the partitions are asked in turn.
        session_id: Option<SessionId>,
        /// Which run.
        run_id: RunId,
        /// Why, if somebody says.
        reason: Option<Arc<str>>,
        /// How many partitions did not know the run.
        asked: u32,
    },
    /// Decide about the tool calls that a paused run waits for.
    ContinueRun {
        /// In which session; without it the partitions are asked in turn.
        session_id: Option<SessionId>,
        /// Which run.
        run_id: RunId,
        /// At least one.
        decisions: Vec<Decision>,
        /// Who decides, where that is not who asks.
        decided_by: Option<UserId>,
        /// How many partitions did not know the run.
        asked: u32,
    },
    /// Let a run that has failed or was stopped wait for its turn once more.
    RequeueRun {
        /// In which session; without it the partitions are asked in turn.
        session_id: Option<SessionId>,
        /// Which run.
        run_id: RunId,
        /// How many partitions did not know the run.
        asked: u32,
    },
    /// Go on from a message of a run with a new one.
    ForkRun(Box<ForkRun>),
    /// Create a session.
    CreateSession {
        /// Its id.
        session_id: SessionId,
        /// The agent it is made for.
        agent_id: Option<crate::AgentId>,
        /// Its name.
        name: Option<String>,
        /// Its state, a JSON object.
        state: Option<RawJson>,
        /// Its metadata, a JSON object.
        metadata: Option<RawJson>,
    },
    /// Replace fields of a session.
    UpdateSession {
        /// Which.
        session_id: SessionId,
        /// The new name.
        name: Option<String>,
        /// The new state, whole.
        state: Option<RawJson>,
        /// The new metadata, whole.
        metadata: Option<RawJson>,
        /// The new summary, whole.
        summary: Option<RawJson>,
    },
    /// Make a session that has the completed runs of another one.
    ForkSession {
        /// The other one.
        session_id: SessionId,
        /// The new one's name.
        name: Option<String>,
        /// Its metadata, a JSON object.
        metadata: Option<RawJson>,
        /// Its summary, a JSON object.
        summary: Option<RawJson>,
    },
    /// Delete a session with its runs; those at work are stopped.
    DeleteSession {
        /// Which.
        session_id: SessionId,
        /// Only if it has had exactly so many runs and none is open: whoever saw it at rest deletes nothing that
        /// somebody has used since.
        runs: Option<u64>,
        /// Why; the event keeps it.
        reason: Option<Arc<str>>,
    },
    /// Something about a schedule of whoever asks.
    Schedule(ScheduleCommand),
}

/// What somebody decides about a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Which call, by the id that the model gave it.
    pub tool_call_id: Arc<str>,
    /// What is decided.
    pub verdict: Verdict,
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentRef {
    /// The agent of this name, as the partition's owner knows it.
    Named(AgentId),
    /// Exactly this.
    Pinned(Arc<AgentSpec>),
}

impl AgentRef {
    /// The agent's name.
    #[must_use]
    pub fn id(&self) -> &AgentId {
        match self {
            Self::Named(id) => id,
            Self::Pinned(spec) => &spec.id,
        }
    }
}

/// See [`CommandBody::StartRun`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartRun {
    /// In which session.
    pub session_id: SessionId,
    /// Who answers.
    pub agent: AgentRef,
    /// The message.
    pub input: Text,
    /// Files that come with it.
    pub media: Vec<MediaRef>,
    /// A JSON object for the caller's own use.
    pub metadata: Option<RawJson>,
    /// Keys that the session's state has from this run on.
    pub session_state: Option<RawJson>,
    /// The caller watches this run as a stream.
    pub stream: bool,
    /// The caller does not wait.
    pub background: bool,
    /// The JSON Schema that the answer must fit, in place of the agent's.
    pub output_schema: Option<RawJson>,
    /// The schedule that asks, if one does.
    pub scheduled_by: Option<Box<ScheduledBy>>,
}

/// See [`CommandBody::ForkRun`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkRun {
    /// In which session; without it the partitions are asked in turn.
    pub session_id: Option<SessionId>,
    /// The run to go on from.
    pub run_id: RunId,
    /// From where in it.
    pub from: ForkFrom,
    /// What is said then.
    pub input: Option<Text>,
    /// The new run stands in place of the other, which is history no more.
    pub replaces: bool,
    /// Another model than the agent's, at the same provider.
    pub model: Option<Arc<str>>,
    /// Other instructions than the agent's.
    pub instructions: Option<Arc<str>>,
    /// The caller watches the new run as a stream.
    pub stream: bool,
    /// The caller does not wait.
    pub background: bool,
    /// How many partitions did not know the run.
    pub asked: u32,
}

/// Where in a run another one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkFrom {
    /// After its latest message from which can be gone on.
    End,
    /// After the latest message of a person.
    LastUser,
    /// After so many messages.
    Message(u32),
    /// Before this step.
    Step(u32),
    /// Before its answer, which is to be given anew.
    Answer,
}

impl StartRun {
    /// Nothing is said. Files alone are a message too.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let says_nothing = match &self.input {
            Text::Inline(text) => text.is_empty(),
            Text::Blob(blob) => blob.bytes == 0,
        };
        says_nothing && self.media.is_empty()
    }
}

impl CommandBody {
    /// The session that the command names.
    #[must_use]
    pub fn session_id(&self) -> Option<&SessionId> {
        match self {
            Self::StartRun(start) => Some(&start.session_id),
            Self::CancelRun { session_id, .. }
            | Self::ContinueRun { session_id, .. }
            | Self::RequeueRun { session_id, .. } => session_id.as_ref(),
            Self::ForkRun(fork) => fork.session_id.as_ref(),
            Self::CreateSession { session_id, .. }
            | Self::UpdateSession { session_id, .. }
            | Self::ForkSession { session_id, .. }
            | Self::DeleteSession { session_id, .. } => Some(session_id),
            Self::Schedule(_) => None,
        }
    }
}

/// A command that a decision sends to another partition, in the same batch as its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// Where to.
    pub partition: PartitionId,
    /// What.
    pub command: Command,
}
