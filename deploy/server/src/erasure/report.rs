//! What is said of an erasure: place by place, what was done and what remains.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What was done in a place, and what remains there.
pub(super) type Done = (String, Option<String>);

/// A step of an erasure, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Their sessions.
    Sessions,
    /// The keys of their content.
    Keys,
    /// The log: schedules, and the fact itself.
    Log,
    /// On Kafka, what was asked through the topic of commands.
    Commands,
    /// The rows that are read.
    Views,
    /// What decisions are made from.
    States,
    /// Large texts and files.
    Blobs,
    /// On Kafka, what was sent and was no command.
    DeadLetters,
    /// On Kafka, what publishers were answered.
    Answers,
    /// On Kafka, what runs have just said.
    Live,
    /// What no program of this deployment reaches.
    Elsewhere,
}

impl Step {
    /// All of them, in order.
    pub(super) const ALL: [Self; 11] = [
        Self::Sessions,
        Self::Keys,
        Self::Log,
        Self::Commands,
        Self::Views,
        Self::States,
        Self::Blobs,
        Self::DeadLetters,
        Self::Answers,
        Self::Live,
        Self::Elsewhere,
    ];

    /// Whether there is such a place only where nodes share a log.
    pub(super) fn is_of_shared_logs(self) -> bool {
        matches!(self, Self::Commands | Self::DeadLetters | Self::Answers | Self::Live)
    }
}

/// What was done in a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Place {
    /// Where.
    pub place: Step,
    /// When.
    pub done_at: String,
    /// What.
    pub done: String,
    /// What remains there, and until when.
    pub remains: Option<String>,
}

/// How the erasure of a user stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Report {
    /// Whose.
    pub user_id: String,
    /// When it was asked for.
    pub asked_at: String,
    /// When all was done.
    pub finished_at: Option<String>,
    /// The names of the keys that were destroyed.
    pub keys: Vec<String>,
    /// Place by place.
    pub places: Vec<Place>,
    /// What it waits for, if something could not be done: that is tried again.
    pub trouble: Option<String>,
}

/// What is said of places in which nothing is done.
pub(super) fn untouched(step: Step) -> Done {
    let (done, remains) = match step {
        Step::DeadLetters => (
            "nothing: whose they are is not known",
            "what programs sent that was no command, as they sent it, until somebody deletes it: this topic is kept for \
             ever unless its `retention.ms` says otherwise",
        ),
        Step::Answers => (
            "nothing: they hold ids and no content",
            "ids, correlation ids as publishers chose them, and why commands were refused, until the topic's \
             `retention.ms` (a day as it is made)",
        ),
        Step::Live => (
            "nothing: it ends by itself",
            "what was said in the last minutes, in clear text, until the topic's `retention.ms` (15 minutes as it is \
             made) and until the brokers remove the file, at most as long again",
        ),
        _ => (
            "nothing: this program reaches none of it",
            "backups of the data directory, of the database and of its write-ahead log; what was sent to models, tools \
             and readers; the user's id, and when how much was used, stand in the log, in metrics and in what programs \
             wrote into their own logs",
        ),
    };
    (done.to_owned(), Some(remains.to_owned()))
}
