//! `reenact run AGENT MESSAGE`: shows the answer as it comes, and stays with the run when the server goes
//! away and comes back.

use std::{fs, io::Read, path::PathBuf, time::Duration};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use eventsource_stream::Eventsource;
use futures::StreamExt;
use reqwest::Method;
use serde_json::Value;

use super::{client::Client, options::Server, output, told::Told};
use crate::progress;

mod screen;

use screen::Screen;

/// How long a server that went away is waited for.
const RETURN_WAIT: Duration = Duration::from_secs(120);
const RETURN_POLL: Duration = Duration::from_millis(500);

/// Run an agent and show its answer as it comes.
#[derive(Debug, Args)]
pub(super) struct Run {
    /// The agent's id.
    agent: String,
    /// The message; `-` reads it from standard input.
    message: String,
    /// Go on in this session instead of a new one.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Wait for the whole answer instead of showing it as it comes.
    #[arg(long)]
    no_stream: bool,
    /// Do not wait: print the run's id and leave it at work.
    #[arg(long, conflicts_with = "no_stream")]
    background: bool,
    /// A JSON object that is kept with the run for your own use.
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
    /// A JSON object: keys that the session's state has from this run on.
    #[arg(long, value_name = "JSON")]
    session_state: Option<String>,
    /// The answer must be JSON that fits the JSON Schema in this file.
    #[arg(long, value_name = "FILE")]
    output_schema: Option<PathBuf>,
    #[command(flatten)]
    server: Server,
}

/// Why a stream ended.
pub(super) enum Ended {
    /// With the run: it was brought to its end or to a pause.
    Told(Value),
    /// In the middle.
    Broken,
}

impl Run {
    pub(super) async fn execute(self, json: bool) -> anyhow::Result<()> {
        let client = Client::of(&self.server)?;
        let stream = !(json || self.no_stream || self.background);
        let form = self.form(stream, client.user())?;
        let request = client.request(Method::POST, &["agents", &self.agent, "runs"], &[])?.form(&form);
        if !stream {
            return show_whole(&client.json(request).await?, json);
        }
        let mut screen = Screen::default();
        let response = client.send(request).await?;
        let mut ended = watch(response, &mut screen).await?;
        while matches!(ended, Ended::Broken) {
            ended = come_back(&client, &self.agent, &mut screen).await?;
        }
        match ended {
            Ended::Told(last) => screen.close(&last),
            Ended::Broken => bail!("the stream broke off"),
        }
    }

    fn form(&self, stream: bool, user: Option<&str>) -> anyhow::Result<Vec<(&'static str, String)>> {
        let mut message = self.message.clone();
        if message == "-" {
            message.clear();
            std::io::stdin().read_to_string(&mut message).context("standard input is no text")?;
        }
        let mut form = vec![("message", message), ("stream", stream.to_string())];
        if self.background {
            form.push(("background", "true".to_owned()));
        }
        if let Some(path) = &self.output_schema {
            let schema = fs::read_to_string(path).with_context(|| format!("`{}` cannot be read", path.display()))?;
            form.push(("output_schema", schema));
        }
        form.extend(self.metadata.clone().map(|metadata| ("metadata", metadata)));
        form.extend(self.session_state.clone().map(|state| ("session_state", state)));
        form.extend(self.session.clone().map(|session| ("session_id", session)));
        form.extend(user.map(|user| ("user_id", user.to_owned())));
        Ok(form)
    }
}

/// Shows a stream until it ends.
pub(super) async fn watch(response: reqwest::Response, screen: &mut Screen) -> anyhow::Result<Ended> {
    let mut events = response.bytes_stream().eventsource();
    while let Some(event) = events.next().await {
        let Ok(event) = event else { return Ok(Ended::Broken) };
        let data: Value = serde_json::from_str(&event.data).with_context(|| {
            format!("the server sent a frame that is no JSON: `{}`", output::short(&event.data, 80))
        })?;
        screen.frame(&event.event, &data)?;
        match event.event.as_str() {
            "RunCompleted" | "RunError" | "RunCancelled" | "RunPaused" => return Ok(Ended::Told(data)),
            "stream_expired" => return Ok(Ended::Broken),
            _ => {}
        }
    }
    Ok(Ended::Broken)
}

/// Waits for the server and goes on where the stream broke off.
async fn come_back(client: &Client, agent: &str, screen: &mut Screen) -> anyhow::Result<Ended> {
    let Some((run, session)) = screen.run() else {
        bail!("the connection broke before the run began; look for it with `reenact runs list`");
    };
    screen.note("the connection broke; waiting for the server to come back")?;
    let _telling = progress::while_alive(|| "waiting for the server to come back".to_owned());
    let mut form = vec![("session_id", session), ("last_event_index", screen.last_index().to_string())];
    form.extend(client.user().map(|user| ("user_id", user.to_owned())));
    let deadline = tokio::time::Instant::now() + RETURN_WAIT;
    loop {
        let request = client.request(Method::POST, &["agents", agent, "runs", &run, "resume"], &[])?.form(&form);
        match client.send(request).await {
            Ok(response) => {
                drop(_telling);
                return watch(response, screen).await;
            }
            Err(error) if tokio::time::Instant::now() >= deadline => {
                return Err(
                    error.context(format!("run `{run}` goes on when the server is back: `reenact runs show {run}`"))
                );
            }
            Err(_) => tokio::time::sleep(RETURN_POLL).await,
        }
    }
}

fn show_whole(run: &Value, json: bool) -> anyhow::Result<()> {
    if json {
        output::json(run)?;
    } else if run["content"].is_string() {
        output::lines([output::text(run, "content").to_owned()])?;
    } else if !run["content"].is_null() {
        output::json(&run["content"])?;
    } else {
        output::lines([format!("run {} in session {}", output::text(run, "run_id"), output::text(run, "session_id"))])?;
    }
    match output::text(run, "status") {
        "ERROR" | "CANCELLED" if json => Err(Told.into()),
        status @ ("ERROR" | "CANCELLED") => Err(anyhow!("the run ended with {status}")),
        "PAUSED" => Err(anyhow!("{}", screen::how_to_continue(output::text(run, "run_id")))),
        _ => Ok(()),
    }
}
