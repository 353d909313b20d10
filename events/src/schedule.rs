//! Schedules: what one is told to do, and the names that follow from its due times.
//!
//! Ids derive from causes: a fire's from its schedule and its due time, an attempt's run from both and the number of
//! the attempt. So whoever decides a fire, however often and on whatever node, means the same one.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{CommandId, RawJson, RunId, ScheduleId, SessionId, Timestamp, UserId, ids};

/// What a schedule does, and when. The state store holds it too, so no field of it is left out when it is empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleSpec {
    /// Its name, unique among its owner's.
    pub name: Arc<str>,
    /// What it is for.
    pub description: Option<Arc<str>>,
    /// What is called, as a path of the API.
    pub endpoint: Arc<str>,
    /// How it is called.
    pub method: Arc<str>,
    /// What is sent, a JSON object.
    pub payload: Option<RawJson>,
    /// When.
    pub when: When,
    /// The IANA zone that `when` is read in.
    pub timezone: Arc<str>,
    /// Seconds that an attempt may take, the wait for its turn included.
    pub timeout_s: u32,
    /// How often a failed attempt is made again.
    pub max_retries: u32,
    /// Seconds between a failed attempt and the next one.
    pub retry_delay_s: u32,
    /// What happens when it is due and has a run under way.
    #[serde(default)]
    pub overlap: Overlap,
    /// What happens with due times at which nobody was there to see to them.
    #[serde(default)]
    pub catch_up: CatchUp,
    /// A fire is this many seconds late, at most: how many follows from schedule and due time.
    #[serde(default)]
    pub jitter_s: u32,
}

impl ScheduleSpec {
    /// A schedule that only fires when it is triggered, with the values that AgentOS takes when nothing is said.
    #[must_use]
    pub fn of(name: &str, endpoint: &str) -> Self {
        Self {
            name: name.into(),
            description: None,
            endpoint: endpoint.into(),
            method: "POST".into(),
            payload: None,
            when: When::OnDemand,
            timezone: "UTC".into(),
            timeout_s: 3_600,
            max_retries: 0,
            retry_delay_s: 60,
            overlap: Overlap::default(),
            catch_up: CatchUp::default(),
            jitter_s: 0,
        }
    }
}

/// When a schedule is due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Never by itself: somebody triggers it.
    OnDemand,
    /// Whenever these five fields fit.
    Cron(Arc<str>),
    /// Once.
    At(Timestamp),
}

impl When {
    /// What these fields say together; `None` when they say nothing. An empty `cron_expr` says that a schedule is
    /// never due only beside `on_demand`: alone it is more likely a value that got lost.
    ///
    /// # Errors
    /// When they do not go together, with the reason for people.
    pub fn of(cron_expr: Option<&str>, at: Option<Timestamp>, on_demand: bool) -> Result<Option<Self>, &'static str> {
        match (cron_expr, at, on_demand) {
            (None | Some(""), None, true) => Ok(Some(Self::OnDemand)),
            (None, None, false) => Ok(None),
            (None, Some(at), false) => Ok(Some(Self::At(at))),
            (Some(""), None, false) => Err(
                "`cron_expr` is empty: for a schedule that only fires when it is triggered, leave it out, or say `on_demand: true`",
            ),
            (Some(cron), None, false) => Ok(Some(Self::Cron(cron.into()))),
            _ => Err("only one of `cron_expr`, `at` and `on_demand` says when a schedule is due"),
        }
    }
}

/// What happens when a schedule is due and has a run under way. A run that waits for a person is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// It does not fire.
    #[default]
    Skip,
    /// It fires when that run has ended.
    Queue,
    /// It fires beside it.
    Allow,
    /// It fires, and that run is stopped.
    CancelPrevious,
}

impl Overlap {
    /// The words for them.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("skip", Self::Skip),
        ("queue", Self::Queue),
        ("allow", Self::Allow),
        ("cancel_previous", Self::CancelPrevious),
    ];
}

/// What happens with due times at which nobody was there to see to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// Nothing.
    None,
    /// It fires once, for the last of them.
    #[default]
    Last,
    /// It fires for each of them, as far as there are not too many.
    All,
}

