//! What follows from a command about a schedule.

use reenact_events::{
    AgentId, Command, CommandBody, CommandId, RunId, ScheduleEvent, ScheduleId, Timestamp, UserId,
    event::{
        AttemptReported, AttemptStarted, ScheduleCreated, ScheduleDeleted, ScheduleDisabled, ScheduleEnabled,
        ScheduleFired, ScheduleUpdated, SkipReason, SubjectErased,
    },
    schedule::{AttemptStatus, Overlap, Report, ScheduleCommand, ScheduleSpec, ScheduledBy, When, fire_by},
};
use uuid::Uuid;

use super::{
    Unfit,
    check::{checked, target},
    due::{self, Fire},
    state::{OpenFire, ScheduleState, Stands, evolve},
};
use crate::api::Refusal;

/// What a decision may look at.
pub struct Context<'a> {
    /// The present moment.
    pub now: Timestamp,
    /// Whether the deployment serves an agent.
    pub is_served: &'a dyn Fn(&AgentId) -> bool,
    /// Whether another schedule of the owner has a name.
    pub is_taken: &'a dyn Fn(&str) -> bool,
}

/// What is to be committed in one batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Decided {
    /// In order.
    pub events: Vec<ScheduleEvent>,
    /// Commands for others.
    pub sends: Vec<Command>,
    /// Behind the events: the owner is erased.
    pub erased: Option<SubjectErased>,
}

/// A schedule while it is decided about: what was decided so far is in its state.
pub(super) struct Draft {
    pub(super) state: ScheduleState,
    pub(super) decided: Decided,
}

impl Draft {
    pub(super) fn of(state: &ScheduleState) -> Self {
        Self { state: state.clone(), decided: Decided::default() }
    }

    pub(super) fn push(&mut self, event: impl Into<ScheduleEvent>) {
        let event = event.into();
        if let Some(state) = evolve(Some(self.state.clone()), &event) {
            self.state = state;
        }
        self.decided.events.push(event);
    }

    fn by(&self, fire_id: Uuid, attempt: u32) -> ScheduledBy {
        ScheduledBy { schedule_id: self.state.id.clone(), owner: self.state.user_id.clone(), fire_id, attempt }
    }

    /// Asks for the run of an attempt.
    pub(super) fn attempt(&mut self, fire_id: Uuid, due: Timestamp, attempt: u32, now: Timestamp) {
        let by = self.by(fire_id, attempt);
        // What was taken once can be used: the same checks let it in.
        let Ok(target) = target(&self.state.spec) else { return };
        let session_id = target.session(&by);
        let run_id = RunId::of_command(&by.start_command(), &session_id);
        let until = now.plus_ms(i64::from(self.state.spec.timeout_s) * 1_000);
        let schedule_id = self.state.id.clone();
        self.push(AttemptStarted { schedule_id, fire_id, due, attempt, run_id, session_id, until });
        self.decided.sends.push(target.start(by));
    }

    /// Stops the run of an attempt.
    pub(super) fn stop(&mut self, fire: &OpenFire, reason: &str) {
        let by = self.by(fire.fire_id, fire.attempt);
        let body = CommandBody::CancelRun {
            session_id: Some(fire.session_id.clone()),
            run_id: fire.run_id.clone(),
            reason: Some(reason.into()),
            asked: 0,
        };
        self.decided.sends.push(Command::new(by.cancel_command(), by.owner, body));
    }

    pub(super) fn reported(&mut self, fire: &OpenFire, status: AttemptStatus, error: Option<&str>, now: Timestamp) {
        let spec = &self.state.spec;
        let again = status == AttemptStatus::Failed && self.state.enabled && !fire.replaced;
        let again = again && fire.attempt <= spec.max_retries;
        let retry_at = again.then(|| now.plus_ms(i64::from(spec.retry_delay_s) * 1_000));
        let (schedule_id, error) = (self.state.id.clone(), error.map(Into::into));
        let (fire_id, attempt) = (fire.fire_id, fire.attempt);
        self.push(AttemptReported { schedule_id, fire_id, attempt, status, error, retry_at });
    }

