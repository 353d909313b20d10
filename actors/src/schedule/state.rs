//! What a schedule has come to: the fold of its events.

use reenact_events::{
    RunId, ScheduleEvent, ScheduleId, SessionId, Timestamp, UserId,
    event::{AttemptReported, AttemptStarted, ScheduleCreated, ScheduleFired},
    schedule::{AttemptStatus, ScheduleSpec, jitter_ms},
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Fires whose run waits for a person that a schedule remembers; the oldest are forgotten, and so is how they end.
const PAUSED_MAX: usize = 100;

/// A schedule as its stream tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleState {
    /// Which.
    pub id: ScheduleId,
    /// Its owner.
    pub user_id: Option<UserId>,
    /// What it does.
    pub spec: ScheduleSpec,
    /// Whether it is due at all.
    pub enabled: bool,
    /// When it is due next.
    pub next_run_at: Option<Timestamp>,
    /// The last due time that was seen to.
    pub last_due: Option<Timestamp>,
    /// Fires whose attempts are under way.
    pub open: Vec<OpenFire>,
    /// Fires that wait for those to end, in order.
    pub waiting: Vec<WaitingFire>,
}

/// A fire that has begun and not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFire {
    /// Which.
    pub fire_id: Uuid,
    /// Its due time.
    pub due: Timestamp,
    /// The latest attempt.
    pub attempt: u32,
    /// Its run.
    pub run_id: RunId,
    /// The run's session.
    pub session_id: SessionId,
    /// How the attempt stands.
    pub stands: Stands,
    /// A later fire has taken its place: it is not attempted again.
    pub replaced: bool,
}

/// See [`OpenFire`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stands {
    /// Its run is under way, and has taken too long at this moment.
    Running(Timestamp),
    /// It failed, and the next one is due then.
    Failed(Timestamp),
    /// Its run waits for a person.
    Paused,
}

/// A fire that has not begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingFire {
    /// Which.
    pub fire_id: Uuid,
    /// Its due time.
    pub due: Timestamp,
}

impl ScheduleState {
    fn created(created: &ScheduleCreated) -> Self {
        Self {
            id: created.schedule_id.clone(),
            user_id: created.user_id.clone(),
            spec: created.spec.clone(),
            enabled: true,
            next_run_at: created.next_run_at,
            last_due: None,
            open: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// The fires that another one would overlap.
    pub fn active(&self) -> impl Iterator<Item = &OpenFire> {
        self.open.iter().filter(|fire| fire.stands != Stands::Paused)
    }

    /// When the fire for the next due time is made.
    #[must_use]
    pub fn fires_at(&self) -> Option<Timestamp> {
        let due = self.next_run_at.filter(|_| self.enabled)?;
        Some(due.plus_ms(jitter_ms(&self.id, due, self.spec.jitter_s)))
    }

    /// The first moment at which something is to be done.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Timestamp> {
        let owed = self.open.iter().filter_map(|fire| match fire.stands {
            Stands::Running(until) => Some(until),
            Stands::Failed(retry_at) => Some(retry_at),
            Stands::Paused => None,
        });
        owed.chain(self.fires_at()).min()
    }
}

/// Takes `event` into the schedule; `None` is one that does not exist.
#[must_use]
pub fn evolve(state: Option<ScheduleState>, event: &ScheduleEvent) -> Option<ScheduleState> {
    if let ScheduleEvent::Created(created) = event {
        return Some(ScheduleState::created(created));
    }
    let mut state = state?;
    match event {
        ScheduleEvent::Deleted(_) => return None,
        ScheduleEvent::Created(_) => {}
        ScheduleEvent::Updated(updated) => {
            state.spec = updated.spec.clone();
            state.next_run_at = updated.next_run_at;
        }
        ScheduleEvent::Enabled(enabled) => (state.enabled, state.next_run_at) = (true, enabled.next_run_at),
        ScheduleEvent::Disabled(_) => (state.enabled, state.next_run_at) = (false, None),
        ScheduleEvent::Fired(fired) => state.fired(fired),
        ScheduleEvent::Skipped(skipped) => {
            state.last_due = Some(skipped.until.unwrap_or(skipped.due));
            state.next_run_at = skipped.next_run_at;
        }
        ScheduleEvent::AttemptStarted(started) => state.started(started),
        ScheduleEvent::AttemptReported(reported) => state.reported(reported),
    }
    Some(state)
}

impl ScheduleState {
    fn fired(&mut self, fired: &ScheduleFired) {
        if !fired.triggered {
            self.last_due = Some(fired.due);
            self.next_run_at = fired.next_run_at;
        }
        if fired.waits {
            self.waiting.push(WaitingFire { fire_id: fired.fire_id, due: fired.due });
        }
        for fire in self.open.iter_mut().filter(|fire| fired.replaces.contains(&fire.fire_id)) {
            fire.replaced = true;
        }
    }

    fn started(&mut self, started: &AttemptStarted) {
        self.waiting.retain(|fire| fire.fire_id != started.fire_id);
        self.open.retain(|fire| fire.fire_id != started.fire_id);
        self.open.push(OpenFire {
            fire_id: started.fire_id,
            due: started.due,
            attempt: started.attempt,
            run_id: started.run_id.clone(),
            session_id: started.session_id.clone(),
            stands: Stands::Running(started.until),
            replaced: false,
        });
    }

    fn reported(&mut self, reported: &AttemptReported) {
        self.waiting.retain(|fire| fire.fire_id != reported.fire_id);
        let stands = match (reported.status, reported.retry_at) {
            (AttemptStatus::Paused, _) => Some(Stands::Paused),
            (_, Some(retry_at)) => Some(Stands::Failed(retry_at)),
            (AttemptStatus::Success | AttemptStatus::Failed | AttemptStatus::Cancelled, None) => None,
        };
        match stands {
            None => self.open.retain(|fire| fire.fire_id != reported.fire_id),
            Some(stands) => {
                for fire in self.open.iter_mut().filter(|fire| fire.fire_id == reported.fire_id) {
                    fire.stands = stands;
                }
            }
        }
        let mut paused = self.open.iter().filter(|fire| fire.stands == Stands::Paused).count();
        self.open.retain(|fire| {
            let forgotten = fire.stands == Stands::Paused && paused > PAUSED_MAX;
            paused -= usize::from(forgotten);
            !forgotten
        });
    }
}
