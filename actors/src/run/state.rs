//! What a run has come to: the fold of its events, in pieces that are stored apart.
//!
//! The origin never changes, the progress is small, and each step is its own record, so that an event writes
//! a bounded number of bytes however long the run or its session is.

use std::sync::Arc;

use reenact_events::{
    AgentId, MediaRef, RawJson, RunId, SessionId, StepToken, Text, Timestamp, UserId,
    agent::AgentSpec,
    event::{Failure, Resolution, RunStatus, Said, StepCall, StepResult},
    hold::{Needs, OnExpiry},
    schedule::ScheduledBy,
};
use serde::{Deserialize, Serialize};

/// What the run was accepted with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Which.
    pub run_id: RunId,
    /// In which session.
    pub session_id: SessionId,
    /// Whose.
    pub user_id: Option<UserId>,
    /// Place among the session's runs.
    pub run_index: u64,
    /// Who answers.
    pub agent_id: AgentId,
    /// Which version of it.
    pub agent_version: Arc<str>,
    /// The message.
    pub input: Text,
    /// Its files.
    pub media: Vec<MediaRef>,
    /// What the answer must fit, if whoever asked said; else the agent's counts.
    pub output_schema: Option<RawJson>,
    /// When it was accepted.
    pub queued_at: Timestamp,
    /// What people said after its first message.
    pub said: Vec<Said>,
    /// It sees as history the session's runs before this place.
    pub history_before: u64,
    /// How many of its first steps another run made.
    pub taken_over: u32,
    /// The session that it was copied from.
    pub copied_from: Option<SessionId>,
    /// The schedule that asked for it, and is told of its end.
    pub scheduled_by: Option<Box<ScheduledBy>>,
}

impl Origin {
    /// The step before which somebody spoke last; 0 where the first message is the last.
    #[must_use]
    pub fn spoken_to_at(&self) -> u32 {
        self.said.last().map_or(0, |said| said.step)
    }
}

/// Where the run stands, without its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Its status.
    pub status: RunStatus,
    /// When it last got its turn: as it began, or went on after a pause.
    pub turn_at: Option<Timestamp>,
    /// How many steps were requested.
    pub steps: u32,
    /// How many of them ask the model.
    pub turns: u32,
    /// The last of them that asks the model.
    pub last_turn: Option<u32>,
    /// How many steps have no outcome yet.
    pub open: u32,
    /// How many steps there were when it was last queued again: what ended it then does not count any more.
    pub old_steps: u32,
    /// How many of those ask the model.
    pub old_turns: u32,
    /// How often events had been lost in the partition when the run was accepted.
    pub losses: u32,
    /// The log has lost events since, and perhaps some of this run: it may have done more than is known.
    pub history_lost: bool,
}

/// How a step stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepState {
    /// The latest attempt has no outcome.
    Requested,
    /// The latest attempt failed; another is due.
    Waiting {
        /// When.
        retry_at: Timestamp,
        /// Why it failed.
        error: Failure,
    },
    /// It cannot be known whether the latest attempt happened.
    InDoubt,
    /// It is not made before somebody has decided about it.
    Held(Hold),
    /// Somebody decided that it may be made: it was held, or the attempt in doubt did not happen.
    RetryAllowed,
    /// It brought this.
    Done(StepResult),
    /// It failed for good.
    Failed(Failure),
    /// Somebody decided about it.
    Resolved(Resolution),
}

/// What a held call waits for, and how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// What.
    pub needs: Needs,
    /// When nobody is waited for any more.
    pub expires_at: Option<Timestamp>,
    /// What happens then.
    pub on_expiry: OnExpiry,
}

impl StepState {
    /// Whether only somebody's decision helps.
    #[must_use]
    pub fn waits_for_somebody(&self) -> bool {
        matches!(self, Self::InDoubt | Self::Held(_))
    }

    /// Whether nothing more will happen to the step.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Failed(_) | Self::Resolved(_))
    }
}

/// Which of its agent's models a step asks, and with how much of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Asked {
    /// The model's place among the agent's models.
    pub place: u32,
    /// How far the conversation is trimmed, see [`trim`](super::trim).
    pub trims: u32,
}

