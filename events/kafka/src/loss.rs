//! What a partition has lost, and taking it as it is.
//!
//! Accepting is a claim that says so, written by whoever accepts, in one transaction with everything that tells of a
//! loss: the group's note and cursor. So it happened or it did not, and the next owner meets a log like any other.
//! It needs no member of the group: whoever has the partition's transactional id may write, and takes it from an
//! owner that does not know yet.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rdkafka::consumer::Consumer;
use reenact_events::{Lease, LogError, NodeId, PartitionId, event::Loss};

use crate::{
    KafkaLog,
    log::blocking,
    namesake::{MARGIN, PAUSE, host},
    reader,
    writer::{self, Accept},
};

/// What an owner commits is noted in the group a moment before it can be read.
const SETTLE: Duration = Duration::from_secs(1);

impl KafkaLog {
    /// What is gone of a partition, as far as the log itself can tell: nothing when it can be claimed.
    ///
    /// # Errors
    /// When it cannot be read, or is damaged in a way that cannot be accepted.
    pub async fn lost(&self, partition: PartitionId) -> Result<Vec<Loss>, LogError> {
        self.check(partition)?;
        let common = Arc::new(self.apart());
        blocking(move || {
            if writer::lost(common.clone(), partition)?.is_empty() {
                return Ok(Vec::new());
            }
            thread::sleep(SETTLE);
            writer::lost(common, partition)
        })
        .await
    }

    /// The members of the group, as they call themselves. One that died stays a member until its session times out,
    /// so they are waited for as long. Those of the newer protocol are not told.
    ///
    /// # Errors
    /// When the group cannot be asked.
    pub async fn members(&self) -> Result<Vec<String>, LogError> {
        let common = Arc::new(self.apart());
        blocking(move || {
            let consumer = reader::consumer(&common.options.reader(), &common.trouble)?;
            let deadline = Instant::now() + common.options.session_timeout() + MARGIN;
            loop {
                let asked = reader::patiently(|| consumer.fetch_group_list(Some(&common.options.prefix), reader::ASK));
                let groups = asked.map_err(|error| reader::unavailable("the group cannot be asked", &error))?;
                let members = groups.groups().iter().flat_map(|group| group.members());
                let members: Vec<_> =
                    members.map(|member| format!("{} at {}", member.client_id(), host(member))).collect();
                if members.is_empty() || Instant::now() > deadline {
                    return Ok(members);
                }
                thread::sleep(PAUSE);
            }
        })
        .await
    }

    /// Accepts what [`KafkaLog::lost`] told, and what a state has seen that the log does not have. With the latter
    /// alone the commands that wait are dead letters: the cursor may have been lost too, so they may have been taken.
    ///
    /// # Errors
    /// When the log tells something else by now, or cannot be written.
    pub async fn accept(
        &self,
        partition: PartitionId,
        node: NodeId,
        told: Vec<Loss>,
        seen: Vec<Loss>,
    ) -> Result<Lease, LogError> {
        self.check(partition)?;
        let common = Arc::new(self.apart());
        blocking(move || {
            let mut config = common.options.reader();
            config.set("group.id", &common.options.prefix);
            let outsider = reader::consumer(&config, &common.trouble)?;
            let unknown = || LogError::Unavailable { reason: "the group gives no metadata".into() };
            common.ownership.rebalanced(outsider.group_metadata().ok_or_else(unknown)?, &[partition]);
            writer::accept(common, partition, node, &Accept { told, seen })
        })
        .await
    }
}
