//! Models behind the chat completions protocol, as OpenAI and many other servers speak it.
//!
//! The servers differ where it matters: chunks that typed clients refuse (no `index`, no `id`, arguments that
//! are no string), running totals of usage, errors in mid-stream, a plain body in place of a stream, bytes that
//! are no text. [`request`] writes the conversation, [`wire`] reads a frame, [`answer`] adds frames up.

mod answer;
mod calls;
mod request;
mod usage;
mod wire;

use reenact_actors::step::{ModelCall, StepError};
use reenact_events::{Blobs, agent::ModelSpec};

use super::protocol::{Protocol, Provider};

/// See the module.
pub(super) struct OpenAi;

impl Protocol for OpenAi {
    const PROVIDER: Provider = Provider {
        name: "openai",
        company: "OpenAI",
        base_url: "https://api.openai.com/v1",
        key_variable: "OPENAI_API_KEY",
        answer: "chat completion",
        end_mark: "`finish_reason` and without `[DONE]`",
    };
    type Answer = answer::Answer;

    fn path(_: &ModelSpec) -> String {
        "/chat/completions".to_owned()
    }

    fn key_header(key: &str) -> (&'static str, String) {
        ("authorization", format!("Bearer {key}"))
    }

    async fn body(call: &ModelCall, blobs: &dyn Blobs) -> Result<Vec<u8>, StepError> {
        request::body(call, blobs).await
    }
}
