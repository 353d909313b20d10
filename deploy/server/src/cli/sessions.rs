//! `reenact sessions`: list, show, delete.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::Value;

use super::{
    client::Client,
    options::Server,
    output::{self, short, table, text},
};

/// List sessions, show one, delete one.
#[derive(Debug, Subcommand)]
pub(super) enum Sessions {
    /// List sessions, newest first.
    List(List),
    /// Show a session with what was said in it.
    Show(One),
    /// Delete a session with its runs.
    Delete(One),
}

/// List sessions, newest first.
#[derive(Debug, Args)]
pub(super) struct List {
    /// Of this agent.
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Whose name holds this text.
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// How many.
    #[arg(long, default_value_t = 20)]
    limit: u32,
    /// Which page, from 1.
    #[arg(long, default_value_t = 1)]
    page: u32,
    #[command(flatten)]
    server: Server,
}

/// A session.
#[derive(Debug, Args)]
pub(super) struct One {
    /// The session's id.
    session: String,
    #[command(flatten)]
    server: Server,
}

impl Sessions {
    pub(super) async fn execute(self, json: bool) -> anyhow::Result<()> {
        match self {
            Self::List(list) => list.execute(json).await,
            Self::Show(one) => one.show(json).await,
            Self::Delete(one) => one.delete(json).await,
        }
    }
}

impl List {
    async fn execute(self, json: bool) -> anyhow::Result<()> {
        let mut query = vec![("limit", self.limit.to_string()), ("page", self.page.to_string())];
        query.extend(self.agent.map(|agent| ("component_id", agent)));
        query.extend(self.name.map(|name| ("session_name", name)));
        let page = Client::of(&self.server)?.get(&["sessions"], &query).await?;
        if json {
            return output::json(&page["data"]);
        }
        let sessions = page["data"].as_array().map(Vec::as_slice).unwrap_or_default();
        let row = |session: &Value| {
            let cells =
                ["session_id", "agent_id", "user_id", "updated_at"].map(|field| text(session, field).to_owned());
            cells.into_iter().chain([short(text(session, "session_name"), 60)]).collect()
        };
        let rows: Vec<Vec<_>> = sessions.iter().map(row).collect();
        output::lines(table(&["SESSION", "AGENT", "USER", "UPDATED", "NAME"], &rows))?;
        output::lines([format!("{} of {}", rows.len(), page["meta"]["total_count"])])
    }
}

impl One {
    async fn show(&self, json: bool) -> anyhow::Result<()> {
        let session = Client::of(&self.server)?.get(&["sessions", &self.session], &[]).await?;
        if json {
            return output::json(&session);
        }
        let head = ["session_id", "session_name", "agent_id", "user_id", "created_at", "updated_at"];
        output::lines(head.iter().map(|field| format!("{field:<13} {}", text(&session, field))))?;
        output::lines([String::new()])?;
        let messages = session["chat_history"].as_array().map(Vec::as_slice).unwrap_or_default();
        output::lines(
            messages.iter().map(|message| format!("[{}] {}", text(message, "role"), text(message, "content"))),
        )
    }

    async fn delete(&self, json: bool) -> anyhow::Result<()> {
        let client = Client::of(&self.server)?;
        client.json(client.request(Method::DELETE, &["sessions", &self.session], &[])?).await?;
        if json {
            return output::json(&serde_json::json!({"session_id": self.session, "deleted": true}));
        }
        output::lines([format!("session {} is not there any more", self.session)])
    }
}
