//! Speaks to a running server, and says what to do when that does not work.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::Value;

use super::options::Server;
use crate::progress;

/// How long a server that is restoring is waited for, and how often it is asked.
const RESTORING_WAIT: Duration = Duration::from_secs(60);
const RESTORING_PAUSE: Duration = Duration::from_millis(250);

/// A request that the server did not take.
struct Refused {
    /// Because it is not ready yet.
    restoring: bool,
    error: anyhow::Error,
}

impl Refused {
    fn into_error(self) -> anyhow::Error {
        self.error
    }
}

/// A server.
#[derive(Debug, Clone)]
pub(super) struct Client {
    http: reqwest::Client,
    url: String,
    user: Option<String>,
}

impl Client {
    /// The server that the options name.
    pub(super) fn of(server: &Server) -> anyhow::Result<Self> {
        let url = server.url.trim_end_matches('/').to_owned();
        if !url.starts_with("http://") && !url.starts_with("https://") {
            bail!("`{url}` is no address: say something like `--url http://127.0.0.1:7777`");
        }
        // No total time limit: a stream is as long as its run.
        let http = reqwest::Client::builder().connect_timeout(Duration::from_secs(10));
        Ok(Self { http: http.build().context("HTTP cannot be set up")?, url, user: server.user.clone() })
    }

    /// A request to a path whose parts are escaped, in the name of the user.
    pub(super) fn request(
        &self,
        method: Method,
        parts: &[&str],
        query: &[(&str, String)],
    ) -> anyhow::Result<RequestBuilder> {
        let mut url = reqwest::Url::parse(&self.url).with_context(|| format!("`{}` is no address", self.url))?;
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(parts);
        }
        {
            let mut pairs = url.query_pairs_mut();
            pairs.extend_pairs(query);
            if let Some(user) = &self.user {
                pairs.append_pair("user_id", user);
            }
        }
        Ok(self.http.request(method, url))
    }

    /// The user that is asked for.
    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Sends; an answer that is not a success becomes an error with what the server said. A server that is
    /// still restoring is waited for: it has taken nothing then, so asking again is harmless.
    pub(super) async fn send(&self, request: RequestBuilder) -> anyhow::Result<Response> {
        let deadline = tokio::time::Instant::now() + RESTORING_WAIT;
        loop {
            let again = request.try_clone().filter(|_| tokio::time::Instant::now() < deadline);
            let Some(sent) = again else { return self.send_once(request).await.map_err(Refused::into_error) };
            match self.send_once(sent).await {
                Err(Refused { restoring: true, .. }) => tokio::time::sleep(RESTORING_PAUSE).await,
                answer => return answer.map_err(Refused::into_error),
            }
        }
    }

    async fn send_once(&self, request: RequestBuilder) -> Result<Response, Refused> {
        let sent = request.send().await;
        let response = sent.map_err(|error| Refused { restoring: false, error: self.unreachable(error) })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let text = response.text().await.unwrap_or_default();
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        Err(Refused { restoring: body["error_id"] == "not_ready", error: anyhow!(refused(status, &text)) })
    }

    /// Sends and reads the answer's JSON; tells that it waits when it does.
    pub(super) async fn json(&self, request: RequestBuilder) -> anyhow::Result<Value> {
        let url = self.url.clone();
        let _telling = progress::while_alive(move || format!("waiting for {url}"));
        let response = self.send(request).await?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(Value::Null);
        }
        response.json().await.with_context(|| format!("{} answered something that is not JSON", self.url))
    }

    /// Reads a path that answers with a text.
    pub(super) async fn text(&self, parts: &[&str], query: &[(&str, String)]) -> anyhow::Result<String> {
        let response = self.send(self.request(Method::GET, parts, query)?).await?;
        response.text().await.with_context(|| format!("{} answered something that is no text", self.url))
    }

    /// Reads a path.
    pub(super) async fn get(&self, parts: &[&str], query: &[(&str, String)]) -> anyhow::Result<Value> {
        self.json(self.request(Method::GET, parts, query)?).await
    }

    fn unreachable(&self, error: reqwest::Error) -> anyhow::Error {
        if error.is_connect() {
            return anyhow!(
                "cannot reach {}: is `reenact serve` running? Start it, or say where it is with `--url` or `REENACT_URL`",
                self.url
            );
        }
        anyhow::Error::new(error).context(format!("the connection to {} failed", self.url))
    }
}

/// What the server said, for people.
fn refused(status: StatusCode, body: &str) -> String {
    let detail = serde_json::from_str::<Value>(body).map(|body| body["detail"].clone()).unwrap_or_default();
    let text = match &detail {
        Value::String(text) => text.clone(),
        Value::Array(faults) => faults.iter().map(fault).collect::<Vec<_>>().join("; "),
        _ => super::output::short(body, 300),
    };
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => format!("{text} ({status}): try again soon"),
        _ => format!("{text} ({status})"),
    }
}

fn fault(fault: &Value) -> String {
    let place: Vec<_> = fault["loc"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    format!("`{}`: {}", place.join("."), fault["msg"].as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_said_is_told_with_its_place() {
        let body = r#"{"detail":[{"loc":["query","page"],"msg":"Input should be 1 or more","type":"x"}]}"#;
        let text = refused(StatusCode::UNPROCESSABLE_ENTITY, body);
        assert_eq!(text, "`query.page`: Input should be 1 or more (422 Unprocessable Entity)");
        assert!(refused(StatusCode::BAD_GATEWAY, "<html>").starts_with("<html>"));
    }

    #[test]
    fn ids_are_escaped_in_paths() {
        let server = Server { url: "http://localhost:1/base/".into(), user: Some("a&b".into()) };
        let client = Client::of(&server).unwrap();
        let request = client.request(Method::GET, &["sessions", "a/b ?"], &[]).unwrap().build().unwrap();
        assert_eq!(request.url().as_str(), "http://localhost:1/base/sessions/a%2Fb%20%3F?user_id=a%26b");
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_told_with_a_remedy() {
        // Nobody listens on port 1 of this machine; binding it takes rights that no test has.
        let client = Client::of(&Server { url: "http://127.0.0.1:1".into(), user: None }).unwrap();
        let error = client.get(&["runs"], &[]).await.unwrap_err().to_string();
        assert!(error.contains("is `reenact serve` running?"), "{error}");
    }
}
