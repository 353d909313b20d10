//! What a member of a group is told when others come and go, and how long its metadata holds.

use std::time::{Duration, Instant};

use rdkafka::{consumer::Consumer, producer::Producer, types::RDKafkaErrorCode as Code, util::Timeout};

use crate::support::*;

type Events = Vec<(&'static str, usize)>;

fn events(member: &Member) -> Events {
    member.context().events.lock().expect("not poisoned").clone()
}

/// Two members with one partition each, then a third that gets none. What the first and the third were told of it.
fn told_of_a_third_member(protocol: &str) -> (Events, Events) {
    let (topic, group) = (topic(2), unique("group"));
    let first = member(&group, &topic, protocol);
    poll_until_assigned(&[&first], &[2]);
    let second = member(&group, &topic, protocol);
    poll_until_assigned(&[&first, &second], &[1, 1]);
    poll_for(&[&first, &second], Duration::from_secs(1));
    let before = events(&first).len();
    let third = member(&group, &topic, protocol);
    poll_for(&[&first, &second, &third], Duration::from_secs(2));
    (events(&first).split_off(before), events(&third))
}

/// For what is expected not to happen there is nothing to wait for but time.
fn poll_for(members: &[&Member], time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        poll_all(members);
    }
}

#[test]
fn every_member_is_told_of_every_generation_even_when_nothing_changes_for_it_classic() {
    assert_eq!(told_of_a_third_member("classic"), (vec![("assign", 0)], vec![("assign", 0)]));
}

#[test]
fn a_member_is_not_told_of_an_epoch_that_changes_nothing_for_it_consumer() {
    assert_eq!(told_of_a_third_member("consumer"), (vec![], vec![]));
}

/// Metadata from the last thing that a member was told, after another member that gets nothing has come: can it
/// still commit for the partition that it owns all the time?
fn commit_after_an_epoch_that_changed_nothing() -> Result<(), (Code, &'static str)> {
    let (topic, group) = (topic(1), unique("group"));
    let owner = member(&group, &topic, "consumer");
    poll_until_assigned(&[&owner], &[1]);
    let told = metadata(&owner);
    let second = member(&group, &topic, "consumer");
    poll_for(&[&owner, &second], Duration::from_secs(3));
    let producer = begun(&unique("id"));
    send(&producer, &topic, "present");
    let outcome = producer.send_offsets_to_transaction(&offset_list(&topic, 1), &told, PATIENCE).map_err(class);
    producer.abort_transaction(Timeout::Never).expect("aborted");
    outcome
}

/// From 4.3 on (KIP-1251) the epoch that counts is that of the partition's assignment; before, that of the member,
/// which then has to ask for its metadata anew without having been told.
#[test]
fn metadata_holds_as_long_as_the_partition_is_owned_consumer() {
    let outcome = commit_after_an_epoch_that_changed_nothing();
    if version().starts_with("4.0.") {
        assert_eq!(outcome, Err((Code::IllegalGeneration, "abortable")));
    } else {
        assert_eq!(outcome, Ok(()));
    }
}
