//! What both servers share: a socket, a note of every request, and a script.

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, Method, Uri},
    response::Response,
};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use super::Reply;

/// One request as it came.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: Option<String>,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
    pub(super) at: Instant,
}

type Rule = Box<dyn Fn(&Seen) -> Option<Reply> + Send>;

#[derive(Default)]
struct Script {
    seen: Vec<Seen>,
    rule: Option<Rule>,
    next: VecDeque<Reply>,
    otherwise: Reply,
}

/// A server and its script.
pub(super) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

struct Shared {
    script: Mutex<Script>,
    count: watch::Sender<usize>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Serves on a free port of this machine until it is dropped.
    pub(super) async fn start(otherwise: Reply) -> Self {
        let script = Script { otherwise, ..Script::default() };
        let shared = Arc::new(Shared { script: Mutex::new(script), count: watch::Sender::new(0) });
        let app = Router::new().fallback(answer).layer(DefaultBodyLimit::disable()).with_state(shared.clone());
        // Without a socket there is no test.
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("the socket is bound");
        let serving = tokio::spawn(async move {
            axum::serve(listener, app).await.expect("the server runs until it is dropped");
        });
        Self { address, shared, serving }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) fn push(&self, reply: Reply) {
        self.shared.lock().next.push_back(reply);
    }

    pub(super) fn otherwise(&self, reply: Reply) {
        self.shared.lock().otherwise = reply;
    }

    pub(super) fn rule(&self, rule: impl Fn(&Seen) -> Option<Reply> + Send + 'static) {
        self.shared.lock().rule = Some(Box::new(rule));
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.shared.lock().seen.clone()
    }

    /// Waits until `count` requests have come.
    pub(super) async fn wait_for(&self, count: usize) {
        let mut seen = self.shared.count.subscribe();
        seen.wait_for(|seen| *seen >= count).await.expect("the server lives as long as this");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let headers =
        headers.iter().map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
    let seen = Seen {
        method: method.to_string(),
        path: uri.path().to_owned(),
        query: uri.query().map(str::to_owned),
        headers: headers.collect(),
        body: String::from_utf8_lossy(&body).into_owned(),
        at: Instant::now(),
    };
    let reply = {
        let mut script = shared.lock();
        let ruled = script.rule.as_ref().and_then(|rule| rule(&seen));
        script.seen.push(seen);
        ruled.or_else(|| script.next.pop_front()).unwrap_or_else(|| script.otherwise.clone())
    };
    shared.count.send_modify(|count| *count += 1);
    reply.into_response().await
}
