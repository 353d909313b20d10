//! Real nodes: how soon a command is accepted, and how soon a run goes on elsewhere.

use std::time::{Duration, Instant};

use rdkafka::{
    ClientConfig, Offset,
    producer::{BaseRecord, DefaultProducerContext, ThreadedProducer},
};
use reenact_events::{EventLog, SessionId, StreamKey, Timestamp};
use reenact_kafka::{KafkaLog, Options};
use reenact_tests::{
    product::{Product, agent_with_model},
    stub::{LedgerStub, ModelStub, Reply},
};
use serde_json::json;

use crate::{bare, median, report};

const COMMANDS: usize = 200;
const SESSION_MS: u64 = 6_000;

fn node(brokers: &str, prefix: &str, name: &str, agent: &str, folder: &std::path::Path) -> Product {
    let file = folder.join("kafka.properties");
    let text = format!("session.timeout.ms={SESSION_MS}\nheartbeat.interval.ms=1000\n");
    std::fs::write(&file, text).expect("the folder is writable");
    Product::new()
        .agent("a", agent)
        .set("REENACT_LOG", format!("kafka://{brokers}"))
        .set("REENACT_TOPIC_PREFIX", prefix)
        .set("REENACT_KAFKA_PARTITIONS", 1)
        .set("REENACT_OBJECTS", folder.join("objects").display())
        .set("REENACT_KAFKA_PROPERTIES", file.display())
        .set("REENACT_DRAIN_S", 1)
        .set("REENACT_NODE", name)
}

/// Milliseconds from a command that is produced to its answer, and from a record that is sent in a transaction to
/// a reader that has it.
pub(crate) async fn acceptance(brokers: &str) {
    let (model, folder) = (ModelStub::start().await, tempfile::tempdir().expect("a folder"));
    let agent = agent_with_model(&model.base_url());
    let _node = node(brokers, "accept", "a", &agent, folder.path()).started().await;
    tokio::task::block_in_place(|| {
        let (answers, records) =
            (bare::reader(brokers, "accept.replies", Offset::End), bare::reader(brokers, "bare.events", Offset::End));
        let mut writer = bare::Writer::new(brokers, "bare.events");
        let producer: ThreadedProducer<DefaultProducerContext> =
            ClientConfig::new().set("bootstrap.servers", brokers).set("linger.ms", "0").create().expect("a producer");
        std::thread::sleep(Duration::from_secs(1));
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for number in 0..COMMANDS {
            let began = Instant::now();
            writer.commit(&[number.to_string()]);
            bare::next(&records);
            theirs.push(began.elapsed().as_secs_f64() * 1e3);
            let command = json!({"type": "StartRun", "id": number.to_string(), "session_id": number.to_string(),
                "agent_id": "a", "message": "hello", "reply_to": {"correlation_id": "c"}});
            let began = Instant::now();
            let value = command.to_string();
            let record = BaseRecord::to("accept.commands").key("k").payload(&value);
            producer.send(record).map_err(|(error, _)| error).expect("there is room");
            bare::next(&answers);
            ours.push(began.elapsed().as_secs_f64() * 1e3);
        }
        report("ms until a command is accepted", median(theirs), median(ours), "≤ 3");
    });
}

/// Seconds until a run calls its next tool elsewhere, against the time after which a member counts as dead.
pub(crate) async fn take_over(brokers: &str, is_killed: bool) {
    let (model, ledger) = (ModelStub::start().await, LedgerStub::start().await);
    model.otherwise(Reply::calls(&[("call", "put", "{}")]));
    ledger.otherwise(Reply::raw(200, "text/plain", "done").delay(Duration::from_millis(100)));
    let tool = format!(
        "\n[[tools]]\ntype = \"http\"\nname = \"put\"\nmethod = \"POST\"\nurl = \"{}\"\neffect = \"idempotent\"\n\
         parameters = {{ type = \"object\" }}\n[limits]\nturns = 10000\ntool_calls = 10000\n",
        ledger.url("/put")
    );
    let (agent, folder) = (agent_with_model(&model.base_url()) + &tool, tempfile::tempdir().expect("a folder"));
    let prefix = if is_killed { "killed" } else { "stopped" };
    let mut nodes = Vec::new();
    for name in ["a", "b"] {
        nodes.push((name, node(brokers, prefix, name, &agent, folder.path()).started().await));
    }
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
    println!("    the process was gone after {gone:.1?}");
}

async fn owner(brokers: &str, prefix: &str) -> String {
    let options = Options { prefix: prefix.to_owned(), ..Options::new(brokers, std::sync::Arc::new(Timestamp(0))) };
    let log = KafkaLog::connect(options).await.expect("the broker answers");
    let partition = StreamKey::session(&SessionId::trusted("session")).partition_of(log.partitions());
    let owners = log.owners().await.expect("the log tells its owners");
    owners.iter().find(|owner| owner.partition == partition).expect("it has one").node.to_string()
}
