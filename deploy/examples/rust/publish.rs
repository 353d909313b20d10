//! Starts a run and waits for the answer to that, with rdkafka.
//!
//! Arguments: `BROKERS PREFIX AGENT SESSION MESSAGE [ID]`. The id names the request: sent again, it has no further
//! effect. `cargo run -p reenact-tests --example publish -- …` runs it; a program of its own needs `rdkafka`,
//! `serde_json` and `uuid`.

use std::{
    error::Error,
    process::ExitCode,
    time::{Duration, Instant},
};

use rdkafka::{
    ClientConfig, Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer},
};
use serde_json::{Value, json};
use uuid::Uuid;

const ANSWER_WAIT: Duration = Duration::from_secs(60);
const BROKER_WAIT: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let told = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [brokers, prefix, agent, session, message] => ask(brokers, prefix, [agent, session, message], None),
        [brokers, prefix, agent, session, message, id] => ask(brokers, prefix, [agent, session, message], Some(id)),
        _ => {
            eprintln!("usage: publish BROKERS PREFIX AGENT SESSION MESSAGE [ID]");
            return ExitCode::from(2);
        }
    };
    match told {
        Ok(answer) => {
            println!("{answer}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn ask(
    brokers: &str,
    prefix: &str,
    [agent, session, message]: [&str; 3],
    id: Option<&str>,
) -> Result<Value, Box<dyn Error>> {
    #[expect(clippy::disallowed_methods, reason = "a publisher is where ids come from")]
    let correlation_id = Uuid::new_v4().to_string();
    let command = json!({
        "type": "StartRun",
        "id": id.unwrap_or(&correlation_id),
        "session_id": session,
        "agent_id": agent,
        "message": message,
        "reply_to": {"correlation_id": correlation_id},
    });
    // Reading begins before the question is asked, so that no answer is missed.
    let answers = answers(brokers, &format!("{prefix}.replies"))?;
    publish(brokers, &format!("{prefix}.commands"), session, &command.to_string())?;
    answer_to(&correlation_id, &answers)
}

/// A reader of the answers from now on. It needs no group: its place is its own and is not kept.
fn answers(brokers: &str, topic: &str) -> Result<BaseConsumer, Box<dyn Error>> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("group.id", "unused").set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.set("isolation.level", "read_committed").create()?;
    let metadata = consumer.fetch_metadata(Some(topic), BROKER_WAIT)?;
    let mut places = TopicPartitionList::new();
    for partition in metadata.topics().iter().flat_map(|topic| topic.partitions()) {
        let (_, end) = consumer.fetch_watermarks(topic, partition.id(), BROKER_WAIT)?;
        places.add_partition_offset(topic, partition.id(), Offset::Offset(end))?;
    }
    consumer.assign(&places)?;
    Ok(consumer)
}

fn publish(brokers: &str, topic: &str, key: &str, value: &str) -> Result<(), Box<dyn Error>> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("enable.idempotence", "true");
    let producer: ThreadedProducer<DefaultProducerContext> = config.create()?;
    producer.send(BaseRecord::to(topic).key(key).payload(value)).map_err(|(error, _)| error)?;
    // A command that did not arrive shows by its answer, which does not come.
    Ok(producer.flush(BROKER_WAIT)?)
}

fn answer_to(correlation_id: &str, answers: &BaseConsumer) -> Result<Value, Box<dyn Error>> {
    let began = Instant::now();
    while began.elapsed() < ANSWER_WAIT {
        let Some(record) = answers.poll(Duration::from_secs(1)) else { continue };
        let answer: Value = serde_json::from_slice(record?.payload().unwrap_or_default())?;
        if answer["correlation_id"] == correlation_id {
            return Ok(answer);
        }
    }
    Err(format!("no answer within {ANSWER_WAIT:?}: does a node serve this prefix?").into())
}
