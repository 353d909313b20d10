//! Where the statuses stand in the picture, and which way each arrow takes.
//!
//! Those of a run that goes on stand in a row; the ends stand above, below and between, so that no two ways cross: the
//! two that another run may replace stand with their replacement in the field at the upper right.

use reenact_events::event::RunStatus;

use super::Arrow;

use RunStatus::{Cancelled, Completed, Error, Paused, Pending, Regenerated, Running};

/// How large the picture is.
pub(super) const SIZE: (i32, i32) = (1_060, 660);
/// How large a status is.
pub(super) const BOX: (i32, i32) = (150, 54);
/// Where every run comes from.
pub(super) const BEGIN: (i32, i32) = (24, 430);

/// The middle of a status, and what it means.
pub(super) fn place(status: RunStatus) -> ((i32, i32), &'static str) {
    match status {
        Pending => ((180, 430), "waits for its turn"),
        Running => ((520, 430), "at work"),
        Paused => ((930, 430), "waits for somebody"),
        Completed => ((770, 320), "ended well"),
        Error => ((520, 135), "ended with an error"),
        Cancelled => ((520, 590), "was stopped"),
        Regenerated => ((770, 215), "another run replaces it"),
    }
}

/// The way of an arrow, corner by corner.
pub(super) struct Way {
    pub(super) arrow: Arrow,
    pub(super) corners: &'static [(i32, i32)],
    /// Where the names of its events stand: the middle of the first line's foot, and the way from line to line.
    pub(super) names: (i32, i32),
    pub(super) line: i32,
}

const fn way(from: RunStatus, to: RunStatus, corners: &'static [(i32, i32)], names: (i32, i32)) -> Way {
    Way { arrow: (Some(from), to), corners, names, line: 16 }
}

/// All ways.
pub(super) const WAYS: &[Way] = &[
    Way { arrow: (None, Pending), corners: &[(32, 430), (105, 430)], names: (66, 420), line: 16 },
    // Its second name stands below the arrow.
    Way { line: 26, ..way(Pending, Running, &[(255, 430), (445, 430)], (350, 421)) },
    way(Running, Paused, &[(595, 430), (855, 430)], (740, 421)),
    way(Paused, Pending, &[(965, 403), (965, 62), (125, 62), (125, 403)], (545, 35)),
    way(Running, Completed, &[(560, 403), (560, 320), (695, 320)], (628, 311)),
    way(Completed, Regenerated, &[(770, 293), (770, 242)], (832, 272)),
    way(Error, Regenerated, &[(560, 162), (560, 215), (695, 215)], (632, 206)),
    way(Pending, Error, &[(215, 403), (215, 146), (445, 146)], (330, 164)),
    way(Running, Error, &[(490, 403), (490, 162)], (448, 290)),
    way(Paused, Error, &[(920, 403), (920, 124), (595, 124)], (757, 115)),
    way(Error, Pending, &[(445, 124), (170, 124), (170, 403)], (330, 115)),
    way(Pending, Cancelled, &[(205, 457), (205, 579), (445, 579)], (325, 570)),
    way(Running, Cancelled, &[(520, 457), (520, 563)], (577, 515)),
    way(Paused, Cancelled, &[(930, 457), (930, 590), (595, 590)], (757, 581)),
    way(Cancelled, Pending, &[(445, 601), (155, 601), (155, 457)], (325, 619)),
];

/// What is said beside an arrow that needs it.
pub(super) fn remark(arrow: Arrow) -> Option<&'static str> {
    (arrow == (Some(Paused), Pending)).then_some("once nobody is waited for any more")
}
