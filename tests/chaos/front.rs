//! A client of the whole deployment: it asks any node, and another one when that does not answer.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use reqwest::{Client, RequestBuilder, multipart::Form};
use serde_json::Value;

/// A node that is frozen never answers.
const ANSWER_WAIT: Duration = Duration::from_secs(8);
/// What is asked in the middle of a storm may have to wait until it is over: a request under a key needs the owners of
/// two partitions, and each of them may be hit.
const PATIENCE: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(100);

/// Clones are handles to the same one.
#[derive(Clone)]
pub(crate) struct Front {
    http: Client,
    urls: Arc<Mutex<BTreeMap<String, String>>>,
}

/// What was answered, and by whom.
pub(crate) struct Told {
    pub(crate) node: String,
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Front {
    pub(crate) fn new() -> Self {
        let http = Client::builder().no_proxy().timeout(ANSWER_WAIT).build().expect("a client can be made");
        Self { http, urls: Arc::default() }
    }

    fn urls(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.urls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node serves there from now on.
    pub(crate) fn serves(&self, node: &str, url: String) {
        self.urls().insert(node.to_owned(), url);
    }

    /// The node is not asked any more.
    pub(crate) fn is_gone(&self, node: &str) {
        self.urls().remove(node);
    }

    /// The nodes that are asked.
    pub(crate) fn nodes(&self) -> Vec<String> {
        self.urls().keys().cloned().collect()
    }

    /// Asks one node after the other, beginning with the `turn`th, until one answers; one that is busy, not ready
    /// or gone does not.
    pub(crate) async fn ask(&self, turn: usize, make: impl Fn(&Client, &str) -> RequestBuilder) -> Told {
        let (began, mut turn, mut last) = (Instant::now(), turn, String::new());
        loop {
            let nodes: Vec<_> = self.urls().iter().map(|(node, url)| (node.clone(), url.clone())).collect();
            if let Some((node, url)) = nodes.get(turn % nodes.len().max(1)) {
                match self.one(node, make(&self.http, url)).await {
                    Ok(told) => return told,
                    Err(why) => last = format!("`{node}`: {why}"),
                }
            }
            assert!(began.elapsed() < PATIENCE, "no node of {nodes:?} answers; the last said {last}");
            turn += 1;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn one(&self, node: &str, request: RequestBuilder) -> Result<Told, String> {
        let response = request.send().await.map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        let text = response.text().await.map_err(|error| error.to_string())?;
        assert_ne!(status, 500, "`{node}` has an error of its own: {text}");
        if matches!(status, 429 | 502..=504) {
            return Err(format!("{status} {text}"));
        }
        let body = serde_json::from_str(&text).unwrap_or_else(|error| panic!("`{node}`: {error}: {text}"));
        Ok(Told { node: node.to_owned(), status, body })
    }

    /// Starts a run that nobody waits for; its id. The key makes asking again harmless.
    pub(crate) async fn begin(&self, turn: usize, agent: &str, session: &str, message: &str, key: &str) -> String {
        let form = || {
            let fields = [("message", message), ("session_id", session), ("background", "true"), ("stream", "false")];
            fields.iter().fold(Form::new(), |form, (name, value)| form.text((*name).to_owned(), (*value).to_owned()))
        };
        let path = format!("/agents/{agent}/runs");
        let told = self
            .ask(turn, |http, url| http.post(format!("{url}{path}")).header("idempotency-key", key).multipart(form()))
            .await;
        assert_eq!(told.status, 202, "`{}`: {:#}", told.node, told.body);
        told.body["run_id"].as_str().expect("a ticket names its run").to_owned()
    }

    /// The run as the `turn`th node sees it.
    pub(crate) async fn run(&self, turn: usize, run: &str) -> Told {
        self.ask(turn, |http, url| http.get(format!("{url}/runs/{run}"))).await
    }

    /// Waits until the run has ended well.
    pub(crate) async fn completed(&self, run: &str) {
        let began = Instant::now();
        loop {
            let told = self.run(0, run).await;
            match told.body["status"].as_str() {
                Some("COMPLETED") => return,
                Some("PENDING" | "RUNNING") => {}
                _ => panic!("run `{run}` on `{}`: {:#}", told.node, told.body),
            }
            assert!(began.elapsed() < PATIENCE, "run `{run}` does not end: {:#}", told.body);
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Decides about a paused run; whether the decision was taken.
    pub(crate) async fn decide(&self, turn: usize, agent: &str, run: &str, tools: &str) -> bool {
        let path = format!("/agents/{agent}/runs/{run}/continue");
        let form = || {
            let fields = [("tools", tools), ("background", "true"), ("stream", "false")];
            fields.iter().fold(Form::new(), |form, (name, value)| form.text((*name).to_owned(), (*value).to_owned()))
        };
        let told = self.ask(turn, |http, url| http.post(format!("{url}{path}")).multipart(form())).await;
        // It may have been decided by an attempt whose answer was lost.
        assert!(matches!(told.status, 200 | 202 | 409), "`{}`: {} {:#}", told.node, told.status, told.body);
        told.status != 409
    }
}
