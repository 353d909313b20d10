//! What differs between providers, as one trait: where they are, how a key is sent, how a conversation is
//! written, and how an answer is read.

use std::future::Future;

use reenact_actors::step::{ModelCall, ModelReply, StepError};
use reenact_events::{Blobs, agent::ModelSpec, event::Usage};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{anthropic::Anthropic, gemini::Gemini, openai::OpenAi};
use crate::text;

/// The providers that work.
pub(crate) const PROVIDERS: &[&str] = &[OpenAi::PROVIDER.name, Anthropic::PROVIDER.name, Gemini::PROVIDER.name, "demo"];

/// Who speaks a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Provider {
    /// What an agent file calls it.
    pub(crate) name: &'static str,
    /// What people call it.
    pub(crate) company: &'static str,
    /// Where it is when a model names no `base_url`.
    pub(super) base_url: &'static str,
    /// The variable that holds the key when a model names no `base_url` and no variable.
    pub(super) key_variable: &'static str,
    /// What it sends.
    pub(super) answer: &'static str,
    /// What marks an answer's end.
    pub(super) end_mark: &'static str,
}

/// The provider that a model names; the built-in one is none.
pub(crate) fn provider(model: &ModelSpec) -> Option<Provider> {
    [OpenAi::PROVIDER, Anthropic::PROVIDER, Gemini::PROVIDER].into_iter().find(|known| known.name == model.provider)
}

/// The variable that holds the model's key. A server at a `base_url` gets only the key that its agent names.
pub(crate) fn key_variable<'a>(provider: &Provider, model: &'a ModelSpec) -> Option<&'a str> {
    let by_default = model.base_url.is_none() && model.api_key_file.is_none();
    model.api_key_env.as_deref().or(by_default.then_some(provider.key_variable))
}

/// How one kind of server is spoken to.
pub(super) trait Protocol {
    /// Who speaks it.
    const PROVIDER: Provider;
    /// An answer while it comes in.
    type Answer: Answer;

    /// What is added to the base URL.
    fn path(model: &ModelSpec) -> String;

    /// The header that carries the key.
    fn key_header(key: &str) -> (&'static str, String);

    /// Other headers.
    fn headers() -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The request's body.
    ///
    /// # Errors
    /// When a text or a file of the conversation cannot be read.
    fn body(call: &ModelCall, blobs: &dyn Blobs) -> impl Future<Output = Result<Vec<u8>, StepError>> + Send;
}

/// Adds up an answer from its frames. Pure: the bytes come from elsewhere, the words go elsewhere.
pub(super) trait Answer: Default {
    /// Takes a frame of a stream.
    fn absorb(&mut self, data: &str) -> Result<Words, Trouble>;

    /// Takes an answer that came whole, although a stream was asked for.
    fn absorb_whole(&mut self, data: &str) -> Result<Words, Trouble>;

    /// Nothing more is to come.
    fn is_complete(&self) -> bool;

    /// The model has said its last word; usage may still come.
    fn has_ended(&self) -> bool;

    /// What it cost so far, if the provider said.
    fn usage(&self) -> Option<Usage>;

    /// The whole.
    fn into_reply(self, first_token_ms: Option<u64>) -> ModelReply;
}

/// Why a frame ends the call.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The frame is not what the protocol knows.
    Nonsense {
        /// In which way.
        reason: String,
        /// The frame.
        frame: String,
    },
    /// The server reports an error.
    Reported(Value),
    /// The provider's rules forbid an answer.
    Blocked(String),
    /// The answer is larger than [`ANSWER_BYTES_MAX`](crate::ANSWER_BYTES_MAX).
    TooLarge,
}

impl Trouble {
    pub(super) fn nonsense(reason: impl Into<String>, frame: &str) -> Self {
        Self::Nonsense { reason: reason.into(), frame: frame.to_owned() }
    }
}

/// What a frame brought for whoever watches.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) text: String,
    pub(super) reasoning: String,
}

/// Reads a frame.
pub(super) fn read<T: DeserializeOwned>(data: &str) -> Result<T, Trouble> {
    serde_json::from_str(&text::mend_surrogates(data)).map_err(|error| Trouble::nonsense(error.to_string(), data))
}

/// The body of a request.
pub(super) fn written(request: &impl serde::Serialize) -> Result<Vec<u8>, StepError> {
    serde_json::to_vec(request).map_err(|error| {
        super::failed("model_refused", format!("the request cannot be written as JSON: {error}"), false)
    })
}
