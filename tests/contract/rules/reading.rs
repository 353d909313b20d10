//! What readers see.

use futures::{FutureExt, StreamExt};
use reenact_events::{LogError, Offset};

use crate::{
    support::{FIRST, Writer, all, claim, commit, replay, take},
    worlds::World,
};

pub(crate) async fn a_replay_ends_exactly_with_the_claim(world: &mut impl World) {
    let (log, mut writer) = (world.log(), Writer::default());
    let old = claim(&*log, FIRST).await;
    assert_eq!(replay(&*log, &old, Offset(0)).await.len(), 1);
    for events in [1, 3, 700] {
        commit(&*log, &old, &writer.some(events)).await;
    }
    let new = claim(&*log, FIRST).await;
    let before = all(&*log, FIRST).await;
    commit(&*log, &new, &writer.some(2)).await;

    let replayed = replay(&*log, &new, Offset(0)).await;
    assert_eq!(replayed.last().map(|last| last.offset), Some(new.claim_offset()));
    assert_eq!(replayed, before);
}

pub(crate) async fn a_replay_starts_at_the_position(world: &mut impl World) {
    let (log, mut writer) = (world.log(), Writer::default());
    let old = claim(&*log, FIRST).await;
    let committed = commit(&*log, &old, &writer.some(4)).await;
    let lease = claim(&*log, FIRST).await;
    let replayed = replay(&*log, &lease, committed.offsets[2]).await;
    let offsets: Vec<Offset> = replayed.iter().map(|recorded| recorded.offset).collect();
    assert_eq!(offsets, [committed.offsets[2], committed.offsets[3], lease.claim_offset()]);
    // A position behind a batch may be one that was never used.
    let replayed = replay(&*log, &lease, committed.offsets[3].next()).await;
    assert_eq!(replayed.len(), 1);
    assert!(replay(&*log, &lease, lease.claim_offset().next()).await.is_empty());
}

pub(crate) async fn a_fence_ends_a_replay(world: &mut impl World) {
    let (log, mut writer) = (world.log(), Writer::default());
    let old = claim(&*log, FIRST).await;
    commit(&*log, &old, &writer.some(50)).await;
    let lease = claim(&*log, FIRST).await;
    let mut running = log.replay(&lease, Offset(0));
    take(&mut running, 3).await;
    claim(&*log, FIRST).await;
    let later = log.replay(&lease, Offset(0));
    for mut replay in [running, later] {
        let end = loop {
            match replay.next().await {
                Some(Ok(recorded)) => assert!(recorded.offset < lease.claim_offset(), "it looks complete"),
                other => break other,
            }
        };
        assert!(matches!(end, Some(Err(LogError::Fenced { partition: FIRST }))), "{end:?}");
        assert!(replay.next().await.is_none());
    }
}

pub(crate) async fn a_position_outside_the_log_is_an_error(world: &mut impl World) {
    let log = world.log();
    let lease = claim(&*log, FIRST).await;
    let (low, next) = log.bounds(FIRST).await.expect("has bounds");
    assert_eq!(low, lease.claim_offset());
    let wanted = next.next();
    for mut stream in [log.replay(&lease, wanted), log.tail(FIRST, wanted)] {
        match stream.next().await {
            Some(Err(LogError::OutOfRange { partition: FIRST, wanted: said, .. })) => assert_eq!(said, wanted),
            other => panic!("{other:?}"),
        }
        assert!(stream.next().await.is_none());
    }
}

pub(crate) async fn a_tail_delivers_what_is_there_and_what_comes(world: &mut impl World) {
    let (log, mut writer) = (world.log(), Writer::default());
    let mut tail = log.tail(FIRST, Offset(0));
    assert!(tail.next().now_or_never().is_none(), "nothing is there yet");
    let lease = claim(&*log, FIRST).await;
    let mut committed = commit(&*log, &lease, &writer.some(600)).await;
    let mut seen = take(&mut tail, 601).await;
    assert!(tail.next().now_or_never().is_none(), "nothing else is there yet");
    let mut more = commit(&*log, &lease, &writer.some(2)).await;
    seen.extend(take(&mut tail, 2).await);

    committed.offsets.append(&mut more.offsets);
    let offsets: Vec<Offset> = seen[1..].iter().map(|recorded| recorded.offset).collect();
    assert_eq!(offsets, committed.offsets);
}

pub(crate) async fn several_tails_see_the_same(world: &mut impl World) {
    let (log, mut writer) = (world.log(), Writer::default());
    let lease = claim(&*log, FIRST).await;
    let start = lease.claim_offset().next();
    let (mut one, mut two) = (log.tail(FIRST, start), log.tail(FIRST, start));
    let batch = writer.some(3);
    let ((), seen, also) = futures::join!(
        async {
            commit(&*log, &lease, &batch).await;
        },
        take(&mut one, 3),
        take(&mut two, 3),
    );
    assert_eq!(seen, also);
    let mut late = log.tail(FIRST, seen[1].offset);
    assert_eq!(take(&mut late, 2).await, seen[1..]);
}

pub(crate) async fn a_tail_goes_on_across_a_claim(world: &mut impl World) {
    let (log, mut writer) = (world.log(), Writer::default());
    let old = claim(&*log, FIRST).await;
    let mut tail = log.tail(FIRST, Offset(0));
    commit(&*log, &old, &writer.some(1)).await;
    let new = claim(&*log, FIRST).await;
    commit(&*log, &new, &writer.some(1)).await;
    let terms: Vec<_> = take(&mut tail, 4).await.iter().map(|recorded| recorded.term).collect();
    assert_eq!(terms, [old.term, old.term, new.term, new.term]);
}
