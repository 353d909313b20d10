//! `reenact replay RUN --from STEP`: goes on from a step of a recorded run with another one.
//!
//! Unlike the re-enactment it changes something, so it asks a running server; the recorded run stays what it is.

use anyhow::Context;
use clap::Args;
use reqwest::Method;

use super::{
    client::Client,
    options::Server,
    output::{self, text},
};

/// Go on from a step with another run.
#[derive(Debug, Args)]
pub(super) struct Fork {
    /// Instead: go on before this step of the run, from 0, with another run that has all steps before it. Asks the
    /// server at `--url`.
    #[arg(long, value_name = "STEP")]
    from: Option<u32>,
    /// With `--from`: ask this model of the agent's provider.
    #[arg(long, value_name = "ID", requires = "from")]
    model: Option<String>,
    /// With `--from`: these instructions in place of the agent's.
    #[arg(long, value_name = "TEXT", requires = "from")]
    instructions: Option<String>,
    /// With `--from`: say this then.
    #[arg(long, value_name = "TEXT", requires = "from")]
    input: Option<String>,
    #[command(flatten)]
    server: Server,
}

impl Fork {
    pub(super) fn is_asked_for(&self) -> bool {
        self.from.is_some()
    }

    pub(super) async fn execute(self, run: &str, json: bool) -> anyhow::Result<()> {
        let from = self.from.context("`--from` names no step")?;
        let client = Client::of(&self.server)?;
        let found = client.get(&["runs", run], &[]).await?;
        let mut form = vec![
            ("fork", "true".to_owned()),
            ("from_step", from.to_string()),
            ("session_id", text(&found, "session_id").to_owned()),
            ("stream", "false".to_owned()),
            ("background", "true".to_owned()),
        ];
        let asked = [("model", self.model), ("instructions", self.instructions), ("input", self.input)];
        form.extend(asked.into_iter().filter_map(|(name, value)| Some((name, value?))));
        form.extend(client.user().map(|user| ("user_id", user.to_owned())));
        let path = ["agents", text(&found, "agent_id"), "runs", run, "continue"];
        let ticket = client.json(client.request(Method::POST, &path, &[])?.form(&form)).await?;
        if json {
            return output::json(&ticket);
        }
        let (other, session) = (text(&ticket, "run_id"), text(&ticket, "session_id"));
        output::lines([
            format!("run {other} in session {session} goes on from step {from} of run {run}"),
            format!("look at it with: reenact runs show {other}"),
        ])
    }
}
