//! An erasure where nodes share the log: the one that works on it is killed, another goes on, and what was said is in no
//! topic, no table and no directory of either.

use std::{fs, path::Path, time::Duration};

use rand::Rng;
use rdkafka::{
    ClientConfig,
    producer::{BaseProducer, BaseRecord, Producer},
};
use reenact_events::{CommandId, RunId, SessionId};
use reenact_tests::{broker, postgres, product::Product, stub::Reply, topic};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    erasure::{MARKER, OF_BOB, finished, holding, said, say, speak_everywhere},
    ground,
    support::{PATIENCE, POLL, dice},
    world::World,
};

const TOPICS: [&str; 5] = ["events", "commands", "dead-letter", "owners", "replies"];
const NONE: [String; 0] = [];

fn sealed(product: Product, objects: &Path) -> Product {
    product
        .set("REENACT_CONTENT", "per_user_key")
        .set("REENACT_BLOB_GRACE_S", 0)
        .set("REENACT_OBJECTS", objects.display())
}

fn prefix(product: &Product) -> String {
    product.setting("REENACT_TOPIC_PREFIX").expect("it has one").to_owned()
}

fn brokers() -> String {
    broker::shared(env!("CARGO_TARGET_TMPDIR"), "product_kafka")
}

/// Another node of a world's deployment.
fn another(world: &World, name: &str, objects: &Path) -> Product {
    let agent = fs::read_to_string(world.product.data().join("../agents/a.toml")).expect("the first node has it");
    sealed(ground::node(name, &prefix(&world.product)).agent("a", &agent), objects)
}

/// Publishes a start as any program would, in clear text; the id of the run it will be.
fn publish(prefix: &str, user: &str, session: &str, text: &str) -> String {
    let id = format!("from outside to {session}");
    let command = json!({"type": "StartRun", "id": id, "session_id": session, "user_id": user, "agent_id": "a",
        "message": text, "reply_to": {"correlation_id": id}});
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", brokers()).create().expect("a producer");
    let (topic, value) = (format!("{prefix}.commands"), command.to_string());
    // The wrong one of two, for one session or the other: it is passed on.
    for partition in [0, 1] {
        producer.send(BaseRecord::to(&topic).partition(partition).key(session).payload(&value)).expect("room");
    }
    producer.flush(PATIENCE).expect("they arrive");
    RunId::of_command(&CommandId::trusted(&id), &SessionId::trusted(session)).to_string()
}

