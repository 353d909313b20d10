//! A tool that notes every call: the truth about what happened outside.

use std::{collections::BTreeMap, time::Instant};

use super::{
    Reply,
    server::{Seen, Server},
};

/// One call of the tool.
#[derive(Debug, Clone)]
pub struct ToolRequest {
    /// `POST`, `GET` …
    pub method: String,
    /// The path.
    pub path: String,
    /// The query, as it was sent.
    pub query: Option<String>,
    /// Headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: String,
    /// When it came.
    pub at: Instant,
}

impl ToolRequest {
    fn of(seen: Seen) -> Self {
        let Seen { method, path, query, headers, body, at } = seen;
        Self { method, path, query, headers, body, at }
    }

    /// A header's value, empty when it was not sent.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The step's token.
    #[must_use]
    pub fn token(&self) -> &str {
        self.header("idempotency-key")
    }
}

/// A tool that answers from a script and notes every call.
pub struct LedgerStub(Server);

impl LedgerStub {
    /// Starts it; it answers `done` until it is told otherwise.
    pub async fn start() -> Self {
        Self(Server::start(Reply::raw(200, "text/plain", "done")).await)
    }

    /// The address of one of its tools; any path works.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        self.0.url(path)
    }

    /// Answers the next call that has no answer yet.
    pub fn push(&self, reply: Reply) {
        self.0.push(reply);
    }

    /// Answers whatever the script does not.
    pub fn otherwise(&self, reply: Reply) {
        self.0.otherwise(reply);
    }

    /// Answers by what is called; `None` leaves the answer to the script.
    pub fn rule(&self, rule: impl Fn(&ToolRequest) -> Option<Reply> + Send + 'static) {
        self.0.rule(move |seen| rule(&ToolRequest::of(seen.clone())));
    }

    /// All calls so far.
    #[must_use]
    pub fn calls(&self) -> Vec<ToolRequest> {
        self.0.seen().into_iter().map(ToolRequest::of).collect()
    }

    /// How often each token was called with another method than `GET`.
    #[must_use]
    pub fn times_by_token(&self) -> BTreeMap<String, usize> {
        let mut times = BTreeMap::new();
        for call in self.calls().iter().filter(|call| call.method != "GET") {
            *times.entry(call.token().to_owned()).or_default() += 1;
        }
        times
    }

    /// Waits until `count` calls have come.
    pub async fn wait_for(&self, count: usize) {
        self.0.wait_for(count).await;
    }
}
