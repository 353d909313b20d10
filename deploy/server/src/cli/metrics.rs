//! `reenact metrics`: what was done and used, by day.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde_json::Value;

use super::{
    client::Client,
    options::Server,
    output::{self, table, text},
};

/// Show runs, tokens and cost by day.
#[derive(Debug, Args)]
pub(super) struct Metrics {
    /// From this UTC day on, as 2026-11-30.
    #[arg(long, value_name = "DAY")]
    from: Option<String>,
    /// To this UTC day.
    #[arg(long, value_name = "DAY")]
    to: Option<String>,
    /// Write them as a picture into this file instead; `-` is the standard output.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    server: Server,
}

impl Metrics {
    pub(super) async fn execute(self, json: bool) -> anyhow::Result<()> {
        let dates = [("starting_date", self.from), ("ending_date", self.to)];
        let query: Vec<_> = dates.into_iter().filter_map(|(name, day)| Some((name, day?))).collect();
        let client = Client::of(&self.server)?;
        if let Some(file) = &self.svg {
            let svg = client.text(&["metrics", "chart.svg"], &query).await?;
            if file.as_os_str() == "-" {
                return output::lines([svg]);
            }
            std::fs::write(file, svg).with_context(|| format!("`{}` cannot be written", file.display()))?;
            return output::lines([format!("written to {}", file.display())]);
        }
        let metrics = client.get(&["metrics"], &query).await?;
        if json {
            return output::json(&metrics["metrics"]);
        }
        let days = metrics["metrics"].as_array().map(Vec::as_slice).unwrap_or_default();
        let rows: Vec<Vec<_>> = days.iter().map(row).collect();
        output::lines(table(&["DAY", "RUNS", "FAILED", "CANCELLED", "USERS", "READ", "WRITTEN", "COST"], &rows))
    }
}

fn row(day: &Value) -> Vec<String> {
    let count = |value: &Value| if value.is_null() { "-".to_owned() } else { value.to_string() };
    let status = |status: &str| day["status_metrics"][status].as_u64().unwrap_or(0).to_string();
    let tokens = &day["token_metrics"];
    vec![
        text(day, "date").chars().take(10).collect(),
        count(&day["agent_runs_count"]),
        status("ERROR"),
        status("CANCELLED"),
        count(&day["users_count"]),
        count(&tokens["input_tokens"]),
        count(&tokens["output_tokens"]),
        count(&tokens["cost"]),
    ]
}
