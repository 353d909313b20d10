//! A37: a broker that came back with less than it had. Nobody goes on with it in silence: the partition is refused by
//! name while the others are served, an operator accepts the loss, and the runs that it may have touched end and do
//! nothing twice.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use reenact_events::{SessionId, StreamKey};
use reenact_kafka_rig::{Cluster, Options};
use reenact_tests::stub::{LedgerStub, ModelStub, Reply};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{PATIENCE, POLL, Product, agent_with_model};

const PREFIX: &str = "a37";
const PARTITIONS: u32 = 2;
/// The message of a run that ends at once.
const SHORT: &str = "short";
/// The message of a run that pays once, and then asks the model again.
const PAYS: &str = "pays";

/// What an older copy of is put in the place of what there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Older {
    /// The events of partition 0: the group's offsets tell of more.
    Partition,
    /// All that the broker has: nothing of it tells of more, but the node's own state does.
    Broker,
}

/// A session of a partition.
fn session(partition: u32) -> String {
    let is_there =
        |name: &String| StreamKey::session(&SessionId::trusted(name)).partition_of(PARTITIONS).0 == partition;
    (0..).map(|number| format!("s{number}")).find(is_there).expect("there is one")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("it can be made");
    for entry in fs::read_dir(from).expect("it is there") {
        let path = entry.expect("it can be listed").path();
        let copied = to.join(path.file_name().expect("it has a name"));
        if path.is_dir() {
            copy(&path, &copied);
        } else {
            fs::copy(&path, &copied).expect("it can be copied");
        }
    }
}

/// One broker, one node, and what its runs call.
struct Scene {
    cluster: Cluster,
    node: Product,
    ledger: LedgerStub,
    model: ModelStub,
    /// The model answers nobody but short runs as long as this is set.
    is_silent: Arc<AtomicBool>,
    folder: TempDir,
}

