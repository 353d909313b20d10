//! `reenact schedules`: runs that come by themselves.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::{
    client::Client,
    options::Server,
    output::{self, short, table, text},
};
use crate::http::shapes::iso_seconds;

/// List, show, make and change schedules, fire one, and see what became of its due times.
#[derive(Debug, Subcommand)]
pub(super) enum Schedules {
    /// List schedules, newest first.
    List(List),
    /// Show a schedule.
    Show(One),
    /// Make a schedule that runs an agent.
    Create(Create),
    /// Change a schedule; what is not said stays.
    Update(Update),
    /// Let a schedule be due again, from now on.
    Enable(One),
    /// Let a schedule not be due any more.
    Disable(One),
    /// Fire a schedule now, and wait until its run has ended.
    Trigger(Trigger),
    /// Show when a schedule is due next.
    Preview(Preview),
    /// List what became of a schedule's due times, newest first.
    Runs(Runs),
    /// Remove a schedule; its runs stay.
    Delete(One),
}

/// List schedules, newest first.
#[derive(Debug, Args)]
pub(super) struct List {
    /// Only those that are due at all (true), or that are not (false).
    #[arg(long)]
    enabled: Option<bool>,
    /// How many.
    #[arg(long, default_value_t = 20)]
    limit: u32,
    /// Which page, from 1.
    #[arg(long, default_value_t = 1)]
    page: u32,
    #[command(flatten)]
    server: Server,
}

/// A schedule.
#[derive(Debug, Args)]
pub(super) struct One {
    /// The schedule's id.
    schedule: String,
    #[command(flatten)]
    server: Server,
}

/// When a schedule is due, and what it does then.
#[derive(Debug, Args)]
pub(super) struct Fields {
    /// When it is due: five fields of cron, for example "30 2 * * *".
    #[arg(long, value_name = "FIELDS")]
    cron: Option<String>,
    /// When it is due, once, for example 2027-01-31T09:00:00Z.
    #[arg(long, value_name = "MOMENT", conflicts_with = "cron")]
    at: Option<String>,
    /// The IANA zone that the fields are read in [default: UTC].
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// What it is for.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Seconds that a run may take.
    #[arg(long, value_name = "SECONDS")]
    timeout_seconds: Option<u32>,
    /// How often a failed run is made again.
    #[arg(long, value_name = "COUNT")]
    max_retries: Option<u32>,
    /// Seconds until then.
    #[arg(long, value_name = "SECONDS")]
    retry_delay_seconds: Option<u32>,
    /// With a run under way: skip, queue, allow or cancel_previous.
    #[arg(long, value_name = "WORD")]
    overlap: Option<String>,
    /// After an absence: none, last or all.
    #[arg(long, value_name = "WORD")]
    catch_up: Option<String>,
    /// Seconds that a fire is late, at most.
    #[arg(long, value_name = "SECONDS")]
    jitter_seconds: Option<u32>,
}

/// Make a schedule that runs an agent. Without `--cron` and `--at` it only fires when it is triggered.
#[derive(Debug, Args)]
pub(super) struct Create {
    /// Its name, unique per user.
    name: String,
    /// The agent.
    agent: String,
    /// What the agent is asked.
    message: String,
    /// In this session; without it each fire has one of its own.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    #[command(flatten)]
    fields: Fields,
    #[command(flatten)]
    server: Server,
}

/// Change a schedule; what is not said stays.
#[derive(Debug, Args)]
pub(super) struct Update {
    /// The schedule's id.
    schedule: String,
    /// Its name.
    #[arg(long)]
    name: Option<String>,
    /// What the agent is asked.
    #[arg(long)]
    message: Option<String>,
    #[command(flatten)]
    fields: Fields,
    #[command(flatten)]
    server: Server,
}

/// Fire a schedule now.
#[derive(Debug, Args)]
pub(super) struct Trigger {
    /// The schedule's id.
    schedule: String,
    /// Do not wait for the run.
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    server: Server,
}

/// Show when a schedule is due next.
#[derive(Debug, Args)]
pub(super) struct Preview {
    /// The schedule's id.
    schedule: String,
    /// How many due times.
    #[arg(long, default_value_t = 5)]
    count: u32,
    #[command(flatten)]
    server: Server,
}

/// List what became of a schedule's due times, newest first.
#[derive(Debug, Args)]
pub(super) struct Runs {
    /// The schedule's id.
    schedule: String,
    /// How many.
    #[arg(long, default_value_t = 20)]
    limit: u32,
    /// Which page, from 1.
    #[arg(long, default_value_t = 1)]
    page: u32,
    #[command(flatten)]
    server: Server,
}

impl Schedules {
    pub(super) async fn execute(self, json: bool) -> anyhow::Result<()> {
        match self {
            Self::List(list) => list.execute(json).await,
            Self::Show(one) => one.ask(Method::GET, &[], json).await,
            Self::Create(create) => create.execute(json).await,
            Self::Update(update) => update.execute(json).await,
            Self::Enable(one) => one.ask(Method::POST, &["enable"], json).await,
            Self::Disable(one) => one.ask(Method::POST, &["disable"], json).await,
            Self::Trigger(trigger) => trigger.execute(json).await,
            Self::Preview(preview) => preview.execute(json).await,
            Self::Runs(runs) => runs.execute(json).await,
            Self::Delete(one) => one.delete(json).await,
        }
    }
}

/// Writes an object, a field a line.
fn write(value: &Value, json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(value);
    }
    let fields = value.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    output::lines(fields.map(|(name, value)| format!("{name:<20} {}", shown(name, value))))
}

