//! What can be asked for. A command may come from HTTP, from the log of commands, or from another
//! partition's decision; it takes effect once per id.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    CommandId, MediaRef, PartitionId, RawJson, RunId, SessionId, StreamKey, Text, UserId, agent::AgentSpec,
    event::Resolution,
};

/// A request to change something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Names the request: a repeat has the same id and no further effect.
    pub id: CommandId,
    /// Who asks; `None` is nobody in particular. An owner's things are invisible to another user.
    pub user_id: Option<UserId>,
    /// What is asked.
    pub body: CommandBody,
}

impl Command {
    /// The stream that decides this command.
    #[must_use]
    pub fn stream(&self) -> StreamKey {
        StreamKey::session(self.body.session_id())
    }
}

/// The kinds of request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandBody {
    /// Start a run, creating the session if there is none.
    StartRun(Box<StartRun>),
    /// Stop a run.
    CancelRun {
        /// In which session.
        session_id: SessionId,
        /// Which run.
        run_id: RunId,
        /// Why, if somebody says.
        reason: Option<Arc<str>>,
    },
    /// Decide about a step in doubt.
    ResolveStep {
        /// In which session.
        session_id: SessionId,
        /// In which run.
        run_id: RunId,
        /// Which step.
        step: u32,
        /// What is decided.
        resolution: Resolution,
    },
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
    /// Delete a session with its runs; those at work are stopped.
    DeleteSession {
        /// Which.
        session_id: SessionId,
    },
}

/// See [`CommandBody::StartRun`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartRun {
    /// In which session.
    pub session_id: SessionId,
    /// Who answers, pinned as it is now.
    pub agent: Arc<AgentSpec>,
    /// The message.
    pub input: Text,
    /// Files that come with it.
    pub media: Vec<MediaRef>,
    /// A JSON object for the caller's own use.
    pub metadata: Option<RawJson>,
    /// State for a session that this run creates.
    pub session_state: Option<RawJson>,
    /// The caller watches this run as a stream.
    pub stream: bool,
    /// The caller does not wait.
    pub background: bool,
}

impl CommandBody {
    /// The session that the command is about.
    #[must_use]
    pub fn session_id(&self) -> &SessionId {
        match self {
            Self::StartRun(start) => &start.session_id,
            Self::CancelRun { session_id, .. }
            | Self::ResolveStep { session_id, .. }
            | Self::CreateSession { session_id, .. }
            | Self::UpdateSession { session_id, .. }
            | Self::DeleteSession { session_id } => session_id,
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
