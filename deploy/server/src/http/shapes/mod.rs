//! The bodies of answers, named as AgentOS names them.

mod agent;
mod run;
mod session;

use chrono::{DateTime, SecondsFormat};

pub use agent::{AgentResponse, AgentSummary, ModelResponse};
pub(crate) use run::input_of;
pub use run::{RunPreview, RunSchema, Ticket};
pub use session::{SessionDetail, SessionSchema, chat_history};

/// Epoch seconds as ISO 8601 in UTC.
#[must_use]
pub fn iso_seconds(seconds: i64) -> String {
    DateTime::from_timestamp(seconds, 0).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Secs, true)
}
