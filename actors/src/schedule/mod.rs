//! A schedule: when it is due, what it asks for then, and what becomes of that. Pure; the actor is in
//! [`crate::schedule_actor`].
//!
//! Everything that it waits for (the next due time, a retry, the end of an attempt's time) is one moment in its state,
//! by which the store keeps all schedules of a partition in order. Who fires one is whoever owns the partition then;
//! that it fires once is what the fold guarantees: the event that fires it also moves its due time on.

pub mod calendar;
mod check;
mod decide;
mod due;
mod state;

use std::sync::Arc;

pub use check::checked;
pub use decide::{Context, Decided, change, create, erase, report};
pub use due::{next_due, wake};
pub use state::{OpenFire, ScheduleState, Stands, WaitingFire, evolve};

/// What is wrong with a schedule, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` cannot be used: {reason}")]
pub struct Unfit {
    /// The field, as the API calls it.
    pub field: Arc<str>,
    /// What is wrong, and what to do.
    pub reason: Arc<str>,
}

impl Unfit {
    pub(crate) fn new(field: &str, reason: impl AsRef<str>) -> Self {
        Self { field: field.into(), reason: reason.as_ref().into() }
    }
}
