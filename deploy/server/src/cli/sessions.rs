//! `reenact sessions`: list, show, delete, purge.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::Value;

use super::{
    client::Client,
    options::Server,
    output::{self, short, table, text},
};

/// List sessions, show one, delete one, delete those that are not to be kept.
#[derive(Debug, Subcommand)]
pub(super) enum Sessions {
    /// List sessions, newest first.
    List(List),
    /// Show a session with what was said in it.
    Show(One),
    /// Delete a session with its runs.
    Delete(One),
    /// Delete sessions by age, by number, or all of a user; those with a run that has not ended stay.
    Purge(Purge),
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

/// Which sessions are not to be kept; with nothing but a user, all of theirs.
#[derive(Debug, Args)]
#[group(required = true, multiple = true, id = "which", args = ["user", "older_than_days", "keep_newest"])]
pub(super) struct Purge {
    /// Those that nobody has used for so many days.
    #[arg(long, value_name = "DAYS")]
    older_than_days: Option<u32>,
    /// Those beyond so many of their owner's that were used last.
    #[arg(long, value_name = "SESSIONS")]
    keep_newest: Option<u64>,
    /// Only say which.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    server: Server,
}

impl Sessions {
    pub(super) async fn execute(self, json: bool) -> anyhow::Result<()> {
        match self {
            Self::List(list) => list.execute(json).await,
            Self::Show(one) => one.show(json).await,
            Self::Delete(one) => one.delete(json).await,
            Self::Purge(purge) => purge.execute(json).await,
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

impl Purge {
    /// Asks again for as long as there is more, and tells how far it is.
    async fn execute(self, json: bool) -> anyhow::Result<()> {
        let client = Client::of(&self.server)?;
        let mut query = vec![("dry_run", self.dry_run.to_string())];
        query.extend(self.older_than_days.map(|days| ("older_than_days", days.to_string())));
        query.extend(self.keep_newest.map(|newest| ("keep_newest", newest.to_string())));
        let (mut sessions, mut used) = (0, 0);
        loop {
            let answer = client.json(client.request(Method::POST, &["retention"], &query)?).await?;
            let ids = answer["session_ids"].as_array().map(Vec::as_slice).unwrap_or_default();
            if json {
                output::json(&answer)?;
            } else {
                output::lines(ids.iter().map(|id| id.as_str().unwrap_or_default().to_owned()))?;
            }
            sessions += ids.len();
            used += answer["used"].as_u64().unwrap_or_default();
            if self.dry_run || answer["more"] != true {
                break;
            }
        }
        if json {
            return Ok(());
        }
        let done = if self.dry_run { "would be deleted" } else { "are deleted" };
        output::lines([format!("{sessions} sessions {done}, {used} were used meanwhile and stay")])
    }
}
