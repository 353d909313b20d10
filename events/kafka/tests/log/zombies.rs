//! Owners that are not owners any more and do not know it.

use rdkafka::producer::{BaseProducer, Producer};
use reenact_events::{CommitOutcome, EventLog, LogError, Predecessor};
use rustix::process::Signal;

use crate::{process::Process, support::*};

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_owner_that_wakes_up_is_fenced_and_leaves_nothing_behind_its_successors_claim() {
    let brokers = shared();
    let options = deployment(&brokers, 1);
    let zombie = Process::start(&brokers, &options.prefix);
    let term: u64 = zombie.says().strip_prefix("term ").expect("its term").parse().expect("a number");
    zombie.says_until("process 3");
    zombie.signal(Signal::STOP);
    let (member, lease) = Member::owner(&options, "successor").await;
    assert_eq!(lease.predecessor, Predecessor::MaybeAlive);
    member.persist(&lease, &batch("successor 0")).await.expect("is committed");
    zombie.signal(Signal::CONT);
    let acknowledged = zombie.says_until("fenced");
    // The group may have had to take the one in that woke up: then the batch is sent again.
    member.persist(&lease, &batch("successor 1")).await.expect("is committed");
    let history = member.history(FIRST).await;
    let claim = history.iter().position(|event| event.term == lease.term).expect("a claim");
    assert!(history[..claim].iter().all(|event| event.term.0 == term), "{history:?}");
    assert!(history[claim..].iter().all(|event| event.term == lease.term), "{history:?}");
    let (texts, told) = (texts(&history), acknowledged.len() - 1);
    assert!(acknowledged[..told].iter().all(|text| texts.contains(text)), "acknowledged and lost: {acknowledged:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_owners_successor_knows_that_it_may_still_act() {
    let brokers = shared();
    let options = deployment(&brokers, 1);
    let killed = Process::start(&brokers, &options.prefix);
    killed.says_until("process 3");
    killed.signal(Signal::KILL);
    let (member, lease) = Member::owner(&options, "successor").await;
    assert_eq!(lease.predecessor, Predecessor::MaybeAlive);
    let texts = texts(&member.history(FIRST).await);
    let expected: Vec<_> = (0..texts.len()).map(|number| format!("process {number}")).collect();
    assert!(texts == expected && texts.len() >= 4, "{texts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_broker_refuses_the_late_batch_of_an_owner_whose_id_was_taken() {
    let brokers = shared();
    let options = deployment(&brokers, 1);
    let (member, lease) = Member::owner(&options, "one").await;
    member.committed(&lease, &batch("before")).await;
    // Only the broker knows of this: the group still has the owner for its member.
    let mut config = client(&brokers);
    config.set("transactional.id", format!("{}.0", options.topics().events));
    let taker: BaseProducer = config.create().expect("a producer");
    taker.init_transactions(PATIENCE).expect("taken");
    let outcome = member.commit(&lease, &batch("late")).await;
    assert!(matches!(outcome, CommitOutcome::Fenced), "{outcome:?}");
    let again = member.commit(&lease, &batch("later")).await;
    assert!(matches!(again, CommitOutcome::Fenced), "{again:?}");
    assert!(member.log.trouble().is_some_and(|trouble| trouble.contains("enced")), "{:?}", member.log.trouble());
    // It owns the partition all the same, and claims it again.
    let lease = member.claim(FIRST).await;
    member.committed(&lease, &batch("after")).await;
    assert_eq!(member.log.trouble(), None);
    assert_eq!(texts(&member.history(FIRST).await), ["before", "after"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_no_member_can_claim_nothing() {
    let options = deployment(&shared(), 1);
    let log = reenact_kafka::KafkaLog::connect(options).await.expect("connects");
    let claimed = log.claim(FIRST, reenact_events::NodeId::trusted("stranger")).await;
    assert!(matches!(claimed, Err(LogError::Fenced { .. })), "{claimed:?}");
}
