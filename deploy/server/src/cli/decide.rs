//! `reenact runs continue`: decides about the tool calls that a paused run waits for somebody with.

use anyhow::{Context, anyhow, bail};
use clap::Args;
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::{
    options::Server,
    output::text,
    runs::{One, show},
};

/// Decide about the tool calls that a paused run waits for somebody with.
#[derive(Debug, Args)]
pub(super) struct Continue {
    /// The run's id.
    run: String,
    #[command(flatten)]
    decision: Decision,
    /// With `--approve`: make the call with these arguments, a JSON object.
    #[arg(long, value_name = "JSON", requires = "retry")]
    arguments: Option<String>,
    /// With `--reject`: what the model is told.
    #[arg(long, value_name = "TEXT", requires = "skip")]
    note: Option<String>,
    /// Only about this tool call; without it about all that wait.
    #[arg(long, value_name = "ID")]
    call: Option<String>,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Decision {
    /// Make the call; of one in doubt: it did not happen, do it.
    #[arg(long, visible_alias = "approve")]
    retry: bool,
    /// Tell the model that it was not made.
    #[arg(long, visible_alias = "reject")]
    skip: bool,
    /// It happened, or was made elsewhere, with this result.
    #[arg(long, value_name = "TEXT")]
    result: Option<String>,
    /// Fill in an argument; the value is JSON, or a text if it is none. May be said several times.
    #[arg(long, value_name = "NAME=VALUE")]
    input: Vec<String>,
}

/// The command that decides.
pub(super) fn how_to_decide(run: &str) -> String {
    format!("reenact runs continue {run} --approve | --reject | --result TEXT | --input NAME=VALUE")
}

impl Continue {
    pub(super) async fn execute(self, json: bool) -> anyhow::Result<()> {
        let one = One { run: self.run.clone(), server: self.server.clone() };
        let (client, run) = one.find().await?;
        let tools = self.tools(&run)?;
        let mut form = vec![("tools", tools.to_string()), ("stream", "false".to_owned())];
        form.extend(client.user().map(|user| ("user_id", user.to_owned())));
        let path = ["agents", text(&run, "agent_id"), "runs", &self.run, "continue"];
        let answer = client.json(client.request(Method::POST, &path, &[])?.form(&form)).await?;
        show(&answer, json)
    }

    /// The calls that wait with what is decided about them.
    fn tools(&self, run: &Value) -> anyhow::Result<Value> {
        let waiting = run["requirements"].as_array().map(Vec::as_slice).unwrap_or_default();
        if waiting.is_empty() {
            let (run, status) = (&self.run, text(run, "status"));
            bail!("run `{run}` is {status} and waits for no decision");
        }
        let decided = self.decided()?;
        let calls = waiting.iter().map(|requirement| &requirement["tool_execution"]);
        let wanted: Vec<_> = calls
            .filter(|call| self.call.as_deref().is_none_or(|wanted| text(call, "tool_call_id") == wanted))
            .map(|call| {
                let mut decided = decided.clone();
                decided["tool_call_id"] = call["tool_call_id"].clone();
                decided
            })
            .collect();
        if wanted.is_empty() {
            return Err(anyhow!("run `{}` does not wait for a decision about that call", self.run));
        }
        Ok(Value::Array(wanted))
    }

    fn decided(&self) -> anyhow::Result<Value> {
        let Decision { retry, result, input, .. } = &self.decision;
        if let Some(result) = result {
            return Ok(json!({"result": result}));
        }
        if !input.is_empty() {
            let fields = input.iter().map(|field| filled_in(field)).collect::<anyhow::Result<Vec<_>>>()?;
            return Ok(json!({"user_input_schema": fields}));
        }
        let mut decided = json!({"confirmed": retry});
        if let Some(arguments) = &self.arguments {
            let object: Map<String, Value> =
                serde_json::from_str(arguments).with_context(|| "`--arguments` is no JSON object".to_owned())?;
            decided["tool_args"] = Value::Object(object);
        }
        if let Some(note) = &self.note {
            decided["confirmation_note"] = json!(note);
        }
        Ok(decided)
    }
}

fn filled_in(field: &str) -> anyhow::Result<Value> {
    let Some((name, value)) = field.split_once('=') else {
        bail!("`--input {field}` is not of the form NAME=VALUE");
    };
    let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
    Ok(json!({"name": name, "value": value}))
}
