//! A plain consumer of the topics, which knows nothing of the runtime: what any program would see.

use std::{collections::BTreeMap, time::Duration};

use rdkafka::{
    ClientConfig, Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::KafkaError,
    message::Headers,
};

const WAIT: Duration = Duration::from_secs(20);

/// A record as it was read.
pub struct Record {
    /// Where it stands.
    pub partition: i32,
    /// Where in it.
    pub offset: i64,
    /// Its value; empty when it has none.
    pub value: Vec<u8>,
    /// Its headers as text.
    pub headers: BTreeMap<String, String>,
}

impl Record {
    /// A header that is a number.
    pub fn number(&self, name: &str) -> u64 {
        let text = self.headers.get(name).unwrap_or_else(|| panic!("{self:?} has no `{name}`"));
        text.parse().unwrap_or_else(|_| panic!("`{name}` of {self:?} is no number"))
    }
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "record {}/{} {:?}", self.partition, self.offset, self.headers)
    }
}

/// A client of these brokers in a group of this name.
pub fn consumer(brokers: &str, group: &str) -> BaseConsumer {
    ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", group)
        .set("isolation.level", "read_committed")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .create()
        .expect("a consumer")
}

/// The partitions of a topic.
pub fn partitions(consumer: &BaseConsumer, topic: &str) -> Vec<i32> {
    let metadata = consumer.fetch_metadata(Some(topic), WAIT).expect("the cluster answers");
    metadata.topics()[0].partitions().iter().map(|partition| partition.id()).collect()
}

/// All committed records of a topic, partition by partition.
pub fn records(brokers: &str, topic: &str) -> Vec<Record> {
    let consumer = consumer(brokers, "plain-reader");
    let mut list = TopicPartitionList::new();
    for partition in partitions(&consumer, topic) {
        list.add_partition_offset(topic, partition, Offset::Beginning).expect("a place");
    }
    consumer.assign(&list).expect("assigned");
    let (mut records, mut open) = (Vec::new(), list.count());
    while open > 0 {
        match consumer.poll(WAIT) {
            Some(Ok(message)) => records.push(record(&message)),
            Some(Err(KafkaError::PartitionEOF(_))) => open -= 1,
            Some(Err(error)) => eprintln!("while `{topic}` is read: {error}"),
            None => panic!("`{topic}` does not end"),
        }
    }
    records.sort_by_key(|record| (record.partition, record.offset));
    records
}

fn record(message: &impl Message) -> Record {
    let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    let headers = message.headers().map(|headers| headers.iter()).into_iter().flatten();
    Record {
        partition: message.partition(),
        offset: message.offset(),
        value: message.payload().unwrap_or_default().to_vec(),
        headers: headers.map(|header| (header.key.to_owned(), text(header.value))).collect(),
    }
}

/// The broker that leads a partition.
pub fn leader(consumer: &BaseConsumer, topic: &str, partition: i32) -> i32 {
    let metadata = consumer.fetch_metadata(Some(topic), WAIT).expect("the cluster answers");
    let found = metadata.topics()[0].partitions().iter().find(|known| known.id() == partition);
    found.expect("there is such a partition").leader()
}
