//! Models behind Anthropic's messages protocol.
//!
//! [`request`] writes the conversation, [`answer`] adds the events of a stream up.

mod answer;
mod request;

use reenact_actors::step::{ModelCall, StepError};
use reenact_events::{Blobs, agent::ModelSpec};

use super::protocol::{Protocol, Provider};

/// The version of the protocol that is spoken here.
const VERSION: &str = "2023-06-01";

/// See the module.
pub(super) struct Anthropic;

impl Protocol for Anthropic {
    const PROVIDER: Provider = Provider {
        name: "anthropic",
        company: "Anthropic",
        base_url: "https://api.anthropic.com/v1",
        key_variable: "ANTHROPIC_API_KEY",
        answer: "message",
        end_mark: "`message_stop` and without `stop_reason`",
    };
    type Answer = answer::Answer;

    fn path(_: &ModelSpec) -> String {
        "/messages".to_owned()
    }

    fn key_header(key: &str) -> (&'static str, String) {
        ("x-api-key", key.to_owned())
    }

    fn headers() -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", VERSION)]
    }

    async fn body(call: &ModelCall, blobs: &dyn Blobs) -> Result<Vec<u8>, StepError> {
        request::body(call, blobs).await
    }
}
