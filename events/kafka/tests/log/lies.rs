//! Positions that lie (a37): what they name was deleted, or is another log's. Never a silent jump.

use futures::StreamExt;
use rdkafka::{
    admin::{NewTopic, TopicReplication},
    consumer::{BaseConsumer, CommitMode, Consumer},
};
use reenact_events::{Arrival, Batch, EventLog, LogError, Offset};
use reenact_kafka::Options;

use crate::support::*;

pub(crate) async fn recreate(brokers: &str, topic: &str, settings: &[(&str, &str)]) {
    admin(brokers).delete_topics(&[topic], &asking()).await.expect("deleted");
    let new = NewTopic::new(topic, 1, TopicReplication::Fixed(1));
    let new = settings.iter().fold(new, |new, (name, value)| new.set(name, value));
    // The deletion goes on for a moment after its answer.
    loop {
        let made = admin(brokers).create_topics([&new], &asking()).await.expect("an answer");
        match made[0] {
            Ok(_) => return,
            Err((_, rdkafka::types::RDKafkaErrorCode::TopicAlreadyExists)) => {}
            ref other => panic!("{other:?}"),
        }
    }
}

pub(crate) const EVENTS: &[(&str, &str)] = &[("retention.ms", "-1"), ("message.timestamp.type", "LogAppendTime")];

/// A deployment with three events and a cursor behind two commands, and nobody in it.
pub(crate) async fn left_behind(brokers: &str) -> Options {
    let options = deployment(brokers, 1);
    let (member, lease) = Member::owner(&options, "one").await;
    member.log.publish(vec![command("a", FIRST), command("b", FIRST)]).await.expect("published");
    for text in ["0", "1", "2"] {
        member.committed(&lease, &Batch { next_command: Some(Offset(2)), ..batch(text) }).await;
    }
    options
}

/// What a claim says.
pub(crate) async fn refused(options: &Options) -> String {
    let mut member = Member::join(options, "two").await;
    assert_eq!(member.granted().await, FIRST);
    let claimed = soon("claiming", member.log.claim(FIRST, member.node.clone())).await;
    let error = claimed.expect_err("it is refused");
    assert!(matches!(error, LogError::Damaged { .. }), "{error:?}");
    error.to_string()
}

