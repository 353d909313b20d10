//! `/audit`: where the log's chain is, for whoever keeps it elsewhere. The audits themselves read the log and need no
//! server (`reenact audit`).

use std::time::Duration;

use axum::Json;
use futures::StreamExt;
use reenact_events::{EventLog, LogError, PartitionId};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    error::{ApiError, ErrorBody},
    state::Ready,
};

/// How long the log may take to say where it is.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the log's chain is now.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuditHeads {
    /// Names the log.
    pub log_id: String,
    /// By partition; one without events has no head.
    pub partitions: Vec<AuditHead>,
}

/// The chain of a partition.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuditHead {
    /// Which.
    pub partition: u32,
    /// The last event.
    pub offset: u64,
    /// The chain up to and with it, in hexadecimal digits.
    pub chain: String,
    /// The first offset that this node's rows do not have.
    pub rows_position: u64,
}

/// Where the log's chain is now: kept elsewhere, it shows whether anything up to there was changed since.
#[utoipa::path(
    get, path = "/audit/heads", tag = "Audit", operation_id = "get_audit_heads",
    responses(
        (status = 200, description = "By partition", body = AuditHeads),
        (status = 503, description = "Not ready, or the log does not answer", body = ErrorBody),
    )
)]
pub async fn heads(Ready(services): Ready) -> Result<Json<AuditHeads>, ApiError> {
    let mut partitions = Vec::new();
    for partition in (0..services.log.partitions()).map(PartitionId) {
        let head = tokio::time::timeout(PATIENCE, head(&*services.log, partition)).await;
        let head = head.map_err(|_| ApiError::unavailable("the log did not say within 10 s where its chain is", 2))?;
        if let Some((offset, chain)) = head.map_err(|error| ApiError::unavailable(error.to_string(), 2))? {
            let rows_position = services.views.position(partition).0;
            partitions.push(AuditHead { partition: partition.0, offset, chain, rows_position });
        }
    }
    Ok(Json(AuditHeads { log_id: services.log_id.to_string(), partitions }))
}

async fn head(log: &dyn EventLog, partition: PartitionId) -> Result<Option<(u64, String)>, LogError> {
    let Some(last) = log.last_event(partition).await? else { return Ok(None) };
    let event = log.tail(partition, last).next().await.transpose()?;
    Ok(event.map(|event| (event.offset.0, event.chain.to_string())))
}
