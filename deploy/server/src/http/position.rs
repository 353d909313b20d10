//! The read token: `Reenact-Position` on an answer names a moment of the log; sent with a later request, to
//! whichever node, it makes the read wait for that moment.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use axum::{
    extract::FromRequestParts,
    http::{HeaderName, HeaderValue, StatusCode, request::Parts},
    response::{IntoResponse, IntoResponseParts, ResponseParts},
};
use reenact_events::{LogId, Offset, PartitionId};
use reenact_projections::Lagging;

use super::error::{ApiError, Fault};

/// The header's name.
pub const POSITION: HeaderName = HeaderName::from_static("reenact-position");

/// A moment of a log, as an answer carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token(pub reenact_events::Token);

impl Token {
    /// Refuses a token of another log: its offsets mean nothing here.
    ///
    /// # Errors
    /// 422 when it is of another log.
    pub fn of_log(&self, log_id: LogId) -> Result<(), ApiError> {
        if self.0.log_id == log_id {
            return Ok(());
        }
        Err(malformed("the token is of another log: this one was created or restored since"))
    }
}

fn malformed(text: &str) -> ApiError {
    ApiError::malformed(Fault::new("header", POSITION.as_str(), "position_invalid", text))
}

impl IntoResponseParts for Token {
    type Error = std::convert::Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Self::Error> {
        // Base64url is always a valid header value.
        if let Ok(value) = HeaderValue::from_str(&self.0.encode()) {
            parts.headers_mut().insert(POSITION, value);
        }
        Ok(parts)
    }
}

impl IntoResponse for Token {
    fn into_response(self) -> axum::response::Response {
        (self, ()).into_response()
    }
}

/// The token that a request carries, if it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct After(pub Option<Token>);

impl<S: Sync> FromRequestParts<S> for After {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let Some(value) = parts.headers.get(POSITION) else { return Ok(Self(None)) };
        let token = value.to_str().ok().and_then(reenact_events::Token::decode);
        token.map(|token| Self(Some(Token(token)))).ok_or_else(|| {
            malformed("the token cannot be read: send back a `Reenact-Position` as it came with an answer")
        })
    }
}

/// The last offset that was acknowledged here, by partition.
#[derive(Debug, Default)]
pub(super) struct Marks(Mutex<BTreeMap<PartitionId, Offset>>);

impl Marks {
    pub(super) fn raise(&self, partition: PartitionId, offset: Offset) {
        let mut marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = marks.entry(partition).or_insert(offset);
        *mark = (*mark).max(offset);
    }

    pub(super) fn forget(&self, partition: PartitionId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&partition);
    }

    pub(super) fn all(&self) -> BTreeMap<PartitionId, Offset> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ApiError {
    /// 425: the views do not have what the request's token stands for.
    #[must_use]
    pub fn too_early(lag: &Lagging) -> Self {
        Self::new(StatusCode::TOO_EARLY, lag.to_string()).named("views_lag").retry_after(1)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn token() -> Token {
        Token(reenact_events::Token { log_id: LogId(Uuid::from_u128(9)), places: Vec::new() })
    }

    #[test]
    fn a_token_of_another_log_is_refused() {
        assert_eq!(token().of_log(LogId(Uuid::from_u128(8))).unwrap_err().status, 422);
        assert!(token().of_log(LogId(Uuid::from_u128(9))).is_ok());
    }

    #[test]
    fn marks_only_rise_until_they_are_forgotten() {
        let marks = Marks::default();
        marks.raise(PartitionId(1), Offset(5));
        marks.raise(PartitionId(1), Offset(3));
        assert_eq!(marks.all(), BTreeMap::from([(PartitionId(1), Offset(5))]));
        marks.forget(PartitionId(1));
        assert!(marks.all().is_empty());
    }
}
