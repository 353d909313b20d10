//! What a reader of committed records sees, and when.

use std::time::{Duration, Instant};

use rdkafka::{Offset, consumer::Consumer, producer::Producer, types::RDKafkaErrorCode as Code, util::Timeout};

use crate::support::*;

#[test]
fn aborted_records_are_hidden_and_offsets_have_gaps() {
    let topic = topic(1);
    let producer = producer(&unique("id"));
    producer.init_transactions(PATIENCE).expect("initialised");
    commit_one(&producer, &topic, "first");
    producer.begin_transaction().expect("begun");
    send(&producer, &topic, "aborted");
    producer.abort_transaction(Timeout::Never).expect("aborted");
    commit_one(&producer, &topic, "last");
    let seen = read_until(&reader(&topic, "read_committed"), "last");
    // 1: marker of the commit; 2: the aborted record; 3: its marker.
    assert_eq!(seen, [(0, "first".to_owned()), (4, "last".to_owned())]);
    let dirty = read_until(&reader(&topic, "read_uncommitted"), "last");
    assert_eq!(dirty.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), [0, 2, 4]);
}

#[test]
fn the_end_that_a_reader_is_told_depends_on_its_isolation() {
    let topic = topic(1);
    let producer = producer(&unique("id"));
    producer.init_transactions(PATIENCE).expect("initialised");
    commit_one(&producer, &topic, "first");
    producer.begin_transaction().expect("begun");
    send(&producer, &topic, "open");
    let end = |isolation| reader(&topic, isolation).fetch_watermarks(&topic, 0, PATIENCE).expect("watermarks").1;
    assert_eq!(end("read_committed"), 2, "the last stable offset");
    assert_eq!(end("read_uncommitted"), 3, "the high watermark");
    commit(&producer);
}

#[test]
fn the_position_passes_a_trailing_marker_once_it_is_polled() {
    let topic = topic(1);
    let producer = producer(&unique("id"));
    producer.init_transactions(PATIENCE).expect("initialised");
    commit_one(&producer, &topic, "claim");
    let reader = reader(&topic, "read_committed");
    read_until(&reader, "claim");
    let quiet = Instant::now() + Duration::from_millis(500);
    while Instant::now() < quiet {
        assert!(reader.poll(Duration::from_millis(50)).is_none());
    }
    let position = reader.position().expect("a position").elements()[0].offset();
    let end = reader.fetch_watermarks(&topic, 0, PATIENCE).expect("watermarks").1;
    assert_eq!((position, end), (Offset::Offset(2), 2));
}

#[test]
fn an_open_transaction_hides_what_others_commit_after_it() {
    let (topic, id) = (topic(1), unique("id"));
    let lost = begun(&id);
    send(&lost, &topic, "dangling");
    let other = producer(&unique("id"));
    other.init_transactions(PATIENCE).expect("initialised");
    commit_one(&other, &topic, "behind");
    let reader = reader(&topic, "read_committed");
    let quiet = Instant::now() + Duration::from_secs(1);
    while Instant::now() < quiet {
        assert!(reader.poll(Duration::from_millis(50)).is_none(), "nothing is stable yet");
    }
    producer(&id).init_transactions(PATIENCE).expect("initialised");
    assert_eq!(read_until(&reader, "behind"), [(1, "behind".to_owned())]);
}

#[test]
fn a_transaction_whose_producer_is_gone_is_aborted_when_its_time_is_up() {
    let (topic, timeout) = (topic(1), 2_000);
    let lost = producer_with(&unique("id"), timeout);
    lost.init_transactions(PATIENCE).expect("initialised");
    lost.begin_transaction().expect("begun");
    send(&lost, &topic, "dangling");
    let other = producer(&unique("id"));
    other.init_transactions(PATIENCE).expect("initialised");
    commit_one(&other, &topic, "behind");
    read_until(&reader(&topic, "read_committed"), "behind");
    let refused = class(lost.commit_transaction(Timeout::Never).expect_err("it was aborted"));
    assert_eq!(refused, (Code::Fenced, "fatal"));
}
