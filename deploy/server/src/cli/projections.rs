//! `reenact projections`: the generations of the views, of a running server or of a stopped deployment.

mod offline;

use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    client::Client,
    folding::progress_line,
    log_source::At,
    options::Server,
    output::{self, table, text},
};

/// How often a rebuild is asked how it goes.
const POLL: Duration = Duration::from_millis(200);

/// The generations of the views: the rows that everything is read from, folded from the log.
///
/// Without `--data`, `--log` or `--config` the server at `--url` is asked; with one of them, the deployment must be
/// stopped for whatever changes something.
#[derive(Debug, Subcommand)]
pub(super) enum Projections {
    /// List the generations and how far each has come.
    List(Place),
    /// Show how far the live generation is behind the log, by partition.
    Lag(Place),
    /// Fold another generation beside the live one, from the log alone.
    Rebuild(Rebuild),
    /// Have readers go on with another generation; the one before is kept.
    Swap(Swap),
    /// Remove a generation that is not live.
    Drop(Which),
}

/// Which deployment.
#[derive(Debug, Args)]
pub(super) struct Place {
    #[command(flatten)]
    at: At,
    /// Where the server is.
    #[arg(long, env = "REENACT_URL", default_value = "http://127.0.0.1:7777")]
    url: String,
}

/// Fold another generation.
#[derive(Debug, Args)]
pub(super) struct Rebuild {
    /// Go on with this one, in place of a new one.
    #[arg(long, value_name = "NUMBER")]
    generation: Option<u32>,
    /// Do not wait until a server's has come to the log's end.
    #[arg(long)]
    background: bool,
    #[command(flatten)]
    place: Place,
}

/// Have readers go on with another generation.
#[derive(Debug, Args)]
pub(super) struct Swap {
    /// The generation that is read from now on.
    #[arg(value_name = "NUMBER")]
    generation: u32,
    /// How many seconds it may take to catch up.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    wait_s: u64,
    #[command(flatten)]
    place: Place,
}

/// A generation that is not live.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// Its number.
    #[arg(value_name = "NUMBER")]
    generation: u32,
    #[command(flatten)]
    place: Place,
}

impl Projections {
    pub(super) async fn execute(self, json: bool) -> anyhow::Result<()> {
        match self {
            Self::List(place) => show(&place.list().await?, json),
            Self::Lag(place) => lag(&place.list().await?, json),
            Self::Rebuild(rebuild) => rebuild.execute(json).await,
            Self::Swap(swap) => {
                let (number, wait) = (swap.generation, Duration::from_secs(swap.wait_s));
                let generations = match swap.place.config()? {
                    Some(config) => offline::swap(config, number, wait).await?,
                    None => swap.place.ask_to_swap(number, swap.wait_s).await?,
                };
                show(&generations, json)
            }
            Self::Drop(Which { generation, place }) => {
                match place.config()? {
                    Some(config) => offline::remove(config, generation).await?,
                    None => drop(place.ask(Method::DELETE, &[&generation.to_string()], &[]).await?),
                }
                if json { Ok(()) } else { output::lines([format!("generation {generation} is gone")]) }
            }
        }
    }
}

impl Place {
    /// The configuration, if a stopped deployment is meant.
    fn config(&self) -> anyhow::Result<Option<crate::config::Config>> {
        self.at.is_said().then(|| self.at.config()).transpose()
    }

    async fn ask(&self, method: Method, path: &[&str], query: &[(&str, String)]) -> anyhow::Result<Value> {
        let client = Client::of(&Server { url: self.url.clone(), user: None })?;
        let path: Vec<_> = ["projections"].iter().chain(path).copied().collect();
        client.json(client.request(method, &path, query)?).await
    }

    async fn ask_to_swap(&self, number: u32, wait_s: u64) -> anyhow::Result<Value> {
        let query = [("wait_s", wait_s.to_string())];
        Ok(self.ask(Method::POST, &[&number.to_string(), "swap"], &query).await?["generations"].take())
    }

    async fn list(&self) -> anyhow::Result<Value> {
        match self.config()? {
            Some(config) => offline::list(config).await,
            None => Ok(self.ask(Method::GET, &[], &[]).await?["generations"].take()),
        }
    }
}

impl Rebuild {
    async fn execute(self, json: bool) -> anyhow::Result<()> {
        let number = match self.place.config()? {
            Some(config) => offline::rebuild(config, self.generation).await?,
            None => self.ask().await?,
        };
        let generations = self.place.list().await?;
        let found = generations.as_array().into_iter().flatten().find(|one| one["generation"] == number);
        let found = found.cloned().unwrap_or_else(|| json!({ "generation": number }));
        if json {
            return output::json(&found);
        }
        let came = if found["lag"] == 0 { "is at the log's end" } else { "is being folded" };
        output::lines([format!("generation {number} {came}: `reenact projections swap {number}` has it read")])
    }

    /// Has a server do it, and waits.
    async fn ask(&self) -> anyhow::Result<u32> {
        let query: Vec<_> = self.generation.iter().map(|number| ("generation", number.to_string())).collect();
        let begun = self.place.ask(Method::POST, &["rebuild"], &query).await?;
        let number = begun["generation"].as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or_default();
        if !self.background {
            self.wait(number).await?;
        }
        Ok(number)
    }

    /// Waits until a server's rebuild has come to the log's end.
    async fn wait(&self, number: u32) -> anyhow::Result<()> {
        let (told, _telling) = progress_line();
        loop {
            let generations = self.place.list().await?;
            let found = generations.as_array().into_iter().flatten().find(|one| one["generation"] == number);
            let rebuild = found
                .map(|found| &found["rebuild"])
                .with_context(|| format!("generation {number} was dropped while it was rebuilt"))?;
            match text(rebuild, "stage") {
                "following" => return Ok(()),
                "failed" => bail!("the rebuild of generation {number} stopped: {}", text(rebuild, "reason")),
                stage => told.say(format!(
                    "generation {number}: {stage}, {} events folded, {:.0} a second, {} offsets behind, about {:.0} s left",
                    rebuild["events"],
                    rebuild["events_per_s"].as_f64().unwrap_or_default(),
                    rebuild["lag"],
                    rebuild["left_s"].as_f64().unwrap_or_default()
                )),
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

fn show(generations: &Value, json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(generations);
    }
    let row = |one: &Value| {
        let state = match text(&one["rebuild"], "stage") {
            "" if one["live"] == true => "live".to_owned(),
            "" => "kept".to_owned(),
            "failed" => format!("stopped: {}", text(&one["rebuild"], "reason")),
            stage => stage.to_owned(),
        };
        vec![one["generation"].to_string(), one["lag"].to_string(), state]
    };
    let rows: Vec<_> = generations.as_array().into_iter().flatten().map(row).collect();
    output::lines(table(&["GENERATION", "BEHIND", "STATE"], &rows))
}

fn lag(generations: &Value, json: bool) -> anyhow::Result<()> {
    let live = generations.as_array().into_iter().flatten().find(|one| one["live"] == true);
    let partitions = live.map(|live| &live["partitions"]).cloned().unwrap_or_default();
    if json {
        return output::json(&partitions);
    }
    let row = |one: &Value| ["partition", "position", "end", "lag"].map(|field| one[field].to_string()).to_vec();
    let rows: Vec<_> = partitions.as_array().into_iter().flatten().map(row).collect();
    output::lines(table(&["PARTITION", "POSITION", "END", "BEHIND"], &rows))
}
