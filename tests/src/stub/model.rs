//! A scripted model. Its replies are in whatever protocol they are written in; `malformed` knows chat completions.

use std::{collections::BTreeMap, time::Instant};

use serde_json::Value;

use super::{
    Reply,
    server::{Seen, Server},
};

/// One call of the model.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// The request's body.
    pub body: Value,
    /// Where it went: the path with its query.
    pub path: String,
    /// Its headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// When it came.
    pub at: Instant,
}

impl ModelRequest {
    fn of(seen: &Seen) -> Self {
        let body = serde_json::from_str(&seen.body).unwrap_or_default();
        let query = seen.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
        Self { body, path: format!("{}{query}", seen.path), headers: seen.headers.clone(), at: seen.at }
    }

    /// The messages that were sent.
    #[must_use]
    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// What breaks the protocol's rule that every tool call has exactly one result directly after its turn,
    /// and that no content is empty; `None` when nothing does.
    #[must_use]
    pub fn malformed(&self) -> Option<String> {
        let mut open: Vec<&str> = Vec::new();
        for (index, message) in self.messages().iter().enumerate() {
            let text = message["content"].as_str();
            if text.is_some_and(|text| text.trim().is_empty()) {
                return Some(format!("message {index} is empty"));
            }
            if message["role"] == "tool" {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                let Some(place) = open.iter().position(|call| *call == id) else {
                    return Some(format!("message {index} answers `{id}`, which was not called or is answered"));
                };
                open.remove(place);
                continue;
            }
            if !open.is_empty() {
                return Some(format!("message {index} comes before the results of {open:?}"));
            }
            let calls = message["tool_calls"].as_array();
            if message["role"] == "assistant" && text.is_none() && calls.is_none_or(Vec::is_empty) {
                return Some(format!("message {index} holds nothing"));
            }
            open.extend(calls.into_iter().flatten().filter_map(|call| call["id"].as_str()));
        }
        (!open.is_empty()).then(|| format!("no results for {open:?}"))
    }
}

/// A model that answers from a script and notes every request.
pub struct ModelStub(Server);

impl ModelStub {
    /// Starts it; it answers `ok` until it is told otherwise.
    pub async fn start() -> Self {
        Self(Server::start(Reply::text("ok")).await)
    }

    /// What an agent's file calls `base_url`.
    #[must_use]
    pub fn base_url(&self) -> String {
        self.0.url("/v1")
    }

    /// Answers the next request that has no answer yet.
    pub fn push(&self, reply: Reply) {
        self.0.push(reply);
    }

    /// Answers whatever the script does not.
    pub fn otherwise(&self, reply: Reply) {
        self.0.otherwise(reply);
    }

    /// Answers by what is asked; `None` leaves the answer to the script.
    pub fn rule(&self, rule: impl Fn(&ModelRequest) -> Option<Reply> + Send + 'static) {
        self.0.rule(move |seen| rule(&ModelRequest::of(seen)));
    }

    /// All requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.0.seen().iter().map(ModelRequest::of).collect()
    }

    /// Waits until `count` requests have come.
    pub async fn wait_for(&self, count: usize) {
        self.0.wait_for(count).await;
    }
}
