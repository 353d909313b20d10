//! A deployment in a temporary folder, and short ways to speak to it.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, Bytes},
    http::{HeaderMap, Method, Request, StatusCode, header::CONTENT_TYPE},
};
use eventsource_stream::{Event, Eventsource};
use futures::{Stream, StreamExt};
use reenact_server::{
    config::{Config, Flags, Layers},
    http::{router, state::App},
    wiring::{self, Deployment},
};
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt;
use tower_http::normalize_path::NormalizePath;

/// Nothing here takes this long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A deployment.
pub(crate) struct Server {
    pub(crate) app: App,
    deployment: Deployment,
    service: NormalizePath<Router>,
    config: Config,
    folder: TempDir,
}

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).unwrap()
    }

    /// Expects a status.
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }
}

/// A frame of a stream: its name and its data.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) data: Value,
    pub(crate) id: String,
}

impl Seen {
    fn of(event: Event) -> Self {
        Self { name: event.event, data: serde_json::from_str(&event.data).unwrap(), id: event.id }
    }

    pub(crate) fn index(&self) -> Option<u64> {
        self.data["event_index"].as_u64()
    }
}

impl Server {
    /// With the built-in agent.
    pub(crate) async fn start() -> Self {
        Self::with(&[], &[]).await
    }

    /// With these agent files and flags.
    pub(crate) async fn with(agents: &[(&str, &str)], flags: &[(&'static str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut said: Flags = flags.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        said.insert("data", folder.path().join("data").display().to_string());
        if !agents.is_empty() {
            let path = folder.path().join("agents");
            std::fs::create_dir(&path).unwrap();
            for (name, text) in agents {
                std::fs::write(path.join(format!("{name}.toml")), text).unwrap();
            }
            said.insert("agents", path.display().to_string());
        }
        let config = Config::from_layers(&Layers::resolve(&said, &|_| None, None).unwrap()).unwrap();
        Self::open(config, folder).await
    }

    async fn open(config: Config, folder: TempDir) -> Self {
        let app = wiring::app(&config, wiring::agents(&config).unwrap());
        let service = router::service(app.clone(), &config.cors_origins);
        let deployment = wiring::restore(&config, &app).await.unwrap();
        Self { app, deployment, service, config, folder }
    }

    /// Stops without waiting for runs, and starts again on the same data.
    pub(crate) async fn restart(self) -> Self {
        self.restart_after(|_| {}).await
    }

    /// The same without the views, which come back from the log.
    pub(crate) async fn without_views(self) -> Self {
        self.restart_after(|data| {
            for file in ["views.db", "views.db-wal", "views.db-shm"] {
                // The last connection removes what SQLite keeps beside the file.
                match std::fs::remove_file(data.join(file)) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("`{file}`: {error}"),
                    _ => {}
                }
            }
            assert!(!data.join("views.db").exists(), "they are gone");
        })
        .await
    }

    /// The same with an agent's file gone.
    pub(crate) async fn without_agent(self, name: &str) -> Self {
        self.restart_after(|data| {
            let agents = data.with_file_name("agents");
            std::fs::remove_file(agents.join(format!("{name}.toml"))).unwrap();
        })
        .await
    }

    async fn restart_after(self, change: impl Fn(&Path)) -> Self {
        let Self { app, deployment, service, config, folder } = self;
        app.leave();
        deployment.close(Duration::ZERO).await;
        app.gone().cancel();
        drop((app, service));
        change(&config.data);
        let began = Instant::now();
        loop {
            // The log closes when the last task that held it is gone.
            let again = wiring::app(&config, wiring::agents(&config).unwrap());
            match wiring::restore(&config, &again).await {
                Ok(deployment) => {
                    let service = router::service(again.clone(), &config.cors_origins);
                    return Self { app: again, deployment, service, config, folder };
                }
                Err(error) if began.elapsed() > PATIENCE => panic!("{error:#}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// Sends a request; the body is not read.
    pub(crate) async fn send(&self, request: Request<Body>) -> axum::response::Response {
        tokio::time::timeout(PATIENCE, self.service.clone().oneshot(request)).await.expect("answers").unwrap()
    }

    /// Sends a request and reads the answer.
    pub(crate) async fn ask(&self, request: Request<Body>) -> Answer {
        let response = self.send(request).await;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = tokio::time::timeout(PATIENCE, axum::body::to_bytes(response.into_body(), usize::MAX));
        Answer { status, headers, body: body.await.expect("ends").unwrap() }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(request(Method::GET, path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.ask(request(Method::DELETE, path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn form(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.ask(form(path, fields)).await
    }

    pub(crate) async fn json(&self, method: Method, path: &str, body: &str) -> Answer {
        let request = request(method, path).header(CONTENT_TYPE, "application/json");
        self.ask(request.body(Body::from(body.to_owned())).unwrap()).await
    }

    /// Starts a run in the background; its id.
    pub(crate) async fn background(&self, agent: &str, fields: &[(&str, &str)]) -> String {
        let fields: Vec<_> = fields.iter().copied().chain([("background", "true"), ("stream", "false")]).collect();
        let answer = self.form(&format!("/agents/{agent}/runs"), &fields).await.expect(202);
        assert_eq!(answer.json()["status"], "PENDING");
        answer.json()["run_id"].as_str().unwrap().to_owned()
    }

    /// Waits until a run has this status; the run.
    pub(crate) async fn until(&self, run: &str, status: &str) -> Value {
        let began = Instant::now();
        loop {
            let run = self.get(&format!("/runs/{run}")).await.expect(200).json();
            if run["status"] == status {
                return run;
            }
            assert!(began.elapsed() < PATIENCE, "it stays {}", run["status"]);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until what a path shows is as wanted; what it shows.
    pub(crate) async fn until_shown(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let shown = self.get(path).await.expect(200).json();
            if wanted(&shown) {
                return shown;
            }
            assert!(began.elapsed() < PATIENCE, "it stays {shown}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Reads a stream as it comes.
    pub(crate) async fn stream(&self, request: Request<Body>) -> impl Stream<Item = Seen> + Unpin + use<> {
        let response = self.send(request).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
        response.into_body().into_data_stream().eventsource().map(|event| Seen::of(event.unwrap()))
    }

    /// Reads a stream to its end.
    pub(crate) async fn whole_stream(&self, request: Request<Body>) -> Vec<Seen> {
        let stream = self.stream(request).await;
        tokio::time::timeout(PATIENCE, stream.collect()).await.expect("ends")
    }
}

/// A request that is still to get its body.
pub(crate) fn request(method: Method, path: &str) -> axum::http::request::Builder {
    Request::builder().method(method).uri(path)
}

/// A form.
pub(crate) fn form(path: &str, fields: &[(&str, &str)]) -> Request<Body> {
    let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
    let body: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
    let request = request(Method::POST, path).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    request.body(Body::from(body.join("&"))).unwrap()
}

/// A multipart form with files.
pub(crate) fn multipart(path: &str, fields: &[(&str, &str)], files: &[(&str, &str, &[u8])]) -> Request<Body> {
    let mut body = Vec::new();
    for (name, value) in fields {
        body.extend(format!("--B\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n").bytes());
    }
    for (name, mime, bytes) in files {
        let head =
            format!("content-disposition: form-data; name=\"files\"; filename=\"{name}\"\r\ncontent-type: {mime}");
        body.extend(format!("--B\r\n{head}\r\n\r\n").bytes());
        body.extend(*bytes);
        body.extend(b"\r\n");
    }
    body.extend(b"--B--\r\n");
    let request = request(Method::POST, path).header(CONTENT_TYPE, "multipart/form-data; boundary=B");
    request.body(Body::from(body)).unwrap()
}

/// The answer's words as a client that follows the frames has them.
pub(crate) fn heard(frames: &[Seen]) -> String {
    let (mut done, mut step) = (String::new(), String::new());
    for frame in frames {
        match frame.name.as_str() {
            "attempt_restarted" => step.clear(),
            "RunContent" => step.push_str(frame.data["content"].as_str().unwrap_or_default()),
            "ModelRequestCompleted" => done.push_str(&std::mem::take(&mut step)),
            _ => {}
        }
    }
    done
}

/// The names of frames with how often they came.
pub(crate) fn counts(frames: &[Seen]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for frame in frames {
        *counts.entry(frame.name.as_str()).or_default() += 1;
    }
    counts
}