async fn completed(product: &Product, run: &str) {
    let waiting = async {
        loop {
            let answer = product.get(&format!("/runs/{run}")).await;
            if answer.status == 200 && answer.json()["status"] == "COMPLETED" {
                return;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("run {run}:\n{}", product.said()));
}

/// Waits until so many nodes own partitions.
async fn owned_by(product: &Product, nodes: usize) {
    let waiting = async {
        loop {
            let cluster = product.get("/cluster").await;
            if cluster.status == 200 && cluster.json()["nodes"].as_array().is_some_and(|known| known.len() == nodes) {
                return;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("not {nodes}:\n{}", product.said()));
}

/// Records of the deployment's topics that hold a text.
fn recorded(prefix: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for name in TOPICS {
        for record in topic::records(&brokers(), &format!("{prefix}.{name}")) {
            let told = format!("{} {:?}", String::from_utf8_lossy(&record.value), record.headers);
            if told.contains(text) {
                found.push(format!("{name}: {record:?}"));
            }
        }
    }
    found
}

/// Tables of the deployment's schemas that hold a text.
fn stored(prefix: &str, text: &str) -> Vec<String> {
    let all = |sql: &str| postgres::shared().execute("postgres", sql).expect("the server does it");
    let tables = all(&format!(
        "select format('%I.%I', schemaname, tablename) from pg_tables where schemaname = '{prefix}' or schemaname like \
         '{prefix}\\_g%' or schemaname = '{prefix}-keys' order by 1"
    ));
    let tables: Vec<_> = tables.lines().filter(|line| !line.is_empty()).collect();
    assert!(tables.iter().any(|table| table.contains("-keys")) && tables.len() > 10, "{tables:?}");
    let holds = |table: &&&str| all(&format!("select to_jsonb(t)::text from {table} t")).contains(text);
    tables.iter().filter(holds).map(|table| (*table).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_user_said_to_two_nodes_is_nowhere_though_the_one_that_erases_is_killed() {
    let mut dice = dice("what_a_user_said_to_two_nodes_is_nowhere_though_the_one_that_erases_is_killed");
    let objects = tempfile::tempdir().expect("a folder");
    let mut world = World::set("", |product| sealed(product, objects.path())).await;
    let prefix = prefix(&world.product);
    let mut other = another(&world, "b", objects.path()).started().await;
    owned_by(&other, 2).await;
    for (user, text) in [("alice", MARKER), ("bob", OF_BOB)] {
        speak_everywhere(&world, user, text).await;
        world.model.push(Reply::text(text));
        let run = tokio::task::block_in_place(|| publish(&prefix, user, &format!("{user}-outside"), text));
        completed(&other, &run).await;
    }
    let sessions = ["bob-1", "bob-2", "bob-outside"];
    let of_bob = world.everything(&sessions).await;
    let spoken = tokio::task::block_in_place(|| recorded(&prefix, MARKER));
    assert!(spoken.iter().all(|record| record.starts_with("commands")) && !spoken.is_empty(), "{spoken:#?}");
    assert!(!stored(&prefix, MARKER).is_empty(), "the rows can be read");

    Product::ask(world.product.request(Method::DELETE, "/users/alice")).await.expect(202);
    let moment = Duration::from_millis(dice.random_range(0..20_000));
    tokio::time::sleep(moment).await;
    world.product.kill_hard();
    let report = finished(&other, "alice").await;
    println!("killed after {moment:?}: {report:#}");
    let places: Vec<_> = report["places"].as_array().expect("places").iter().map(|place| &place["place"]).collect();
    let wanted = ["sessions", "keys", "log", "commands", "views", "states", "blobs", "dead_letters", "answers", "live"];
    assert_eq!(places[..10], wanted.map(Value::from).iter().collect::<Vec<_>>());
    let left = holding(&other.data(), MARKER);
    assert_eq!(left, NONE, "in the directory of the node that went on");

    world.product.start().await;
    assert_eq!(holding(&world.product.data(), MARKER), NONE, "in the directory of the node that was away");
    assert_eq!(holding(objects.path(), MARKER), NONE);
    tokio::task::block_in_place(|| {
        assert_eq!(recorded(&prefix, MARKER), NONE);
        assert_eq!(stored(&prefix, MARKER), NONE);
    });
    assert_eq!(world.everything(&sessions).await, of_bob);
    for node in [&world.product, &other] {
        node.get("/sessions/alice-1").await.expect(404);
        let listed = node.get("/sessions?user_id=alice").await.expect(200).json();
        assert_eq!(listed["meta"]["total_count"], 0, "{listed:#}");
    }
    say(&world, "alice", "alice-new", "I am back", &[]).await;
    world.model.push(Reply::text("from outside again"));
    let run = tokio::task::block_in_place(|| publish(&prefix, "alice", "alice-again", "and from outside"));
    completed(&other, &run).await;

    for node in [&mut world.product, &mut other] {
        node.term();
        node.ended(PATIENCE).await;
        assert_eq!(holding(&node.data(), MARKER), NONE, "when it is stopped");
    }
    let verified = world.product.run(&["audit", "verify"]);
    assert!(verified.status.success(), "{}", said(&verified));
    let rebuilt = world.product.run(&["projections", "rebuild", "--data", "data"]);
    assert!(rebuilt.status.success(), "{}", said(&rebuilt));
    let events = json!(world.product.events()).to_string();
    assert!(!events.contains(MARKER) && events.contains("[erased]") && events.contains(OF_BOB));
    assert_eq!(tokio::task::block_in_place(|| stored(&prefix, MARKER)), NONE, "when it is folded anew");
    world.product.start().await;
    assert_eq!(world.everything(&sessions).await, of_bob);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_a_partition_that_went_to_another_node_is_scrubbed_too() {
    let objects = tempfile::tempdir().expect("a folder");
    let world = World::set("", |product| sealed(product, objects.path())).await;
    speak_everywhere(&world, "alice", MARKER).await;
    assert!(!holding(&world.product.data().join("state"), MARKER).is_empty(), "the first node has all of it");
    let other = another(&world, "b", objects.path()).started().await;
    owned_by(&other, 2).await;
    Product::ask(other.request(Method::DELETE, "/users/alice")).await.expect(202);
    let report = finished(&world.product, "alice").await;
    let states = report["places"].as_array().expect("places").iter().find(|place| place["place"] == "states");
    assert!(states.is_some_and(|states| states["done"].as_str().is_some_and(|done| done.ends_with("by `a`, `b`"))));
    for node in [&world.product, &other] {
        assert_eq!(holding(&node.data(), MARKER), NONE, "{report:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_on_kafka_keeps_the_content_that_it_was_made_with() {
    let objects = tempfile::tempdir().expect("a folder");
    let refused = |output: std::process::Output, wanted: &str| {
        assert!(!output.status.success() && said(&output).contains(wanted), "{wanted}: {}", said(&output));
    };
    let mut sealed_one = World::set("", |product| sealed(product, objects.path())).await;
    say(&sealed_one, "alice", "s", MARKER, &[]).await;
    sealed_one.product.kill_hard();
    let mut product = sealed_one.product.set("REENACT_CONTENT", "plain");
    let events = || topic::records(&brokers(), &format!("{}.events", prefix(&product))).len();
    let before = tokio::task::block_in_place(events);
    refused(product.run(&["serve"]), "say `--content per_user_key`");
    refused(product.run(&["doctor"]), "say `--content per_user_key`");
    assert_eq!(tokio::task::block_in_place(events), before, "nothing was written");
    product = product.set("REENACT_CONTENT", "per_user_key");
    assert!(said(&product.run(&["doctor"])).contains("as the log has it"));
    let database = product.setting("REENACT_DATABASE").expect("it has one").to_owned();
    product = product.set("REENACT_DATABASE", "sqlite");
    refused(product.run(&["serve"]), "--database postgres://");
    product = product.set("REENACT_CONTENT", "plain");
    refused(product.run(&["events", "list"]), "--database");
    product = product.set("REENACT_CONTENT", "per_user_key").set("REENACT_DATABASE", database);
    let gone = format!("drop schema \"{}-keys\" cascade", prefix(&product));
    postgres::shared().execute("postgres", &gone).expect("it is there");
    refused(product.run(&["serve"]), "restore them from a backup");

    let objects = tempfile::tempdir().expect("a folder");
    let mut plain = World::set("", |product| product.set("REENACT_OBJECTS", objects.path().display())).await;
    say(&plain, "alice", "s", MARKER, &[]).await;
    plain.product.kill_hard();
    refused(plain.product.set("REENACT_CONTENT", "per_user_key").run(&["serve"]), "say `--content plain`");
}