/// A field as people read it: what ends in `_at` is a moment.
fn shown(field: &str, value: &Value) -> String {
    match (value, value.as_i64()) {
        (Value::Null, _) => String::new(),
        (Value::String(text), _) => text.clone(),
        (_, Some(seconds)) if field.ends_with("_at") => iso_seconds(seconds),
        (other, _) => other.to_string(),
    }
}

/// Writes a page of a list with these columns.
fn write_page(page: &Value, heads: &[&str], fields: &[&str], json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(&page["data"]);
    }
    let items = page["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    let cell = |item: &Value, field: &str| short(&shown(field, &item[field]), 60);
    let rows: Vec<Vec<_>> = items.iter().map(|item| fields.iter().map(|field| cell(item, field)).collect()).collect();
    output::lines(table(heads, &rows))?;
    output::lines([format!("{} of {}", rows.len(), page["meta"]["total_count"])])
}

impl List {
    async fn execute(self, json: bool) -> anyhow::Result<()> {
        let mut query = vec![("limit", self.limit.to_string()), ("page", self.page.to_string())];
        query.extend(self.enabled.map(|enabled| ("enabled", enabled.to_string())));
        let page = Client::of(&self.server)?.get(&["schedules"], &query).await?;
        let heads = ["SCHEDULE", "NAME", "USER", "ENABLED", "NEXT", "DUE", "ZONE", "CALLS"];
        let fields = ["id", "name", "user_id", "enabled", "next_run_at", "cron_expr", "timezone", "endpoint"];
        write_page(&page, &heads, &fields, json)
    }
}

impl One {
    async fn ask(&self, method: Method, more: &[&str], json: bool) -> anyhow::Result<()> {
        let client = Client::of(&self.server)?;
        let parts: Vec<_> = ["schedules", &self.schedule].into_iter().chain(more.iter().copied()).collect();
        write(&client.json(client.request(method, &parts, &[])?).await?, json)
    }

    async fn delete(&self, json: bool) -> anyhow::Result<()> {
        let client = Client::of(&self.server)?;
        client.json(client.request(Method::DELETE, &["schedules", &self.schedule], &[])?).await?;
        if json {
            return output::json(&json!({"id": self.schedule, "deleted": true}));
        }
        output::lines([format!("schedule {} is not there any more", self.schedule)])
    }
}

impl Fields {
    /// What was said of them.
    fn said(self) -> Map<String, Value> {
        let said = [
            ("cron_expr", self.cron.map(Value::from)),
            ("at", self.at.map(Value::from)),
            ("timezone", self.timezone.map(Value::from)),
            ("description", self.description.map(Value::from)),
            ("timeout_seconds", self.timeout_seconds.map(Value::from)),
            ("max_retries", self.max_retries.map(Value::from)),
            ("retry_delay_seconds", self.retry_delay_seconds.map(Value::from)),
            ("overlap", self.overlap.map(Value::from)),
            ("catch_up", self.catch_up.map(Value::from)),
            ("jitter_seconds", self.jitter_seconds.map(Value::from)),
        ];
        said.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

impl Create {
    async fn execute(self, json: bool) -> anyhow::Result<()> {
        let mut body = self.fields.said();
        body.insert("name".to_owned(), self.name.into());
        body.insert("endpoint".to_owned(), format!("/agents/{}/runs", self.agent).into());
        let mut payload = json!({"message": self.message});
        if let Some(session) = self.session {
            payload["session_id"] = session.into();
        }
        body.insert("payload".to_owned(), payload);
        let client = Client::of(&self.server)?;
        write(&client.json(client.request(Method::POST, &["schedules"], &[])?.json(&body)).await?, json)
    }
}

impl Update {
    async fn execute(self, json: bool) -> anyhow::Result<()> {
        let client = Client::of(&self.server)?;
        let path = ["schedules", &*self.schedule];
        let mut body = self.fields.said();
        body.extend(self.name.map(|name| ("name".to_owned(), name.into())));
        if let Some(message) = self.message {
            // The rest of what is sent stays.
            let mut payload = client.get(&path, &[]).await?["payload"].take();
            payload["message"] = message.into();
            body.insert("payload".to_owned(), payload);
        }
        write(&client.json(client.request(Method::PATCH, &path, &[])?.json(&body)).await?, json)
    }
}

impl Trigger {
    async fn execute(self, json: bool) -> anyhow::Result<()> {
        let client = Client::of(&self.server)?;
        let wait = [("wait", (!self.no_wait).to_string())];
        let request = client.request(Method::POST, &["schedules", &self.schedule, "trigger"], &wait)?;
        write(&client.json(request).await?, json)
    }
}

impl Preview {
    async fn execute(self, json: bool) -> anyhow::Result<()> {
        let query = [("count", self.count.to_string())];
        let client = Client::of(&self.server)?;
        let preview = client.get(&["schedules", &self.schedule, "preview"], &query).await?;
        if json {
            return output::json(&preview);
        }
        let fires = preview["fires"].as_array().map(Vec::as_slice).unwrap_or_default();
        let rows: Vec<Vec<_>> =
            fires.iter().map(|fire| ["local", "note"].map(|field| text(fire, field).to_owned()).into()).collect();
        output::lines(table(&["DUE", "NOTE"], &rows))
    }
}

impl Runs {
    async fn execute(self, json: bool) -> anyhow::Result<()> {
        let query = [("limit", self.limit.to_string()), ("page", self.page.to_string())];
        let page = Client::of(&self.server)?.get(&["schedules", &self.schedule, "runs"], &query).await?;
        let heads = ["DUE", "ATTEMPT", "STATUS", "RUN", "SESSION", "ERROR"];
        let fields = ["due_at", "attempt", "status", "run_id", "session_id", "error"];
        write_page(&page, &heads, &fields, json)
    }
}
