//! Who may append.

use futures::StreamExt;
use reenact_events::{CommitOutcome, Event, LogError, Offset, PartitionId, Predecessor, event::PartitionEvent};

use crate::{
    support::{FIRST, Writer, all, claim, commit, forward, last, node},
    worlds::World,
};

pub(crate) async fn a_claim_is_recorded_and_its_offset_is_the_term(world: &mut impl World) {
    let log = world.log();
    let first = log.claim(FIRST, node("n1")).await.expect("claims");
    let second = log.claim(FIRST, node("n2")).await.expect("claims");
    assert!(first.term < second.term);
    let events = all(&*log, FIRST).await;
    assert_eq!(events.len(), 2);
    let mut nonces = Vec::new();
    for (recorded, lease) in events.iter().zip([first, second]) {
        assert_eq!(recorded.offset, lease.claim_offset());
        assert_eq!(recorded.term, lease.term);
        let Ok(Event::Partition(PartitionEvent::Claimed(claimed))) = recorded.decode() else {
            panic!("not a claim: {recorded:?}");
        };
        assert_eq!((claimed.node, claimed.log_id), (lease.node, log.log_id()));
        nonces.push(claimed.nonce);
    }
    assert_ne!(nonces[0], nonces[1]);
}

pub(crate) async fn a_second_claim_fences_the_first(world: &mut impl World) {
    let (log, mut writer) = (world.log(), Writer::default());
    let old = claim(&*log, FIRST).await;
    let committed = writer.some(1);
    commit(&*log, &old, &committed).await;
    let new = claim(&*log, FIRST).await;
    let before = all(&*log, FIRST).await;

    let batch = writer.some(1);
    assert!(matches!(log.commit(&old, &batch).await, CommitOutcome::Fenced));
    assert!(matches!(log.resolve(&old, committed.id).await, Err(LogError::Fenced { partition: FIRST })));
    assert_eq!(all(&*log, FIRST).await, before, "a fenced batch leaves no trace");
    commit(&*log, &new, &batch).await;
}

pub(crate) async fn a_claim_leaves_the_other_partitions_alone(world: &mut impl World) {
    let log = world.log();
    let mut leases = Vec::new();
    for partition in (0..log.partitions()).map(PartitionId) {
        leases.push(claim(&*log, partition).await);
    }
    claim(&*log, FIRST).await;
    for lease in &leases[1..] {
        commit(&*log, lease, &Writer::of(lease.partition).some(1)).await;
    }
}

pub(crate) async fn a_claim_says_whether_the_one_before_may_still_act(world: &mut impl World) {
    assert_eq!(claim(&*world.log(), FIRST).await.predecessor, Predecessor::Dead, "nobody was before");
    assert_eq!(claim(&*world.log(), FIRST).await.predecessor, Predecessor::MaybeAlive, "in the same process");
    world.restart();
    assert_eq!(claim(&*world.log(), FIRST).await.predecessor, Predecessor::Dead, "the process has ended");
}

pub(crate) async fn a_partition_that_does_not_exist_is_refused(world: &mut impl World) {
    let log = world.log();
    let beyond = PartitionId(log.partitions());
    let text = format!("partition {beyond}");
    let error = log.claim(beyond, node("n1")).await.expect_err("refused");
    assert!(error.to_string().contains(&text), "{error}");
    let error = log.tail(beyond, Offset(0)).next().await.expect("an answer").expect_err("refused");
    assert!(error.to_string().contains(&text), "{error}");
    let error = log.bounds(beyond).await.expect_err("refused");
    assert!(error.to_string().contains(&text), "{error}");

    let lease = claim(&*log, last(&*log)).await;
    let mut batch = Writer::default().some(1);
    batch.forwards = vec![forward(beyond, "c")];
    match log.commit(&lease, &batch).await {
        CommitOutcome::Rejected { event: None, reason } => assert!(reason.contains(&text), "{reason}"),
        other => panic!("not rejected but {other:?}"),
    }
}
