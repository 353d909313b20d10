//! Who may be at work: a bounded number of runs in the whole node, the others wait as state.
//!
//! Pure bookkeeping under one lock. A slot belongs to a run, or to a session that was called and has not
//! begun its first waiting run yet. Taking and giving back are idempotent, so a restarted actor cannot leak
//! a slot, and a partition that is lost gives back all of its own.

use std::collections::{BTreeSet, VecDeque};

use reenact_events::{PartitionId, RunId, SessionId};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    Run(RunId),
    Called(SessionId),
}

/// See the module.
#[derive(Debug)]
pub struct Admission {
    slots_max: usize,
    waiting_max: usize,
    closed: bool,
    holders: BTreeSet<(PartitionId, Holder)>,
    waiting: BTreeSet<(PartitionId, RunId)>,
    line: VecDeque<(PartitionId, SessionId)>,
    in_line: BTreeSet<(PartitionId, SessionId)>,
}

impl Admission {
    /// Room for `slots_max` runs at work and `waiting_max` that wait; zero means no bound.
    #[must_use]
    pub fn new(slots_max: usize, waiting_max: usize) -> Self {
        let bound = |max| if max == 0 { usize::MAX } else { max };
        Self {
            slots_max: bound(slots_max),
            waiting_max: bound(waiting_max),
            closed: false,
            holders: BTreeSet::new(),
            waiting: BTreeSet::new(),
            line: VecDeque::new(),
            in_line: BTreeSet::new(),
        }
    }

    /// Takes a slot for a run that was not accepted yet; only when nobody is in line before it.
    pub fn try_begin(&mut self, partition: PartitionId, run: &RunId) -> bool {
        let free = !self.closed && self.line.is_empty() && self.holders.len() < self.slots_max;
        if free {
            self.holders.insert((partition, Holder::Run(run.clone())));
        }
        free
    }

    /// Takes a place among those that wait.
    ///
    /// # Errors
    /// How many wait, when that is as many as may.
    pub fn try_wait(&mut self, partition: PartitionId, run: &RunId) -> Result<(), usize> {
        if self.waiting.len() >= self.waiting_max {
            return Err(self.waiting.len());
        }
        self.waiting.insert((partition, run.clone()));
        Ok(())
    }

    /// Gives a slot to a run that is at work already: after a restart, or when it continues.
    pub fn force(&mut self, partition: PartitionId, run: &RunId) {
        self.holders.insert((partition, Holder::Run(run.clone())));
    }

    /// Counts a waiting run that was found at a restart, however many there are.
    pub fn found_waiting(&mut self, partition: PartitionId, run: &RunId) {
        self.waiting.insert((partition, run.clone()));
    }

    /// The run does not work or wait any more.
    pub fn release(&mut self, partition: PartitionId, run: &RunId) {
        self.holders.remove(&(partition, Holder::Run(run.clone())));
        self.waiting.remove(&(partition, run.clone()));
    }

    /// The session's first waiting run wants a slot.
    pub fn stand_in_line(&mut self, partition: PartitionId, session: &SessionId) {
        let place = (partition, session.clone());
        if self.in_line.insert(place.clone()) {
            self.line.push_back(place);
        }
    }

    /// Calls the next session, if there is one and a slot for it.
    pub fn call(&mut self) -> Option<(PartitionId, SessionId)> {
        if self.closed || self.holders.len() >= self.slots_max {
            return None;
        }
        let place = self.line.pop_front()?;
        self.in_line.remove(&place);
        self.holders.insert((place.0, Holder::Called(place.1.clone())));
        Some(place)
    }

    /// The called session begins `run` with the slot, or gives it back.
    pub fn answer(&mut self, partition: PartitionId, session: &SessionId, run: Option<&RunId>) {
        self.holders.remove(&(partition, Holder::Called(session.clone())));
        if let Some(run) = run {
            self.waiting.remove(&(partition, run.clone()));
            self.holders.insert((partition, Holder::Run(run.clone())));
        }
    }

    /// Whether the run has a slot.
    #[must_use]
    pub fn holds(&self, partition: PartitionId, run: &RunId) -> bool {
        self.holders.contains(&(partition, Holder::Run(run.clone())))
    }

    /// Everything that the partition held is given back.
    pub fn forget(&mut self, partition: PartitionId) {
        self.holders.retain(|(of, _)| *of != partition);
        self.waiting.retain(|(of, _)| *of != partition);
        self.line.retain(|(of, _)| *of != partition);
        self.in_line.retain(|(of, _)| *of != partition);
    }

    /// Nothing begins any more.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// How many slots are taken.
    #[must_use]
    pub fn at_work(&self) -> usize {
        self.holders.len()
    }

    /// How many runs wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: PartitionId = PartitionId(0);

    #[test]
    fn nobody_overtakes_the_line() {
        let mut admission = Admission::new(1, 10);
        let (a, b, c) = (RunId::trusted("a"), RunId::trusted("b"), RunId::trusted("c"));
        let session = SessionId::trusted("s");
        assert!(admission.try_begin(P, &a));
        assert!(!admission.try_begin(P, &b));
        admission.try_wait(P, &b).expect("room");
        admission.stand_in_line(P, &session);
        admission.release(P, &a);
        assert!(!admission.try_begin(P, &c), "b is before c");
        assert_eq!(admission.call(), Some((P, session.clone())));
        admission.answer(P, &session, Some(&b));
        assert_eq!((admission.at_work(), admission.waiting()), (1, 0));
    }

    #[test]
    fn a_full_queue_says_how_many_wait() {
        let mut admission = Admission::new(1, 1);
        admission.try_wait(P, &RunId::trusted("a")).expect("room");
        assert_eq!(admission.try_wait(P, &RunId::trusted("b")), Err(1));
    }

    #[test]
    fn a_lost_partition_gives_everything_back() {
        let mut admission = Admission::new(1, 0);
        admission.force(P, &RunId::trusted("a"));
        admission.stand_in_line(P, &SessionId::trusted("s"));
        admission.forget(P);
        assert_eq!((admission.at_work(), admission.call()), (0, None));
    }
}
