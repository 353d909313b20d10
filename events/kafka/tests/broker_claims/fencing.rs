//! Who may commit: the newest producer of a transactional id, with metadata of the group's present generation.

use std::time::Duration;

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    producer::Producer,
    types::RDKafkaErrorCode as Code,
    util::Timeout,
};

use crate::support::*;

#[test]
fn a_newer_producer_of_an_id_fences_the_older_one_for_good() {
    let (topic, id) = (topic(1), unique("id"));
    let old = begun(&id);
    send(&old, &topic, "old");
    let new = producer(&id);
    new.init_transactions(PATIENCE).expect("initialised");
    let refused = class(old.commit_transaction(Timeout::Never).expect_err("it is fenced"));
    assert_eq!(refused, (Code::Fenced, "fatal"));
    let refused = class(old.begin_transaction().expect_err("it stays fenced"));
    assert_eq!(refused.1, "fatal");
    commit_one(&new, &topic, "new");
    assert_eq!(read_until(&reader(&topic, "read_committed"), "new").len(), 1);
}

#[test]
fn an_older_producer_that_is_fenced_learns_it_from_its_next_record() {
    let (topic, id) = (topic(1), unique("id"));
    let old = begun(&id);
    send(&old, &topic, "old");
    let new = producer(&id);
    new.init_transactions(PATIENCE).expect("initialised");
    enqueue(&old, &topic, "late");
    drain(&old);
    let (error, _) = old.client().fatal_error().expect("it is fenced");
    assert_eq!(error, Code::Fenced);
    commit_one(&new, &topic, "new");
    assert_eq!(read_until(&reader(&topic, "read_committed"), "new").len(), 1);
}

/// Which of two partitions of its own a member may commit with the metadata that it had before it gave one away:
/// the outcome for the one that it kept, then for the other.
fn commits_with_older_metadata(protocol: &str) -> [Result<(), (Code, &'static str)>; 2] {
    let (topic, group) = (topic(2), unique("group"));
    let first = member(&group, &topic, protocol);
    poll_until_assigned(&[&first], &[2]);
    let old = metadata(&first);
    let second = member(&group, &topic, protocol);
    poll_until_assigned(&[&first, &second], &[1, 1]);
    let kept = first.assignment().expect("an assignment").elements()[0].partition();
    let producer = producer(&unique("id"));
    producer.init_transactions(PATIENCE).expect("initialised");
    let outcomes = [kept, 1 - kept].map(|partition| {
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(&topic, partition, Offset::Offset(1)).expect("an offset");
        producer.begin_transaction().expect("begun");
        send(&producer, &topic, "zombie");
        let outcome = producer.send_offsets_to_transaction(&offsets, &old, PATIENCE).map_err(class);
        producer.abort_transaction(Timeout::Never).expect("aborted");
        outcome
    });
    // The same producer goes on with the metadata of now.
    producer.begin_transaction().expect("begun");
    send(&producer, &topic, "present");
    let offsets = offset_list(&topic, 1);
    producer.send_offsets_to_transaction(&offsets, &metadata(&first), PATIENCE).expect("accepted");
    commit(&producer);
    assert_eq!(committed(&first, &topic, PATIENCE).expect("committed"), Some(1));
    assert_eq!(read_until(&reader(&topic, "read_committed"), "present").len(), 1);
    outcomes
}

#[test]
fn metadata_of_an_older_generation_is_refused_classic() {
    let refused = Err((Code::IllegalGeneration, "abortable"));
    assert_eq!(commits_with_older_metadata("classic"), [refused, refused]);
}

#[test]
fn metadata_of_an_older_epoch_is_refused_for_partitions_given_away_consumer() {
    let refused = Err((Code::IllegalGeneration, "abortable"));
    // For the one that it kept, 4.3 looks at the epoch of the partition's assignment (KIP-1251).
    let kept = if version().starts_with("4.0.") { refused } else { Ok(()) };
    assert_eq!(commits_with_older_metadata("consumer"), [kept, refused]);
}

fn a_member_that_left_cannot_commit(protocol: &str) -> Code {
    let (topic, group) = (topic(1), unique("group"));
    let first = member(&group, &topic, protocol);
    poll_until_assigned(&[&first], &[1]);
    let old = metadata(&first);
    drop(first);
    let second = member(&group, &topic, protocol);
    poll_until_assigned(&[&second], &[1]);
    let producer = begun(&unique("id"));
    send(&producer, &topic, "zombie");
    let refused = producer.send_offsets_to_transaction(&offset_list(&topic, 1), &old, PATIENCE);
    let (code, class) = class(refused.expect_err("it has left"));
    assert_eq!(class, "abortable");
    producer.abort_transaction(Timeout::Never).expect("aborted");
    code
}

#[test]
fn a_member_that_left_cannot_commit_classic() {
    assert_eq!(a_member_that_left_cannot_commit("classic"), Code::UnknownMemberId);
}

#[test]
fn a_member_that_left_cannot_commit_consumer() {
    assert_eq!(a_member_that_left_cannot_commit("consumer"), Code::UnknownMemberId);
}

fn commit_without_a_generation(protocol: &str) -> Result<(), (Code, &'static str)> {
    let (topic, group) = (topic(1), unique("group"));
    let owner = member(&group, &topic, protocol);
    poll_until_assigned(&[&owner], &[1]);
    let mut config = client();
    config.set("group.id", &group).set("group.protocol", protocol);
    let stranger: BaseConsumer = config.create().expect("a consumer");
    let producer = begun(&unique("id"));
    send(&producer, &topic, "stranger");
    let offsets = offset_list(&topic, 1);
    producer.send_offsets_to_transaction(&offsets, &metadata(&stranger), PATIENCE).map_err(class)?;
    commit(&producer);
    assert_eq!(committed(&owner, &topic, Duration::from_secs(5)).expect("committed"), Some(1));
    Ok(())
}

#[test]
fn metadata_without_a_generation_is_not_fenced_classic() {
    assert_eq!(commit_without_a_generation("classic"), Ok(()));
}

#[test]
fn metadata_without_a_generation_is_refused_consumer() {
    assert_eq!(commit_without_a_generation("consumer"), Err((Code::UnknownMemberId, "abortable")));
}

fn commit_for_a_partition_of_another_member(protocol: &str) -> Result<(), (Code, &'static str)> {
    let (topic, group) = (topic(2), unique("group"));
    let first = member(&group, &topic, protocol);
    poll_until_assigned(&[&first], &[2]);
    let second = member(&group, &topic, protocol);
    poll_until_assigned(&[&first, &second], &[1, 1]);
    let owns_it = |member: &Member| member.assignment().expect("assigned").elements()[0].partition() == 0;
    let other = if owns_it(&first) { &second } else { &first };
    let producer = begun(&unique("id"));
    send(&producer, &topic, "stranger");
    producer.send_offsets_to_transaction(&offset_list(&topic, 1), &metadata(other), PATIENCE).map_err(class)?;
    commit(&producer);
    Ok(())
}

/// The check is per member, not per partition: metadata must be that of the assignment, never fetched at commit.
#[test]
fn fresh_metadata_lets_a_member_commit_for_a_partition_that_it_has_given_away_classic() {
    assert_eq!(commit_for_a_partition_of_another_member("classic"), Ok(()));
}

#[test]
fn fresh_metadata_lets_a_member_commit_for_a_partition_that_it_has_given_away_consumer() {
    assert_eq!(commit_for_a_partition_of_another_member("consumer"), Ok(()));
}
