//! Who may be at work: a bounded number of runs in the whole node, of each user and of each provider; the others
//! wait as state.
//!
//! Pure bookkeeping under one lock. Who comes next is the line's to say, in `line`. Taking and giving back are
//! idempotent, so a restarted actor cannot leak a slot, and a partition that is lost gives back all of its own.

mod line;
mod pace;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use line::Line;
use pace::Pace;
use reenact_events::{PartitionId, RunId, SessionId, Timestamp, UserId, agent::AgentSpec};

/// A run, and whose node's part it is of.
type Place = (PartitionId, RunId);
/// Runs that nobody in particular asked for count as one user's.
type User = Option<UserId>;

/// How many may be at work, and how many may wait. Zero means no bound.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bounds {
    /// Runs at work in the node.
    pub node: usize,
    /// Runs at work of each user.
    pub user: usize,
    /// Runs at work of each provider; one that is not named has no bound.
    pub providers: BTreeMap<Arc<str>, usize>,
    /// Runs that wait.
    pub waiting: usize,
}

/// What decides when a run's turn comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The run's session, which begins it.
    pub session: SessionId,
    /// Whose run it is.
    pub user: Option<UserId>,
    /// Whose model it asks.
    pub provider: Arc<str>,
    /// Higher ones come first.
    pub priority: u32,
    /// Earlier ones of a user come first.
    pub queued_at: Timestamp,
}

impl Ticket {
    /// That of a run of an agent.
    #[must_use]
    pub fn of(session: &SessionId, user: Option<&UserId>, agent: &AgentSpec, queued_at: Timestamp) -> Self {
        Self {
            session: session.clone(),
            user: user.cloned(),
            provider: agent.model.provider.as_str().into(),
            priority: agent.queue.priority,
            queued_at,
        }
    }
}

/// No more may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// How many do.
    pub waiting: usize,
    /// In how many seconds those will have had their turn, at the pace of late; at least one.
    pub retry_after_s: u32,
}

/// See the module.
#[derive(Debug)]
pub struct Admission {
    bounds: Bounds,
    closed: bool,
    at_work: BTreeMap<Place, (User, Arc<str>)>,
    of_user: BTreeMap<User, usize>,
    of_provider: BTreeMap<Arc<str>, usize>,
    waiting: BTreeSet<Place>,
    line: Line,
    pace: Pace,
}

fn is_full(count: usize, bound: usize) -> bool {
    bound > 0 && count >= bound
}

