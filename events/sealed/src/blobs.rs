//! Large texts and files, sealed before they are stored: their names are the SHA-256 of what is stored.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use reenact_events::{BlobError, BlobRef, Blobs, IsReferenced, UserId};
use uuid::Uuid;

use crate::{KeyRing, OpenError};

/// What the bytes of a sealed blob begin with; the key's id follows.
const MARK: &[u8; 16] = b"reenact-sealed-1";

/// See the module.
pub struct SealedBlobs {
    inner: Arc<dyn Blobs>,
    ring: KeyRing,
}

impl SealedBlobs {
    /// What `inner` holds, sealed with these keys.
    #[must_use]
    pub fn new(inner: Arc<dyn Blobs>, ring: KeyRing) -> Self {
        Self { inner, ring }
    }

    async fn sealed(&self, bytes: &[u8], owner: &UserId) -> Result<Arc<[u8]>, BlobError> {
        let failed = |reason: String| BlobError::Store { reason: reason.into() };
        let cipher = self.ring.of_user(owner).await.map_err(|error| failed(error.to_string()))?;
        let sealed = cipher.seal(MARK, bytes).ok_or_else(|| failed("a blob cannot be sealed".to_owned()))?;
        Ok([MARK.as_slice(), cipher.id.as_bytes(), &sealed].concat().into())
    }

    async fn opened(&self, blob: &BlobRef, bytes: Arc<[u8]>) -> Result<Arc<[u8]>, BlobError> {
        let Some((id, sealed)) = bytes.strip_prefix(MARK).and_then(<[u8]>::split_first_chunk) else { return Ok(bytes) };
        let damaged = || BlobError::Damaged { sha256: blob.sha256.clone() };
        match self.ring.find(Uuid::from_bytes(*id)).await {
            Ok(Some(cipher)) => cipher.open(MARK, sealed).map(Into::into).ok_or_else(damaged),
            Ok(None) => Err(BlobError::Missing { sha256: blob.sha256.clone() }),
            Err(OpenError::Keys(error)) => Err(BlobError::Store { reason: error.to_string().into() }),
            Err(error) => Err(BlobError::Store { reason: format!("blob `{}`: {error}", blob.sha256).into() }),
        }
    }
}

impl Blobs for SealedBlobs {
    fn put<'a>(&'a self, bytes: Arc<[u8]>, owner: Option<&'a UserId>) -> BoxFuture<'a, Result<BlobRef, BlobError>> {
        async move {
            let bytes = match owner {
                Some(owner) => self.sealed(&bytes, owner).await?,
                None => bytes,
            };
            self.inner.put(bytes, owner).await
        }
        .boxed()
    }

    fn get<'a>(&'a self, blob: &'a BlobRef) -> BoxFuture<'a, Result<Arc<[u8]>, BlobError>> {
        async move { self.opened(blob, self.inner.get(blob).await?).await }.boxed()
    }

    fn sweep(&self, older_than: Duration, is_referenced: IsReferenced) -> BoxFuture<'_, Result<u64, BlobError>> {
        self.inner.sweep(older_than, is_referenced)
    }
}
