//! What a restart keeps.

use reenact_events::PartitionId;

use crate::{
    support::{Writer, all, claim, commit, forward, names, take},
    worlds::World,
};

pub(crate) async fn everything_survives_a_restart(world: &mut impl World) {
    let log = world.log();
    let (id, partitions) = (log.log_id(), log.partitions());
    let mut before = Vec::new();
    for partition in (0..partitions).map(PartitionId) {
        let (lease, mut writer) = (claim(&*log, partition).await, Writer::of(partition));
        log.publish(vec![forward(partition, "c1"), forward(partition, "c2")]).await.expect("publishes");
        let seen = take(&mut log.commands(&lease), 1).await;
        let mut batch = writer.some(3);
        batch.next_command = Some(seen[0].offset.next());
        commit(&*log, &lease, &batch).await;
        before.push((lease, all(&*log, partition).await, log.bounds(partition).await.expect("has bounds")));
    }
    drop(log);
    world.restart();
    let log = world.log();
    assert_eq!((log.log_id(), log.partitions()), (id, partitions));
    for (lease, events, bounds) in before {
        let partition = lease.partition;
        assert_eq!(all(&*log, partition).await, events);
        assert_eq!(log.bounds(partition).await.expect("has bounds"), bounds);
        let lease = claim(&*log, partition).await;
        assert!(lease.claim_offset() >= bounds.1);
        assert_eq!(names(&take(&mut log.commands(&lease), 1).await), ["c2"]);
    }
}