impl Scene {
    async fn set() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("cluster");
        let cluster = tokio::task::block_in_place(|| Cluster::up(Options::new(dir)).expect("a broker"));
        let properties = folder.path().join("kafka.properties");
        fs::write(&properties, "session.timeout.ms=6000\nheartbeat.interval.ms=1000\n").expect("it can be written");
        let (model, ledger, is_silent) = (ModelStub::start().await, LedgerStub::start().await, Arc::default());
        let silent: Arc<AtomicBool> = Arc::clone(&is_silent);
        model.rule(move |request| {
            let (messages, pay) = (request.messages(), [("call-0", "pay", "{}")]);
            let asked = messages.iter().rposition(|message| message["role"] == "user").unwrap_or_default();
            let is_short = messages.get(asked).is_some_and(|message| message["content"] == SHORT);
            let has_paid = messages[asked..].iter().any(|message| message["role"] == "tool");
            Some(match (is_short, has_paid) {
                (true, _) => Reply::text("at once"),
                _ if silent.load(Ordering::SeqCst) => Reply::text("").delay(2 * PATIENCE),
                (false, false) => Reply::calls(&pay),
                (false, true) => Reply::text("paid"),
            })
        });
        let tool = format!(
            "\n[[tools]]\ntype = \"http\"\nname = \"pay\"\ndescription = \"Pays.\"\nmethod = \"POST\"\nurl = \"{}\"\n\
             effect = \"at_most_once\"\nparameters = {{ type = \"object\" }}\n",
            ledger.url("/pay")
        );
        let node = Product::new()
            .agent("a", &(agent_with_model(&model.base_url()) + &tool))
            .set("REENACT_LOG", format!("kafka://{}", cluster.bootstrap()))
            .set("REENACT_TOPIC_PREFIX", PREFIX)
            .set("REENACT_KAFKA_PARTITIONS", PARTITIONS)
            .set("REENACT_KAFKA_PROPERTIES", properties.display())
            .set("REENACT_OBJECTS", folder.path().join("objects").display())
            .set("REENACT_NODE", "a")
            .set("REENACT_DRAIN_S", 1);
        Self { cluster, node: node.started().await, ledger, model, is_silent, folder }
    }

    /// Does something to the broker's files while it is down.
    fn with_files(&mut self, work: impl FnOnce(&Path, &Path)) {
        tokio::task::block_in_place(|| {
            self.cluster.stop(1).expect("it stops");
            let data = find(&self.folder.path().join("cluster"), "meta.properties");
            work(data.parent().expect("it is in a folder"), &self.folder.path().join("older"));
            self.cluster.start(1).expect("it starts");
        });
    }

    fn keep_older(&mut self) {
        self.node.kill_hard();
        self.with_files(copy);
    }

    fn put_back(&mut self, what: Older) {
        self.with_files(|data, older| {
            let place = match what {
                Older::Partition => PathBuf::from(format!("{PREFIX}.events-0")),
                Older::Broker => PathBuf::new(),
            };
            fs::remove_dir_all(data.join(&place)).expect("it can be removed");
            copy(&older.join(&place), &data.join(&place));
        });
    }

    /// Waits until the node says that it refuses a partition, and why.
    async fn refuses(&self, named: &str) -> String {
        let began = Instant::now();
        loop {
            let answer = self.node.get("/ready").await;
            if answer.status == 503 && answer.text().contains(named) {
                return answer.text();
            }
            assert!(began.elapsed() < PATIENCE, "{}\n{}", answer.text(), self.node.said());
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until the node is ready by itself.
    async fn goes_on(&self) {
        let began = Instant::now();
        while self.node.get("/ready").await.status != 200 {
            assert!(began.elapsed() < PATIENCE, "{}", self.node.said());
            tokio::time::sleep(POLL).await;
        }
    }

    /// What is answered to a run that a refused partition would have to take.
    async fn answer_of(&self, session: &str) -> String {
        Product::ask(self.node.background("a", session, SHORT)).await.expect(503).text()
    }

    fn accept(&self, partition: u32, more: &[&str]) -> Output {
        let partition = partition.to_string();
        let arguments = [&["log", "accept-loss", "--json", "--partition", &partition], more].concat();
        tokio::task::block_in_place(|| self.node.run(&arguments))
    }

    /// What the command says when it works.
    fn told(&self, partition: u32, more: &[&str]) -> Value {
        let output = self.accept(partition, more);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("it is JSON")
    }

    /// It shows what a partition has lost, and this run as open there.
    fn tells_of_loss(&self, partition: u32, run: &str) {
        let told = self.told(partition, &[]);
        assert!(told["lost"][0]["until"].as_u64() > told["lost"][0]["from"].as_u64(), "{told:#}");
        assert_eq!(told["open_runs"][0]["run_id"], run, "{told:#}");
        assert!(told["accepted_at"].is_null());
    }

    fn payments(&self, run: &str) -> usize {
        self.ledger.calls().iter().filter(|call| call.header("x-reenact-run") == run).count()
    }

    async fn output(&self, run: &str) -> Value {
        self.node.get(&format!("/runs/{run}")).await.expect(200).json()
    }
}

/// The file of this name below a folder.
fn find(folder: &Path, name: &str) -> PathBuf {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("it is there") {
            let path = entry.expect("it can be listed").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|found| found == name) {
                return path;
            }
        }
    }
    panic!("there is no `{name}`");
}

/// The log itself tells what is lost: the node goes on with the partition, and has served the other all the time.
async fn accepted_meanwhile(scene: &Scene, run: &str, other: &str) {
    assert_eq!(scene.node.turn("a", other, SHORT).await["status"], "COMPLETED");
    scene.tells_of_loss(0, run);
    let unasked = scene.told(0, &[])["state_not_asked"].to_string();
    assert!(unasked.contains("in use by another process"), "that runs may be unnamed is said: {unasked}");
    let output = scene.accept(1, &["--yes"]);
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("nothing is lost"));
    scene.refuses("log accept-loss --partition 0").await;
    let accepted = scene.told(0, &["--yes"])["accepted_at"].clone();
    assert!(accepted.is_u64(), "{accepted}");
    scene.goes_on().await;
}

/// Only the node's state tells what is lost, and whoever asks that must have it alone.
async fn accepted_while_nobody_works(scene: &mut Scene, remedy: &str, runs: &[&String]) {
    let refused = scene.accept(0, &[]);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("another process"));
    scene.node.kill_hard();
    for (partition, run) in (0..).zip(runs) {
        scene.tells_of_loss(partition, run);
    }
    // All that was only to be looked at.
    scene.node.start().await;
    scene.refuses(remedy).await;
    scene.node.kill_hard();
    for partition in 0..PARTITIONS {
        let accepted = scene.told(partition, &["--yes"])["accepted_at"].clone();
        assert!(accepted.is_u64(), "{accepted}");
        assert_eq!(scene.told(partition, &["--yes"])["accepted_at"], accepted, "it is accepted once");
    }
    scene.node.start().await;
    scene.goes_on().await;
}

