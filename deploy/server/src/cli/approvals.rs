//! `reenact approvals`: the queue of what waits, or waited, for somebody. `reenact runs continue` decides.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::{
    client::Client,
    options::Server,
    output::{self, short, table, text},
};

/// List what waits for somebody.
#[derive(Debug, Subcommand)]
pub(super) enum Approvals {
    /// List what waits, or waited, for somebody, newest first.
    List(List),
}

/// List what waits, or waited, for somebody, newest first.
#[derive(Debug, Args)]
pub(super) struct List {
    /// With this status: pending, approved, rejected, expired or cancelled.
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Of this agent.
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// In this run.
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// How many.
    #[arg(long, default_value_t = 20)]
    limit: u32,
    /// Which page, from 1.
    #[arg(long, default_value_t = 1)]
    page: u32,
    #[command(flatten)]
    server: Server,
}

impl Approvals {
    pub(super) async fn execute(self, json: bool) -> anyhow::Result<()> {
        match self {
            Self::List(list) => list.execute(json).await,
        }
    }
}

impl List {
    async fn execute(self, json: bool) -> anyhow::Result<()> {
        let mut query = vec![("limit", self.limit.to_string()), ("page", self.page.to_string())];
        query.extend(self.status.map(|status| ("status", status)));
        query.extend(self.agent.map(|agent| ("agent_id", agent)));
        query.extend(self.run.map(|run| ("run_id", run)));
        let page = Client::of(&self.server)?.get(&["approvals"], &query).await?;
        if json {
            return output::json(&page["data"]);
        }
        let approvals = page["data"].as_array().map(Vec::as_slice).unwrap_or_default();
        let row = |approval: &Value| {
            let call = &approval["requirements"][0]["tool_execution"];
            let cells = ["status", "pause_type", "run_id"].map(|field| text(approval, field).to_owned());
            let arguments = short(&approval["tool_args"].to_string(), 50);
            let call = [text(call, "tool_call_id").to_owned(), text(approval, "tool_name").to_owned(), arguments];
            cells.into_iter().chain(call).collect()
        };
        let rows: Vec<Vec<_>> = approvals.iter().map(row).collect();
        output::lines(table(&["STATUS", "WAITS FOR", "RUN", "CALL", "TOOL", "ARGUMENTS"], &rows))?;
        output::lines([format!("{} of {}", rows.len(), page["meta"]["total_count"])])
    }
}
