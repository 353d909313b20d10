//! `reenact nodes`: which node owns what.

use clap::Args;
use serde_json::Value;

use super::{
    client::Client,
    options::Server,
    output::{self, table, text},
};

/// Show the nodes of a deployment and the partitions that each owns.
#[derive(Debug, Args)]
pub(super) struct Nodes {
    /// Show where this session is at home.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    #[command(flatten)]
    server: Server,
}

impl Nodes {
    pub(super) async fn execute(self, json: bool) -> anyhow::Result<()> {
        let query: Vec<_> = self.session.iter().map(|session| ("session_id", session.clone())).collect();
        let cluster = Client::of(&self.server)?.get(&["cluster"], &query).await?;
        if json {
            return output::json(&cluster);
        }
        if let Value::Object(_) = &cluster["session"] {
            let (session, node) = (text(&cluster["session"], "session_id"), text(&cluster["session"], "node"));
            let (partition, endpoint) = (&cluster["session"]["partition"], text(&cluster["session"], "endpoint"));
            let line = format!("session {session} is in partition {partition}, owned by {node} at {endpoint}");
            return output::lines([line]);
        }
        let nodes = cluster["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let rows: Vec<Vec<_>> = nodes.iter().map(row).collect();
        output::lines(table(&["NODE", "ENDPOINT", "PARTITIONS"], &rows))
    }
}

fn row(node: &Value) -> Vec<String> {
    let owned = node["partitions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut owned: Vec<u64> = owned.iter().filter_map(|owned| owned["partition"].as_u64()).collect();
    owned.sort_unstable();
    let owned: Vec<_> = owned.iter().map(ToString::to_string).collect();
    vec![text(node, "node").to_owned(), text(node, "endpoint").to_owned(), owned.join(" ")]
}
