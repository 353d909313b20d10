//! Where the statuses stand in the picture, and which way each arrow takes.
//!
//! Those of a run that goes on stand in a row; the ends stand above, below and between, so that no two ways cross.
//! There is room for one more end at the lower right.

use reenact_events::event::RunStatus;

use super::Arrow;

use RunStatus::{Cancelled, Completed, Error, Paused, Pending, Running};

/// How large the picture is.
pub(super) const SIZE: (i32, i32) = (1_060, 600);
/// How large a status is.
pub(super) const BOX: (i32, i32) = (150, 54);
/// Where every run comes from.
pub(super) const BEGIN: (i32, i32) = (24, 320);

/// The middle of a status, and what it means.
pub(super) fn place(status: RunStatus) -> ((i32, i32), &'static str) {
    match status {
        Pending => ((180, 320), "waits for its turn"),
        Running => ((520, 320), "at work"),
        Paused => ((930, 320), "waits for somebody"),
        Completed => ((740, 425), "ended well"),
        Error => ((520, 135), "ended with an error"),
        Cancelled => ((520, 530), "was stopped"),
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
    Way { arrow: (None, Pending), corners: &[(32, 320), (105, 320)], names: (66, 310), line: 16 },
    // Its second name stands below the arrow.
    Way { line: 26, ..way(Pending, Running, &[(255, 320), (445, 320)], (350, 311)) },
    way(Running, Paused, &[(595, 320), (855, 320)], (740, 311)),
    way(Paused, Pending, &[(965, 293), (965, 62), (125, 62), (125, 293)], (545, 35)),
    way(Running, Completed, &[(555, 347), (555, 425), (665, 425)], (612, 416)),
    way(Pending, Error, &[(215, 293), (215, 146), (445, 146)], (330, 164)),
    way(Running, Error, &[(520, 293), (520, 162)], (562, 233)),
    way(Paused, Error, &[(920, 293), (920, 135), (595, 135)], (757, 126)),
    way(Error, Pending, &[(445, 124), (170, 124), (170, 293)], (330, 115)),
    way(Pending, Cancelled, &[(205, 347), (205, 519), (445, 519)], (325, 510)),
    way(Running, Cancelled, &[(495, 347), (495, 503)], (443, 430)),
    way(Paused, Cancelled, &[(930, 347), (930, 530), (595, 530)], (757, 521)),
    way(Cancelled, Pending, &[(445, 541), (155, 541), (155, 347)], (325, 559)),
];

/// What is said beside an arrow that needs it.
pub(super) fn remark(arrow: Arrow) -> Option<&'static str> {
    (arrow == (Some(Paused), Pending)).then_some("once nobody is waited for any more")
}
