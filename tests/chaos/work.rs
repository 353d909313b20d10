//! What the runs do: five tool steps in two rounds, against a model and tools that are counted outside.

use std::{collections::BTreeSet, time::Duration};

use reenact_tests::stub::{LedgerStub, ModelRequest, ModelStub, Reply, ToolRequest};
use serde_json::json;

use crate::support::agent_with_model;

/// The agent's name.
pub(crate) const AGENT: &str = "worker";

/// How many tool steps a run has.
pub(crate) const STEPS: usize = 5;

/// A word in the message of a run whose last step is paid for: `at_most_once`.
pub(crate) const PAY: &str = "pay";

/// The tools, whose names are their paths, with their effects.
const TOOLS: [(&str, &str); 3] = [("look", "read_only"), ("put", "idempotent"), ("pay", "at_most_once")];

/// The model and the tools.
pub(crate) struct Work {
    pub(crate) model: ModelStub,
    pub(crate) ledger: LedgerStub,
}

impl Work {
    /// Every call takes so long.
    pub(crate) async fn start(step: Duration) -> Self {
        let (model, ledger) = (ModelStub::start().await, LedgerStub::start().await);
        model.rule(move |request| Some(reply(request).delay(step / 4)));
        ledger.rule(move |call| Some(Reply::raw(200, "text/plain", format!("did {}", call.body)).delay(step)));
        Self { model, ledger }
    }

    /// The agent's file.
    pub(crate) fn toml(&self) -> String {
        let tool = |(name, effect): &(&str, &str)| {
            format!(
                "\n[[tools]]\ntype = \"http\"\nname = \"{name}\"\ndescription = \"Works.\"\nmethod = \"POST\"\n\
                 url = \"{}\"\neffect = \"{effect}\"\ntimeout_s = 120\nparameters = {{ type = \"object\" }}\n",
                self.ledger.url(&format!("/{name}"))
            )
        };
        agent_with_model(&self.model.base_url()) + &TOOLS.iter().map(tool).collect::<String>()
    }

    /// Checks that a run, which nobody decided about, called each of its tools under one token of its own; how
    /// often it called.
    pub(crate) fn check(&self, run: &str) -> usize {
        let calls: Vec<_> =
            self.ledger.calls().into_iter().filter(|call| call.header("x-reenact-run") == run).collect();
        let tokens: BTreeSet<_> = calls.iter().map(|call| (call.token(), call.body.as_str())).collect();
        let names: BTreeSet<_> = calls.iter().map(ToolRequest::token).collect();
        assert!(tokens.len() == STEPS && names.len() == STEPS, "run `{run}`: {calls:#?}");
        calls.len()
    }
}

/// The tools that a run calls, in order.
pub(crate) fn tools_of(message: &str) -> [&'static str; STEPS] {
    ["put", "look", "put", "look", if message.contains(PAY) { "pay" } else { "put" }]
}

/// The answer of a run that has ended.
pub(crate) fn answer_of(message: &str) -> String {
    format!("all done: {message}")
}

/// The model's answer: the first round of tools, the second, or the end.
pub(crate) fn reply(request: &ModelRequest) -> Reply {
    let messages = request.messages();
    let asked = messages.iter().rposition(|message| message["role"] == "user").unwrap_or_default();
    let message = messages.get(asked).and_then(|message| message["content"].as_str()).unwrap_or_default();
    let done = messages[asked..].iter().filter(|message| message["role"] == "tool").count();
    let next = match done {
        0 => 0..2,
        2 => 2..STEPS,
        _ => return Reply::text(&answer_of(message)),
    };
    let calls: Vec<_> = next
        .map(|step| (format!("call-{step}"), tools_of(message)[step], json!({"of": message, "step": step}).to_string()))
        .collect();
    let calls: Vec<_> = calls.iter().map(|(id, name, arguments)| (id.as_str(), *name, arguments.as_str())).collect();
    Reply::calls(&calls)
}
