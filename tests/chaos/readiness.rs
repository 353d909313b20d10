//! What `/ready` says when something is away, and that the node is ready again by itself when that is back.

use std::{fs, net::TcpListener, time::Instant};

use reenact_kafka_rig::{Cluster, Options};
use tempfile::TempDir;

use crate::support::{PATIENCE, POLL, Product};

/// One broker, which each test has to itself.
struct Place {
    cluster: Cluster,
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("cluster");
        let cluster = tokio::task::block_in_place(|| Cluster::up(Options::new(dir)).expect("a broker"));
        let properties = "session.timeout.ms=6000\nheartbeat.interval.ms=1000\n";
        fs::write(folder.path().join("kafka.properties"), properties).expect("it can be written");
        Self { cluster, folder }
    }

    /// A node of this name.
    fn node(&self, name: &str) -> Product {
        Product::new()
            .set("REENACT_LOG", format!("kafka://{}", self.cluster.bootstrap()))
            .set("REENACT_KAFKA_PARTITIONS", 2)
            .set("REENACT_KAFKA_PROPERTIES", self.folder.path().join("kafka.properties").display())
            .set("REENACT_OBJECTS", self.folder.path().join("objects").display())
            .set("REENACT_NODE", name)
            .set("REENACT_DRAIN_S", 1)
    }

    fn with<T>(&mut self, work: impl FnOnce(&mut Cluster) -> T) -> T {
        tokio::task::block_in_place(|| work(&mut self.cluster))
    }
}

/// Waits until `/ready` at this address answers as is wanted; the body.
async fn told(node: &Product, url: &str, wanted: impl Fn(u16, &str) -> bool) -> String {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client can be made");
    let began = Instant::now();
    loop {
        // A process that has just begun does not listen yet.
        let answer = Product::try_ask(client.get(format!("{url}/ready"))).await;
        if let Ok(answer) = answer.as_ref().map(|answer| (answer.status, answer.text()))
            && wanted(answer.0, &answer.1)
        {
            return answer.1;
        }
        assert!(began.elapsed() < PATIENCE, "{:?}\n{}", answer.map(|answer| answer.text()), node.said());
        tokio::time::sleep(POLL).await;
    }
}

/// Asks for a run as a service does, again while its outcome is not known: a partition is claimed anew after an outage.
async fn accepted(node: &Product) -> String {
    let began = Instant::now();
    loop {
        let answer = Product::ask(node.background("demo", "s", "Hello")).await;
        if answer.status == 202 {
            return answer.json()["run_id"].as_str().expect("an id").to_owned();
        }
        assert!(answer.status == 503 && began.elapsed() < PATIENCE, "{} {}", answer.status, answer.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_stands_still_or_died_is_named_and_when_it_is_back_the_node_is_ready_without_a_restart() {
    let mut place = Place::new();
    let broker = place.cluster.bootstrap();
    let node = place.node("a").started().await;
    let url = node.url();
    let steps: [(&str, fn(&mut Cluster), fn(&mut Cluster)); 2] = [
        (
            "it stands still",
            |cluster| cluster.pause(1).expect("it is paused"),
            |cluster| cluster.resume(1).expect("it goes on"),
        ),
        ("it died", |cluster| cluster.kill(1).expect("it is killed"), |cluster| cluster.start(1).expect("it starts")),
    ];
    for (what, leave, return_) in steps {
        place.with(leave);
        let reason = told(&node, &url, |status, _| status == 503).await;
        assert!(reason.contains(&format!("Kafka does not answer at `{broker}`")), "{what}: {reason}");
        place.with(return_);
        told(&node, &url, |status, _| status == 200).await;
        let run = accepted(&node).await;
        assert_eq!(node.settled(&run).await["status"], "COMPLETED", "after {what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namesake_that_is_waited_for_is_told_and_so_are_more_replicas_than_brokers() {
    let place = Place::new();
    let asked = place.node("a").run(&["doctor", "--kafka-replication", "3"]);
    let said = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(!asked.status.success() && said.contains("asks for more replicas than there are brokers"), "{said}");
    assert!(!said.contains("credentials"), "{said}");

    let _first = place.node("a").started().await;
    // Where it listens is known before it is ready.
    let listen = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
    let mut second = place.node("a").set("REENACT_LISTEN", listen);
    second.spawn();
    let reason = told(&second, &format!("http://{listen}"), |status, text| {
        status == 503 && text.contains("has this node's name")
    })
    .await;
    assert!(reason.contains("`a`") && reason.contains("`--node`"), "{reason}");
    assert_eq!(second.ended(PATIENCE).await.code(), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_of_events_that_is_made_anew_under_an_idle_node_is_told_before_anybody_writes() {
    let mut place = Place::new();
    let node = place.node("a").started().await;
    assert_eq!(node.turn("demo", "s", "Hello").await["status"], "COMPLETED");
    let topics = |cluster: &mut Cluster, command: &[&str]| {
        let brokers = cluster.bootstrap();
        let given = [&["--bootstrap-server", brokers.as_str(), "--topic", "reenact.events"], command].concat();
        cluster.tool("org.apache.kafka.tools.TopicCommand", &given).expect("the tool works")
    };
    place.with(|cluster| {
        topics(cluster, &["--delete"]);
        topics(cluster, &["--create", "--partitions", "2", "--replication-factor", "1"]);
    });
    let reason = told(&node, &node.url(), |status, text| status == 503 && text.contains("recreated")).await;
    assert!(reason.contains("`reenact.events`") && reason.contains("partition"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_are_deleted_under_a_node_that_is_up_are_told_and_so_is_a_session_timeout_that_a_broker_refuses() {
    let mut place = Place::new();
    let node = place.node("a").started().await;
    for session in 0..4 {
        assert_eq!(node.turn("demo", &format!("s{session}"), "Hello").await["status"], "COMPLETED");
    }
    let file = place.folder.path().join("delete.json");
    let all = r#"{"partitions":[{"topic":"reenact.events","partition":0,"offset":2}],"version":1}"#;
    fs::write(&file, all).expect("it can be written");
    place.with(|cluster| {
        let (brokers, file) = (cluster.bootstrap(), file.display().to_string());
        let given = ["--bootstrap-server", brokers.as_str(), "--offset-json-file", file.as_str()];
        cluster.tool("org.apache.kafka.tools.DeleteRecordsCommand", &given).expect("the tool works")
    });
    let reason = told(&node, &node.url(), |status, text| status == 503 && text.contains("were deleted")).await;
    assert!(reason.contains("partition 0 from offset 0 to before 2"), "{reason}");
    let asked = place.node("b").run(&["doctor"]);
    let said = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(said.contains("partition 0 begins at offset 2"), "{said}");

    let properties = place.folder.path().join("short.properties");
    fs::write(&properties, "session.timeout.ms=100\nheartbeat.interval.ms=50\n").expect("it can be written");
    let listen = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
    let mut short = place.node("b").set("REENACT_LISTEN", listen);
    short = short.set("REENACT_KAFKA_PROPERTIES", properties.display());
    short.spawn();
    let reason = told(&short, &format!("http://{listen}"), |_, text| text.contains("cannot be a member")).await;
    assert!(reason.to_lowercase().contains("session timeout"), "{reason}");
}
