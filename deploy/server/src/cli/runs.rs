//! `reenact runs`: list, show, cancel, requeue; continue is in [`decide`](super::decide).

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::Value;

use super::{
    client::Client,
    decide::{Continue, how_to_decide},
    options::Server,
    output::{self, short, table, text},
};

/// List runs, show one, stop one, let one go on.
#[derive(Debug, Subcommand)]
pub(super) enum Runs {
    /// List runs, newest first.
    List(List),
    /// Show a run with its messages and tool calls.
    Show(One),
    /// Stop a run.
    Cancel(One),
    /// Decide about the tool calls that a run waits for somebody with.
    Continue(Continue),
    /// Let a run that has failed or was cancelled go on from its last completed step.
    Requeue(One),
}

/// List runs, newest first.
#[derive(Debug, Args)]
pub(super) struct List {
    /// Of this agent.
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Of this session.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// With this status; may be said several times.
    #[arg(long, value_name = "STATUS")]
    status: Vec<String>,
    /// How many.
    #[arg(long, default_value_t = 20)]
    limit: u32,
    /// Which page, from 1.
    #[arg(long, default_value_t = 1)]
    page: u32,
    #[command(flatten)]
    server: Server,
}

/// A run.
#[derive(Debug, Args)]
pub(super) struct One {
    /// The run's id.
    pub(super) run: String,
    #[command(flatten)]
    pub(super) server: Server,
}

impl Runs {
    pub(super) async fn execute(self, json: bool) -> anyhow::Result<()> {
        match self {
            Self::List(list) => list.execute(json).await,
            Self::Show(one) => show(&one.find().await?.1, json),
            Self::Cancel(one) => one.cancel(json).await,
            Self::Continue(decide) => decide.execute(json).await,
            Self::Requeue(one) => one.requeue(json).await,
        }
    }
}

impl List {
    async fn execute(self, json: bool) -> anyhow::Result<()> {
        let mut query = vec![("limit", self.limit.to_string()), ("page", self.page.to_string())];
        query.extend(self.agent.map(|agent| ("agent_id", agent)));
        query.extend(self.session.map(|session| ("session_id", session)));
        query.extend(self.status.into_iter().map(|status| ("status", status)));
        let page = Client::of(&self.server)?.get(&["runs"], &query).await?;
        if json {
            return output::json(&page["data"]);
        }
        let runs = page["data"].as_array().map(Vec::as_slice).unwrap_or_default();
        let row = |run: &Value| {
            let cells =
                ["run_id", "status", "agent_id", "session_id", "created_at"].map(|field| text(run, field).to_owned());
            cells.into_iter().chain([short(text(run, "run_input"), 50)]).collect()
        };
        let rows: Vec<Vec<_>> = runs.iter().map(row).collect();
        output::lines(table(&["RUN", "STATUS", "AGENT", "SESSION", "CREATED", "MESSAGE"], &rows))?;
        output::lines([format!("{} of {}", rows.len(), page["meta"]["total_count"])])
    }
}

impl One {
    pub(super) async fn find(&self) -> anyhow::Result<(Client, Value)> {
        let client = Client::of(&self.server)?;
        let run = client.get(&["runs", &self.run], &[]).await?;
        Ok((client, run))
    }

    async fn cancel(&self, json: bool) -> anyhow::Result<()> {
        let (client, run) = self.find().await?;
        let path = ["agents", text(&run, "agent_id"), "runs", &self.run, "cancel"];
        let answer = client.json(client.request(Method::POST, &path, &[])?).await?;
        if json {
            return output::json(&answer);
        }
        output::lines([format!("run {} is {}", self.run, text(&answer, "status"))])
    }
}

impl One {
    async fn requeue(&self, json: bool) -> anyhow::Result<()> {
        let client = Client::of(&self.server)?;
        let request = client.request(Method::POST, &["queue", "jobs", &self.run, "requeue"], &[])?;
        let job = client.json(request).await?;
        if json {
            return output::json(&job);
        }
        output::lines([format!("run {} is {}", self.run, text(&job, "status"))])
    }
}

pub(super) fn show(run: &Value, json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(run);
    }
    let head =
        ["run_id", "session_id", "agent_id", "user_id", "status"].iter().filter(|field| run[**field].is_string());
    output::lines(head.map(|field| format!("{field:<12} {}", text(run, field))))?;
    output::lines([String::new()])?;
    let messages = run["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    for message in messages.iter().filter(|message| message["from_history"] != true) {
        output::lines([format!("[{}] {}", text(message, "role"), text(message, "content"))])?;
    }
    let tools = run["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    output::lines(tools.iter().map(|tool| {
        let mark = match (&tool["tool_call_error"], &tool["result"]) {
            (Value::Bool(true), _) => "✗",
            (_, Value::Null) => "?",
            _ => "✓",
        };
        let (name, arguments, result) = (text(tool, "tool_name"), &tool["tool_args"], short(text(tool, "result"), 80));
        format!("{mark} {name} {} {arguments} → {result}", text(tool, "tool_call_id"))
    }))?;
    let reason = text(run, "pause_reason");
    if !reason.is_empty() {
        output::lines([format!("waits: {reason}")])?;
        output::lines([format!("decide with: {}", how_to_decide(text(run, "run_id")))])?;
    }
    let content = match &run["content"] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        json => json.to_string(),
    };
    output::lines([format!("\n{content}")])
}
