//! A deployment between a scripted model and a scripted tool.

use std::{collections::BTreeMap, fs};

use reenact_tests::stub::{LedgerStub, ModelStub, Reply};
use serde_json::Value;

use crate::{
    ground,
    support::{Product, agent_with_model},
};

/// The product with agent `a`, whose tools are the ledger: `note` may be called again after a crash, `once`
/// declares nothing.
pub(crate) struct World {
    pub(crate) model: ModelStub,
    pub(crate) ledger: LedgerStub,
    pub(crate) product: Product,
}

impl World {
    /// A world whose agent's file holds `more` besides.
    pub(crate) async fn with(more: &str) -> Self {
        Self::set(more, |product| product).await
    }

    /// A world whose agent's file begins with `head` and holds `more` besides.
    pub(crate) async fn headed(head: &str, more: &str) -> Self {
        Self::built(head, more, |product| product).await
    }

    /// A world with settings of the program.
    pub(crate) async fn set(more: &str, settings: impl FnOnce(Product) -> Product) -> Self {
        Self::built("", more, settings).await
    }

    async fn built(head: &str, more: &str, settings: impl FnOnce(Product) -> Product) -> Self {
        let (model, ledger) = (ModelStub::start().await, LedgerStub::start().await);
        let tools = tool("note", "effect = \"idempotent\"", &ledger) + &tool("once", "", &ledger);
        let file = format!("{head}\n{}{more}\n{tools}", agent_with_model(&model.base_url()));
        let product = settings(ground::product().agent("a", &file)).started().await;
        Self { model, ledger, product }
    }

    /// Runs a message to its end, which must be a good one; the RunOutput.
    pub(crate) async fn turn(&self, session: &str, message: &str) -> Value {
        let run = self.product.turn("a", session, message).await;
        assert_eq!(run["status"], "COMPLETED", "{run:#}");
        run
    }

    /// SIGKILL, everything but log and blobs thrown away, and a start.
    pub(crate) async fn rebuild(&mut self) {
        self.product.kill_hard();
        fs::remove_dir_all(self.product.data().join("state")).expect("there is a state store");
        ground::forget_views(&self.product);
        self.product.start().await;
    }

    /// All that can be read of these sessions.
    pub(crate) async fn everything(&self, sessions: &[&str]) -> BTreeMap<String, Value> {
        let mut read = BTreeMap::new();
        let mut paths: Vec<_> = sessions.iter().map(|session| format!("/sessions/{session}")).collect();
        paths.extend(sessions.iter().map(|session| format!("/sessions/{session}/runs")));
        while let Some(path) = paths.pop() {
            let answer = self.product.get(&path).await.expect(200).json();
            let runs = answer.as_array().into_iter().flatten();
            paths.extend(runs.map(|run| format!("/runs/{}", run["run_id"].as_str().expect("a run has an id"))));
            read.insert(path, answer);
        }
        read
    }

    /// Checks that nothing of these sessions changes when all that can be rebuilt is, and that each goes on.
    pub(crate) async fn survives_a_rebuild(&mut self, sessions: &[&str]) {
        let before = self.everything(sessions).await;
        self.rebuild().await;
        let after = self.everything(sessions).await;
        for (path, before) in &before {
            assert_eq!(Some(before), after.get(path), "{path}");
        }
        for session in sessions {
            self.turn(session, "go on").await;
        }
        self.all_requests_are_well_formed();
    }

    /// Checks every request that the model got so far.
    pub(crate) fn all_requests_are_well_formed(&self) {
        for request in self.model.requests() {
            assert!(!request.messages().is_empty(), "a request is no JSON or empty: {}", request.body);
            assert_eq!(request.malformed(), None, "{:#}", request.body["messages"]);
        }
    }
}

fn tool(name: &str, effect: &str, ledger: &LedgerStub) -> String {
    let url = ledger.url(&format!("/{name}"));
    format!(
        "[[tools]]\ntype = \"http\"\nname = \"{name}\"\nmethod = \"POST\"\nurl = \"{url}\"\n{effect}\n\
         timeout_s = 60\nparameters = {{ type = \"object\" }}\n"
    )
}

/// A model's turn that calls `note` once with each of these arguments.
pub(crate) fn notes(arguments: &[&str]) -> Reply {
    let ids: Vec<_> = (0..arguments.len()).map(|at| format!("call-{at}")).collect();
    let calls: Vec<_> = ids.iter().zip(arguments).map(|(id, arguments)| (id.as_str(), "note", *arguments)).collect();
    Reply::calls(&calls)
}
