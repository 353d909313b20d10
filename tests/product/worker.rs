//! An agent whose every run calls the model twice and three tools in between, one of each kind that matters
//! after a crash, with a model and tools that take their time so that a kill can hit anywhere.

use std::{collections::BTreeMap, time::Duration};

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use reenact_tests::stub::{ModelStub, Reply, ToolRequest};
use serde_json::{Value, json};

use crate::support::Product;

/// How long each model and tool call takes.
const STEP: Duration = Duration::from_millis(20);
/// A run that nothing disturbs takes about so long, so a kill at a random moment within it can hit any step.
const RUN_US: u64 = 150_000;

/// The names of the tools, which are their paths and effects too.
pub(crate) const TOOLS: [&str; 3] = ["read_only", "idempotent", "at_most_once"];

/// The agent, its model and its tools.
pub(crate) struct Worker {
    pub(crate) model: ModelStub,
    pub(crate) ledger: reenact_tests::stub::LedgerStub,
}

impl Worker {
    pub(crate) async fn start() -> Self {
        let (model, ledger) = (ModelStub::start().await, reenact_tests::stub::LedgerStub::start().await);
        model.rule(|request| {
            let calls = [("look", TOOLS[0], "{}"), ("put", TOOLS[1], "{\"n\": 1}"), ("pay", TOOLS[2], "{}")];
            let answered = request.messages().last().is_some_and(|last| last["role"] == "tool");
            Some(if answered { Reply::text("all done") } else { Reply::calls(&calls) }.delay(STEP))
        });
        ledger.otherwise(Reply::raw(200, "text/plain", "done").delay(STEP));
        Self { model, ledger }
    }

    /// Its file.
    pub(crate) fn toml(&self) -> String {
        let tool = |name: &&str| {
            format!(
                "\n[[tools]]\ntype = \"http\"\nname = \"{name}\"\ndescription = \"Works.\"\nmethod = \"POST\"\n\
                 url = \"{}\"\neffect = \"{name}\"\nparameters = {{ type = \"object\" }}\n",
                self.ledger.url(&format!("/{name}"))
            )
        };
        let tools: String = TOOLS.iter().map(tool).collect();
        crate::support::agent_with_model(&self.model.base_url()) + &tools
    }

    /// The calls of a run's tools, by tool.
    pub(crate) fn calls(&self, run: &str) -> BTreeMap<String, Vec<ToolRequest>> {
        let mut calls: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for call in self.ledger.calls().into_iter().filter(|call| call.header("x-reenact-run") == run) {
            calls.entry(call.path.trim_start_matches('/').to_owned()).or_default().push(call);
        }
        calls
    }

    /// Checks what a run that has ended did outside.
    pub(crate) fn check(&self, run: &str, decisions: &[Decision]) {
        let calls = self.calls(run);
        let times = |tool: &str| calls.get(tool).map_or(0, Vec::len);
        for (tool, calls) in &calls {
            let token = calls[0].token();
            assert!(!token.is_empty(), "run `{run}`: `{tool}` is called without a token");
            assert!(calls.iter().all(|call| call.token() == token), "run `{run}`: `{tool}` has several tokens");
        }
        assert!(times(TOOLS[0]) >= 1 && times(TOOLS[1]) >= 1, "run `{run}`: {calls:?}");
        let retries = decisions.iter().filter(|decision| **decision == Decision::Retry).count();
        assert!(times(TOOLS[2]) <= 1 + retries, "run `{run}` after {decisions:?}: {calls:?}");
        assert!(!decisions.is_empty() || times(TOOLS[2]) == 1, "run `{run}`: {calls:?}");
    }
}

/// What is decided about a call in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    Retry,
    Happened,
    Skip,
}

impl Decision {
    pub(crate) fn random(dice: &mut ChaCha8Rng) -> Self {
        [Self::Retry, Self::Happened, Self::Skip][dice.random_range(0..3)]
    }

    /// What the form says about each of the paused run's calls.
    pub(crate) fn tools(self, paused: &Value) -> String {
        let waiting = paused["requirements"].as_array().expect("a paused run says what it waits for").iter();
        let decided = waiting.map(|requirement| {
            let mut call = match self {
                Self::Retry => json!({"confirmed": true}),
                Self::Happened => json!({"result": "seen to by hand"}),
                Self::Skip => json!({"confirmed": false}),
            };
            call["tool_call_id"] = requirement["tool_execution"]["tool_call_id"].clone();
            call
        });
        Value::from_iter(decided).to_string()
    }
}

/// Decides about a paused run without waiting for it.
pub(crate) fn decide(product: &Product, paused: &Value, decision: Decision) -> reqwest::RequestBuilder {
    let (agent, run) = (&paused["agent_id"], &paused["run_id"]);
    let path = format!("/agents/{}/runs/{}/continue", agent.as_str().expect("an id"), run.as_str().expect("an id"));
    let tools = decision.tools(paused);
    product.form(&path, &[("tools", tools.as_str()), ("stream", "false"), ("background", "true")])
}

/// A moment within a run.
pub(crate) fn moment(dice: &mut ChaCha8Rng) -> Duration {
    Duration::from_micros(dice.random_range(0..RUN_US))
}
