//! Offsets that a transaction carries: not to be had before it ends.

use std::time::Duration;

use rdkafka::{consumer::BaseConsumer, producer::Producer, util::Timeout};

use crate::support::*;

fn group_reader(group: &str, isolation: &str) -> BaseConsumer {
    let mut config = client();
    config.set("group.id", group).set("isolation.level", isolation);
    config.create().expect("a consumer")
}

#[test]
fn the_offset_of_an_open_transaction_is_waited_for() {
    let (topic, group) = (topic(1), unique("group"));
    let reader = group_reader(&group, "read_committed");
    let producer = begun(&unique("id"));
    send(&producer, &topic, "a");
    producer.send_offsets_to_transaction(&offset_list(&topic, 7), &metadata(&reader), PATIENCE).expect("sent");
    let early = committed(&reader, &topic, Duration::from_secs(2));
    assert!(early.is_err(), "{early:?}");
    let dirty = committed(&group_reader(&group, "read_uncommitted"), &topic, PATIENCE);
    assert_eq!(dirty.expect("it is not waited for"), None);
    commit(&producer);
    assert_eq!(committed(&reader, &topic, PATIENCE).expect("stable"), Some(7));
}

#[test]
fn the_offset_of_an_aborted_transaction_is_as_before() {
    let (topic, group) = (topic(1), unique("group"));
    let reader = group_reader(&group, "read_committed");
    let producer = begun(&unique("id"));
    send(&producer, &topic, "a");
    producer.send_offsets_to_transaction(&offset_list(&topic, 7), &metadata(&reader), PATIENCE).expect("sent");
    producer.abort_transaction(Timeout::Never).expect("aborted");
    assert_eq!(committed(&reader, &topic, PATIENCE).expect("stable"), None);
}

#[test]
fn a_new_producer_of_the_id_frees_the_offset_of_a_dangling_transaction() {
    let (topic, group, id) = (topic(1), unique("group"), unique("id"));
    let reader = group_reader(&group, "read_committed");
    let lost = begun(&id);
    send(&lost, &topic, "a");
    lost.send_offsets_to_transaction(&offset_list(&topic, 7), &metadata(&reader), PATIENCE).expect("sent");
    let new = producer(&id);
    new.init_transactions(PATIENCE).expect("initialised");
    assert_eq!(committed(&reader, &topic, PATIENCE).expect("stable"), None);
}

#[test]
fn a_transaction_of_offsets_alone_commits() {
    let (topic, group) = (topic(1), unique("group"));
    let reader = group_reader(&group, "read_committed");
    let producer = begun(&unique("id"));
    producer.send_offsets_to_transaction(&offset_list(&topic, 3), &metadata(&reader), PATIENCE).expect("sent");
    commit(&producer);
    assert_eq!(committed(&reader, &topic, PATIENCE).expect("stable"), Some(3));
}
