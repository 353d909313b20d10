//! The HTTP clients, and reading a body with a bound.

use std::time::Duration;

use reqwest::{Client, Response, redirect};

/// The largest answer that a model or a tool may give.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Idle connections are dropped before common servers do so after five seconds: a request on a connection
/// that is just being closed fails without anyone's fault.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const REDIRECTS_MAX: usize = 5;

/// A client that follows no redirect: a model's key is for one address.
pub(crate) fn model_client() -> Result<Client, reqwest::Error> {
    build(redirect::Policy::none())
}

/// A client that follows redirects within one origin only: headers may carry secrets.
pub(crate) fn tool_client() -> Result<Client, reqwest::Error> {
    build(redirect::Policy::custom(|attempt| {
        let same_origin = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        if same_origin && attempt.previous().len() <= REDIRECTS_MAX { attempt.follow() } else { attempt.stop() }
    }))
}

/// Attempts are counted, journaled and spaced by the runtime, so the library makes none of its own.
fn build(redirects: redirect::Policy) -> Result<Client, reqwest::Error> {
    Client::builder()
        .user_agent(concat!("reenact/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .retry(reqwest::retry::never())
        .redirect(redirects)
        .build()
}

/// Why a body was not read.
pub(crate) enum BodyError {
    /// It is longer than allowed.
    TooLarge,
    /// The connection broke.
    Cut(reqwest::Error),
}

/// The whole body, at most `bytes_max`.
pub(crate) async fn body(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, BodyError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(BodyError::Cut)? {
        if body.len() + chunk.len() > bytes_max {
            return Err(BodyError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The beginning of a body, for an error text. A connection that breaks meanwhile hides nothing that was
/// read before.
pub(crate) async fn beginning_of_body(mut response: Response, bytes_max: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < bytes_max
        && let Ok(Some(chunk)) = response.chunk().await
    {
        body.extend_from_slice(&chunk);
    }
    body.truncate(bytes_max);
    body
}

/// What went wrong, with all causes and without the address, which may hold a secret.
pub(crate) fn explain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}
