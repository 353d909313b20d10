//! A deployment of its own for each test, on the broker that all share.

use std::{
    fs,
    sync::atomic::{AtomicU32, Ordering},
    time::Instant,
};

use reenact_tests::broker;
use reqwest::Method;
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    product::{Answer, PATIENCE, POLL, Product, is_open},
    publisher::Publisher,
};

/// Short, so that a test sees a take-over soon.
const PROPERTIES: &str = "session.timeout.ms=6000\nheartbeat.interval.ms=1000\n";

/// Nodes that are one runtime.
pub(crate) struct Deployment {
    pub(crate) brokers: String,
    pub(crate) prefix: String,
    pub(crate) nodes: Vec<Product>,
    folder: TempDir,
}

impl Deployment {
    /// So many nodes that serve the built-in agent.
    pub(crate) async fn start(nodes: usize) -> Self {
        Self::with(nodes, |node| node).await
    }

    /// So many nodes with something of their own.
    pub(crate) async fn with(nodes: usize, equip: impl Fn(Product) -> Product) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let brokers = tokio::task::block_in_place(|| broker::shared(env!("CARGO_TARGET_TMPDIR"), "publishers"));
        let prefix = format!("publishers-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("kafka.properties"), PROPERTIES).expect("the folder is writable");
        let mut deployment = Self { brokers, prefix, nodes: Vec::new(), folder };
        for number in 0..nodes {
            let node = deployment.another(number, equip(Product::new()));
            deployment.nodes.push(node.started().await);
        }
        deployment
    }

    /// The node of this number, which was not started yet.
    pub(crate) fn another(&self, number: usize, product: Product) -> Product {
        let folder = self.folder.path();
        product
            .set("REENACT_LOG", format!("kafka://{}", self.brokers))
            .set("REENACT_TOPIC_PREFIX", &self.prefix)
            .set("REENACT_OBJECTS", folder.join("objects").display())
            .set("REENACT_KAFKA_PROPERTIES", folder.join("kafka.properties").display())
            .set("REENACT_NODE", format!("node-{number}"))
            .set("REENACT_DRAIN_S", 2)
    }

    /// The first node.
    pub(crate) fn node(&self) -> &Product {
        self.nodes.first().expect("it has one")
    }

    /// Somebody who publishes to it.
    pub(crate) fn publisher(&self) -> Publisher {
        tokio::task::block_in_place(|| Publisher::new(&self.brokers, &self.prefix))
    }

    /// The name of one of its topics.
    pub(crate) fn topic(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    /// The run that an answer names, once it has ended or waits, as the last node sees it. It may be busy taking
    /// over from another.
    pub(crate) async fn settled(&self, answer: &Value) -> Value {
        let run = answer["run_id"].as_str().unwrap_or_else(|| panic!("names no run: {answer}"));
        let (node, began) = (self.nodes.last().expect("it has one"), Instant::now());
        loop {
            // A read that is given the answer's position sees what it tells of, whichever node decided it.
            let read = node.get_at(&format!("/runs/{run}"), answer).await;
            if read.status != 503 {
                let output = read.expect(200).json();
                if !is_open(output["status"].as_str().expect("a run has a status")) {
                    return output;
                }
            }
            assert!(began.elapsed() < PATIENCE, "run `{run}` does not end:\n{}", node.said());
            tokio::time::sleep(POLL).await;
        }
    }

    /// Lines of JSON that one of the program's commands writes.
    pub(crate) fn lines(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.node().run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        text.lines().map(|line| serde_json::from_str(line).expect("one JSON value a line")).collect()
    }
}

/// Reads that wait for what an answer tells of.
pub(crate) trait GetAt {
    /// Reads a path not before the answer's position.
    async fn get_at(&self, path: &str, answer: &Value) -> Answer;
}

impl GetAt for Product {
    async fn get_at(&self, path: &str, answer: &Value) -> Answer {
        let position = answer["position"].as_str().unwrap_or_else(|| panic!("tells no position: {answer}"));
        Self::ask(self.request(Method::GET, path).header("Reenact-Position", position)).await
    }
}
