//! Who comes next: the highest priority first, and within it users in turn, by deficit round robin with a quantum of
//! one run.
//!
//! A user who is served goes to the end of the turns, and so does one who comes new. Who cannot be served, because as
//! many of the user's runs are at work as may be or because the provider has no room, keeps the place and is first
//! when there is room. A user's own runs of one priority and provider keep the order in which they were accepted.
//!
//! Whatever stands in line, finding and serving the next one looks at one user of each priority and provider.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use reenact_events::{PartitionId, Timestamp};

use super::{Place, Ticket, User};

/// Runs that could take each other's slot.
type Kind = (Reverse<u32>, Arc<str>);
/// Acceptance, then arrival.
type Age = (Timestamp, u64);

#[derive(Debug, Default)]
pub(super) struct Line {
    places: BTreeMap<Place, (Ticket, Age)>,
    users: BTreeMap<User, Waiting>,
    /// Users that may be served, by turn.
    turns: BTreeMap<Kind, BTreeSet<(u64, User)>>,
    next_turn: u64,
    next_arrival: u64,
}

#[derive(Debug)]
struct Waiting {
    turn: u64,
    may: bool,
    runs: BTreeMap<Kind, BTreeMap<Age, Place>>,
}

fn kind(ticket: &Ticket) -> Kind {
    (Reverse(ticket.priority), ticket.provider.clone())
}

impl Line {
    /// Joins the line; `may` is whether the user may be served now.
    pub(super) fn stand(&mut self, place: Place, ticket: Ticket, may: bool) {
        if self.places.contains_key(&place) {
            return;
        }
        let (user, kind) = (ticket.user.clone(), kind(&ticket));
        let age = (ticket.queued_at, self.next_arrival);
        self.next_arrival += 1;
        let next_turn = &mut self.next_turn;
        let waiting = self.users.entry(user.clone()).or_insert_with(|| {
            *next_turn += 1;
            Waiting { turn: *next_turn, may, runs: BTreeMap::new() }
        });
        waiting.runs.entry(kind.clone()).or_default().insert(age, place.clone());
        if waiting.may {
            self.turns.entry(kind).or_default().insert((waiting.turn, user));
        }
        self.places.insert(place, (ticket, age));
    }

    /// The next one of whom the provider is not `full`.
    pub(super) fn next(&self, full: impl Fn(&Arc<str>) -> bool) -> Option<&Place> {
        let open = self.turns.iter().filter(|((_, provider), _)| !full(provider));
        let firsts = open.filter_map(|(kind, users)| {
            let (turn, user) = users.first()?;
            let (age, place) = self.users.get(user)?.runs.get(kind)?.first_key_value()?;
            Some(((kind.0, *turn, *age), place))
        });
        firsts.min_by_key(|(order, _)| *order).map(|(_, place)| place)
    }

    /// Takes it out of the line; its user had a turn.
    pub(super) fn serve(&mut self, place: &Place) -> Option<Ticket> {
        let ticket = self.leave(place)?;
        self.next_turn += 1;
        let turn = self.next_turn;
        self.relist(&ticket.user, |waiting| waiting.turn = turn);
        Some(ticket)
    }

    /// Takes it out of the line.
    pub(super) fn leave(&mut self, place: &Place) -> Option<Ticket> {
        let (ticket, age) = self.places.remove(place)?;
        let kind = kind(&ticket);
        let waiting = self.users.get_mut(&ticket.user)?;
        if let Some(runs) = waiting.runs.get_mut(&kind) {
            runs.remove(&age);
            if runs.is_empty() {
                waiting.runs.remove(&kind);
                unlist(&mut self.turns, &kind, &(waiting.turn, ticket.user.clone()));
            }
        }
        if waiting.runs.is_empty() {
            self.users.remove(&ticket.user);
        }
        Some(ticket)
    }

    /// Whether the user may be served.
    pub(super) fn list(&mut self, user: &User, may: bool) {
        if self.users.get(user).is_some_and(|waiting| waiting.may != may) {
            self.relist(user, |waiting| waiting.may = may);
        }
    }

    pub(super) fn forget(&mut self, partition: PartitionId) {
        let gone: Vec<_> = self.places.keys().filter(|(of, _)| *of == partition).cloned().collect();
        for place in gone {
            self.leave(&place);
        }
    }

    fn relist(&mut self, user: &User, change: impl FnOnce(&mut Waiting)) {
        let Some(waiting) = self.users.get_mut(user) else { return };
        for kind in waiting.runs.keys() {
            unlist(&mut self.turns, kind, &(waiting.turn, user.clone()));
        }
        change(waiting);
        if waiting.may {
            for kind in waiting.runs.keys() {
                self.turns.entry(kind.clone()).or_default().insert((waiting.turn, user.clone()));
            }
        }
    }
}

fn unlist(turns: &mut BTreeMap<Kind, BTreeSet<(u64, User)>>, kind: &Kind, of: &(u64, User)) {
    if let Some(users) = turns.get_mut(kind) {
        users.remove(of);
        if users.is_empty() {
            turns.remove(kind);
        }
    }
}
