//! The picture of a run's statuses in ARCHITECTURE.md shows the table that the code goes by.
//!
//! `REENACT_PICTURE=write cargo test --workspace --test tidy` draws it anew. Where the statuses stand and which way an
//! arrow takes is laid out by hand; which arrows there are and what they are called is not. A move without a way, or a
//! way without a move, fails.

mod places;
mod svg;

use std::fs;

use reenact_events::{event::RunStatus, moves::MOVES};

use crate::tree;

const FILE: &str = "events/run-states.svg";

/// From where to where; `None` is before the run was accepted.
type Arrow = (Option<RunStatus>, RunStatus);

/// Each arrow with the names of the events that make the move.
fn arrows() -> Vec<(Arrow, Vec<&'static str>)> {
    let mut arrows: Vec<(Arrow, Vec<_>)> = Vec::new();
    for found in MOVES {
        let begins = found.from.is_empty().then_some(None);
        for from in found.from.iter().copied().map(Some).chain(begins) {
            let arrow = (from, found.to);
            match arrows.iter_mut().find(|(known, _)| *known == arrow) {
                Some((_, events)) => events.push(found.event),
                None => arrows.push((arrow, vec![found.event])),
            }
        }
    }
    arrows
}

#[test]
fn the_picture_of_a_runs_statuses_shows_the_table_of_the_code() {
    let drawn = svg::draw(&arrows());
    if let Ok(asked) = std::env::var("REENACT_PICTURE") {
        assert_eq!(asked, "write", "`REENACT_PICTURE` knows only `write`");
        fs::write(tree::root().join(FILE), &drawn).expect("it can be written");
    }
    let stored = fs::read_to_string(tree::root().join(FILE)).unwrap_or_default();
    assert!(stored == drawn, "`{FILE}` is not what `events/src/moves.rs` says: draw it with `REENACT_PICTURE=write`");
}

#[test]
fn every_way_in_the_picture_is_a_move() {
    let arrows = arrows();
    let is_move = |way: &places::Way| arrows.iter().any(|(arrow, _)| *arrow == way.arrow);
    let others: Vec<_> = places::WAYS.iter().filter(|way| !is_move(way)).map(|way| way.arrow).collect();
    assert!(others.is_empty(), "no event makes these moves: {others:?}");
}

#[test]
fn the_architecture_shows_the_picture() {
    let text = tree::text("ARCHITECTURE.md").expect("text");
    assert!(text.contains(&format!("]({FILE})")), "ARCHITECTURE.md does not show `{FILE}`");
}
