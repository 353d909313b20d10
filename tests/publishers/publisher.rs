//! A program that publishes records, good ones and others, and reads the answers.

use std::{
    sync::mpsc::{SyncSender, sync_channel},
    time::Duration,
};

use rdkafka::{
    ClientConfig, ClientContext, Message, Offset, TopicPartitionList,
    config::FromClientConfigAndContext,
    consumer::{BaseConsumer, Consumer},
    message::{Header, OwnedHeaders},
    producer::{BaseRecord, DeliveryResult, ProducerContext, ThreadedProducer},
};
use serde_json::{Value, json};

use crate::{product::PATIENCE, topic};

/// A record for the topic of commands.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(&'static str, Vec<u8>)>,
}

impl Record {
    /// A record with this value under a key that means nothing.
    pub(crate) fn of(value: impl Into<Vec<u8>>) -> Self {
        Self { key: Some(b"any".to_vec()), value: Some(value.into()), headers: Vec::new() }
    }

    /// The same with another key.
    pub(crate) fn key(self, key: &[u8]) -> Self {
        Self { key: Some(key.to_vec()), ..self }
    }

    /// The same with one more header.
    pub(crate) fn header(mut self, name: &'static str, value: &[u8]) -> Self {
        self.headers.push((name, value.to_vec()));
        self
    }
}

#[derive(Clone)]
struct Delivered;

impl ClientContext for Delivered {}

impl ProducerContext for Delivered {
    type DeliveryOpaque = Box<SyncSender<Result<(i32, i64), String>>>;

    fn delivery(&self, result: &DeliveryResult<'_>, to: Self::DeliveryOpaque) {
        let place = result.as_ref().map(|record| (record.partition(), record.offset()));
        // Whoever gave up waiting has failed its test already.
        to.send(place.map_err(|(error, _)| error.to_string())).ok();
    }
}

/// See the module.
pub(crate) struct Publisher {
    producer: ThreadedProducer<Delivered>,
    answers: BaseConsumer,
    commands: String,
    seen: Vec<Value>,
}

impl Publisher {
    /// A publisher that sees all answers from now on.
    pub(crate) fn new(brokers: &str, prefix: &str) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers).set("linger.ms", "0");
        // A broker looks at the size of what is sent, which is small where much of it is the same.
        config.set("message.max.bytes", "50000000").set("compression.type", "lz4");
        let producer = ThreadedProducer::from_config_and_context(&config, Delivered).expect("a producer");
        let (answers, replies) = (topic::consumer(brokers, "publisher"), format!("{prefix}.replies"));
        let mut places = TopicPartitionList::new();
        for partition in topic::partitions(&answers, &replies) {
            let (_, end) = answers.fetch_watermarks(&replies, partition, PATIENCE).expect("the cluster answers");
            places.add_partition_offset(&replies, partition, Offset::Offset(end)).expect("a place");
        }
        answers.assign(&places).expect("assigned");
        Self { producer, answers, commands: format!("{prefix}.commands"), seen: Vec::new() }
    }

    /// Publishes a record; where it stands.
    pub(crate) fn put(&self, record: &Record) -> (i32, i64) {
        let (told, delivered) = sync_channel(1);
        let mut headers = OwnedHeaders::new();
        for (key, value) in &record.headers {
            headers = headers.insert(Header { key, value: Some(value) });
        }
        let mut sent = BaseRecord::with_opaque_to(&self.commands, Box::new(told)).headers(headers);
        sent.key = record.key.as_deref();
        sent.payload = record.value.as_deref();
        self.producer.send::<[u8], [u8]>(sent).map_err(|(error, _)| error).expect("room");
        tokio::task::block_in_place(|| delivered.recv_timeout(PATIENCE)).expect("it arrives").expect("it is taken")
    }

    /// Publishes a command; the answer to it.
    pub(crate) fn ask(&mut self, command: Value) -> Value {
        let correlation_id = self.tell(command);
        self.answer_to(&correlation_id)
    }

    /// Publishes a command without waiting; by which its answer will be known.
    pub(crate) fn tell(&self, mut command: Value) -> String {
        // The place in the topic tells repeats of one command apart, but it is known only afterwards.
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let correlation_id = format!("answer {number} to {}", command["id"]);
        command["reply_to"] = json!({"correlation_id": correlation_id});
        self.put(&Record::of(command.to_string()));
        correlation_id
    }

    /// Waits for an answer. There is one to each question.
    pub(crate) fn answer_to(&mut self, correlation_id: &str) -> Value {
        let began = std::time::Instant::now();
        loop {
            let mine = |answer: &&Value| answer["correlation_id"] == correlation_id;
            if let Some(answer) = self.seen.iter().find(mine) {
                return answer.clone();
            }
            assert!(began.elapsed() < PATIENCE, "`{correlation_id}` does not come; there are {:#?}", self.seen);
            tokio::task::block_in_place(|| self.poll());
        }
    }

    fn poll(&mut self) {
        // The end of the partition is told too, as an error; more may come.
        if let Some(Ok(record)) = self.answers.poll(Duration::from_millis(100)) {
            let payload = record.payload().unwrap_or_default();
            self.seen.push(serde_json::from_slice(payload).expect("an answer is JSON"));
        }
    }
}

/// A run of the built-in agent.
pub(crate) fn start_run(id: &str, session: &str, message: &str) -> Value {
    json!({"type": "StartRun", "id": id, "session_id": session, "agent_id": "demo", "message": message})
}
