//! Models behind Gemini's `streamGenerateContent`.
//!
//! [`request`] writes the conversation, [`answer`] adds the pieces of a stream up.

mod answer;
mod request;

use reenact_actors::step::{ModelCall, StepError};
use reenact_events::{Blobs, agent::ModelSpec};

use super::protocol::{Protocol, Provider};

/// See the module.
pub(super) struct Gemini;

impl Protocol for Gemini {
    const PROVIDER: Provider = Provider {
        name: "gemini",
        company: "Gemini",
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        key_variable: "GEMINI_API_KEY",
        answer: "generated content",
        end_mark: "`finishReason`",
    };
    type Answer = answer::Answer;

    fn path(model: &ModelSpec) -> String {
        let id = model.id.strip_prefix("models/").unwrap_or(&model.id);
        format!("/models/{id}:streamGenerateContent?alt=sse")
    }

    fn key_header(key: &str) -> (&'static str, String) {
        ("x-goog-api-key", key.to_owned())
    }

    async fn body(call: &ModelCall, blobs: &dyn Blobs) -> Result<Vec<u8>, StepError> {
        request::body(call, blobs).await
    }
}