async fn loss_is_accepted(older: Older) {
    let mut scene = Scene::set().await;
    let (first, second) = (session(0), session(1));
    let ended = scene.node.turn("a", &first, SHORT).await["run_id"].as_str().expect("an id").to_owned();
    scene.is_silent.store(true, Ordering::SeqCst);
    let begun = scene.node.begin("a", &first, PAYS).await;
    let other = scene.node.begin("a", &second, PAYS).await;
    scene.model.wait_for(3).await;
    scene.keep_older();

    // Both pay, and one run more begins and ends, of all which the copy knows nothing.
    scene.is_silent.store(false, Ordering::SeqCst);
    scene.node.start().await;
    assert_eq!(scene.node.settled(&begun).await["status"], "COMPLETED");
    assert_eq!(scene.node.settled(&other).await["status"], "COMPLETED");
    let lost = scene.node.turn("a", &first, SHORT).await["run_id"].as_str().expect("an id").to_owned();

    scene.node.kill_hard();
    scene.put_back(older);
    scene.node.start().await;
    let (named, remedy) = match older {
        Older::Partition => (format!("topic `{PREFIX}.events`"), "log accept-loss --partition 0"),
        // Either of them may be told first.
        Older::Broker => ("the state store".to_owned(), "log accept-loss --partition "),
    };
    let said = scene.refuses(remedy).await;
    assert!(said.contains(&named), "{said}");
    let said = scene.answer_of(&first).await;
    assert!(said.contains(&named) && said.contains(remedy), "{said}");
    match older {
        Older::Partition => accepted_meanwhile(&scene, &begun, &second).await,
        Older::Broker => accepted_while_nobody_works(&mut scene, remedy, &[&begun, &other]).await,
    }

    let touched: &[&String] = if older == Older::Broker { &[&begun, &other] } else { &[&begun] };
    for run in touched {
        let output = scene.node.settled(run).await;
        assert_eq!(
            (&output["status"], &output["error"]["kind"]),
            (&"ERROR".into(), &"history_lost".into()),
            "{output:#}"
        );
    }
    assert_eq!(scene.output(&ended).await["status"], "COMPLETED");
    assert_eq!(scene.node.settled(&other).await["status"], if older == Older::Broker { "ERROR" } else { "COMPLETED" });
    scene.node.get(&format!("/runs/{lost}")).await.expect(404);
    for session in [&first, &second] {
        assert_eq!(scene.node.turn("a", session, PAYS).await["status"], "COMPLETED");
    }
    for run in [&begun, &other] {
        assert_eq!(scene.payments(run), 1, "run `{run}` pays once");
    }
    // It is a log like any other, also for a node that has nothing but the log.
    scene.node.kill_hard();
    fs::remove_dir_all(scene.node.data()).expect("it can be removed");
    scene.node.start().await;
    assert_eq!(scene.output(&begun).await["error"]["kind"], "history_lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a37_when_a_partition_is_older_than_the_group_its_open_runs_end_and_pay_once() {
    loss_is_accepted(Older::Partition).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a37_when_a_broker_is_older_than_a_nodes_state_its_open_runs_end_and_pay_once() {
    loss_is_accepted(Older::Broker).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a37_a_node_that_is_up_while_a_partition_loses_events_refuses_it_and_goes_on_once_that_is_accepted() {
    let mut scene = Scene::set().await;
    let (first, second) = (session(0), session(1));
    let ended = scene.node.turn("a", &first, SHORT).await["run_id"].as_str().expect("an id").to_owned();
    scene.keep_older();
    scene.node.start().await;
    let lost = scene.node.turn("a", &first, SHORT).await["run_id"].as_str().expect("an id").to_owned();
    scene.put_back(Older::Partition);

    // It notices when it writes the next time, or when it claims because it was away for too long.
    let (began, remedy) = (Instant::now(), "log accept-loss --partition 0");
    loop {
        // An answer that comes before the question was read whole may break the connection.
        let answer = Product::try_ask(scene.node.background("a", &first, SHORT)).await;
        if answer.is_ok_and(|answer| answer.status == 503 && answer.text().contains(remedy)) {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{}", scene.node.said());
        tokio::time::sleep(POLL).await;
    }
    scene.refuses(remedy).await;
    assert_eq!(scene.node.turn("a", &second, SHORT).await["status"], "COMPLETED");
    scene.told(0, &["--yes"]);
    scene.goes_on().await;
    assert_eq!(scene.node.turn("a", &first, SHORT).await["status"], "COMPLETED");
    assert_eq!(scene.output(&ended).await["status"], "COMPLETED");
    scene.node.get(&format!("/runs/{lost}")).await.expect(404);
}
