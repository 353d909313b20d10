//! Commands of the log are decided side by side and settled in order, so that the journaled cursor never
//! passes one that is not settled, and a command that was settled is never met again.
//!
//! Pure. What settles a command waits here until everything before it is settled. When one must be asked
//! again, nothing waits behind it meanwhile: what is out of turn is refused, and asked again after it.

use std::collections::{BTreeMap, BTreeSet};

use reenact_events::Offset;

/// See the module. `T` is what settles a command.
#[derive(Debug)]
pub(super) struct Turns<T> {
    asked: BTreeSet<Offset>,
    held: BTreeMap<Offset, T>,
    barred: bool,
}

/// What becomes of something that settles a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn<T> {
    /// Its turn has come, and with it that of others: in order.
    Come(Vec<T>),
    /// It waits.
    Waits,
    /// The command is asked again later, or is settled already.
    Refused(T),
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { asked: BTreeSet::new(), held: BTreeMap::new(), barred: false }
    }
}

impl<T> Turns<T> {
    /// A command is being decided. Each is told before all that follow it; again is harmless.
    pub(super) fn expect(&mut self, offset: Offset) {
        self.asked.insert(offset);
    }

    /// Something settles the command at `offset`. Who is not there any more (`is_left`) settles nothing.
    pub(super) fn offer(&mut self, offset: Offset, item: T, is_left: impl Fn(&T) -> bool) -> Turn<T> {
        let is_next = self.asked.first() == Some(&offset);
        if !self.asked.contains(&offset) || (self.barred && !is_next) {
            return Turn::Refused(item);
        }
        self.held.insert(offset, item);
        if !is_next {
            return Turn::Waits;
        }
        let mut come = Vec::new();
        while let Some(next) = self.asked.first().copied()
            && let Some(item) = self.held.remove(&next)
            && !is_left(&item)
        {
            self.asked.remove(&next);
            come.push(item);
        }
        Turn::Come(come)
    }

    /// From here on nothing waits: what waited is refused.
    pub(super) fn bar(&mut self) -> Vec<T> {
        self.barred = true;
        std::mem::take(&mut self.held).into_values().collect()
    }

    /// The commands that are not settled; they may wait again.
    pub(super) fn resume(&mut self) -> BTreeSet<Offset> {
        self.barred = false;
        self.asked.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small generator: the same numbers every time.
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % limit
        }
    }

    /// Commands in any order of deciding, some of whose deciders leave, some barred: what comes is in order,
    /// without a gap, and everything comes in the end.
    #[test]
    fn whatever_is_decided_when_commands_are_settled_in_order_and_once() {
        for seed in 0..500 {
            let mut chance = Chance(seed);
            let mut turns = Turns::default();
            let all: Vec<Offset> = (0..20).map(|number| Offset(number * 3)).collect();
            all.iter().for_each(|offset| turns.expect(*offset));
            let (mut open, mut settled) = (all.clone(), Vec::new());
            let mut barred = false;
            while settled.len() < all.len() {
                if chance.below(10) == 0 {
                    barred = !barred;
                    let refused =
                        if barred { turns.bar() } else { turns.resume().into_iter().map(|o| (o, false)).collect() };
                    open.extend(refused.into_iter().map(|(offset, _): (Offset, bool)| offset));
                    open.sort_unstable();
                    open.dedup();
                }
                if open.is_empty() {
                    open = turns.resume().into_iter().collect();
                    barred = false;
                }
                let at = usize::try_from(chance.below(open.len() as u64)).expect("small");
                let offset = open.swap_remove(at);
                let left = chance.below(8) == 0;
                match turns.offer(offset, (offset, left), |(_, left)| *left) {
                    Turn::Come(come) => settled.extend(come.into_iter().map(|(offset, _)| offset)),
                    Turn::Waits => assert!(!barred, "nothing waits behind a command that is asked again"),
                    Turn::Refused((offset, _)) => {
                        assert!(barred || settled.contains(&offset), "refused without a reason");
                    }
                }
                assert_eq!(settled, all[..settled.len()], "seed {seed}");
            }
            assert!(turns.resume().is_empty());
        }
    }

    #[test]
    fn a_settled_command_is_not_settled_again() {
        let mut turns = Turns::default();
        turns.expect(Offset(1));
        assert_eq!(turns.offer(Offset(1), "first", |_| false), Turn::Come(vec!["first"]));
        assert_eq!(turns.offer(Offset(1), "again", |_| false), Turn::Refused("again"));
    }
}
