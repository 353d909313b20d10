//! The fields of each kind of command, as they stand in its JSON beside `type`, `id`, `user_id` and `reply_to`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Starts a run, creating the session if there is none.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StartRun {
    /// The conversation; one of its runs is at work at a time.
    pub(super) session_id: String,
    /// Who answers: an agent that the deployment serves.
    pub(super) agent_id: String,
    /// The message.
    pub(super) message: Message,
    /// Files that come with it, stored before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) media: Vec<Media>,
    /// For the publisher's own use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<Map<String, Value>>,
    /// Keys that the session's state has from this run on; its other keys stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) session_state: Option<Map<String, Value>>,
    /// The JSON Schema that the answer must fit, in place of the agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) output_schema: Option<Map<String, Value>>,
    /// Somebody watches the answer as it comes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) stream: bool,
    /// Nobody waits for the end.
    #[serde(default = "yes")]
    pub(super) background: bool,
}

fn yes() -> bool {
    true
}

/// A text, or where a long one was stored before.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Message {
    /// The text itself.
    Text(String),
    /// A stored text.
    Stored(Blob),
}

/// Bytes in the deployment's object store.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Blob {
    /// SHA-256 of the bytes, 64 lower-case hexadecimal digits.
    pub(super) sha256: String,
    /// How many bytes.
    pub(super) bytes: u64,
}

/// A stored file.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Media {
    /// `image`, `audio`, `video` or `file`.
    pub(super) kind: String,
    /// Where the bytes are.
    pub(super) blob: Blob,
    /// Its media type, for example `image/jpeg`.
    pub(super) mime: String,
    /// What the sender called it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
}

/// Stops a run.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelRun {
    /// Which run.
    pub(super) run_id: String,
    /// Its session; without it the command is handed round until somebody knows the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) session_id: Option<String>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
}

/// Lets a run that has failed or was stopped wait for its turn once more, to go on from its last completed step.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RequeueRun {
    /// Which run.
    pub(super) run_id: String,
    /// Its session; without it the command is handed round until somebody knows the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) session_id: Option<String>,
}

/// Goes on from a message of a run with a new run at the end of its session. Steps up to there are taken over: no tool
/// is called again.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForkRun {
    /// The run to go on from.
    pub(super) run_id: String,
    /// Its session; without it the command is handed round until somebody knows the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) session_id: Option<String>,
    /// After which message: `end` (if nothing is said), `last_user`, or how many of the run's messages are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) continue_from: Option<ForkPoint>,
    /// In place of `continue_from`: before which step of the run, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) step: Option<u32>,
    /// In place of `continue_from`: before the run's answer, which is to be given anew.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) regenerate: bool,
    /// With `regenerate`: the run is history no more; true if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) replace_original: Option<bool>,
    /// What is said then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) input: Option<Message>,
    /// Another model than the agent's, at the same provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    /// Other instructions than the agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) instructions: Option<String>,
    /// Somebody watches the answer as it comes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) stream: bool,
    /// Nobody waits for the end.
    #[serde(default = "yes")]
    pub(super) background: bool,
}

/// How many messages are kept, or a word for it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "it should be `end`, `last_user` or how many messages are kept")]
pub(super) enum ForkPoint {
    /// So many.
    Messages(u32),
    /// A word for it.
    Word(ForkWord),
}

/// After which message.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ForkWord {
    /// The latest.
    End,
    /// The latest of a person.
    LastUser,
}

/// Decides about the tool calls that a paused run waits for.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ContinueRun {
    /// Which run.
    pub(super) run_id: String,
    /// Its session; without it the command is handed round until somebody knows the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) session_id: Option<String>,
    /// The decisions, at least one.
    pub(super) requirements: Vec<Requirement>,
    /// Who decides, where that is not `user_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) decided_by: Option<String>,
}

/// A decision about one tool call: `result`, or `confirmed`, or `fail`.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Requirement {
    /// Which call, by the id that the model gave it.
    pub(super) tool_call_id: String,
    /// It happened, or was made elsewhere, with this result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<Message>,
    /// True: make the call. False: tell the model that it was not made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) confirmed: Option<bool>,
    /// With `confirmed: true`: other arguments than the model's, a JSON object as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) arguments: Option<Message>,
    /// With `confirmed: true`: what a person filled in, by the argument's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) input: Option<Map<String, Value>>,
    /// With `confirmed: false`: what the model is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
    /// True: end the run with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) fail: Option<bool>,
}

/// Creates a session.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateSession {
    /// Its id.
    pub(super) session_id: String,
    /// The agent it is made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) agent_id: Option<String>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    /// Its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<Map<String, Value>>,
    /// For the publisher's own use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<Map<String, Value>>,
}

/// Replaces fields of a session; those that are left out stay.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateSession {
    /// Which.
    pub(super) session_id: String,
    /// The new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    /// The new state, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<Map<String, Value>>,
    /// The new metadata, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<Map<String, Value>>,
    /// The new summary, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<Map<String, Value>>,
}

/// Makes a session that has the completed runs of another one; the answer names it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForkSession {
    /// The other one.
    pub(super) session_id: String,
    /// The new one's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    /// For the publisher's own use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<Map<String, Value>>,
    /// Its summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<Map<String, Value>>,
}

/// Deletes a session with its runs; those at work are stopped.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteSession {
    /// Which.
    pub(super) session_id: String,
    /// Only if it has had exactly so many runs and none is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) runs: Option<u64>,
    /// Why; the event keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
}
