//! Models: who is asked, and how a failed call is told.

pub(crate) mod demo;
pub(crate) mod openai;

use reenact_actors::step::StepError;
use reenact_events::{BlobError, event::Failure};

/// The providers that work.
pub(crate) const PROVIDERS: &[&str] = &["openai", "demo"];

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
