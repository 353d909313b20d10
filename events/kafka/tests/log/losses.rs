//! Losses that somebody accepts (a37): from then on the partition is like any other, and says what was accepted.

use futures::StreamExt;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use reenact_events::{
    Arrival, Event, EventLog, NodeId, Offset, Predecessor,
    event::{Loss, LossOf, PartitionEvent},
};
use reenact_kafka::{KafkaLog, Options, letters};

use crate::{
    lies::{EVENTS, left_behind, names, recreate, refused},
    support::*,
};

fn operator() -> NodeId {
    NodeId::trusted("operator")
}

async fn connected(options: &Options) -> KafkaLog {
    soon("connecting", KafkaLog::connect(options.clone())).await.expect("connects")
}

async fn lost(log: &KafkaLog) -> Vec<Loss> {
    soon("looking", log.lost(FIRST)).await.expect("it can be told")
}

/// What a state has seen that is not in the log.
fn seen(until: u64) -> Vec<Loss> {
    vec![Loss {
        of: LossOf::Events,
        from: Offset(0),
        until: Offset(until),
        reason: "a state has seen them".into(),
        runs: Vec::new(),
    }]
}

/// Says in the group's name where the commands go on, with a note.
fn note(options: &Options, cursor: i64, note: &str) {
    let mut config = client(&options.brokers);
    config.set("group.id", &options.prefix);
    let group: BaseConsumer = config.create().expect("a consumer");
    let mut list = rdkafka::TopicPartitionList::new();
    list.add_partition_offset(&options.topics().commands, 0, rdkafka::Offset::Offset(cursor)).expect("a place");
    list.elements().into_iter().for_each(|mut element| element.set_metadata(note));
    group.commit(&list, CommitMode::Sync).expect("committed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a37_lost_events_that_were_accepted_keep_nobody_from_the_partition_and_no_command_comes_again() {
    let brokers = shared();
    let options = left_behind(&brokers).await;
    recreate(&brokers, &options.topics().events, EVENTS).await;
    refused(&options).await;
    let log = connected(&options).await;
    let told = lost(&log).await;
    let [Loss { of: LossOf::Events, from: Offset(0), until, .. }] = &told[..] else { panic!("{told:?}") };
    assert!(until.0 > 5, "the claim and three events: {told:?}");
    // Looking changes nothing, and what was not told is not accepted.
    refused(&options).await;
    let wrong = soon("accepting", log.accept(FIRST, operator(), Vec::new(), seen(9))).await.expect_err("it is refused");
    names(&wrong.to_string(), &["look at it again"]);
    let accepted = soon("accepting", log.accept(FIRST, operator(), told.clone(), Vec::new())).await.expect("accepts");
    assert_eq!(accepted.losses, 1);
    assert_eq!(lost(&log).await, []);
    let again = soon("accepting", log.accept(FIRST, operator(), told.clone(), Vec::new())).await;
    assert!(again.is_err(), "a loss is accepted once: {again:?}");

    let (member, lease) = Member::owner(&options, "three").await;
    assert_eq!((lease.losses, lease.predecessor), (1, Predecessor::Dead));
    let claims: Vec<_> = member.history(FIRST).await.iter().map(|claim| claim.decode().expect("reads")).collect();
    let [Event::Partition(PartitionEvent::Claimed(first)), Event::Partition(PartitionEvent::Claimed(second))] =
        &claims[..]
    else {
        panic!("{claims:?}")
    };
    assert_eq!((&first.accepts, first.losses), (&told, 1));
    assert_eq!((second.accepts.len(), second.losses), (0, 1));
    member.log.publish(vec![command("c", FIRST)]).await.expect("published");
    let record = soon("a command", member.log.commands(&lease).next()).await.expect("no end").expect("a command");
    assert_eq!(record.offset, Offset(2), "neither `a` nor `b` comes again");
    member.committed(&lease, &batch("goes on")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a37_commands_that_are_lost_are_accepted_alone() {
    let brokers = shared();
    let options = left_behind(&brokers).await;
    recreate(&brokers, &options.topics().commands, &[("retention.ms", "604800000")]).await;
    refused(&options).await;
    let log = connected(&options).await;
    let told = lost(&log).await;
    assert!(matches!(&told[..], [Loss { of: LossOf::Commands, from: Offset(0), until: Offset(2), .. }]), "{told:?}");
    let accepted = soon("accepting", log.accept(FIRST, operator(), told, Vec::new())).await.expect("accepts");
    assert_eq!(accepted.losses, 0, "no event is lost");
    let (member, lease) = Member::owner(&options, "two").await;
    assert_eq!(texts(&member.history(FIRST).await), ["0", "1", "2"]);
    member.log.publish(vec![command("c", FIRST)]).await.expect("published");
    let record = soon("a command", member.log.commands(&lease).next()).await.expect("no end").expect("a command");
    let Arrival::Command(command) = record.arrival else { panic!("poison") };
    assert_eq!((record.offset, command.id.as_str()), (Offset(0), "c"));
}

/// As after an election of a leader that was not in sync.
#[tokio::test(flavor = "multi_thread")]
async fn a37_a_tail_that_is_lost_within_the_last_term_is_refused_by_the_events_that_are_missing() {
    let brokers = shared();
    let options = left_behind(&brokers).await;
    let log = connected(&options).await;
    let last = soon("the last event", log.last_event(FIRST)).await.expect("answers").expect("there is one");
    note(&options, 2, &format!("term:0 batch:x last:{}", last.0 + 7));
    names(&refused(&options).await, &["term 0", &format!("before offset {}", last.0 + 8), "accept-loss --partition 0"]);
    let told = lost(&log).await;
    assert_eq!((told[0].from, told[0].until), (last.next(), Offset(last.0 + 8)));
    soon("accepting", log.accept(FIRST, operator(), told, Vec::new())).await.expect("accepts");
    let (member, _) = Member::owner(&options, "two").await;
    assert_eq!(texts(&member.history(FIRST).await), ["0", "1", "2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a37_when_only_a_state_knows_of_the_loss_the_commands_that_wait_are_dead_letters() {
    let brokers = shared();
    let options = left_behind(&brokers).await;
    let log = connected(&options).await;
    soon("publishing", log.publish(vec![command("c", FIRST), command("d", FIRST)])).await.expect("published");
    assert_eq!(lost(&log).await, []);
    let accepted = soon("accepting", log.accept(FIRST, operator(), Vec::new(), seen(99))).await.expect("accepts");
    assert_eq!(accepted.losses, 1);
    let asked = options.clone();
    let dead = tokio::task::spawn_blocking(move || letters(&asked, 0)).await.expect("ends").expect("they can be read");
    let dead: Vec<_> = dead.iter().map(|letter| (letter.letter.offset, &*letter.letter.code)).collect();
    assert_eq!(dead, [(Offset(2), "history_lost"), (Offset(3), "history_lost")]);
    let (member, lease) = Member::owner(&options, "two").await;
    member.log.publish(vec![command("e", FIRST)]).await.expect("published");
    let record = soon("a command", member.log.commands(&lease).next()).await.expect("no end").expect("a command");
    assert_eq!(record.offset, Offset(4));
}