    /// What waits begins when nothing is under way.
    pub(super) fn begin_waiting(&mut self, now: Timestamp) {
        if self.state.active().next().is_none()
            && let Some(first) = self.state.waiting.first().cloned()
        {
            self.attempt(first.fire_id, first.due, 1, now);
        }
    }
}

/// Makes a schedule.
///
/// # Errors
/// When its name is taken, or a field cannot be used.
pub fn create(
    id: ScheduleId,
    owner: Option<UserId>,
    spec: ScheduleSpec,
    context: &Context<'_>,
) -> Result<Decided, Refusal> {
    let next_run_at = fit(&spec, None, context)?;
    if (context.is_taken)(&spec.name) {
        return Err(name_taken(&spec.name));
    }
    let created = ScheduleCreated { schedule_id: id, user_id: owner, spec, next_run_at };
    Ok(Decided { events: vec![created.into()], ..Decided::default() })
}

fn name_taken(name: &str) -> Refusal {
    Refusal::ScheduleConflict(format!("there is a schedule `{name}` already: names are unique per user").into())
}

/// Removes all schedules of an owner, and says that the keys of their content are destroyed.
#[must_use]
pub fn erase(owner: UserId, schedules: Vec<ScheduleId>, keys: Vec<Uuid>) -> Decided {
    let deleted = schedules.into_iter().map(|schedule_id| ScheduleDeleted { schedule_id }.into());
    let erased = Some(SubjectErased { user_id: owner, keys });
    Decided { events: deleted.collect(), erased, ..Decided::default() }
}

/// When the schedule is due first after what it has seen to, if it can be used.
fn fit(spec: &ScheduleSpec, last_due: Option<Timestamp>, context: &Context<'_>) -> Result<Option<Timestamp>, Unfit> {
    checked(spec)?;
    let agent = target(spec)?.agent;
    if !(context.is_served)(&agent) {
        return Err(Unfit::new("endpoint", format!("there is no agent `{agent}`")));
    }
    let next = next_after(spec, last_due, context.now);
    match (&spec.when, next) {
        (When::Cron(fields), None) => Err(Unfit::new("cron_expr", format!("`{fields}` is never due"))),
        (When::At(_), None) if last_due.is_none() => Err(Unfit::new("at", "that moment is over")),
        (_, next) => Ok(next),
    }
}

/// A due time that was seen to does not come again, whatever the clock says since.
fn next_after(spec: &ScheduleSpec, last_due: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    due::next_due(spec, last_due.map_or(now, |last| last.max(now)))
}

/// Decides a command about a schedule that exists.
///
/// # Errors
/// When a rule says no.
pub fn change(
    state: &ScheduleState,
    id: &CommandId,
    command: ScheduleCommand,
    context: &Context<'_>,
) -> Result<Decided, Refusal> {
    match command {
        ScheduleCommand::Update(_, change) => update(state, change.over(state.spec.clone()), context),
        ScheduleCommand::Enable(_) if state.enabled => Ok(Decided::default()),
        ScheduleCommand::Enable(_) => {
            let next_run_at = fit(&state.spec, state.last_due, context)?;
            let mut draft = Draft::of(state);
            draft.push(ScheduleEnabled { schedule_id: state.id.clone(), next_run_at });
            Ok(draft.decided)
        }
        ScheduleCommand::Disable(_) => Ok(disable(state, None, context.now)),
        ScheduleCommand::Delete(_) => {
            let deleted = ScheduleDeleted { schedule_id: state.id.clone() };
            Ok(Decided { events: vec![deleted.into()], ..Decided::default() })
        }
        ScheduleCommand::Trigger(_) => trigger(state, id, context),
        ScheduleCommand::Report(told) => Ok(report(state, &told, context.now)),
        // What is not about one schedule is decided elsewhere.
        ScheduleCommand::Create(_) | ScheduleCommand::EraseOwner(_) => Ok(Decided::default()),
    }
}

