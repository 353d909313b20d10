//! Brokers that go away and come back.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::StreamExt;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use reenact_events::{Arrival, Batch, CommitOutcome, EventLog, LogError, Offset};
use reenact_kafka::KafkaLog;

use crate::support::*;

const FROZEN: Duration = Duration::from_millis(4_500);

/// Waits until the log is in trouble, or is not.
async fn trouble(log: &KafkaLog, wanted: bool) -> Option<Arc<str>> {
    let becomes = async {
        loop {
            let trouble = log.trouble();
            if trouble.is_some() == wanted {
                return trouble;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    soon("noticing", becomes).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_told_and_ends_without_a_new_connection() {
    let mut own = own(|options| options);
    let options = deployment(&own.cluster.bootstrap(), 1);
    let (member, lease) = Member::owner(&options, "one").await;
    member.committed(&lease, &batch("before")).await;
    let mut tail = member.log.tail(FIRST, Offset(0));
    for _ in 0..2 {
        soon("reading", tail.next()).await.expect("has no end").expect("an event");
    }
    own.cluster.kill(1).expect("killed");
    let reason = trouble(&member.log, true).await.expect("a reason");
    assert!(reason.contains("Kafka does not answer"), "{reason}");
    let published = soon("publishing", member.log.publish(vec![command("lost", FIRST)])).await;
    assert!(matches!(published, Err(LogError::Unavailable { .. })), "{published:?}");
    let batch = batch("during");
    let (writing, starting) =
        tokio::join!(member.persist(&lease, &batch), async { tokio::task::block_in_place(|| own.cluster.start(1)) });
    starting.expect("starts");
    trouble(&member.log, false).await;
    // An outage that is longer than the session's time-out costs the membership, and then a claim.
    if writing.is_err() {
        let lease = member.reclaim(FIRST).await;
        member.committed(&lease, &batch).await;
    }
    // A claim may stand in between.
    let mut seen = Vec::new();
    while texts(&seen).is_empty() {
        seen.push(soon("reading", tail.next()).await.expect("has no end").expect("an event"));
    }
    assert_eq!(texts(&seen), ["during"]);
    assert_eq!(texts(&member.history(FIRST).await), ["before", "during"]);
}

/// Events behind an open transaction could not be read, so nobody could be told of them: none is written there.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_waits_for_the_end_of_a_strangers_transaction_and_is_written_once() {
    let brokers = shared();
    let options = deployment(&brokers, 1);
    let (member, lease) = Member::owner(&options, "one").await;
    let stranger: BaseProducer =
        client(&brokers).set("transactional.id", &options.prefix).create().expect("a producer");
    stranger.init_transactions(PATIENCE).expect("taken");
    stranger.begin_transaction().expect("begins");
    let events = options.topics().events;
    stranger.send(BaseRecord::<[u8], [u8]>::to(&events).partition(0).payload(b"in between")).expect("sent");
    stranger.flush(PATIENCE).expect("arrives");
    let batch = batch("behind it");
    for expected in ["stands at", "neither committed nor aborted", "neither committed nor aborted"] {
        let outcome = member.commit(&lease, &batch).await;
        let waits = |reason: &str| reason.contains(expected) && reason.contains(&events);
        assert!(matches!(&outcome, CommitOutcome::Resend { reason } if waits(reason)), "{outcome:?}");
    }
    stranger.abort_transaction(PATIENCE).expect("aborts");
    member.persist(&lease, &batch).await.expect("is still the owner");
    member.committed(&lease, &self::batch("after it")).await;
    assert_eq!(texts(&member.history(FIRST).await), ["behind it", "after it"]);
}

/// A broker that is frozen when a transaction ends: nobody knows what became of it until it goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_whose_outcome_was_unknown_is_there_once() {
    let mut own = own(|options| options);
    let options = deployment(&own.cluster.bootstrap(), 1);
    let (member, mut lease) = Member::owner(&options, "one").await;
    let member = Arc::new(member);
    let mut expected = Vec::new();
    for round in 0..4_u64 {
        let (log, writer) = (member.clone(), lease.clone());
        let (progress, mut made) = tokio::sync::mpsc::channel(50);
        let writing = tokio::spawn(async move {
            let mut written = Vec::new();
            for number in 0..50 {
                let text = format!("{round}-{number}");
                let cursor = Batch { next_command: Some(Offset(0)), ..batch(&text) };
                match log.persist(&writer, &cursor).await {
                    Ok(_) => {
                        written.push(text);
                        progress.try_send(()).expect("has room");
                    }
                    Err(_) => break,
                }
            }
            written
        });
        // Somewhere in the middle of the next one.
        for _ in 0..10 + round {
            soon("a commit", made.recv()).await.expect("is made");
        }
        own.cluster.pause(1).expect("paused");
        // Longer than a request may take, so that connections are given up.
        tokio::time::sleep(FROZEN).await;
        own.cluster.resume(1).expect("resumed");
        let written = soon("writing", writing).await.expect("no panic");
        let is_fenced = written.len() < 50;
        expected.extend(written);
        if is_fenced {
            lease = member.reclaim(FIRST).await;
        }
    }
    let texts = texts(&member.history(FIRST).await);
    let mut once = texts.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), texts.len(), "written twice: {texts:?}");
    assert!(expected.iter().all(|text| texts.contains(text)), "lost: {expected:?} {texts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_batch_sent_on_can_be_read_whatever_froze_at_its_commit() {
    let mut own = own(|options| options);
    let options = deployment(&own.cluster.bootstrap(), 1);
    let (member, mut lease) = Member::owner(&options, "one").await;
    let member = Arc::new(member);
    let mut expected = BTreeSet::new();
    for round in 0..4_u64 {
        let (log, writer) = (member.clone(), lease.clone());
        let (progress, mut made) = tokio::sync::mpsc::channel(50);
        let writing = tokio::spawn(async move {
            let mut written = Vec::new();
            for number in 0..50 {
                let id = format!("{round}-{number}");
                let sent_on = Batch { forwards: vec![command(&id, FIRST)], ..batch(&id) };
                if log.persist(&writer, &sent_on).await.is_err() {
                    break;
                }
                written.push(id);
                progress.try_send(()).expect("has room");
            }
            written
        });
        for _ in 0..10 + round {
            soon("a commit", made.recv()).await.expect("is made");
        }
        own.cluster.pause(1).expect("paused");
        tokio::time::sleep(FROZEN).await;
        own.cluster.resume(1).expect("resumed");
        let written = soon("writing", writing).await.expect("no panic");
        let is_fenced = written.len() < 50;
        expected.extend(written);
        if is_fenced {
            lease = member.reclaim(FIRST).await;
        }
    }
    let mut commands = member.log.commands(&lease);
    while !expected.is_empty() {
        let record = soon("reading what was sent on", commands.next()).await.expect("has no end").expect("a command");
        let Arrival::Command(command) = record.arrival else { panic!("it is no command: {record:?}") };
        expected.remove(command.id.as_str());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_takes_no_longer_than_its_bound_when_no_broker_answers() {
    let mut own = own(|options| options);
    let options = deployment(&own.cluster.bootstrap(), 2);
    let mut member = Member::join(&options, "one").await;
    for _ in 0..2 {
        let partition = member.granted().await;
        member.claim(partition).await;
    }
    own.cluster.pause(1).expect("paused");
    let started = std::time::Instant::now();
    soon("leaving", tokio::task::spawn_blocking(move || drop(member))).await.expect("no panic");
    assert!(started.elapsed() < Duration::from_secs(25), "a bound, no speed: {:?}", started.elapsed());
    eprintln!("left a frozen broker in {:?}", started.elapsed());
    own.cluster.resume(1).expect("resumed");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_three_brokers_one_may_die_at_a_time_and_nothing_is_lost_or_there_twice() {
    let mut own = own(|options| options.nodes(3));
    let options = deployment(&own.cluster.bootstrap(), 1);
    let (member, lease) = Member::owner(&options, "one").await;
    let member = Arc::new(member);
    // The coordinators of group and transactions and the leader of the events are somewhere among the three.
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let (progress, mut made) = tokio::sync::watch::channel(0_usize);
    let log = member.clone();
    let writing = tokio::spawn(async move {
        let (mut lease, mut written) = (lease, Vec::new());
        for number in 0.. {
            if stopped.try_recv() != Err(tokio::sync::oneshot::error::TryRecvError::Empty) {
                break;
            }
            let text = format!("{number}");
            match log.persist(&lease, &batch(&text)).await {
                Ok(_) => {
                    written.push(text);
                    progress.send_replace(written.len());
                }
                // A transaction that the broker ended for its time looks the same as one of a successor.
                Err(_) => lease = log.reclaim(FIRST).await,
            }
        }
        written
    });
    for id in 1..=3 {
        let before = *made.borrow();
        soon("going on", made.wait_for(|made| *made > before + 2)).await.expect("still writing");
        tokio::task::block_in_place(|| own.cluster.kill(id)).expect("killed");
        let before = *made.borrow();
        soon("going on without one", made.wait_for(|made| *made > before + 2)).await.expect("still writing");
        tokio::task::block_in_place(|| own.cluster.start(id)).expect("started");
    }
    stop.send(()).expect("still writing");
    let written = soon("writing", writing).await.expect("no panic");
    trouble(&member.log, false).await;
    let texts = texts(&member.history(FIRST).await);
    let mut once: Vec<_> = texts.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), texts.len(), "written twice");
    assert!(written.iter().all(|text| texts.contains(text)), "lost");
}
