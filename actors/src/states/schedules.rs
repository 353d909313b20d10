//! The schedules of a partition, folded: one value for each, an index by name within the owner's stream, and one by the
//! moment at which something is to be done, in order. What an event costs does not depend on how many there are.

use reenact_events::{ScheduleEvent, ScheduleId, StreamKey, Timestamp, UserId, event::ScheduleFired};
use reenact_snapshots::{StoreError, codec};

use super::{SCAN_MAX, States, fold::Changes, fold::Fact, stored::read};
use crate::{
    keys,
    schedule::{ScheduleState, evolve},
};

impl States {
    /// A schedule.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn schedule(&self, id: &ScheduleId) -> Result<Option<ScheduleState>, StoreError> {
        read(&keys::schedule(id), &*self.store)
    }

    /// The schedule of this name among an owner's.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn schedule_named(&self, owner: Option<&UserId>, name: &str) -> Result<Option<ScheduleId>, StoreError> {
        read(&keys::schedule_name(&StreamKey::schedules(owner), name), &*self.store)
    }

    /// All schedules of an owner.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn schedules_of(&self, owner: &UserId) -> Result<Vec<ScheduleId>, StoreError> {
        let names = keys::schedule_names(&StreamKey::schedules(Some(owner)));
        self.store.scan(&names, &[], SCAN_MAX)?.iter().map(|(_, bytes)| codec::decode(bytes)).collect()
    }

    /// The first moment at which something is to be done for a schedule.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn schedules_wake_at(&self) -> Result<Option<Timestamp>, StoreError> {
        let first = self.store.scan(keys::WAKES, &[], 1)?;
        Ok(first.first().and_then(|(key, _)| keys::moment_of_wake(key)))
    }

    /// The schedules for which something is to be done by `now`, the longest owed first, so many.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn schedules_due(&self, now: Timestamp, most: usize) -> Result<Vec<ScheduleId>, StoreError> {
        let first = self.store.scan(keys::WAKES, &[], most)?;
        let due = first.iter().take_while(|(key, _)| keys::moment_of_wake(key).is_some_and(|at| at <= now));
        due.map(|(_, bytes)| codec::decode(bytes)).collect()
    }
}

/// Takes an event of a schedule.
pub(super) fn take(fact: &Fact<'_>, event: &ScheduleEvent, changes: &mut Changes<'_>) -> Result<(), StoreError> {
    let id = event.schedule_id();
    let before = now(id, changes)?;
    if let Some(before) = &before {
        changes.delete(keys::schedule_name(fact.key, &before.spec.name));
        if let Some(at) = before.wakes_at() {
            changes.delete(keys::wake(at, id));
        }
    }
    let Some(after) = evolve(before, event) else {
        changes.delete(keys::schedule(id));
        return Ok(());
    };
    changes.put(keys::schedule_name(fact.key, &after.spec.name), id)?;
    if let Some(at) = after.wakes_at() {
        changes.put(keys::wake(at, id), id)?;
    }
    changes.put(keys::schedule(id), &after)
}

/// The schedule after the changes so far.
fn now(id: &ScheduleId, changes: &Changes<'_>) -> Result<Option<ScheduleState>, StoreError> {
    let key = keys::schedule(id);
    match changes.pending(&key) {
        Some(Some(bytes)) => codec::decode(bytes).map(Some),
        Some(None) => Ok(None),
        None => read(&key, changes.store),
    }
}

/// Whether a repeat of the event's command is known by it. What the runtime itself does for a schedule is not repeated.
pub(super) fn is_asked(event: &ScheduleEvent) -> bool {
    match event {
        ScheduleEvent::Created(_)
        | ScheduleEvent::Updated(_)
        | ScheduleEvent::Enabled(_)
        | ScheduleEvent::Disabled(_)
        | ScheduleEvent::Deleted(_)
        | ScheduleEvent::Fired(ScheduleFired { triggered: true, .. }) => true,
        ScheduleEvent::Fired(_)
        | ScheduleEvent::Skipped(_)
        | ScheduleEvent::AttemptStarted(_)
        | ScheduleEvent::AttemptReported(_) => false,
    }
}
