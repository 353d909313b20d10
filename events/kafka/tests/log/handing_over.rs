//! Partitions go from one process to another.

use futures::StreamExt;
use reenact_events::{CommitOutcome, EventLog, Ownership, Predecessor};

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_is_withdrawn_in_order_and_its_successor_knows_that_nobody_acts_any_more() {
    let options = deployment(&shared(), 2);
    let mut one = Member::join(&options, "one").await;
    for _ in 0..2 {
        let partition = one.granted().await;
        one.claim(partition).await;
    }
    let mut two = Member::join(&options, "two").await;
    let Ownership::Withdrawn { partition, released } = one.told().await else { panic!("not withdrawn") };
    drop(released);
    assert_eq!(two.granted().await, partition);
    let lease = two.claim(partition).await;
    assert_eq!(lease.predecessor, Predecessor::Dead);
    two.committed(&lease, &batch("after")).await;
    let terms: Vec<_> = two.history(partition).await.iter().map(|event| event.term).collect();
    assert!(terms.is_sorted() && terms.last() == Some(&lease.term), "{terms:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_leaves_hands_its_partition_over_in_order() {
    let options = deployment(&shared(), 1);
    let (one, lease) = Member::owner(&options, "one").await;
    // The assignor leaves the partition where it is, until its owner goes.
    let mut two = Member::join(&options, "two").await;
    one.committed(&lease, &batch("before")).await;
    let log = one.log.clone();
    let leaving = std::thread::spawn(move || drop(one));
    assert_eq!(two.granted().await, FIRST);
    leaving.join().expect("left");
    let successor = two.claim(FIRST).await;
    assert_eq!(successor.predecessor, Predecessor::Dead);
    assert!(matches!(log.commit(&lease, &batch("late")).await, CommitOutcome::Fenced));
    assert_eq!(texts(&two.history(FIRST).await), ["before"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_for_whom_there_is_no_partition_is_told_that_it_takes_part() {
    let options = deployment(&shared(), 1);
    let (_one, _) = Member::owner(&options, "one").await;
    let log = reenact_kafka::KafkaLog::connect(options).await.expect("connects");
    let mut news = log.ownership();
    assert!(matches!(soon("joining", news.next()).await, Some(Ownership::Joined)));
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_sees_who_owns_and_where_it_serves() {
    let mut options = deployment(&shared(), 1);
    options.endpoint = Some("http://one".into());
    let (_one, lease) = Member::owner(&options, "one").await;
    let other = reenact_kafka::KafkaLog::connect(options).await.expect("connects");
    let owners = soon("asking", other.owners()).await.expect("answers");
    let seen: Vec<_> =
        owners.iter().map(|owner| (owner.term, owner.node.as_str(), owner.endpoint.as_deref())).collect();
    assert_eq!(seen, [(lease.term, "one", Some("http://one"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_deployments_on_one_cluster_leave_each_other_alone() {
    let brokers = shared();
    let (one, lease) = Member::owner(&deployment(&brokers, 1), "one").await;
    let (two, other) = Member::owner(&deployment(&brokers, 1), "two").await;
    assert_ne!(one.log.log_id(), two.log.log_id());
    one.committed(&lease, &batch("of one")).await;
    two.committed(&other, &batch("of two")).await;
    one.committed(&lease, &batch("again of one")).await;
    assert_eq!(texts(&one.history(FIRST).await), ["of one", "again of one"]);
    assert_eq!(texts(&two.history(FIRST).await), ["of two"]);
}

/// KIP-848. Its broker tells a member nothing of an epoch that changes nothing for it, and before 4.3 refuses what
/// the member then writes.
#[tokio::test(flavor = "multi_thread")]
async fn with_the_new_protocol_brokers_from_4_3_on_work_and_older_ones_are_named() {
    let mut options = deployment(&shared(), 1);
    options.properties.clear();
    options.properties.insert("group.protocol".to_owned(), "consumer".to_owned());
    let (one, lease) = Member::owner(&options, "one").await;
    one.committed(&lease, &batch("alone")).await;
    let mut two = Member::join(&options, "two").await;
    two.joined().await;
    if version() < (4, 3) {
        // The broker counts the other from the owner's next heartbeat on.
        let refused = async {
            let mut number = 0;
            while !matches!(
                one.log.commit(&lease, &batch(&format!("beside another {number}"))).await,
                CommitOutcome::Fenced
            ) {
                number += 1;
            }
        };
        soon("being refused", refused).await;
        let reason = one.log.trouble().expect("a reason");
        assert!(reason.contains("brokers before 4.3"), "{reason}");
        return;
    }
    one.committed(&lease, &batch("beside another")).await;
    drop(one);
    assert_eq!(two.granted().await, FIRST);
    let successor = two.claim(FIRST).await;
    assert_eq!(successor.predecessor, Predecessor::Dead);
    two.committed(&successor, &batch("after")).await;
    assert_eq!(texts(&two.history(FIRST).await), ["alone", "beside another", "after"]);
}
