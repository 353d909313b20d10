//! `reenact users`: erase one, and read what came of it.

use std::time::Duration;

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::Value;

use super::{
    client::Client,
    options::Server,
    output::{self, text},
};

/// Pause between two looks at how it stands.
const LOOK: Duration = Duration::from_millis(250);

/// Erase a user, or show how that stands.
#[derive(Debug, Subcommand)]
pub(super) enum Users {
    /// Destroy a user's key, and remove what was made from their content.
    Erase(Erase),
    /// Show how the erasure of a user stands, place by place.
    Report(One),
}

/// Whom.
#[derive(Debug, Args)]
pub(super) struct One {
    /// The user's id.
    #[arg(value_name = "USER")]
    who: String,
    #[command(flatten)]
    server: Server,
}

/// Whom, and that it is meant.
#[derive(Debug, Args)]
pub(super) struct Erase {
    #[command(flatten)]
    one: One,
    /// Do it. Without this it only says what it would do.
    #[arg(long)]
    yes: bool,
}

impl Users {
    pub(super) async fn execute(self, json: bool) -> anyhow::Result<()> {
        match self {
            Self::Erase(erase) => erase.execute(json).await,
            Self::Report(one) => show(&one.report(&Client::of(&one.server)?).await?, json),
        }
    }
}

impl One {
    async fn report(&self, client: &Client) -> anyhow::Result<Value> {
        client.get(&["users", &self.who, "erasure"], &[]).await
    }
}

impl Erase {
    async fn execute(self, json: bool) -> anyhow::Result<()> {
        let client = Client::of(&self.one.server)?;
        if !self.yes {
            let query = [("user_id", self.one.who.clone()), ("limit", "1".to_owned())];
            let sessions = client.get(&["sessions"], &query).await?["meta"]["total_count"].clone();
            if json {
                return output::json(&serde_json::json!({ "user_id": self.one.who, "sessions": sessions }));
            }
            let who = &self.one.who;
            return output::lines([format!(
                "would erase `{who}`: delete their sessions (up to {sessions}, those of nobody not counted off), stop their \
                 runs, delete their schedules, destroy their key, and make views and states anew. Nobody can undo it. Say \
                 `--yes` to do it"
            )]);
        }
        client.json(client.request(Method::DELETE, &["users", &self.one.who], &[])?).await?;
        loop {
            let report = self.one.report(&client).await?;
            if !report["finished_at"].is_null() {
                return show(&report, json);
            }
            if let Some(trouble) = report["trouble"].as_str() {
                eprintln!("it waits, and is tried again: {trouble}");
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn show(report: &Value, json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(report);
    }
    let head = match report["finished_at"].as_str() {
        Some(at) => {
            format!("`{}` is erased since {at}, as asked for at {}", text(report, "user_id"), text(report, "asked_at"))
        }
        None => format!("`{}` is being erased, as asked for at {}", text(report, "user_id"), text(report, "asked_at")),
    };
    let places = report["places"].as_array().into_iter().flatten();
    let told = places.flat_map(|place| {
        let done = format!("{:<10} {}  {}", text(place, "place"), text(place, "done_at"), text(place, "done"));
        let remains = place["remains"].as_str().map(|remains| format!("{:<10} remains: {remains}", ""));
        [Some(done), remains].into_iter().flatten()
    });
    let trouble = report["trouble"].as_str().map(|trouble| format!("it waits, and is tried again: {trouble}"));
    output::lines([head].into_iter().chain(told).chain(trouble))
}
