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
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use reenact_events::{LogId, Offset, PartitionId};
use reenact_projections::Lagging;
use uuid::Uuid;

use super::error::{ApiError, Fault};

/// The header's name.
pub const POSITION: HeaderName = HeaderName::from_static("reenact-position");

/// A token names at most this many partitions.
const PLACES_MAX: usize = 1_024;
const PLACE_BYTES: usize = 12;

/// A moment of a log: an offset in each partition that it speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Which log.
    pub log_id: LogId,
    /// The last offset that a read must include, by partition.
    pub places: Vec<(PartitionId, Offset)>,
}

impl Token {
    /// As it stands in the header: opaque to clients.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut bytes = self.log_id.0.as_bytes().to_vec();
        for (partition, offset) in &self.places {
            bytes.extend_from_slice(&partition.0.to_be_bytes());
            bytes.extend_from_slice(&offset.0.to_be_bytes());
        }
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a header's value.
    #[must_use]
    pub fn decode(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text.trim()).ok()?;
        let (log_id, rest) = bytes.split_at_checked(16)?;
        let chunks = rest.chunks_exact(PLACE_BYTES);
        if !chunks.remainder().is_empty() || chunks.len() > PLACES_MAX {
            return None;
        }
        let place = |chunk: &[u8]| {
            let (partition, offset) = chunk.split_at(4);
            let partition = PartitionId(u32::from_be_bytes(partition.try_into().ok()?));
            Some((partition, Offset(u64::from_be_bytes(offset.try_into().ok()?))))
        };
        let log_id = LogId(Uuid::from_slice(log_id).ok()?);
        Some(Self { log_id, places: chunks.map(place).collect::<Option<_>>()? })
    }

    /// Refuses a token of another log: its offsets mean nothing here.
    ///
    /// # Errors
    /// 422 when it is of another log.
    pub fn of_log(&self, log_id: LogId) -> Result<(), ApiError> {
        if self.log_id == log_id {
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
        if let Ok(value) = HeaderValue::from_str(&self.encode()) {
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
        let token = value.to_str().ok().and_then(Token::decode);
        token.map(|token| Self(Some(token))).ok_or_else(|| {
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
    use super::*;

    fn token() -> Token {
        let places = vec![(PartitionId(0), Offset(u64::MAX)), (PartitionId(7), Offset(0))];
        Token { log_id: LogId(Uuid::from_u128(9)), places }
    }

    #[test]
    fn a_token_comes_back_as_it_went() {
        assert_eq!(Token::decode(&token().encode()), Some(token()));
    }

    #[test]
    fn what_is_no_token_is_none() {
        let mut cut = token().encode();
        cut.truncate(30);
        for bad in ["", "abc", "!!!", "=", &cut, &"A".repeat(100_000)] {
            assert_eq!(Token::decode(bad), None, "{bad:.20}");
        }
    }

    #[test]
    fn a_token_of_another_log_is_refused() {
        assert_eq!(token().of_log(LogId(Uuid::from_u128(8))).unwrap_err().status, 422);
        assert!(token().of_log(LogId(Uuid::from_u128(9))).is_ok());
    }

    #[test]
    fn marks_only_rise() {
        let marks = Marks::default();
        marks.raise(PartitionId(1), Offset(5));
        marks.raise(PartitionId(1), Offset(3));
        assert_eq!(marks.all(), BTreeMap::from([(PartitionId(1), Offset(5))]));
    }
}
