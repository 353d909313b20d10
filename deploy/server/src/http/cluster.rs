//! `/cluster`: which node owns what.

use std::{collections::BTreeMap, time::Duration};

use axum::Json;
use reenact_events::{Owner, SessionId, StreamKey};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    error::{ApiError, ErrorBody},
    fields::Query,
    state::Ready,
};

/// The nodes of this deployment.
#[derive(Debug, Serialize, ToSchema)]
pub struct Cluster {
    /// Names the log that they share.
    pub log_id: String,
    /// How many partitions it has.
    pub partitions: u32,
    /// The node that answers.
    pub node: String,
    /// The nodes that own partitions, by name.
    pub nodes: Vec<NodeShare>,
    /// The partition and node of the session that `session_id` names.
    pub session: Option<SessionPlace>,
}

/// A node and what it owns.
#[derive(Debug, Serialize, ToSchema)]
pub struct NodeShare {
    /// Its name.
    pub node: String,
    /// Where it serves HTTP, if it said.
    pub endpoint: Option<String>,
    /// Its partitions.
    pub partitions: Vec<OwnedPartition>,
}

/// A partition with its ownership.
#[derive(Debug, Serialize, ToSchema)]
pub struct OwnedPartition {
    /// Which.
    pub partition: u32,
    /// Under which ownership: the offset of the claim.
    pub term: u64,
}

/// Where a session is at home.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionPlace {
    /// Which session.
    pub session_id: String,
    /// Its partition. Every session has one, whether it exists or not.
    pub partition: u32,
    /// The node that decides about it, if one does.
    pub node: Option<String>,
    /// Where that node serves HTTP, if it said.
    pub endpoint: Option<String>,
}

/// How long the log may take to say who owns what.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which node owns what, as the latest claims say. With `session_id`, which node decides about that session.
#[utoipa::path(
    get, path = "/cluster", tag = "Core", operation_id = "get_cluster",
    params(("session_id" = Option<String>, Query, description = "Whose place is asked for")),
    responses(
        (status = 200, body = Cluster),
        (status = 503, description = "Not ready, or the log does not answer", body = ErrorBody),
    )
)]
pub async fn cluster(Ready(services): Ready, query: Query) -> Result<Json<Cluster>, ApiError> {
    let session = query.0.id("session_id", SessionId::parse)?;
    let owners = tokio::time::timeout(PATIENCE, services.log.owners()).await;
    let owners = owners.map_err(|_| {
        ApiError::unavailable("the log did not say within 10 s who owns what: `/ready` tells what it is at", 2)
    })?;
    let owners = owners.map_err(|error| ApiError::unavailable(error.to_string(), 2))?;
    let partitions = services.log.partitions();
    let session = session.map(|session| place(&session, partitions, &owners, services.own.endpoint.as_str()));
    let nodes = shares(owners, &services.own.node, &services.own.endpoint);
    let log_id = services.log_id.to_string();
    Ok(Json(Cluster { log_id, partitions, node: services.own.node.clone(), nodes, session }))
}

fn place(session: &SessionId, partitions: u32, owners: &[Owner], own: &str) -> SessionPlace {
    let partition = StreamKey::session(session).partition_of(partitions);
    let owner = owners.iter().find(|owner| owner.partition == partition);
    SessionPlace {
        session_id: session.to_string(),
        partition: partition.0,
        node: owner.map(|owner| owner.node.to_string()),
        endpoint: owner.map(|owner| owner.endpoint.as_deref().unwrap_or(own).to_owned()),
    }
}

/// The owners by node; a log that one process has to itself need not be told where that serves.
fn shares(owners: Vec<Owner>, own: &str, own_endpoint: &str) -> Vec<NodeShare> {
    let mut nodes: BTreeMap<String, NodeShare> = BTreeMap::new();
    for owner in owners {
        let name = owner.node.to_string();
        let said = owner.endpoint.as_deref().map(ToOwned::to_owned);
        let endpoint = said.or_else(|| (name == own).then(|| own_endpoint.to_owned()));
        let share = nodes.entry(name.clone()).or_insert(NodeShare { node: name, endpoint, partitions: Vec::new() });
        share.partitions.push(OwnedPartition { partition: owner.partition.0, term: owner.term.0 });
    }
    nodes.into_values().collect()
}
