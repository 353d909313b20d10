//! What follows from the passing of time: fires, retries, and the end of an attempt's time.

use reenact_events::{
    Timestamp,
    event::{ScheduleSkipped, SkipReason},
    schedule::{AttemptStatus, CatchUp, Overlap, ScheduleSpec, When, fire_at, jitter_ms},
};
use uuid::Uuid;

use super::{
    calendar::{self, Calendar},
    check::target,
    decide::{Context, Decided, Draft, disable, fired, in_turn},
    state::{OpenFire, ScheduleState, Stands},
};

/// A due time that is seen to this late was missed: a restart takes less, an absence more.
const LATE_MS: i64 = 60_000;
/// Due times that are made up for, at most; older ones are left out.
const CATCH_UP_MAX: usize = 100;
/// Fires of a schedule that are under way, at most,
const OPEN_MAX: usize = 100;
/// and that wait.
const WAITING_MAX: usize = 100;

/// The first due time after `moment`.
#[must_use]
pub fn next_due(spec: &ScheduleSpec, moment: Timestamp) -> Option<Timestamp> {
    match &spec.when {
        When::OnDemand => None,
        When::At(at) => Some(*at).filter(|at| *at > moment),
        When::Cron(_) => calendar_of(spec)?.after(moment),
    }
}

fn calendar_of(spec: &ScheduleSpec) -> Option<Calendar> {
    let When::Cron(fields) = &spec.when else { return None };
    Calendar::parse(fields, calendar::zone(&spec.timezone).ok()?).ok()
}

/// A fire that may be made.
pub(super) struct Fire {
    pub(super) fire_id: Uuid,
    pub(super) due: Timestamp,
    pub(super) triggered: bool,
    pub(super) overlap: Overlap,
}

/// Does what is owed at this moment.
#[must_use]
pub fn wake(state: &ScheduleState, context: &Context<'_>) -> Decided {
    let now = context.now;
    let mut draft = Draft::of(state);
    let owed: Vec<OpenFire> = draft.state.open.clone();
    for fire in &owed {
        match fire.stands {
            Stands::Running(until) if until <= now => {
                let reason = format!("the schedule's `timeout_seconds` of {} are over", state.spec.timeout_s);
                draft.reported(fire, AttemptStatus::Failed, Some(&reason), now);
                draft.stop(fire, &reason);
            }
            Stands::Failed(retry_at) if retry_at <= now => draft.attempt(fire.fire_id, fire.due, fire.attempt + 1, now),
            Stands::Running(_) | Stands::Failed(_) | Stands::Paused => {}
        }
    }
    draft.begin_waiting(now);
    if draft.state.fires_at().is_some_and(|at| at <= now) {
        let gone = target(&state.spec).ok().map(|target| target.agent).filter(|agent| !(context.is_served)(agent));
        match gone {
            Some(agent) => {
                let reason = format!("there is no agent `{agent}` any more");
                let Decided { events, .. } = disable(&draft.state, Some(&reason), now);
                events.into_iter().for_each(|event| draft.push(event));
            }
            None => see_to_due_times(&mut draft, now),
        }
    }
    draft.decided
}

/// Fires for the due times that have passed, as far as they are to be made up for.
fn see_to_due_times(draft: &mut Draft, now: Timestamp) {
    let spec = draft.state.spec.clone();
    let Some(first) = draft.state.next_run_at else { return };
    let passed = passed(draft, &spec, first, now);
    let Some(last) = passed.last().copied() else { return };
    let next = next_due(&spec, last);
    let is_late = |due: Timestamp| now.ms_since(due.plus_ms(jitter_ms(&draft.state.id, due, spec.jitter_s))) > LATE_MS;
    let kept = match spec.catch_up {
        CatchUp::None => passed.iter().take_while(|due| is_late(**due)).count(),
        CatchUp::Last => passed.len() - 1,
        CatchUp::All => passed.len().saturating_sub(CATCH_UP_MAX),
    };
    let (left_out, made) = passed.split_at(kept);
    if let Some(until) = left_out.last() {
        skip(draft, first, Some(*until).filter(|until| *until != first), SkipReason::Missed, next);
    }
    let overlap = if made.len() > 1 { in_turn(spec.overlap) } else { spec.overlap };
    for due in made {
        let fire = Fire { fire_id: fire_at(&draft.state.id, *due), due: *due, triggered: false, overlap };
        if let Err(reason) = self::fire(draft, fire, next, now) {
            skip(draft, *due, None, reason, next);
        }
    }
}

/// The due times from `first` on that have passed; when there are very many, the last ones.
fn passed(draft: &Draft, spec: &ScheduleSpec, first: Timestamp, now: Timestamp) -> Vec<Timestamp> {
    let mut passed = match calendar_of(spec) {
        Some(calendar) => calendar.between(first, now, CATCH_UP_MAX + 1),
        None => vec![first],
    };
    // Those that are late on purpose come later.
    while let Some(due) = passed.last()
        && *due > first
        && due.plus_ms(jitter_ms(&draft.state.id, *due, spec.jitter_s)) > now
    {
        passed.pop();
    }
    passed
}

fn skip(draft: &mut Draft, due: Timestamp, until: Option<Timestamp>, reason: SkipReason, next: Option<Timestamp>) {
    let schedule_id = draft.state.id.clone();
    draft.push(ScheduleSkipped { schedule_id, due, until, reason, next_run_at: next });
}

/// Makes a fire, as its kind of overlap allows.
pub(super) fn fire(draft: &mut Draft, fire: Fire, next: Option<Timestamp>, now: Timestamp) -> Result<(), SkipReason> {
    let active: Vec<OpenFire> = draft.state.active().cloned().collect();
    let mut replaces = Vec::new();
    match fire.overlap {
        Overlap::Skip if !active.is_empty() || !draft.state.waiting.is_empty() => return Err(SkipReason::Overlap),
        Overlap::Queue if !active.is_empty() || !draft.state.waiting.is_empty() => {
            if draft.state.waiting.len() >= WAITING_MAX {
                return Err(SkipReason::TooMany);
            }
            fired(draft, &fire, true, Vec::new(), next);
            return Ok(());
        }
        Overlap::CancelPrevious => replaces = active.iter().map(|fire| fire.fire_id).collect(),
        Overlap::Skip | Overlap::Queue | Overlap::Allow => {}
    }
    if active.len() >= OPEN_MAX {
        return Err(SkipReason::TooMany);
    }
    fired(draft, &fire, false, replaces, next);
    if fire.overlap == Overlap::CancelPrevious {
        replace(draft, &active, now);
    }
    draft.attempt(fire.fire_id, fire.due, 1, now);
    Ok(())
}

/// Stops what a fire takes the place of.
fn replace(draft: &mut Draft, active: &[OpenFire], now: Timestamp) {
    for fire in active {
        let replaced = OpenFire { replaced: true, ..fire.clone() };
        let reason = "a later fire of the schedule takes its place";
        match fire.stands {
            Stands::Running(_) => draft.stop(fire, reason),
            Stands::Failed(_) => draft.reported(&replaced, AttemptStatus::Failed, Some(reason), now),
            Stands::Paused => {}
        }
    }
}
