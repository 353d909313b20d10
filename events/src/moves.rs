//! How a run's status may move: one table for the folds, the invariant `R1`, and the picture in ARCHITECTURE.md.
//!
//! It speaks of what is told of a run. A paused run about which nothing is left to decide waits for its turn like one
//! that has not begun, so it is `PENDING` and not `PAUSED` from the decision on.

use crate::{RunEvent, event::RunStatus};

use RunStatus::{Cancelled, Completed, Error, Paused, Pending, Running};

/// A move that an event makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// The event, without what all names have in common.
    pub event: &'static str,
    /// Where the run may be; nowhere when the event begins it.
    pub from: &'static [RunStatus],
    /// Where it is then.
    pub to: RunStatus,
    /// It is made only once nobody is waited for any more; until then the run stays.
    pub is_last_decision: bool,
}

const fn makes(event: &'static str, from: &'static [RunStatus], to: RunStatus) -> Move {
    Move { event, from, to, is_last_decision: false }
}

const fn decides(event: &'static str) -> Move {
    Move { event, from: &[Paused], to: Pending, is_last_decision: true }
}

/// Every move there is.
pub const MOVES: &[Move] = &[
    makes("run.queued", &[], Pending),
    makes("run.started", &[Pending], Running),
    makes("run.paused", &[Running], Paused),
    decides("run.step.answered"),
    decides("run.step.resolved"),
    decides("run.step.expired"),
    makes("run.continued", &[Pending], Running),
    makes("run.completed", &[Running], Completed),
    makes("run.failed", &[Pending, Running, Paused], Error),
    makes("run.cancelled", &[Pending, Running, Paused], Cancelled),
    makes("run.requeued", &[Error, Cancelled], Pending),
];

/// Where a run may be when something happens to it that moves it nowhere.
const STAYS: &[(&str, &[RunStatus])] = &[
    ("run.step.requested", &[Running]),
    ("run.step.completed", &[Running]),
    ("run.step.failed", &[Running]),
    ("run.step.in_doubt", &[Running]),
    ("run.step.held", &[Running]),
    // Beside calls that are being made, or while a run that was queued again waits for its turn.
    ("run.step.answered", &[Running, Pending]),
    ("run.step.resolved", &[Running, Pending]),
    ("run.step.expired", &[Running]),
    ("run.cancel_requested", &[Pending, Running, Paused]),
];

/// What an event does to a run's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing.
    Stays,
    /// It moves.
    Moves(RunStatus),
    /// It moves once nobody is waited for any more.
    MovesOnceDecided(RunStatus),
}

/// An event that must not happen to a run where it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{event}` of a run that is {}", from.map_or("not there", RunStatus::as_str))]
pub struct NoSuchMove {
    /// Where the run is.
    pub from: Option<RunStatus>,
    /// The event.
    pub event: &'static str,
}

impl Next {
    /// The status of a run that was at `from`, if it still waits for somebody or does not.
    #[must_use]
    pub fn status(self, from: RunStatus, waits_for_somebody: bool) -> RunStatus {
        match self {
            Self::Moves(to) => to,
            Self::MovesOnceDecided(to) if !waits_for_somebody => to,
            Self::Stays | Self::MovesOnceDecided(_) => from,
        }
    }
}

/// What `event` does to a run that is at `from`; `None` is where no run is yet.
///
/// # Errors
/// When it must not happen there.
pub fn next(from: Option<RunStatus>, event: &RunEvent) -> Result<Next, NoSuchMove> {
    let name = name(event);
    let begins_at = |places: &[RunStatus]| from.map_or(places.is_empty(), |from| places.contains(&from));
    if let Some(found) = MOVES.iter().find(|found| found.event == name && begins_at(found.from)) {
        return Ok(if found.is_last_decision { Next::MovesOnceDecided(found.to) } else { Next::Moves(found.to) });
    }
    let stays = |(event, places): &(&str, &[RunStatus])| *event == name && from.is_some_and(|at| places.contains(&at));
    if STAYS.iter().any(stays) { Ok(Next::Stays) } else { Err(NoSuchMove { from, event: name }) }
}

/// Where an event leads from wherever it may happen; `None` for events of steps, of which only a decision may move the
/// run, and whether it does depends on the others.
#[must_use]
pub fn target(event: &RunEvent) -> Option<RunStatus> {
    let name = name(event);
    MOVES.iter().find(|found| found.event == name && !found.is_last_decision).map(|found| found.to)
}

/// An event's name without what all have in common and without its version.
fn name(event: &RunEvent) -> &'static str {
    let name = event.type_name();
    let name = name.strip_prefix("dev.reenact.").unwrap_or(name);
    name.rsplit_once('.').map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::event::CURRENT_TYPES;

    #[test]
    fn the_table_knows_every_event_of_a_run_and_no_other() {
        let named: BTreeSet<_> =
            MOVES.iter().map(|found| found.event).chain(STAYS.iter().map(|(event, _)| *event)).collect();
        let known: BTreeSet<_> = CURRENT_TYPES
            .iter()
            .filter_map(|name| name.strip_prefix("dev.reenact.")?.rsplit_once('.').map(|(name, _)| name))
            .filter(|name| name.starts_with("run."))
            .collect();
        assert_eq!(named, known);
    }

    #[test]
    fn an_event_leads_to_one_status_wherever_it_happens() {
        for one in MOVES {
            let others = MOVES.iter().filter(|other| other.event == one.event);
            assert_eq!(others.count(), 1, "{} stands twice", one.event);
            let stays = STAYS.iter().filter(|(event, _)| *event == one.event).flat_map(|(_, places)| *places);
            assert!(stays.clone().all(|place| !one.from.contains(place)), "{} both moves and stays", one.event);
        }
    }

    #[test]
    fn only_queueing_again_leads_out_of_an_end() {
        let out: Vec<_> =
            MOVES.iter().filter(|found| found.from.iter().any(|from| from.is_end())).map(|found| found.event).collect();
        assert_eq!(out, ["run.requeued"]);
        assert!(STAYS.iter().all(|(_, places)| places.iter().all(|place| !place.is_end())));
    }
}
