//! What a commit promises.

use std::collections::BTreeSet;

use futures::future::join_all;
use reenact_events::{CommitOutcome, Offset, PartitionId, Recorded, Term, invariants::Watch, log::EVENT_BYTES_MAX};

use crate::{
    support::{FIRST, Writer, all, claim, commit, forward, last, names, take},
    worlds::World,
};

pub(crate) async fn a_committed_batch_reads_back_as_it_was_answered(world: &mut impl World) {
    let (log, mut writer) = (world.log(), Writer::default());
    let lease = claim(&*log, FIRST).await;
    let events = vec![writer.full_event("s", "r"), writer.event("t", ""), writer.event("s", "𝄞")];
    let batch = writer.batch(events);
    let committed = commit(&*log, &lease, &batch).await;
    let expected: Vec<Recorded> = (0..batch.events.len())
        .map(|place| Recorded {
            partition: FIRST,
            offset: committed.offsets[place],
            term: lease.term,
            batch: batch.id,
            chain: committed.chain[place],
            event: batch.events[place].clone(),
            stored: None,
        })
        .collect();
    let mut read = all(&*log, FIRST).await.split_off(1);
    // What is stored may be something else than what was written, which is what comes back.
    read.iter_mut().for_each(|recorded| recorded.stored = None);
    assert_eq!(read, expected);
}

fn oversized(writer: &mut Writer) -> reenact_events::Batch {
    let mut events = vec![writer.event("x", "a"), writer.event("x", "b"), writer.event("x", "c")];
    events[1].data = "x".repeat(EVENT_BYTES_MAX + 1).into();
    writer.batch(events)
}

pub(crate) async fn an_oversized_event_is_rejected_by_its_place(world: &mut impl World) {
    let (log, mut writer) = (world.log(), Writer::default());
    let lease = claim(&*log, FIRST).await;
    log.publish(vec![forward(FIRST, "waiting")]).await.expect("publishes");
    let mut batch = oversized(&mut writer);
    batch.forwards = vec![forward(FIRST, "from a rejected batch")];
    batch.next_command = Some(Offset(u64::MAX >> 1));
    let before = all(&*log, FIRST).await;
    match log.commit(&lease, &batch).await {
        CommitOutcome::Rejected { event: Some(1), reason } => {
            assert!(reason.contains(&EVENT_BYTES_MAX.to_string()), "{reason}");
        }
        other => panic!("not rejected but {other:?}"),
    }
    assert_eq!(all(&*log, FIRST).await, before, "all or nothing");
    assert_eq!(log.resolve(&lease, batch.id).await.expect("resolves"), None);

    let mut largest = writer.event("y", "");
    largest.data = (largest.data.to_string() + &" ".repeat(EVENT_BYTES_MAX - largest.data.len())).into();
    let batch = writer.batch(vec![largest]);
    commit(&*log, &lease, &batch).await;

    let lease = claim(&*log, FIRST).await;
    log.publish(vec![forward(FIRST, "later")]).await.expect("publishes");
    let mut commands = log.commands(&lease);
    assert_eq!(names(&take(&mut commands, 2).await), ["waiting", "later"], "neither cursor nor forward was taken");
}

pub(crate) async fn a_rejected_batch_harms_no_other(world: &mut impl World) {
    let log = world.log();
    let mut sent = Vec::new();
    for partition in (0..log.partitions()).map(PartitionId) {
        let (lease, mut writer) = (claim(&*log, partition).await, Writer::of(partition));
        for number in 0..20 {
            let bad = number % 7 == 3;
            let batch =
                if bad { oversized(&mut Writer::named(&format!("bad-{partition}-{number}-"))) } else { writer.some(3) };
            sent.push((lease.clone(), batch, bad));
        }
    }
    let outcomes = join_all(sent.iter().map(|(lease, batch, _)| log.commit(lease, batch))).await;
    for ((lease, batch, bad), outcome) in sent.iter().zip(outcomes) {
        assert_eq!(matches!(outcome, CommitOutcome::Rejected { .. }), *bad, "{outcome:?}");
        let there = log.resolve(lease, batch.id).await.expect("resolves");
        assert_eq!(there.is_some(), !*bad);
    }
    for partition in (0..log.partitions()).map(PartitionId) {
        let mut watch = Watch::default();
        all(&*log, partition).await.iter().for_each(|recorded| watch.see(recorded).expect("no invariant is broken"));
    }
}

