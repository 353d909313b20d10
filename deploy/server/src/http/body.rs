//! Takes a request's body whole, within its limit.
//!
//! A body above the limit is read to its end and thrown away before the 413: a client that is still
//! sending would otherwise see a broken connection instead of the answer. What declares to be far too large
//! is not read at all.

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, header},
};
use futures::StreamExt;

use super::error::{ApiError, Fault};

/// How much of a body above the limit is read and thrown away, in multiples of the limit.
const DRAIN_FACTOR: usize = 4;

/// The whole body, at most `limit` bytes.
///
/// # Errors
/// 413 when it is larger, 422 when it breaks off.
pub async fn take(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, ApiError> {
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    let waits_for_leave = headers.contains_key(header::EXPECT);
    let drain_max = limit.saturating_mul(DRAIN_FACTOR);
    if declared.is_some_and(|bytes| bytes > drain_max || (bytes > limit && waits_for_leave)) {
        return Err(too_large(limit));
    }
    let mut chunks = body.into_data_stream();
    let mut taken = Vec::with_capacity(declared.unwrap_or_default().min(limit));
    let mut seen = 0_usize;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| {
            ApiError::malformed(Fault::new("body", "", "incomplete", format!("the body broke off: {error}")))
        })?;
        seen = seen.saturating_add(chunk.len());
        if seen > drain_max {
            break;
        }
        if seen > limit {
            taken = Vec::new();
        } else {
            taken.extend_from_slice(&chunk);
        }
    }
    if seen > limit { Err(too_large(limit)) } else { Ok(taken.into()) }
}

fn too_large(limit: usize) -> ApiError {
    ApiError::too_large(format!("the request is larger than {limit} bytes (`max-body-bytes`): send less at once"))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn sent(bytes: usize, limit: usize) -> Result<usize, u16> {
        let chunks: Vec<Result<Vec<u8>, std::io::Error>> =
            vec![b'x'; bytes].chunks(7).map(|c| Ok(c.to_vec())).collect();
        let body = Body::from_stream(futures::stream::iter(chunks));
        take(&HeaderMap::new(), body, limit).await.map(|taken| taken.len()).map_err(|error| error.status.as_u16())
    }

    #[tokio::test]
    async fn a21_a_body_is_taken_up_to_its_limit_and_not_a_byte_more() {
        assert_eq!(sent(100, 100).await, Ok(100));
        assert_eq!(sent(101, 100).await, Err(413));
        assert_eq!(sent(10_000, 100).await, Err(413));
        assert_eq!(sent(0, 100).await, Ok(0));
    }
}
