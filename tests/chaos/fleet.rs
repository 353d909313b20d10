//! The nodes of one deployment: processes that are killed, frozen, added and removed.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use reenact_events::{EventLog, SessionId, StreamKey};
use tempfile::TempDir;

use crate::{
    front::Front,
    support::{POLL, Product},
    truth,
};

/// Short, so that a test sees a take-over soon.
pub(crate) const SESSION: Duration = Duration::from_secs(6);
/// Longer than every time-out: the session's, the transaction's, and the time in which a step may begin.
pub(crate) const FREEZE: Duration = Duration::from_secs(12);

const DRAIN_S: u32 = 2;

/// A deployment.
pub(crate) struct Fleet {
    pub(crate) front: Front,
    pub(crate) prefix: String,
    brokers: String,
    nodes: BTreeMap<String, Product>,
    agents: Vec<(String, String)>,
    settings: Vec<(&'static str, String)>,
    properties: String,
    folder: TempDir,
}

static NEXT: AtomicU32 = AtomicU32::new(0);

impl Fleet {
    /// A deployment without nodes on these brokers, with a log of its own.
    pub(crate) fn new(brokers: String, name: &str) -> Self {
        let prefix = format!("{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let session = SESSION.as_millis();
        Self {
            front: Front::new(),
            prefix,
            brokers,
            nodes: BTreeMap::new(),
            agents: Vec::new(),
            settings: Vec::new(),
            properties: format!("session.timeout.ms={session}\nheartbeat.interval.ms=1000\n"),
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    /// Gives all nodes an agent.
    pub(crate) fn agent(mut self, name: &str, toml: &str) -> Self {
        self.agents.push((name.to_owned(), toml.to_owned()));
        self
    }

    /// Gives all nodes a setting of the program.
    pub(crate) fn set(mut self, name: &'static str, value: impl ToString) -> Self {
        self.settings.push((name, value.to_string()));
        self
    }

    /// Gives all nodes a property of librdkafka.
    pub(crate) fn property(mut self, name: &str, value: &str) -> Self {
        self.properties += &format!("{name}={value}\n");
        self
    }

    /// Where large texts and files are, for all nodes.
    fn objects(&self) -> PathBuf {
        self.folder.path().join("objects")
    }

    /// A node that has never been started.
    fn node(&self, name: &str) -> Product {
        let file = self.folder.path().join("kafka.properties");
        std::fs::write(&file, &self.properties).expect("the folder is writable");
        let product = self.agents.iter().fold(Product::new(), |product, (name, toml)| product.agent(name, toml));
        let settings = self.settings.iter();
        settings
            .fold(product, |product, (name, value)| product.set(name, value))
            .set("REENACT_LOG", format!("kafka://{}", self.brokers))
            .set("REENACT_TOPIC_PREFIX", &self.prefix)
            .set("REENACT_OBJECTS", self.objects().display())
            .set("REENACT_KAFKA_PROPERTIES", file.display())
            .set("REENACT_NODE", name)
            .set("REENACT_DRAIN_S", DRAIN_S)
    }

    /// Starts a node, a new one or one that was down, and waits until it is ready.
    pub(crate) async fn start(&mut self, name: &str) {
        let mut node = self.nodes.remove(name).unwrap_or_else(|| self.node(name));
        node.start().await;
        self.front.serves(name, node.url());
        self.nodes.insert(name.to_owned(), node);
    }

    /// The node of this name.
    pub(crate) fn of(&self, name: &str) -> &Product {
        self.nodes.get(name).unwrap_or_else(|| panic!("there is no node `{name}`"))
    }

    fn of_mut(&mut self, name: &str) -> &mut Product {
        self.nodes.get_mut(name).unwrap_or_else(|| panic!("there is no node `{name}`"))
    }

    /// SIGKILL. Clients go on asking it for a while, as they would.
    pub(crate) fn kill(&mut self, name: &str) {
        self.of_mut(name).kill_hard();
    }

    /// SIGTERM, and waits until it has gone.
    pub(crate) async fn remove(&mut self, name: &str) {
        self.of(name).term();
        let status = self.of_mut(name).ended(Duration::from_secs(30)).await;
        self.front.is_gone(name);
        assert!(status.success(), "`{name}` ended with {status}:\n{}", tail(&self.of(name).said()));
    }

    /// The node that decides about a session, as the log says.
    pub(crate) async fn owner(&self, session: &str) -> String {
        let log = truth::log(&self.brokers, &self.prefix).await;
        let partition = StreamKey::session(&SessionId::trusted(session)).partition_of(log.partitions());
        let owners = log.owners().await.expect("the log tells its owners");
        let owner = owners.iter().find(|owner| owner.partition == partition).expect("every partition has one");
        owner.node.to_string()
    }

    /// Waits until the partitions are spread evenly over the nodes.
    pub(crate) async fn is_balanced(&self) {
        let log = truth::log(&self.brokers, &self.prefix).await;
        let least = log.partitions() as usize / self.nodes.len();
        loop {
            let owners = log.owners().await.expect("the log tells its owners");
            let share = |node: &String| owners.iter().filter(|owner| owner.node.as_str() == node).count();
            if self.nodes.keys().all(|node| share(node) >= least) {
                return;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// The other nodes than this one.
    pub(crate) fn others(&self, name: &str) -> Vec<String> {
        self.nodes.keys().filter(|node| *node != name).cloned().collect()
    }

    /// What to look at when something is wrong.
    pub(crate) fn last_words(&self) -> String {
        let of =
            |(name, node): (&String, &Product)| format!("--- the last of node `{name}` ---\n{}", tail(&node.said()));
        self.nodes.iter().map(of).collect::<Vec<_>>().join("\n")
    }
}

fn tail(text: &str) -> String {
    const LINES: usize = 60;
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
