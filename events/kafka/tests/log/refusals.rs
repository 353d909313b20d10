//! What cannot be used is refused, with what is wrong and what to do.

use std::time::{Duration, Instant};

use rdkafka::{
    ClientConfig,
    admin::{NewTopic, TopicReplication},
    consumer::{BaseConsumer, Consumer},
};
use reenact_events::{Clock, EventLog, NodeId, Timestamp};
use reenact_kafka::{ConnectError, Fact, KafkaLog, Options, said, settled};

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
    let (topics, prefix) = (options.topics(), options.prefix.clone());
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
    let there = topics_of(&brokers, &prefix);
    assert_eq!(there, [topics.commands, topics.events], "a start that is refused makes nothing");
}

/// The topics whose names begin so.
fn topics_of(brokers: &str, prefix: &str) -> Vec<String> {
    let consumer: BaseConsumer = ClientConfig::new().set("bootstrap.servers", brokers).create().expect("a consumer");
    let metadata = consumer.fetch_metadata(None, PATIENCE).expect("an answer");
    let names = metadata.topics().iter().map(|topic| topic.name().to_owned());
    let mut names: Vec<_> = names.filter(|name| name.starts_with(&format!("{prefix}."))).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prefix_that_kafka_would_not_take_is_refused_at_once() {
    for prefix in ["a b", "zoë", &"x".repeat(240)] {
        // Nobody is asked: nobody listens there.
        let error = refused(named("127.0.0.1:1", prefix, 1)).await;
        assert!(matches!(error, ConnectError::Prefix { .. }) && !error.is_passing(), "{error}");
        assert!(error.to_string().contains("`--topic-prefix`"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_of_partitions_that_was_asked_for_is_never_another() {
    let options = deployment(&shared(), 2);
    KafkaLog::connect(options.clone()).await.expect("makes it");
    let asking = |partitions, exact_partitions| Options { partitions, exact_partitions, ..options.clone() };
    let error = refused(asking(3, true)).await;
    assert!(matches!(error, ConnectError::Partitions { has: 2, wanted: 3, .. }) && !error.is_passing(), "{error}");
    for fine in [asking(2, true), asking(3, false)] {
        assert_eq!(KafkaLog::connect(fine).await.expect("connects").partitions(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_log_than_the_one_that_is_known_is_refused_and_none_is_made_in_its_place() {
    let brokers = shared();
    let (first, second) = (deployment(&brokers, 1), deployment(&brokers, 1));
    let known = KafkaLog::connect(first.clone()).await.expect("makes it").log_id();
    let knowing = |options: &Options| Options { known: Some(known), ..options.clone() };
    assert_eq!(KafkaLog::connect(knowing(&first)).await.expect("is the one").log_id(), known);

    let error = refused(knowing(&second)).await;
    assert!(matches!(error, ConnectError::Another { found: None, .. }) && !error.is_passing(), "{error}");
    assert!(topics_of(&brokers, &second.prefix).is_empty(), "a start that is refused makes nothing");

    let other = KafkaLog::connect(second.clone()).await.expect("makes it").log_id();
    let error = refused(knowing(&second)).await;
    assert!(matches!(error, ConnectError::Another { found: Some(found), .. } if found == other), "{error}");
    assert!(error.to_string().contains("choose another `--data`"), "{error}");
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

#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_of_a_log_first_counts_whoever_says_it() {
    let options = deployment(&shared(), 1);
    KafkaLog::connect(options.clone()).await.expect("makes it");
    for fact in [Fact::ObjectStore, Fact::Content] {
        assert_eq!(said(&options, fact).expect("an answer"), None);
        let told: Vec<_> = std::thread::scope(|scope| {
            let asked: Vec<_> = (1..=4)
                .map(|number: u8| {
                    scope.spawn({
                        let options = &options;
                        move || settled(options, fact, &number.to_string()).expect("an answer")
                    })
                })
                .collect();
            asked.into_iter().map(|asked| asked.join().expect("no panic")).collect()
        });
        assert!(told.iter().all(|said| *said == told[0]), "{told:?}");
        assert_eq!(settled(&options, fact, "9").expect("an answer"), told[0]);
    }
}

/// A clock that goes right and stands wrong.
struct Off(i64);

impl Clock for Off {
    #[expect(clippy::disallowed_methods, reason = "a real clock is what is wrong here")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        Timestamp(i64::try_from(since.as_millis()).expect("a date") + self.0)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_whose_clock_is_off_owns_nothing_and_says_why() {
    let brokers = shared();
    let owner = |off_ms: i64| Options {
        clock: std::sync::Arc::new(Off(off_ms)),
        clock_skew_max_ms: Some(2_000),
        ..deployment(&brokers, 1)
    };
    for (off_ms, told) in [(3_600_000, "ahead of"), (-3_600_000, "behind")] {
        let mut member = Member::join(&owner(off_ms), "off").await;
        let partition = member.granted().await;
        let error = member.log.claim(partition, NodeId::trusted("off")).await.expect_err("refused");
        assert!(error.to_string().contains(told) && error.to_string().contains("NTP"), "{error}");
        assert!(member.history(partition).await.is_empty(), "the claim was taken back");
    }
    Member::owner(&owner(0), "right").await;
}
