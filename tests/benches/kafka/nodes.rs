//! Real nodes: how soon a command is accepted, and how soon a run goes on elsewhere.

use std::time::{Duration, Instant};

use futures::StreamExt;
use rdkafka::{
    ClientConfig,
    producer::{BaseRecord, DefaultProducerContext, ThreadedProducer},
};
use reenact_events::{Event, EventLog, Offset, PartitionId, Timestamp, event::RunEvent};
use reenact_kafka::{KafkaLog, Options};
use reenact_tests::{
    product::{Product, agent_with_model},
    stub::{LedgerStub, ModelStub, Reply},
};
use serde_json::json;

use crate::{bare, median, report};

/// Each deployment here has one.
const PARTITION: PartitionId = PartitionId(0);
const COMMANDS: usize = 200;
const SESSION_MS: u64 = 6_000;
/// What whoever takes over has to fold: there is no snapshot before the default of 50,000 events.
const TAIL: u64 = 50_000;
/// Commands that are published at once.
const FILLING: usize = 500;

fn node(brokers: &str, prefix: &str, name: &str, agents: &[(&str, &str)], folder: &std::path::Path) -> Product {
    let file = folder.join("kafka.properties");
    let text = format!("session.timeout.ms={SESSION_MS}\nheartbeat.interval.ms=1000\n");
    std::fs::write(&file, text).expect("the folder is writable");
    let product = agents.iter().fold(Product::new(), |product, (name, toml)| product.agent(name, toml));
    product
        .set("REENACT_LOG", format!("kafka://{brokers}"))
        .set("REENACT_TOPIC_PREFIX", prefix)
        .set("REENACT_KAFKA_PARTITIONS", 1)
        .set("REENACT_OBJECTS", folder.join("objects").display())
        .set("REENACT_KAFKA_PROPERTIES", file.display())
        .set("REENACT_DRAIN_S", 1)
        .set("REENACT_NODE", name)
}

/// Milliseconds, on a node that does nothing else, from a command that is produced to its answer, and from a record that is sent in a transaction to
/// a reader that has it.
pub(crate) async fn acceptance(brokers: &str) {
    let (model, folder) = (ModelStub::start().await, tempfile::tempdir().expect("a folder"));
    // The runs end when all is measured: neither side shall wait for their steps.
    model.otherwise(Reply::text("hello").delay(Duration::from_secs(30)));
    let agent = agent_with_model(&model.base_url());
    let _node = node(brokers, "accept", "a", &[("a", &agent)], folder.path()).started().await;
    tokio::task::block_in_place(|| {
        let (answers, records) = (
            bare::reader(brokers, "accept.replies", rdkafka::Offset::End),
            bare::reader(brokers, "bare.events", rdkafka::Offset::End),
        );
        let mut writer = bare::Writer::new(brokers, "bare.events");
        let producer = publisher(brokers);
        std::thread::sleep(Duration::from_secs(1));
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for number in 0..COMMANDS {
            let began = Instant::now();
            writer.commit(&[number.to_string()]);
            bare::next(&records);
            theirs.push(began.elapsed().as_secs_f64() * 1e3);
            let began = Instant::now();
            publish(&producer, "accept", number, "a");
            bare::next(&answers);
            ours.push(began.elapsed().as_secs_f64() * 1e3);
        }
        report("ms until a command is accepted", median(theirs), median(ours), "≤ 3");
    });
}

fn publisher(brokers: &str) -> ThreadedProducer<DefaultProducerContext> {
    ClientConfig::new().set("bootstrap.servers", brokers).set("linger.ms", "0").create().expect("a producer")
}

/// Asks for a run in a session of its own.
fn publish(producer: &ThreadedProducer<DefaultProducerContext>, prefix: &str, number: usize, agent: &str) {
    let value = json!({"type": "StartRun", "id": number.to_string(), "session_id": number.to_string(),
        "agent_id": agent, "message": "hello", "reply_to": {"correlation_id": "c"}});
    let (topic, value) = (format!("{prefix}.commands"), value.to_string());
    let record = BaseRecord::to(&topic).key("k").payload(&value);
    producer.send(record).map_err(|(error, _)| error).expect("there is room");
}

