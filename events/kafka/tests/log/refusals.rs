//! What cannot be used is refused, with what is wrong and what to do.

use std::time::{Duration, Instant};

use rdkafka::admin::{NewTopic, TopicReplication};
use reenact_kafka::{ConnectError, KafkaLog, Options};

use crate::support::*;

/// What connecting says.
pub(crate) async fn refused(options: Options) -> ConnectError {
    match soon("connecting", KafkaLog::connect(options)).await {
        Ok(_) => panic!("it connects"),
        Err(error) => error,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unsafe_topics_are_refused_with_all_that_is_wrong() {
    let brokers = shared();
    let options = deployment(&brokers, 2);
    let topics = options.topics();
    let events = NewTopic::new(&topics.events, 2, TopicReplication::Fixed(1))
        .set("cleanup.policy", "compact")
        .set("retention.ms", "86400000");
    let commands = NewTopic::new(&topics.commands, 3, TopicReplication::Fixed(1)).set("retention.ms", "1000");
    let made = admin(&brokers).create_topics([&events, &commands], &asking()).await.expect("an answer");
    assert!(made.iter().all(Result::is_ok), "{made:?}");
    let error = refused(options).await;
    assert!(matches!(error, ConnectError::UnsafeTopics { .. }) && !error.is_passing(), "{error}");
    let text = error.to_string();
    for fault in [
        format!("topic `{}` has `cleanup.policy=compact`", topics.events),
        format!("topic `{}` has `retention.ms=86400000`", topics.events),
        format!("topic `{}` has `message.timestamp.type=CreateTime`", topics.events),
        format!("topic `{}` has `retention.ms=1000`", topics.commands),
        format!("topic `{}` has 3 partitions and `{}` has 2", topics.commands, topics.events),
    ] {
        assert!(text.contains(&fault), "{fault} is not in: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_are_gone_are_not_made_anew() {
    let brokers = shared();
    let options = deployment(&brokers, 1);
    drop(Member::owner(&options, "one").await);
    admin(&brokers).delete_topics(&[&options.topics().events], &asking()).await.expect("deleted");
    let error = refused(options.clone()).await;
    assert!(
        matches!(error, ConnectError::Foreign { .. }) && error.to_string().contains(&options.topics().events),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_where_nobody_is_is_told_within_seconds() {
    let started = Instant::now();
    // Nobody listens on the first port, ever.
    let error = refused(deployment("127.0.0.1:1", 1)).await;
    assert!(error.is_passing(), "{error}");
    let text = error.to_string();
    for word in ["127.0.0.1:1", "Connection refused", "is a broker running"] {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
    assert!(started.elapsed() < Duration::from_secs(20), "a bound, no speed");
}

#[tokio::test(flavor = "multi_thread")]
async fn properties_that_do_not_go_together_are_refused_at_once() {
    for (name, value, word) in [
        ("transaction.timeout.ms", "1000", "transaction.timeout.ms"),
        ("session.timeout.ms", "soon", "session.timeout.ms"),
        ("no.such.property", "1", "no.such.property"),
        ("group.protocol", "consumer", "session.timeout.ms"),
    ] {
        let mut options = deployment("127.0.0.1:1", 1);
        options.properties.insert(name.to_owned(), value.to_owned());
        let error = refused(options).await;
        assert!(matches!(error, ConnectError::Settings { .. }), "{name}: {error}");
        assert!(error.to_string().contains(word), "{name}: {error}");
    }
}
