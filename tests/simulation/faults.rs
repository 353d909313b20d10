//! What goes wrong in a world, drawn from its seed.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reenact_events::{
    Batch, PartitionId,
    memory_log::{Fault, Faults, Operation},
};

/// A source of chance that clones of a world's parts share.
#[derive(Clone)]
pub(crate) struct Dice(Arc<Mutex<ChaCha8Rng>>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(ChaCha8Rng::seed_from_u64(seed))))
    }

    /// Its own source, so that the order in which parts draw does not matter between them.
    pub(crate) fn child(&self) -> Self {
        Self::new(self.0.lock().expect("dice").next_u64())
    }

    pub(crate) fn below(&self, limit: u64) -> u64 {
        self.0.lock().expect("dice").random_range(0..limit.max(1))
    }

    /// True in `per_mille` of a thousand throws.
    pub(crate) fn hits(&self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    pub(crate) fn pick<'a, T>(&self, of: &'a [T]) -> &'a T {
        &of[usize::try_from(self.below(of.len() as u64)).expect("small")]
    }

    pub(crate) fn pause(&self, up_to_ms: u64) -> Duration {
        Duration::from_millis(self.below(up_to_ms + 1))
    }
}

/// The faults of a world's log.
pub(crate) struct Weather {
    dice: Dice,
    /// How often a commit meets a fault, per mille.
    pub(crate) rough_per_mille: u64,
    pub(crate) calm: AtomicBool,
    pub(crate) crashed: tokio::sync::Notify,
    pub(crate) faults: std::sync::atomic::AtomicU64,
    /// How many snapshots were read to their end.
    pub(crate) snapshots_read: std::sync::atomic::AtomicU64,
}

impl Weather {
    pub(crate) fn new(dice: Dice, rough_per_mille: u64) -> Self {
        Self {
            dice,
            rough_per_mille,
            calm: AtomicBool::new(false),
            crashed: tokio::sync::Notify::new(),
            faults: std::sync::atomic::AtomicU64::new(0),
            snapshots_read: std::sync::atomic::AtomicU64::new(0),
        }
    }
}

impl Faults for Weather {
    fn on_commit(&self, _: PartitionId, _: &Batch) -> Option<Fault> {
        if self.calm.load(Ordering::SeqCst) || !self.dice.hits(self.rough_per_mille) {
            return None;
        }
        self.faults.fetch_add(1, Ordering::SeqCst);
        Some(match self.dice.below(8) {
            0 => Fault::UnknownApplied,
            1 => Fault::UnknownLost,
            2 => Fault::UnknownLate { operations: 1 + u32::try_from(self.dice.below(3)).expect("small") },
            3 => Fault::Fenced,
            4 => Fault::CrashBefore,
            5 => Fault::CrashAfter,
            _ => Fault::Resend,
        })
    }

    fn delay(&self, operation: Operation) -> Option<BoxFuture<'static, ()>> {
        let wait = match operation {
            Operation::Tail(_) => return None,
            _ => self.dice.pause(5),
        };
        Some(Box::pin(tokio::time::sleep(wait)))
    }

    fn unavailable(&self, operation: Operation) -> Option<Arc<str>> {
        let rough = !self.calm.load(Ordering::SeqCst) && self.dice.hits(self.rough_per_mille);
        let may = matches!(operation, Operation::Claim(_) | Operation::Resolve(_) | Operation::Replay(_));
        (rough && may).then(|| "simulated outage".into())
    }

    fn crashed(&self) {
        self.crashed.notify_one();
    }
}
