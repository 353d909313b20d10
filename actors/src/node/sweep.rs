//! Blobs that nobody refers to any more are removed.

use std::{sync::Arc, time::Duration};

use crate::shared::Shared;

/// Blobs are swept no oftener than this, unless a session was deleted.
const SWEEP_PAUSE_MIN: Duration = Duration::from_secs(60);

/// Removes what nobody refers to, after each deletion and now and then: a crash between storing a blob and
/// committing its event leaves one.
pub(super) async fn sweep_blobs(shared: Arc<Shared>) {
    let grace = shared.settings.blob_grace;
    loop {
        let deleted = shared.deleted.notified();
        if tokio::time::timeout(grace.max(SWEEP_PAUSE_MIN), deleted).await.is_ok() {
            tokio::time::sleep(grace).await;
        }
        let known = shared.clone();
        match shared.tools.blobs.sweep(grace, Arc::new(move |sha256| known.is_referenced(sha256))).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "removed blobs that nobody refers to"),
            Err(error) => {
                tracing::warn!(%error, "blobs that nobody refers to could not be removed, trying again later")
            }
        }
    }
}
