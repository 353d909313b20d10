//! Tools: requests to other services, and a few that are part of this program.

pub(crate) mod builtin;
pub(crate) mod http;
mod http_reply;
pub(crate) mod http_request;
mod result;

use reenact_actors::step::ToolReply;

/// A tool's answer in words.
pub(crate) fn answered(text: impl Into<String>) -> ToolReply {
    ToolReply { text: text.into(), error: false, media: Vec::new(), session_state: None }
}

/// What went wrong, for the model.
pub(crate) fn failed(text: impl Into<String>) -> ToolReply {
    ToolReply { text: text.into(), error: true, media: Vec::new(), session_state: None }
}