impl CatchUp {
    /// The words for them.
    pub const WORDS: [(&'static str, Self); 3] = [("none", Self::None), ("last", Self::Last), ("all", Self::All)];
}

/// The word of a choice among `words`.
#[must_use]
pub fn word<T: PartialEq>(words: &[(&'static str, T)], choice: &T) -> &'static str {
    words.iter().find(|(_, known)| known == choice).map_or("", |(word, _)| word)
}

/// Which attempt of which fire a run is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledBy {
    /// The schedule.
    pub schedule_id: ScheduleId,
    /// Its owner, whose stream is told of the run's end.
    pub owner: Option<UserId>,
    /// The fire.
    pub fire_id: Uuid,
    /// From 1.
    pub attempt: u32,
}

impl ScheduledBy {
    /// The command that starts the attempt's run.
    #[must_use]
    pub fn start_command(&self) -> CommandId {
        CommandId::own(self.derived("schedule.attempt", ""))
    }

    /// The command that tells the schedule of `what` about the attempt.
    #[must_use]
    pub fn report_command(&self, what: &str) -> CommandId {
        CommandId::own(self.derived("schedule.report", what))
    }

    /// The command that stops the attempt's run.
    #[must_use]
    pub fn cancel_command(&self) -> CommandId {
        CommandId::own(self.derived("schedule.cancel", ""))
    }

    fn derived(&self, kind: &str, what: &str) -> Uuid {
        ids::derived(kind, &[self.schedule_id.as_str(), &self.fire_id.to_string(), &self.attempt.to_string(), what])
    }
}

/// The fire of a schedule for a due time.
#[must_use]
pub fn fire_at(schedule: &ScheduleId, due: Timestamp) -> Uuid {
    ids::derived("schedule.fire", &[schedule.as_str(), &due.to_string()])
}

/// The fire of a schedule that somebody triggers with a command.
#[must_use]
pub fn fire_by(schedule: &ScheduleId, command: &CommandId) -> Uuid {
    ids::derived("schedule.trigger", &[schedule.as_str(), command.as_str()])
}

/// Names an attempt of a fire among all.
#[must_use]
pub fn attempt_id(fire: Uuid, attempt: u32) -> String {
    ids::derived("schedule.run", &[&fire.to_string(), &attempt.to_string()]).to_string()
}

/// The session of a fire whose schedule names none.
#[must_use]
pub fn session_of(schedule: &ScheduleId, fire: Uuid) -> SessionId {
    SessionId::trusted(&ids::derived("schedule.session", &[schedule.as_str(), &fire.to_string()]).to_string())
}

/// How late the fire for a due time is on purpose, milliseconds.
#[must_use]
pub fn jitter_ms(schedule: &ScheduleId, due: Timestamp, jitter_s: u32) -> i64 {
    let chance = ids::derived("schedule.jitter", &[schedule.as_str(), &due.to_string()]).as_u128();
    let below = u128::from(jitter_s) * 1_000 + 1;
    i64::try_from(chance % below).unwrap_or(0)
}

/// How an attempt stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptStatus {
    /// Its run ended well.
    Success,
    /// Its run waits for a decision; its end is told too.
    Paused,
    /// Its run ended with an error, could not be started, or took too long.
    Failed,
    /// Its run was stopped.
    Cancelled,
}

impl AttemptStatus {
    /// As AgentOS spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Paused => "paused",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What a run tells the schedule that started it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Which attempt.
    pub by: ScheduledBy,
    /// The run.
    pub run_id: RunId,
    /// How it stands.
    pub status: AttemptStatus,
    /// Why, if not well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Arc<str>>,
}

/// What an owner asks of one of their schedules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleCommand {
    /// Make one; its id follows from the command's.
    Create(Box<ScheduleSpec>),
    /// Change what it does.
    Update(ScheduleId, Box<ScheduleChange>),
    /// Let it be due again.
    Enable(ScheduleId),
    /// Let it not be due any more.
    Disable(ScheduleId),
    /// Fire it now.
    Trigger(ScheduleId),
    /// Remove it.
    Delete(ScheduleId),
    /// Remove all of them: the owner is erased, and these were the keys of their content. The runtime says this itself.
    EraseOwner(Vec<Uuid>),
    /// One of its runs has something to tell. The runtime says this itself.
    Report(Box<Report>),
}

/// New values; what is absent stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScheduleChange {
    /// The name.
    pub name: Option<Arc<str>>,
    /// What it is for.
    pub description: Option<Arc<str>>,
    /// What is called.
    pub endpoint: Option<Arc<str>>,
    /// How it is called.
    pub method: Option<Arc<str>>,
    /// What is sent.
    pub payload: Option<RawJson>,
    /// When.
    pub when: Option<When>,
    /// The zone.
    pub timezone: Option<Arc<str>>,
    /// Seconds that an attempt may take.
    pub timeout_s: Option<u32>,
    /// How often a failed attempt is made again.
    pub max_retries: Option<u32>,
    /// Seconds until then.
    pub retry_delay_s: Option<u32>,
    /// With a run under way.
    pub overlap: Option<Overlap>,
    /// After an absence.
    pub catch_up: Option<CatchUp>,
    /// Seconds late, at most.
    pub jitter_s: Option<u32>,
}

impl ScheduleChange {
    /// The change that leads to `spec` from any other.
    #[must_use]
    pub fn to(spec: &ScheduleSpec) -> Self {
        Self {
            name: Some(spec.name.clone()),
            description: spec.description.clone(),
            endpoint: Some(spec.endpoint.clone()),
            method: Some(spec.method.clone()),
            payload: spec.payload.clone(),
            when: Some(spec.when.clone()),
            timezone: Some(spec.timezone.clone()),
            timeout_s: Some(spec.timeout_s),
            max_retries: Some(spec.max_retries),
            retry_delay_s: Some(spec.retry_delay_s),
            overlap: Some(spec.overlap),
            catch_up: Some(spec.catch_up),
            jitter_s: Some(spec.jitter_s),
        }
    }

