//! Short ways to speak to a deployment over HTTP.

use std::time::Instant;

use reqwest::{Method, header::HeaderMap, multipart};
use serde_json::Value;

use super::{PATIENCE, POLL, Product};

/// The connection broke before the answer was whole: the process was killed.
#[derive(Debug)]
pub struct Lost;

/// An answer, whole.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, undecoded.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Expects a status.
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }

    /// The names of a stream's events, in order.
    pub fn event_names(&self) -> Vec<String> {
        self.text().lines().filter_map(|line| line.strip_prefix("event: ")).map(str::to_owned).collect()
    }
}

/// Whether a run of this status goes on by itself.
pub fn is_open(status: &str) -> bool {
    matches!(status, "PENDING" | "RUNNING")
}

impl Product {
    /// A request to a path of the deployment, to be completed and sent by [`Product::ask`].
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url()))
    }

    /// Sends a request and reads the whole answer.
    pub async fn try_ask(request: reqwest::RequestBuilder) -> Result<Answer, Lost> {
        let asked = async {
            let response = request.send().await.map_err(|_| Lost)?;
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            let body = response.bytes().await.map_err(|_| Lost)?.to_vec();
            Ok(Answer { status, headers, body })
        };
        tokio::time::timeout(PATIENCE, asked).await.expect("it answers")
    }

    /// Sends a request to a process that stays up.
    pub async fn ask(request: reqwest::RequestBuilder) -> Answer {
        Self::try_ask(request).await.expect("the connection holds")
    }

    /// Reads a path, again when it is told to because the views are behind: a busy machine takes longer to fold.
    pub async fn get(&self, path: &str) -> Answer {
        let began = Instant::now();
        loop {
            let answer = Self::ask(self.request(Method::GET, path)).await;
            let is_early = answer.status == 503 && answer.text().contains(r#""views_lag""#);
            if !is_early || began.elapsed() >= PATIENCE {
                return answer;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// A form as AgentOS's clients send it.
    pub fn form(&self, path: &str, fields: &[(&str, &str)]) -> reqwest::RequestBuilder {
        let add =
            |form: multipart::Form, (name, value): &(&str, &str)| form.text((*name).to_owned(), (*value).to_owned());
        self.request(Method::POST, path).multipart(fields.iter().fold(multipart::Form::new(), add))
    }

    /// Sends a form; without fields there is no body at all.
    pub async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let nothing = fields.is_empty();
        Self::ask(if nothing { self.request(Method::POST, path) } else { self.form(path, fields) }).await
    }

    /// The form of a run that nobody waits for.
    pub fn background(&self, agent: &str, session: &str, message: &str) -> reqwest::RequestBuilder {
        let fields = [("message", message), ("session_id", session), ("background", "true"), ("stream", "false")];
        self.form(&format!("/agents/{agent}/runs"), &fields)
    }

    /// Starts a run that nobody waits for; its id.
    pub async fn begin(&self, agent: &str, session: &str, message: &str) -> String {
        let ticket = Self::ask(self.background(agent, session, message)).await.expect(202).json();
        ticket["run_id"].as_str().expect("a ticket names its run").to_owned()
    }

    /// Runs a message to its end; the RunOutput.
    pub async fn turn(&self, agent: &str, session: &str, message: &str) -> Value {
        let fields = [("message", message), ("session_id", session), ("stream", "false")];
        self.post(&format!("/agents/{agent}/runs"), &fields).await.expect(200).json()
    }

    /// Waits until a run has ended or waits for a decision; its RunOutput.
    pub async fn settled(&self, run: &str) -> Value {
        let began = Instant::now();
        loop {
            let output = self.get(&format!("/runs/{run}")).await.expect(200).json();
            if !is_open(output["status"].as_str().expect("a run has a status")) {
                return output;
            }
            assert!(began.elapsed() < PATIENCE, "run `{run}` does not end: {output:#}\n{}", self.said());
            tokio::time::sleep(POLL).await;
        }
    }
}
