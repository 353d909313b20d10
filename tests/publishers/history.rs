//! A consumer that was written against kafka-clients and knows nothing of the runtime sees exactly what happened.

use std::collections::BTreeMap;

use rdkafka::{
    ClientConfig,
    message::{Header, OwnedHeaders},
    producer::{BaseProducer, BaseRecord, Producer},
};
use serde_json::Value;

use crate::{
    commands::outcome,
    deployment::Deployment,
    examples::{done, java},
    product::PATIENCE,
    publisher::start_run,
    topic,
};

const RUNS: usize = 40;
const SESSIONS: usize = 8;

/// Where an event stands, which one it is, and what it says.
type Fact = (u64, u64, String, String, String, u64, Value);

fn fact(event: &Value) -> Fact {
    let number = |name: &str| event[name].as_u64().unwrap_or_else(|| panic!("no `{name}`: {event}"));
    let text = |name: &str| event[name].as_str().unwrap_or_else(|| panic!("no `{name}`: {event}")).to_owned();
    (
        number("partition"),
        number("offset"),
        text("id"),
        text("type"),
        text("stream"),
        number("seq"),
        event["data"].clone(),
    )
}

/// Writes events into the topic in a transaction that is aborted: copies of what is there, so that only the
/// transaction tells them from events.
fn abort_some(brokers: &str, topic: &str, events: &[topic::Record]) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("transactional.id", format!("{topic} stranger"));
    let producer: BaseProducer = config.create().expect("a producer");
    producer.init_transactions(PATIENCE).expect("the coordinator answers");
    producer.begin_transaction().expect("begun");
    for event in events {
        let headers = event
            .headers
            .iter()
            .fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key, value: Some(value) }));
        let record = BaseRecord::to(topic).partition(event.partition).key("any").payload(&event.value);
        producer.send(record.headers(headers)).map_err(|(error, _)| error).expect("room");
    }
    producer.flush(PATIENCE).expect("they arrive");
    producer.abort_transaction(PATIENCE).expect("aborted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_raw_consumer_sees_exactly_the_events_that_the_api_shows() {
    let mut deployment = Deployment::start(2).await;
    let mut publisher = deployment.publisher();
    let mut asked = Vec::new();
    for number in 0..RUNS {
        let session = format!("s{}", number % SESSIONS);
        asked.push(publisher.tell(start_run(&format!("run {number}"), &session, "What is 6*7?")));
        if number == RUNS / 2 {
            // In the midst of its transactions; the other node takes over.
            deployment.nodes[0].kill_hard();
            let (brokers, events) = (deployment.brokers.clone(), deployment.topic("events"));
            tokio::task::block_in_place(|| {
                let some = topic::records(&brokers, &events);
                abort_some(&brokers, &events, &some[..some.len().min(20)]);
            });
        }
    }
    for asked in &asked {
        let answer = publisher.answer_to(asked);
        assert_eq!(outcome(&answer), ("accepted", ""), "{answer}");
        assert_eq!(deployment.settled(&answer).await["status"], "COMPLETED");
    }
    deployment.nodes.remove(0);

    let said = done(java("History").args([&deployment.brokers, &deployment.prefix]));
    let seen: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    // Partitions come in any order, the events of each in theirs.
    let mut facts: Vec<_> = seen.iter().map(fact).collect();
    facts.sort_by_key(|(partition, ..)| *partition);
    let told: Vec<_> = deployment.lines(&["events", "list", "--json"]).iter().map(fact).collect();
    assert!(facts == told, "the consumer saw {} events and the program tells of {}", facts.len(), told.len());
    check_streams(&facts);
    for number in 0..SESSIONS {
        check_session(&deployment, &format!("s{number}"), &seen).await;
    }
}

/// The events of each stream follow each other without a gap and without a repeat.
fn check_streams(facts: &[Fact]) {
    let mut next: BTreeMap<&str, u64> = BTreeMap::new();
    for (partition, offset, _, kind, stream, seq, _) in facts.iter().filter(|fact| fact.4.starts_with("session:")) {
        let expected = next.entry(stream).or_default();
        assert_eq!(seq, expected, "`{kind}` of `{stream}` at {partition}/{offset}");
        *expected += 1;
    }
    assert_eq!(next.len(), SESSIONS, "{:?}", next.keys());
}

/// The runs of a session, each with its end, are those that the API shows, in their order.
async fn check_session(deployment: &Deployment, session: &str, seen: &[Value]) {
    let stream = format!("session:{session}");
    let runs_of = |kind: &str| -> Vec<&Value> {
        let events = seen.iter().filter(|event| event["stream"] == *stream && event["type"] == kind);
        events.map(|event| &event["run"]).collect()
    };
    let shown = deployment.node().get(&format!("/sessions/{session}/runs")).await.expect(200).json();
    let shown: Vec<_> = shown.as_array().expect("a list").iter().map(|run| &run["run_id"]).collect();
    assert_eq!(shown.len(), RUNS / SESSIONS);
    assert_eq!(runs_of("dev.reenact.run.queued.v1"), shown, "`{session}`");
    assert_eq!(runs_of("dev.reenact.run.completed.v1"), shown, "`{session}`");
}