impl Admission {
    /// Nobody is there yet.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            closed: false,
            at_work: BTreeMap::new(),
            of_user: BTreeMap::new(),
            of_provider: BTreeMap::new(),
            waiting: BTreeSet::new(),
            line: Line::default(),
            pace: Pace::default(),
        }
    }

    /// Takes a slot for a run that is not in line; only when nobody who is could have it.
    pub fn try_begin(&mut self, partition: PartitionId, run: &RunId, ticket: &Ticket) -> bool {
        let free = self.next().is_none()
            && !self.is_full()
            && !self.is_user_full(&ticket.user)
            && !self.is_provider_full(&ticket.provider);
        if free {
            self.force(partition, run, ticket);
        }
        free
    }

    /// Takes a place among those that wait.
    ///
    /// # Errors
    /// When as many wait as may.
    pub fn try_wait(&mut self, partition: PartitionId, run: &RunId, now: Timestamp) -> Result<(), Full> {
        let is_there = self.waiting.contains(&(partition, run.clone()));
        let waiting = self.waiting.len();
        if !is_there && is_full(waiting, self.bounds.waiting) {
            return Err(Full { waiting, retry_after_s: self.pace.seconds_for(waiting, now) });
        }
        if waiting == 0 {
            self.pace.begin(now);
        }
        self.found_waiting(partition, run);
        Ok(())
    }

    /// Gives a slot to a run that is at work already, whatever the bounds say.
    pub fn force(&mut self, partition: PartitionId, run: &RunId, ticket: &Ticket) {
        let of = (ticket.user.clone(), ticket.provider.clone());
        if self.at_work.insert((partition, run.clone()), of).is_none() {
            *self.of_user.entry(ticket.user.clone()).or_default() += 1;
            *self.of_provider.entry(ticket.provider.clone()).or_default() += 1;
            self.list_user(&ticket.user);
        }
    }

    /// Counts a waiting run that was found at a restart, however many there are.
    pub fn found_waiting(&mut self, partition: PartitionId, run: &RunId) {
        self.waiting.insert((partition, run.clone()));
    }

    /// The run has its turn: it does not wait any more.
    pub fn begun(&mut self, partition: PartitionId, run: &RunId, now: Timestamp) {
        if self.waiting.remove(&(partition, run.clone())) {
            self.pace.turn(now);
        }
    }

    /// The run does not work, though it may again.
    pub fn give_back(&mut self, partition: PartitionId, run: &RunId) {
        self.free(&(partition, run.clone()));
    }

    /// The run does not work or wait any more.
    pub fn release(&mut self, partition: PartitionId, run: &RunId) {
        let place = (partition, run.clone());
        self.free(&place);
        self.waiting.remove(&place);
        self.line.leave(&place);
    }

    /// The run wants a slot. Harmless when it has one, or stands in line already.
    pub fn stand_in_line(&mut self, partition: PartitionId, run: &RunId, ticket: Ticket) {
        let place = (partition, run.clone());
        if !self.at_work.contains_key(&place) {
            let may = !self.is_user_full(&ticket.user);
            self.line.stand(place, ticket, may);
        }
    }

    /// Gives a slot to whoever is next, if there is one for anybody.
    pub fn call(&mut self) -> Option<(PartitionId, SessionId, RunId)> {
        let place = self.next()?.clone();
        let ticket = self.line.serve(&place)?;
        let (partition, run) = place;
        self.force(partition, &run, &ticket);
        Some((partition, ticket.session, run))
    }

    /// Whether the run has a slot.
    #[must_use]
    pub fn holds(&self, partition: PartitionId, run: &RunId) -> bool {
        self.at_work.contains_key(&(partition, run.clone()))
    }

    /// Everything that the partition held is given back.
    pub fn forget(&mut self, partition: PartitionId) {
        let held: Vec<_> = self.at_work.keys().filter(|(of, _)| *of == partition).cloned().collect();
        held.iter().for_each(|place| self.free(place));
        self.waiting.retain(|(of, _)| *of != partition);
        self.line.forget(partition);
    }

    /// Nothing begins any more.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// How many slots are taken.
    #[must_use]
    pub fn at_work(&self) -> usize {
        self.at_work.len()
    }

    /// How many runs wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn next(&self) -> Option<&Place> {
        if self.is_full() { None } else { self.line.next(|provider| self.is_provider_full(provider)) }
    }

    fn is_full(&self) -> bool {
        self.closed || is_full(self.at_work.len(), self.bounds.node)
    }

    fn is_user_full(&self, user: &User) -> bool {
        is_full(self.of_user.get(user).copied().unwrap_or(0), self.bounds.user)
    }

    fn is_provider_full(&self, provider: &Arc<str>) -> bool {
        let bound = self.bounds.providers.get(provider).copied().unwrap_or(0);
        is_full(self.of_provider.get(provider).copied().unwrap_or(0), bound)
    }

    fn list_user(&mut self, user: &User) {
        let may = !self.is_user_full(user);
        self.line.list(user, may);
    }

    fn free(&mut self, place: &Place) {
        let Some((user, provider)) = self.at_work.remove(place) else { return };
        lower(&mut self.of_user, &user);
        lower(&mut self.of_provider, &provider);
        self.list_user(&user);
    }
}

/// One less; what nobody has is not kept.
fn lower<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