pub(crate) async fn offsets_have_gaps_and_are_never_used_again(world: &mut impl World) {
    let mut writer = Writer::default();
    let mut used = BTreeSet::new();
    for _ in 0..2 {
        let log = world.log();
        let lease = claim(&*log, FIRST).await;
        assert!(used.insert(lease.claim_offset()));
        for events in [2, 1] {
            let next = log.bounds(FIRST).await.expect("has bounds").1;
            let committed = commit(&*log, &lease, &writer.some(events)).await;
            for offset in committed.offsets {
                assert!(offset >= next, "{offset} is below {next}");
                let before = used.last().copied();
                assert!(before.is_none_or(|before| before < offset), "{offset} after {before:?}");
                used.insert(offset);
            }
        }
        drop(log);
        world.restart();
    }
    let used: Vec<Offset> = used.into_iter().collect();
    let gaps = used.windows(2).filter(|pair| pair[1] > pair[0].next()).count();
    assert_eq!(gaps, 5, "one after each batch: {used:?}");
}

pub(crate) async fn a_batch_without_events_may_move_the_cursor(world: &mut impl World) {
    let (log, mut writer) = (world.log(), Writer::default());
    let lease = claim(&*log, FIRST).await;
    log.publish(vec![forward(FIRST, "c1"), forward(FIRST, "c2")]).await.expect("publishes");
    let first = take(&mut log.commands(&lease), 1).await.remove(0);
    let mut batch = writer.batch(Vec::new());
    batch.next_command = Some(first.offset.next());
    assert!(commit(&*log, &lease, &batch).await.offsets.is_empty());
    let lease = claim(&*log, FIRST).await;
    assert_eq!(names(&take(&mut log.commands(&lease), 1).await), ["c2"]);
}

pub(crate) async fn every_invariant_holds(world: &mut impl World) {
    let partitions: Vec<PartitionId> = (0..world.log().partitions()).map(PartitionId).collect();
    let mut writers: Vec<Writer> = partitions.iter().map(|partition| Writer::of(*partition)).collect();
    for round in 0..3 {
        let log = world.log();
        for (partition, writer) in partitions.iter().zip(&mut writers) {
            let lease = claim(&*log, *partition).await;
            let run = writer.full_event("with runs", &format!("{partition}-{round}"));
            let batch = writer.batch(vec![run]);
            commit(&*log, &lease, &batch).await;
            commit(&*log, &lease, &writer.some(5)).await;
        }
        if round > 0 {
            drop(log);
            world.restart();
        }
    }
    for partition in partitions {
        let mut watch = Watch::default();
        let events = all(&*world.log(), partition).await;
        assert_eq!(events.len(), 3 * 7);
        events.iter().for_each(|recorded| watch.see(recorded).expect("no invariant is broken"));
        assert_eq!(watch.runs(), 3);
    }
}

pub(crate) async fn resolve_tells_what_was_written(world: &mut impl World) {
    let (log, mut writer) = (world.log(), Writer::default());
    let lease = claim(&*log, last(&*log)).await;
    let (written, unwritten) = (writer.some(3), writer.some(2));
    let committed = commit(&*log, &lease, &written).await;
    assert_eq!(log.resolve(&lease, written.id).await.expect("resolves"), Some(committed));
    assert_eq!(log.resolve(&lease, unwritten.id).await.expect("resolves"), None);
    let committed = commit(&*log, &lease, &unwritten).await;
    assert_eq!(log.resolve(&lease, unwritten.id).await.expect("resolves"), Some(committed));
    let mut older = lease.clone();
    older.term = Term(lease.term.0 + 1);
    assert!(log.resolve(&older, written.id).await.is_err(), "a lease that was never given");
}