/// A model that the run does not ask any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenUp {
    /// Its place among the agent's models.
    pub place: u32,
    /// How it failed last.
    pub error: Failure,
}

/// A step with its latest attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What it does.
    pub call: StepCall,
    /// Its name across attempts.
    pub token: StepToken,
    /// The latest attempt, from 1; 0 while none was made of a held call.
    pub attempt: u32,
    /// How many attempts to make the same call failed; attempts that a crash cut off do not count.
    pub failures: u32,
    /// What the latest attempt asks, where it asks a model.
    pub asked: Asked,
    /// The models that were given up at this step.
    pub given_up: Vec<GivenUp>,
    /// The latest attempt is not begun after this.
    pub not_after: Timestamp,
    /// How it stands.
    pub state: StepState,
    /// Why the answer that it brought is not what was asked for.
    pub unfit: Option<Arc<str>>,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunState {
    /// What it was accepted with.
    pub origin: Arc<Origin>,
    /// Where it stands.
    pub progress: Progress,
    /// Its steps.
    pub steps: Vec<Arc<Step>>,
}

impl RunState {
    /// A run that was just accepted.
    #[must_use]
    pub fn queued(origin: Origin) -> Self {
        let progress = Progress {
            status: RunStatus::Pending,
            turn_at: None,
            steps: 0,
            turns: 0,
            last_turn: None,
            open: 0,
            old_steps: 0,
            old_turns: 0,
            losses: 0,
            history_lost: false,
        };
        Self { origin: Arc::new(origin), progress, steps: Vec::new() }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &RunId {
        &self.origin.run_id
    }

    /// The JSON Schema that the answer must fit, if it must.
    #[must_use]
    pub fn output_schema<'a>(&'a self, agent: &'a AgentSpec) -> Option<&'a RawJson> {
        self.origin.output_schema.as_ref().or(agent.output_schema.as_ref())
    }

    /// The step at a place.
    #[must_use]
    pub fn step(&self, step: u32) -> Option<&Arc<Step>> {
        self.steps.get(step as usize)
    }

    /// The steps without an outcome, with their places.
    pub fn open_steps(&self) -> impl Iterator<Item = (u32, &Arc<Step>)> {
        (0..).zip(&self.steps).filter(|(_, step)| !step.state.is_settled())
    }

    /// Whether all that it waits for is a moment: a provider has asked for patience.
    #[must_use]
    pub fn rests(&self) -> bool {
        let is_at_work = |step: &Step| matches!(step.state, StepState::Requested | StepState::RetryAllowed);
        let waits = |step: &Step| matches!(step.state, StepState::Waiting { .. });
        self.progress.status == RunStatus::Running
            && self.open_steps().any(|(_, step)| waits(step))
            && !self.open_steps().any(|(_, step)| is_at_work(step))
    }

    /// Whether it is paused and nothing is left to decide: it goes on as soon as there is a slot.
    #[must_use]
    pub fn may_continue(&self) -> bool {
        self.progress.status == RunStatus::Paused && self.open_steps().all(|(_, step)| !step.state.waits_for_somebody())
    }

    /// When nobody is waited for any more for one of its held calls, the earliest. A run that was queued again asks
    /// anew when its turn comes: until then no time runs.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Timestamp> {
        if self.progress.status == RunStatus::Pending {
            return None;
        }
        let expiry = |(_, step): (u32, &Arc<Step>)| match &step.state {
            StepState::Held(hold) => hold.expires_at,
            _ => None,
        };
        self.open_steps().filter_map(expiry).min()
    }

    /// What is told of where it is: once everything is decided it waits for its turn and for no person.
    #[must_use]
    pub fn told_status(&self) -> RunStatus {
        if self.may_continue() { RunStatus::Pending } else { self.progress.status }
    }

    /// The step whose attempt has just this number and no outcome yet; anything else is a late result.
    #[must_use]
    pub fn awaits(&self, step: u32, attempt: u32) -> Option<&Arc<Step>> {
        self.step(step).filter(|known| known.attempt == attempt && known.state == StepState::Requested)
    }
}
