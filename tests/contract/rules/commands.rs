//! Commands take effect once: the cursor moves with the batch, and so does what it sends on.

use futures::{FutureExt, StreamExt};
use reenact_events::{Arrival, CommandRecord, LogError, PartitionId};

use crate::{
    support::{FIRST, Writer, claim, command, commit, forward, last, names, take},
    worlds::World,
};

pub(crate) async fn published_commands_arrive_in_order(world: &mut impl World) {
    let log = world.log();
    let lease = claim(&*log, last(&*log)).await;
    let mut commands = log.commands(&lease);
    assert!(commands.next().now_or_never().is_none(), "nothing is there yet");
    log.publish(vec![forward(lease.partition, "c1"), forward(lease.partition, "c2")]).await.expect("publishes");
    let mut seen = take(&mut commands, 2).await;
    assert!(commands.next().now_or_never().is_none(), "nothing else is there yet");
    log.publish(vec![forward(lease.partition, "c3")]).await.expect("publishes");
    seen.extend(take(&mut commands, 1).await);
    assert_eq!(names(&seen), ["c1", "c2", "c3"]);
    assert!(seen.windows(2).all(|pair| pair[0].offset < pair[1].offset));
    assert_eq!(seen[0].arrival, Arrival::Command(Box::new(command("c1"))));
}

pub(crate) async fn commands_go_on_from_the_cursor_after_a_claim(world: &mut impl World) {
    let (log, mut writer) = (world.log(), Writer::default());
    let old = claim(&*log, FIRST).await;
    log.publish((1..=3).map(|number| forward(FIRST, &format!("c{number}"))).collect()).await.expect("publishes");
    let seen = take(&mut log.commands(&old), 3).await;
    let mut batch = writer.some(1);
    batch.next_command = Some(seen[0].offset.next());
    commit(&*log, &old, &batch).await;
    // A batch that consumes nothing leaves the cursor where it is.
    commit(&*log, &old, &writer.some(1)).await;

    let new = claim(&*log, FIRST).await;
    assert_eq!(take(&mut log.commands(&new), 2).await, seen[1..]);
    drop(log);
    world.restart();
    let log = world.log();
    let newest = claim(&*log, FIRST).await;
    assert_eq!(take(&mut log.commands(&newest), 2).await, seen[1..]);
}

pub(crate) async fn forwards_arrive_once_with_their_batch(world: &mut impl World) {
    let log = world.log();
    let from = claim(&*log, FIRST).await;
    let to = if last(&*log) == FIRST { from.clone() } else { claim(&*log, last(&*log)).await };
    let mut writer = Writer::default();
    let mut commands = log.commands(&to);
    let mut batch = writer.some(1);
    batch.forwards = vec![forward(to.partition, "f1"), forward(to.partition, "f2")];
    commit(&*log, &from, &batch).await;
    let seen: Vec<CommandRecord> = take(&mut commands, 2).await;
    assert_eq!(names(&seen), ["f1", "f2"]);
    assert!(commands.next().now_or_never().is_none(), "once");
    if to.partition != FIRST {
        assert!(log.commands(&from).next().now_or_never().is_none(), "nowhere else");
    }
    log.publish(vec![forward(to.partition, "p")]).await.expect("publishes");
    assert_eq!(names(&take(&mut commands, 1).await), ["p"]);
}

pub(crate) async fn a_fence_ends_the_commands(world: &mut impl World) {
    let log = world.log();
    let old = claim(&*log, FIRST).await;
    let mut commands = log.commands(&old);
    assert!(commands.next().now_or_never().is_none());
    claim(&*log, FIRST).await;
    assert!(matches!(commands.next().await, Some(Err(LogError::Fenced { partition: FIRST }))));
    assert!(commands.next().await.is_none());
}

pub(crate) async fn publishing_is_all_or_nothing(world: &mut impl World) {
    let log = world.log();
    let lease = claim(&*log, FIRST).await;
    let beyond = PartitionId(log.partitions());
    let error = log.publish(vec![forward(FIRST, "good"), forward(beyond, "bad")]).await.expect_err("refused");
    assert!(error.to_string().contains(&format!("partition {beyond}")), "{error}");
    log.publish(vec![forward(FIRST, "after")]).await.expect("publishes");
    assert_eq!(names(&take(&mut log.commands(&lease), 1).await), ["after"]);
}
