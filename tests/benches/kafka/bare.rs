//! A transactional producer and a consumer that do nothing else.

use std::time::Duration;

use rdkafka::{
    ClientConfig, Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::KafkaError,
    producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer},
    util::Timeout,
};

const WAIT: Duration = Duration::from_secs(30);

/// Writes to partition 0.
pub(crate) struct Writer {
    producer: ThreadedProducer<DefaultProducerContext>,
    topic: String,
}

impl Writer {
    pub(crate) fn new(brokers: &str, topic: &str) -> Self {
        let producer: ThreadedProducer<_> = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            .set("transactional.id", format!("bare-{topic}"))
            .set("compression.type", "lz4")
            .set("linger.ms", "0")
            .set("retry.backoff.ms", "2")
            .create()
            .expect("a producer");
        producer.init_transactions(WAIT).expect("the broker answers");
        Self { producer, topic: topic.to_owned() }
    }

    /// One transaction.
    pub(crate) fn commit(&mut self, values: &[String]) {
        self.producer.begin_transaction().expect("one at a time");
        for value in values {
            let record = BaseRecord::to(&self.topic).partition(0).key("session").payload(value);
            self.producer.send(record).map_err(|(error, _)| error).expect("there is room");
        }
        // rdkafka's commit flushes in slices of a tenth of a second that do not end early.
        while self.producer.in_flight_count() > 0 {
            std::thread::yield_now();
        }
        self.producer.commit_transaction(Timeout::Never).expect("it commits");
    }
}

/// Reads a partition to its end; how many records there were.
pub(crate) fn read(brokers: &str, topic: &str) -> usize {
    let (consumer, mut count) = (reader(brokers, topic, Offset::Beginning), 0);
    loop {
        match consumer.poll(WAIT) {
            Some(Ok(message)) => count += usize::from(message.payload().is_some()),
            Some(Err(KafkaError::PartitionEOF(_))) => return count,
            other => panic!("`{topic}` cannot be read: {other:?}"),
        }
    }
}

/// Stands at a place of partition 0.
pub(crate) fn reader(brokers: &str, topic: &str, from: Offset) -> BaseConsumer {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", "bare")
        .set("isolation.level", "read_committed")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("fetch.wait.max.ms", "20")
        .create()
        .expect("a consumer");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, from).expect("a place");
    consumer.assign(&list).expect("assigned");
    consumer
}

/// The next record's value.
pub(crate) fn next(consumer: &BaseConsumer) -> Vec<u8> {
    loop {
        match consumer.poll(WAIT) {
            Some(Ok(message)) => return message.payload().unwrap_or_default().to_vec(),
            Some(Err(KafkaError::PartitionEOF(_))) => {}
            other => panic!("there is nothing to read: {other:?}"),
        }
    }
}
