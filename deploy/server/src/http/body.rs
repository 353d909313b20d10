//! Takes a request's body whole, within its limit and within what all bodies together may hold.
//!
//! A body above the limit is read to its end and thrown away before the 413: a client that is still
//! sending would otherwise see a broken connection instead of the answer. What declares to be far too large
//! is not read at all.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, StatusCode, header},
};
use futures::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::{ApiError, Fault};

/// How much of a body above the limit is read and thrown away, in multiples of the limit.
const DRAIN_FACTOR: usize = 4;
/// How many bodies of the largest size may be held at once.
const LARGEST_AT_ONCE: usize = 8;
/// Bodies that declare at most this many bytes need not wait for room.
const SMALL_BYTES: usize = 256 * 1024;
const ROOM_UNIT_BYTES: usize = 1024;
/// How long a body waits for room, and for its next bytes.
const ROOM_WAIT: Duration = Duration::from_secs(5);
const BYTES_WAIT: Duration = Duration::from_secs(30);

/// The room that all large bodies share.
#[derive(Debug, Clone)]
pub struct Room {
    limit: usize,
    units: Arc<Semaphore>,
}

/// A body, and its share of the room for as long as it is held.
#[derive(Debug)]
pub struct Taken {
    /// The bytes.
    pub bytes: Bytes,
    /// Held until the request is done with.
    pub room: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// Room for bodies of at most `limit` bytes each.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let units = (units_of(limit) as usize).saturating_mul(LARGEST_AT_ONCE).min(Semaphore::MAX_PERMITS);
        Self { limit, units: Arc::new(Semaphore::new(units)) }
    }

    /// Takes a whole body.
    ///
    /// # Errors
    /// 413 when it is larger than the limit, 408 when it stops coming, 422 when it breaks off, 503 when too
    /// many large ones are being taken.
    pub async fn take(&self, headers: &HeaderMap, body: Body) -> Result<Taken, ApiError> {
        let length = headers.get(header::CONTENT_LENGTH);
        let declared = length.and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        let waits_for_leave = headers.contains_key(header::EXPECT);
        let drain_max = self.limit.saturating_mul(DRAIN_FACTOR);
        if declared.is_some_and(|bytes| bytes > drain_max || (bytes > self.limit && waits_for_leave)) {
            return Err(self.too_large());
        }
        let room = self.enter(declared.unwrap_or(self.limit).min(self.limit)).await?;
        let bytes = self.read(body, declared.unwrap_or_default(), drain_max).await?;
        Ok(Taken { bytes, room })
    }

    async fn enter(&self, bytes: usize) -> Result<Option<OwnedSemaphorePermit>, ApiError> {
        if bytes <= SMALL_BYTES {
            return Ok(None);
        }
        let entered = self.units.clone().acquire_many_owned(units_of(bytes));
        match tokio::time::timeout(ROOM_WAIT, entered).await {
            Ok(Ok(room)) => Ok(Some(room)),
            Ok(Err(_)) | Err(_) => Err(ApiError::unavailable("too many large requests are being taken at once", 5)),
        }
    }

    async fn read(&self, body: Body, declared: usize, drain_max: usize) -> Result<Bytes, ApiError> {
        let mut chunks = body.into_data_stream();
        let mut taken = Vec::with_capacity(declared.min(self.limit));
        let mut seen = 0_usize;
        while let Some(chunk) = tokio::time::timeout(BYTES_WAIT, chunks.next()).await.map_err(|_| too_slow())? {
            let chunk = chunk.map_err(|error| {
                ApiError::malformed(Fault::new("body", "", "incomplete", format!("the body broke off: {error}")))
            })?;
            seen = seen.saturating_add(chunk.len());
            if seen > drain_max {
                break;
            }
            if seen > self.limit {
                taken = Vec::new();
            } else {
                taken.extend_from_slice(&chunk);
            }
        }
        if seen > self.limit { Err(self.too_large()) } else { Ok(taken.into()) }
    }

    fn too_large(&self) -> ApiError {
        let limit = self.limit;
        ApiError::too_large(format!("the request is larger than {limit} bytes (`max-body-bytes`): send less at once"))
    }
}

fn units_of(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(ROOM_UNIT_BYTES)).unwrap_or(u32::MAX)
}

fn too_slow() -> ApiError {
    let seconds = BYTES_WAIT.as_secs();
    ApiError::new(StatusCode::REQUEST_TIMEOUT, format!("nothing of the body came for {seconds} seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn sent(bytes: usize, limit: usize) -> Result<usize, u16> {
        let chunks: Vec<Result<Vec<u8>, std::io::Error>> =
            vec![b'x'; bytes].chunks(7).map(|chunk| Ok(chunk.to_vec())).collect();
        let body = Body::from_stream(futures::stream::iter(chunks));
        let taken = Room::new(limit).take(&HeaderMap::new(), body).await;
        taken.map(|taken| taken.bytes.len()).map_err(|error| error.status.as_u16())
    }

    #[tokio::test]
    async fn a21_a_body_is_taken_up_to_its_limit_and_not_a_byte_more() {
        assert_eq!(sent(100, 100).await, Ok(100));
        assert_eq!(sent(101, 100).await, Err(413));
        assert_eq!(sent(10_000, 100).await, Err(413));
        assert_eq!(sent(0, 100).await, Ok(0));
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_share_a_bounded_room_and_small_ones_pass() {
        let room = Room::new(1 << 20);
        let held: Vec<_> = futures::future::join_all((0..LARGEST_AT_ONCE).map(|_| room.enter(1 << 20))).await;
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(room.enter(1 << 20).await.unwrap_err().status, 503);
        assert!(room.enter(SMALL_BYTES).await.unwrap().is_none());
        drop(held);
        assert!(room.enter(1 << 20).await.unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_coming_is_given_up() {
        let body = Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>());
        assert_eq!(Room::new(100).take(&HeaderMap::new(), body).await.unwrap_err().status, 408);
    }
}