pub(crate) fn names(error: &str, words: &[&str]) {
    assert!(words.iter().all(|word| error.contains(word)), "{words:?} in: {error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a37_a_replay_that_needs_deleted_events_names_topic_partition_and_range() {
    let brokers = shared();
    let options = left_behind(&brokers).await;
    let events = options.topics().events;
    let (_, second) = Member::owner(&options, "two").await;
    let low = second.claim_offset().0;
    delete_records(&brokers, &events, low).await;
    let (member, lease) = Member::owner(&options, "three").await;
    let mut replay = member.log.replay(&lease, Offset(0));
    let error = soon("reading", replay.next()).await.expect("an answer").expect_err("they are gone").to_string();
    names(&error, &[&events, "partition 0", "offset 0", &format!("begins at {low}")]);
    // Whoever has folded them goes on.
    let mut replay = member.log.replay(&lease, Offset(low));
    assert!(soon("reading", replay.next()).await.expect("an answer").is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a37_a_claim_whose_predecessors_claim_was_deleted_is_refused() {
    let brokers = shared();
    let options = left_behind(&brokers).await;
    let events = options.topics().events;
    // The claim stands at 0; only the last event is left.
    delete_records(&brokers, &events, 5).await;
    names(&refused(&options).await, &[&events, "partition 0", "begins at 5"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a37_a_log_whose_events_are_all_deleted_is_refused_even_when_the_group_is_gone() {
    let brokers = shared();
    let options = left_behind(&brokers).await;
    let events = options.topics().events;
    delete_records(&brokers, &events, 8).await;
    names(&refused(&options).await, &[&events, "partition 0"]);
    delete_group(&options).await;
    names(&refused(&options).await, &[&events, "partition 0", "before offset 8"]);
}

async fn delete_group(options: &Options) {
    let deleted = admin(&options.brokers).delete_groups(&[&options.prefix], &asking()).await.expect("an answer");
    assert!(deleted[0].is_ok(), "{deleted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a37_recreated_events_are_refused() {
    let brokers = shared();
    let options = left_behind(&brokers).await;
    let events = options.topics().events;
    recreate(&brokers, &events, EVENTS).await;
    names(&refused(&options).await, &[&events, "partition 0", "recreated", "ends at 0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a37_recreated_commands_are_refused() {
    let brokers = shared();
    let options = left_behind(&brokers).await;
    let commands = options.topics().commands;
    recreate(&brokers, &commands, &[("retention.ms", "604800000")]).await;
    names(&refused(&options).await, &[&commands, "partition 0", "offset 2", "recreated", "ends at 0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a37_events_that_are_recreated_under_an_owner_take_no_batch_of_it() {
    let brokers = shared();
    let options = deployment(&brokers, 1);
    let (member, lease) = Member::owner(&options, "one").await;
    for text in ["0", "1", "2"] {
        member.committed(&lease, &batch(text)).await;
    }
    recreate(&brokers, &options.topics().events, EVENTS).await;
    let outcome = member.persist(&lease, &batch("3")).await;
    assert!(outcome.is_err(), "{outcome:?}");
    let error = soon("claiming", member.log.claim(FIRST, member.node.clone())).await.expect_err("refused").to_string();
    names(&error, &[&options.topics().events, "recreated"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a37_whoever_follows_events_that_are_recreated_is_told() {
    let brokers = shared();
    let options = deployment(&brokers, 1);
    let (member, lease) = Member::owner(&options, "one").await;
    let mut tail = member.log.tail(FIRST, Offset(0));
    for text in ["0", "1", "2"] {
        member.committed(&lease, &batch(text)).await;
    }
    for _ in 0..4 {
        soon("reading", tail.next()).await.expect("has no end").expect("an event");
    }
    recreate(&brokers, &options.topics().events, EVENTS).await;
    let told = soon("noticing", tail.next()).await.expect("an error comes before the end");
    names(&told.expect_err("nothing was written").to_string(), &[&options.topics().events]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a37_without_the_groups_offsets_the_cursor_comes_from_the_events() {
    let brokers = shared();
    let options = left_behind(&brokers).await;
    delete_group(&options).await;
    let (member, lease) = Member::owner(&options, "two").await;
    member.log.publish(vec![command("c", FIRST)]).await.expect("published");
    let record = soon("a command", member.log.commands(&lease).next()).await.expect("no end").expect("a command");
    assert_eq!(record.offset, Offset(2), "neither `a` nor `b` comes again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a37_commands_that_were_deleted_are_passed_over_and_those_behind_them_come() {
    let brokers = shared();
    let options = left_behind(&brokers).await;
    let (member, _) = Member::owner(&options, "two").await;
    let more = ["c", "d", "e"].map(|id| command(id, FIRST));
    member.log.publish(more.to_vec()).await.expect("published");
    drop(member);
    delete_records(&brokers, &options.topics().commands, 4).await;
    let (member, lease) = Member::owner(&options, "three").await;
    let record = soon("a command", member.log.commands(&lease).next()).await.expect("no end").expect("a command");
    let Arrival::Command(command) = record.arrival else { panic!("poison") };
    assert_eq!((record.offset, command.id.as_str()), (Offset(4), "e"));
}

/// Retention works while the owner is there, too.
#[tokio::test(flavor = "multi_thread")]
async fn a37_commands_that_are_deleted_under_an_owner_are_passed_over() {
    let brokers = shared();
    let options = deployment(&brokers, 1);
    let (member, lease) = Member::owner(&options, "one").await;
    let ids: Vec<_> = ["a", "b", "c"].iter().map(|id| command(id, FIRST)).collect();
    member.log.publish(ids).await.expect("published");
    delete_records(&brokers, &options.topics().commands, 2).await;
    // The lease's cursor is still at 0.
    let record = soon("a command", member.log.commands(&lease).next()).await.expect("no end").expect("a command");
    assert_eq!(record.offset, Offset(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a37_a_group_that_is_ahead_of_the_commands_is_refused() {
    let brokers = shared();
    let options = left_behind(&brokers).await;
    let mut config = client(&brokers);
    config.set("group.id", &options.prefix);
    let group: BaseConsumer = config.create().expect("a consumer");
    let mut list = rdkafka::TopicPartitionList::new();
    list.add_partition_offset(&options.topics().commands, 0, rdkafka::Offset::Offset(99)).expect("a place");
    group.commit(&list, CommitMode::Sync).expect("committed");
    names(&refused(&options).await, &[&options.topics().commands, "offset 99", "ends at 2"]);
}
