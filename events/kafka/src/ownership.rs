//! What this process owns, as the group last said, and under which membership it may write.

use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rdkafka::consumer::ConsumerGroupMetadata;
use reenact_events::{PartitionId, Term};

/// The right to write to a partition, as every transaction has to prove it.
///
/// It is taken down when the group grants the partition, never asked for at commit time: the broker checks
/// the member and not the partition, so fresh metadata would pass for one that was given away.
#[derive(Clone)]
pub(crate) struct Membership {
    pub(crate) group: Arc<ConsumerGroupMetadata>,
    /// Counts the rebalances that this process has seen.
    pub(crate) round: u64,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Ownership {
    owned: Mutex<BTreeMap<PartitionId, Holding>>,
    changed: Condvar,
    round: Mutex<u64>,
}

struct Holding {
    membership: Membership,
    /// The present lease, once it was claimed.
    term: Option<Term>,
}

impl Ownership {
    fn owned(&self) -> MutexGuard<'_, BTreeMap<PartitionId, Holding>> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The group has rebalanced: what is kept is held under the new metadata from now on, and so is what is
    /// granted.
    pub(crate) fn rebalanced(&self, group: ConsumerGroupMetadata, granted: &[PartitionId]) {
        let round = {
            let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
            *round += 1;
            *round
        };
        let membership = Membership { group: Arc::new(group), round };
        let mut owned = self.owned();
        for holding in owned.values_mut() {
            holding.membership = membership.clone();
        }
        for partition in granted {
            owned.insert(*partition, Holding { membership: membership.clone(), term: None });
        }
        self.changed.notify_all();
    }

    /// Nothing more is written to the partition from here.
    pub(crate) fn leave(&self, partition: PartitionId) {
        self.owned().remove(&partition);
        self.changed.notify_all();
    }

    /// Everything that is owned.
    pub(crate) fn all(&self) -> Vec<PartitionId> {
        self.owned().keys().copied().collect()
    }

    pub(crate) fn membership(&self, partition: PartitionId) -> Option<Membership> {
        self.owned().get(&partition).map(|holding| holding.membership.clone())
    }

    /// The membership after the next rebalance, if the partition is still owned then; `None` when it is not, or
    /// none came in time.
    pub(crate) fn newer(&self, partition: PartitionId, round: u64, wait: Duration) -> Option<Membership> {
        let old = |owned: &mut BTreeMap<PartitionId, Holding>| {
            owned.get(&partition).is_some_and(|holding| holding.membership.round <= round)
        };
        let waited = self.changed.wait_timeout_while(self.owned(), wait, old);
        let (owned, _) = waited.unwrap_or_else(PoisonError::into_inner);
        owned.get(&partition).map(|holding| holding.membership.clone()).filter(|known| known.round > round)
    }

    /// A claim has been committed.
    pub(crate) fn claimed(&self, partition: PartitionId, term: Term) {
        if let Some(holding) = self.owned().get_mut(&partition) {
            holding.term = Some(term);
        }
    }

    /// Whether this lease is the present one, as far as this process knows.
    pub(crate) fn holds(&self, partition: PartitionId, term: Term) -> bool {
        self.owned().get(&partition).is_some_and(|holding| holding.term == Some(term))
    }
}
