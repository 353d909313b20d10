//! Models: who is asked, and how a failed call is told.
//!
//! Three protocols share one client. [`client`] moves the bytes, [`frames`] cuts them, [`failure`] and
//! [`retry_after`] say what went wrong and how long to wait; [`openai`], [`anthropic`] and [`gemini`] hold what
//! differs: how a conversation is written, and how frames add up to an answer.

mod anthropic;
mod client;
mod counts;
pub(crate) mod demo;
mod failure;
mod frames;
mod gemini;
mod openai;
mod protocol;
mod retry_after;
mod sendable;

pub(crate) use client::Models;
pub(crate) use protocol::{PROVIDERS, key_variable, provider};

use reenact_actors::step::StepError;
use reenact_events::{BlobError, Blobs, Text, event::Failure};
use std::sync::Arc;

/// A failed call that has cost nothing known.
pub(crate) fn failed(kind: &str, message: impl Into<String>, retryable: bool) -> StepError {
    let message: String = message.into();
    StepError {
        failure: Failure { kind: kind.into(), message: message.into(), status: None },
        retryable,
        retry_after_ms: None,
        usage: None,
    }
}

/// A part of the conversation could not be read. Only the store's own trouble may pass.
pub(crate) fn unreadable(error: &BlobError) -> StepError {
    failed("blob_unavailable", error.to_string(), matches!(error, BlobError::Store { .. }))
}

/// A text of the conversation.
async fn words_of(text: &Text, blobs: &dyn Blobs) -> Result<Arc<str>, StepError> {
    text.load(blobs).await.map_err(|error| unreadable(&error))
}
