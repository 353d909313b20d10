//! The life of a transactional producer.

use std::time::Duration;

use rdkafka::{producer::Producer, types::RDKafkaErrorCode, util::Timeout};

use crate::support::*;

#[test]
fn an_empty_transaction_commits() {
    let producer = begun(&unique("id"));
    producer.commit_transaction(Timeout::Never).expect("committed");
    producer.begin_transaction().expect("begun");
    producer.abort_transaction(Timeout::Never).expect("aborted");
}

#[test]
fn an_abort_waits_for_reports_that_somebody_else_must_take() {
    let topic = topic(1);
    let producer = begun(&unique("id"));
    enqueue(&producer, &topic, "x");
    let refused = class(producer.abort_transaction(Duration::from_secs(2)).expect_err("its report is not taken"));
    assert_eq!(refused, (RDKafkaErrorCode::OperationTimedOut, "retriable"));
    drain(&producer);
    producer.abort_transaction(PATIENCE).expect("aborted");
    commit_one(&producer, &topic, "last");
}

#[test]
fn an_abort_after_the_acknowledgement_leaves_the_producer_whole() {
    const ROUNDS: u32 = 20;
    let topic = topic(1);
    let producer = producer(&unique("id"));
    producer.init_transactions(PATIENCE).expect("initialised");
    for _ in 0..ROUNDS {
        producer.begin_transaction().expect("begun");
        send(&producer, &topic, "x");
        producer.abort_transaction(PATIENCE).expect("aborted");
    }
    commit_one(&producer, &topic, "last");
    let seen = read_until(&reader(&topic, "read_committed"), "last");
    assert_eq!(seen.len(), 1, "nothing of what was aborted is seen");
}