    /// The specification with the new values.
    #[must_use]
    pub fn over(self, old: ScheduleSpec) -> ScheduleSpec {
        ScheduleSpec {
            name: self.name.unwrap_or(old.name),
            description: self.description.or(old.description),
            endpoint: self.endpoint.unwrap_or(old.endpoint),
            method: self.method.unwrap_or(old.method),
            payload: self.payload.or(old.payload),
            when: self.when.unwrap_or(old.when),
            timezone: self.timezone.unwrap_or(old.timezone),
            timeout_s: self.timeout_s.unwrap_or(old.timeout_s),
            max_retries: self.max_retries.unwrap_or(old.max_retries),
            retry_delay_s: self.retry_delay_s.unwrap_or(old.retry_delay_s),
            overlap: self.overlap.unwrap_or(old.overlap),
            catch_up: self.catch_up.unwrap_or(old.catch_up),
            jitter_s: self.jitter_s.unwrap_or(old.jitter_s),
        }
    }
}

impl ScheduleCommand {
    /// The schedule that it is about, if it exists already.
    #[must_use]
    pub fn schedule_id(&self) -> Option<&ScheduleId> {
        match self {
            Self::Create(_) | Self::EraseOwner(_) => None,
            Self::Update(id, _) | Self::Enable(id) | Self::Disable(id) | Self::Trigger(id) | Self::Delete(id) => {
                Some(id)
            }
            Self::Report(report) => Some(&report.by.schedule_id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_follows_from_schedule_and_due_time_alone() {
        let (one, two) = (ScheduleId::trusted("one"), ScheduleId::trusted("two"));
        assert_eq!(fire_at(&one, Timestamp(5)), fire_at(&one, Timestamp(5)));
        assert_ne!(fire_at(&one, Timestamp(5)), fire_at(&one, Timestamp(6)));
        assert_ne!(fire_at(&one, Timestamp(5)), fire_at(&two, Timestamp(5)));
        let by = |attempt| ScheduledBy { schedule_id: one.clone(), owner: None, fire_id: Uuid::from_u128(1), attempt };
        assert_ne!(by(1).start_command(), by(2).start_command());
        assert_ne!(by(1).start_command(), by(1).cancel_command());
    }

    #[test]
    fn a_fire_is_at_most_as_late_as_its_jitter() {
        let schedule = ScheduleId::trusted("s");
        let late: Vec<i64> = (0..200).map(|due| jitter_ms(&schedule, Timestamp(due), 10)).collect();
        assert!(late.iter().all(|ms| (0..=10_000).contains(ms)));
        assert!(late.iter().any(|ms| *ms > 5_000) && late.iter().any(|ms| *ms < 5_000));
        assert_eq!(jitter_ms(&schedule, Timestamp(7), 0), 0);
    }
}