fn update(state: &ScheduleState, spec: ScheduleSpec, context: &Context<'_>) -> Result<Decided, Refusal> {
    let due = fit(&spec, state.last_due, context)?;
    if spec.name != state.spec.name && (context.is_taken)(&spec.name) {
        return Err(name_taken(&spec.name));
    }
    let keeps = spec.when == state.spec.when && spec.timezone == state.spec.timezone;
    // What was due before and not seen to yet stays due.
    let next_run_at = if keeps { state.next_run_at } else { due.filter(|_| state.enabled) };
    let mut draft = Draft::of(state);
    draft.push(ScheduleUpdated { schedule_id: state.id.clone(), spec, next_run_at });
    Ok(draft.decided)
}

/// Lets the schedule not be due any more: what is under way ends, what waits for it or for a retry is dropped.
pub(super) fn disable(state: &ScheduleState, reason: Option<&str>, now: Timestamp) -> Decided {
    let mut draft = Draft::of(state);
    if !state.enabled {
        return draft.decided;
    }
    draft.push(ScheduleDisabled { schedule_id: state.id.clone(), reason: reason.map(Into::into) });
    let dropped = "the schedule was disabled";
    for fire in state.open.iter().filter(|fire| matches!(fire.stands, Stands::Failed(_))) {
        draft.reported(fire, AttemptStatus::Failed, Some(dropped), now);
    }
    for fire in &state.waiting {
        let (schedule_id, error) = (state.id.clone(), Some(dropped.into()));
        let status = AttemptStatus::Cancelled;
        let (fire_id, attempt) = (fire.fire_id, 1);
        draft.push(AttemptReported { schedule_id, fire_id, attempt, status, error, retry_at: None });
    }
    draft.decided
}

/// Somebody fires it now. What overlaps is decided as for a due time, but that whoever asks is told of it.
fn trigger(state: &ScheduleState, id: &CommandId, context: &Context<'_>) -> Result<Decided, Refusal> {
    let conflict = |reason: String| Refusal::ScheduleConflict(reason.into());
    if !state.enabled {
        return Err(conflict(format!("schedule `{}` is disabled: enable it first", state.spec.name)));
    }
    let agent = target(&state.spec)?.agent;
    if !(context.is_served)(&agent) {
        return Err(conflict(format!("there is no agent `{agent}` any more")));
    }
    let mut draft = Draft::of(state);
    let fire = Fire { fire_id: fire_by(&state.id, id), due: context.now, triggered: true, overlap: state.spec.overlap };
    match due::fire(&mut draft, fire, state.next_run_at, context.now) {
        Ok(()) => Ok(draft.decided),
        Err(SkipReason::Overlap) => {
            let run = state.active().next().map(|fire| fire.run_id.to_string()).unwrap_or_default();
            Err(conflict(format!(
                "run `{run}` of schedule `{}` is under way, and its `overlap` is `skip`: wait, or choose another one",
                state.spec.name
            )))
        }
        Err(reason) => Err(conflict(reason.told().to_owned())),
    }
}

/// Takes what a run has told. Of an attempt that is not known any more nothing follows.
#[must_use]
pub fn report(state: &ScheduleState, told: &Report, now: Timestamp) -> Decided {
    let mut draft = Draft::of(state);
    let known = state.open.iter().find(|fire| fire.fire_id == told.by.fire_id && fire.attempt == told.by.attempt);
    let Some(fire) = known.filter(|fire| !matches!(fire.stands, Stands::Failed(_))).cloned() else {
        return draft.decided;
    };
    draft.reported(&fire, told.status, told.error.as_deref(), now);
    draft.begin_waiting(now);
    draft.decided
}

/// The event that fires a schedule.
pub(super) fn fired(draft: &mut Draft, fire: &Fire, waits: bool, replaces: Vec<Uuid>, next_run_at: Option<Timestamp>) {
    let Fire { fire_id, due, triggered, overlap: _ } = *fire;
    let schedule_id = draft.state.id.clone();
    draft.push(ScheduleFired { schedule_id, fire_id, due, triggered, waits, replaces, next_run_at });
}

/// Whether fires of this kind wait for one another.
pub(super) fn in_turn(overlap: Overlap) -> Overlap {
    match overlap {
        Overlap::Allow => Overlap::Allow,
        Overlap::Skip | Overlap::Queue | Overlap::CancelPrevious => Overlap::Queue,
    }
}
