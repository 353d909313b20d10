//! A service that publishes commands to the topic and reads the answers: any program with a Kafka client.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rdkafka::{
    ClientConfig, ClientContext,
    config::FromClientConfigAndContext,
    producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer},
};
use reenact_events::{Answer, CommandId, RunId, SessionId};
use serde_json::json;

use crate::{fleet::Fleet, topic};

#[derive(Clone, Default)]
struct Deliveries(Arc<AtomicUsize>);

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if result.is_ok() {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// See the module.
pub(crate) struct Publisher {
    producer: ThreadedProducer<Deliveries>,
    deliveries: Deliveries,
    topic: String,
    sent: Vec<String>,
}

impl Publisher {
    pub(crate) fn new(brokers: &str, fleet: &Fleet) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers).set("enable.idempotence", "true").set("linger.ms", "1");
        let deliveries = Deliveries::default();
        let producer = ThreadedProducer::from_config_and_context(&config, deliveries.clone()).expect("a producer");
        Self { producer, deliveries, topic: format!("{}.commands", fleet.prefix), sent: Vec::new() }
    }

    /// Publishes a start; the id of the run it will be. The partition is the client's choice, which is not the
    /// runtime's: the command is passed on.
    pub(crate) fn begin(&mut self, agent: &str, session: &str, message: &str, id: &str) -> String {
        let command = json!({"type": "StartRun", "id": id, "session_id": session, "agent_id": agent,
            "message": message, "reply_to": {"correlation_id": format!("answer to {id}")}});
        let value = command.to_string();
        self.producer.send(BaseRecord::to(&self.topic).key(session).payload(&value)).map_err(|(e, _)| e).expect("room");
        self.sent.push(id.to_owned());
        RunId::of_command(&CommandId::trusted(id), &SessionId::trusted(session)).to_string()
    }

    /// Waits until all are on the brokers.
    pub(crate) fn flush(&self) {
        self.producer.flush(Duration::from_secs(60)).expect("they arrive");
        assert_eq!(self.deliveries.0.load(Ordering::Relaxed), self.sent.len(), "all were delivered");
    }

    /// Checks that every command was answered, and accepted: once, or twice word for word where brokers had lost sight
    /// of the first time.
    pub(crate) fn check_answers(&self, brokers: &str, prefix: &str) {
        let mut answers: BTreeMap<String, Vec<Answer>> = BTreeMap::new();
        for record in topic::records(brokers, &format!("{prefix}.replies")) {
            let answer: Answer = serde_json::from_slice(&record.value).expect("an answer");
            answers.entry(answer.correlation_id.to_string()).or_default().push(answer);
        }
        for id in &self.sent {
            let mut told = answers.remove(&format!("answer to {id}")).unwrap_or_default();
            told.dedup();
            let accepted = told.iter().filter(|answer| answer.outcome == reenact_events::Outcome::Accepted).count();
            assert!(accepted == 1 && told.len() == 1, "command `{id}` was answered with {told:#?}");
        }
    }
}