/// Lets runs end until the log is nearly so long that a snapshot is made; how long it is then.
async fn fill(brokers: &str, prefix: &str, agent: &str) -> u64 {
    let (log, producer) = (log(brokers, prefix).await, publisher(brokers));
    let (mut tail, mut count, mut ended, mut asked) = (log.tail(PARTITION, Offset(0)), 0, 0, 0);
    while count < TAIL - 1_000 || ended < asked {
        if ended == asked {
            (asked..asked + FILLING).for_each(|number| publish(&producer, prefix, number, agent));
            asked += FILLING;
        }
        let recorded = tail.next().await.expect("it has no end").expect("it can be read");
        count += 1;
        ended += usize::from(matches!(recorded.decode().expect("it is ours"), Event::Run(RunEvent::Completed(_))));
    }
    count
}

/// Seconds until a run calls its next tool elsewhere, against the time after which a member counts as dead.
pub(crate) async fn take_over(brokers: &str, is_killed: bool) {
    let (model, ledger) = (ModelStub::start().await, LedgerStub::start().await);
    model.otherwise(Reply::calls(&[("call", "put", "{}")]));
    ledger.otherwise(Reply::raw(200, "text/plain", "done").delay(Duration::from_millis(100)));
    let tool = format!(
        "\n[[tools]]\ntype = \"http\"\nname = \"put\"\nmethod = \"POST\"\nurl = \"{}\"\neffect = \"idempotent\"\n\
         parameters = {{ type = \"object\" }}\n[limits]\nturns = 1000\ntool_calls = 10000\n",
        ledger.url("/put")
    );
    let (agent, folder) = (agent_with_model(&model.base_url()) + &tool, tempfile::tempdir().expect("a folder"));
    let quick = ModelStub::start().await;
    let agents = [("a", &*agent), ("quick", &*agent_with_model(&quick.base_url()))];
    let prefix = if is_killed { "killed" } else { "stopped" };
    let mut nodes = Vec::new();
    for name in ["a", "b"] {
        nodes.push((name, node(brokers, prefix, name, &agents, folder.path()).started().await));
    }
    let tail = fill(brokers, prefix, "quick").await;
    nodes[0].1.begin("a", "session", "go on").await;
    ledger.wait_for(20).await;
    let owner = owner(brokers, prefix).await;
    let (_, node) = nodes.iter_mut().find(|(name, _)| *name == owner).expect("one of them");
    let began = Instant::now();
    if is_killed {
        node.kill_hard();
    } else {
        node.term();
        node.ended(Duration::from_secs(60)).await;
    }
    let gone = began.elapsed();
    let seen = ledger.calls().len();
    ledger.wait_for(seen + 1).await;
    #[expect(clippy::cast_precision_loss, reason = "a figure to be read")]
    let (bound, took) = (if is_killed { SESSION_MS as f64 / 1e3 } else { 1.0 }, began.elapsed().as_secs_f64());
    let what =
        if is_killed { "s to go on after SIGKILL (bare: session)" } else { "s to go on after SIGTERM (bare: drain)" };
    report(what, bound, took, if is_killed { "+ 3 s" } else { "≤ 3 s" });
    println!("    the process was gone after {gone:.1?}; there were more than {tail} events to fold");
}

async fn log(brokers: &str, prefix: &str) -> KafkaLog {
    let options = Options { prefix: prefix.to_owned(), ..Options::new(brokers, std::sync::Arc::new(Timestamp(0))) };
    KafkaLog::connect(options).await.expect("the broker answers")
}

async fn owner(brokers: &str, prefix: &str) -> String {
    let owners = log(brokers, prefix).await.owners().await.expect("the log tells its owners");
    owners.iter().find(|owner| owner.partition == PARTITION).expect("it has one").node.to_string()
}
