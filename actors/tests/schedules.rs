//! Schedules: given what happened, when something is asked or time passes, then these events.

use reenact_actors::{
    api::Refusal,
    schedule::{Context, Decided, ScheduleState, Stands, change, create, evolve, report, wake},
};
use reenact_events::{
    AgentId, Command, CommandBody, CommandId, RawJson, RunId, ScheduleEvent, ScheduleId, Timestamp, UserId,
    event::{AttemptStarted, ScheduleFired, ScheduleSkipped},
    schedule::{
        AttemptStatus, CatchUp, Overlap, Report, ScheduleChange, ScheduleCommand, ScheduleSpec, ScheduledBy, When,
        fire_at,
    },
};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
/// 2026-11-30T00:00:00Z.
const MIDNIGHT: Timestamp = Timestamp(1_795_996_800_000);

fn id() -> ScheduleId {
    ScheduleId::trusted("s")
}

fn alice() -> Option<UserId> {
    Some(UserId::trusted("alice"))
}

fn spec() -> ScheduleSpec {
    ScheduleSpec {
        payload: Some(RawJson::parse(r#"{"message":"hello"}"#).expect("is JSON")),
        when: When::Cron("0 * * * *".into()),
        ..ScheduleSpec::of("hourly", "/agents/demo/runs")
    }
}

/// A schedule and the clock that it is seen by.
struct World {
    now: Timestamp,
    state: Option<ScheduleState>,
    events: Vec<ScheduleEvent>,
    sends: Vec<Command>,
}

impl World {
    /// A schedule that was made at midnight, after its due time there.
    fn with(change: impl FnOnce(&mut ScheduleSpec)) -> Self {
        let mut spec = spec();
        change(&mut spec);
        let mut world = Self { now: MIDNIGHT, state: None, events: Vec::new(), sends: Vec::new() };
        let created = with_context(MIDNIGHT, |context| create(id(), alice(), spec, context));
        world.take(created.expect("is fit"));
        world.told();
        world
    }

    fn take(&mut self, decided: Decided) {
        for event in &decided.events {
            self.state = evolve(self.state.take(), event);
        }
        self.events.extend(decided.events);
        self.sends.extend(decided.sends);
    }

    fn state(&self) -> &ScheduleState {
        self.state.as_ref().expect("exists")
    }

    /// What happened since it was last asked.
    fn told(&mut self) -> Vec<String> {
        let told = std::mem::take(&mut self.events).iter().map(short).collect();
        self.sends.clear();
        told
    }

    /// So much time passes before anybody looks.
    fn after(&mut self, ms: i64) -> Vec<String> {
        self.now = self.now.plus_ms(ms);
        let decided = with_context(self.now, |context| wake(self.state(), context));
        self.take(decided);
        self.told()
    }

    fn ask(&mut self, command: ScheduleCommand) -> Result<Vec<String>, Refusal> {
        let asked = CommandId::trusted(&self.now.to_string());
        let decided = with_context(self.now, |context| change(self.state(), &asked, command, context))?;
        self.take(decided);
        Ok(self.told())
    }

    fn run_ends(&mut self, status: AttemptStatus) -> Vec<String> {
        let fire = self.state().active().next().expect("a run is under way").clone();
        let by = ScheduledBy { schedule_id: id(), owner: alice(), fire_id: fire.fire_id, attempt: fire.attempt };
        let told = Report { by, run_id: fire.run_id, status, error: None };
        let decided = report(self.state(), &told, self.now);
        self.take(decided);
        self.told()
    }
}

fn with_context<T>(now: Timestamp, decide: impl FnOnce(&Context<'_>) -> T) -> T {
    let is_served = |agent: &AgentId| agent.as_str() == "demo";
    let is_taken = |name: &str| name == "taken";
    decide(&Context { now, is_served: &is_served, is_taken: &is_taken })
}

/// Minutes since midnight.
fn minute(at: Timestamp) -> i64 {
    at.ms_since(MIDNIGHT) / MINUTE_MS
}

fn short(event: &ScheduleEvent) -> String {
    match event {
        ScheduleEvent::Fired(ScheduleFired { due, waits, triggered, replaces, .. }) => {
            let (waits, replaces) = (if *waits { " waits" } else { "" }, replaces.len());
            let how = if *triggered { "triggered" } else { "fired" };
            format!("{how} {}{waits}{}", minute(*due), if replaces > 0 { " replaces" } else { "" })
        }
        ScheduleEvent::Skipped(ScheduleSkipped { due, until, reason, .. }) => {
            let until = until.map(|until| format!("-{}", minute(until))).unwrap_or_default();
            format!("skipped {}{until} {reason:?}", minute(*due))
        }
        ScheduleEvent::AttemptStarted(AttemptStarted { due, attempt, .. }) => {
            format!("attempt {attempt} of {}", minute(*due))
        }
        ScheduleEvent::AttemptReported(reported) => {
            format!("{}{}", reported.status.as_str(), if reported.retry_at.is_some() { " again" } else { "" })
        }
        other => other.type_name().trim_start_matches("dev.reenact.schedule.").to_owned(),
    }
}

#[test]
fn a_due_time_fires_once_and_asks_for_a_run_whose_name_follows_from_it() {
    let mut world = World::with(|_| {});
    assert_eq!(world.state().next_run_at, Some(MIDNIGHT.plus_ms(HOUR_MS)));
    assert!(world.after(HOUR_MS - 1).is_empty());
    let decided = with_context(MIDNIGHT.plus_ms(HOUR_MS), |context| wake(world.state(), context));
    let [Command { user_id, body: CommandBody::StartRun(start), id: asked, .. }] = &*decided.sends else {
        panic!("{:?}", decided.sends)
    };
    assert_eq!(*user_id, alice(), "the run belongs to the schedule's owner");
    assert_eq!(start.scheduled_by.as_ref().map(|by| by.fire_id), Some(fire_at(&id(), MIDNIGHT.plus_ms(HOUR_MS))));
    let expected = RunId::of_command(asked, &start.session_id);
    assert_eq!(world.after(1), ["fired 60", "attempt 1 of 60"]);
    assert_eq!(world.state().open[0].run_id, expected);
    assert!(world.after(0).is_empty());
}

#[test]
fn a19_a_clock_that_steps_back_and_forth_makes_no_due_time_come_twice() {
    let mut world = World::with(|_| {});
    assert_eq!(world.after(HOUR_MS), ["fired 60", "attempt 1 of 60"]);
    world.run_ends(AttemptStatus::Success);
    assert!(world.after(-30 * MINUTE_MS).is_empty());
    assert!(world.after(31 * MINUTE_MS).is_empty(), "60 is over");
    assert_eq!(world.after(59 * MINUTE_MS), ["fired 120", "attempt 1 of 120"]);
    world.run_ends(AttemptStatus::Success);
    world.now = MIDNIGHT;
    let disabled = world.ask(ScheduleCommand::Disable(id())).expect("is fine");
    assert_eq!(disabled, ["disabled.v1"]);
    world.ask(ScheduleCommand::Enable(id())).expect("is fine");
    assert_eq!(world.state().next_run_at, Some(MIDNIGHT.plus_ms(3 * HOUR_MS)), "60 and 120 were seen to");
}

#[test]
fn a19_the_catch_up_policy_says_what_becomes_of_missed_due_times() {
    let missed = 3 * HOUR_MS + 30 * MINUTE_MS;
    let mut none = World::with(|spec| spec.catch_up = CatchUp::None);
    assert_eq!(none.after(missed), ["skipped 60-180 Missed"]);
    let mut last = World::with(|spec| spec.catch_up = CatchUp::Last);
    assert_eq!(last.after(missed), ["skipped 60-120 Missed", "fired 180", "attempt 1 of 180"]);
    let mut all = World::with(|spec| spec.catch_up = CatchUp::All);
    assert_eq!(all.after(missed), ["fired 60", "attempt 1 of 60", "fired 120 waits", "fired 180 waits"]);
    assert_eq!(all.run_ends(AttemptStatus::Success), ["success", "attempt 1 of 120"]);
    assert_eq!(all.run_ends(AttemptStatus::Failed), ["failed", "attempt 1 of 180"]);
    for world in [none, last, all] {
        assert_eq!(world.state().next_run_at, Some(MIDNIGHT.plus_ms(4 * HOUR_MS)));
    }
}

#[test]
fn a_restart_that_takes_a_moment_misses_nothing_whatever_the_policy() {
    let mut none = World::with(|spec| spec.catch_up = CatchUp::None);
    assert_eq!(none.after(HOUR_MS + 50_000), ["fired 60", "attempt 1 of 60"]);
}

#[test]
fn very_many_missed_due_times_are_made_up_for_up_to_a_bound() {
    let mut world = World::with(|spec| {
        (spec.catch_up, spec.overlap) = (CatchUp::All, Overlap::Allow);
        spec.when = When::Cron("* * * * *".into());
    });
    let told = world.after(24 * HOUR_MS);
    assert_eq!(told[0], "skipped 1-1340 Missed");
    assert_eq!(told.iter().filter(|event| event.starts_with("fired")).count(), 100);
}

#[test]
fn a19_the_overlap_policy_says_what_a_due_time_does_to_a_run_under_way() {
    let begun = |overlap| {
        let mut world = World::with(|spec| (spec.overlap, spec.timeout_s) = (overlap, 86_400));
        assert_eq!(world.after(HOUR_MS), ["fired 60", "attempt 1 of 60"]);
        world
    };
    assert_eq!(begun(Overlap::Skip).after(HOUR_MS), ["skipped 120 Overlap"]);
    let mut queue = begun(Overlap::Queue);
    assert_eq!(queue.after(HOUR_MS), ["fired 120 waits"]);
    assert_eq!(queue.run_ends(AttemptStatus::Success), ["success", "attempt 1 of 120"]);
    let mut allow = begun(Overlap::Allow);
    assert_eq!(allow.after(HOUR_MS), ["fired 120", "attempt 1 of 120"]);
    assert_eq!(allow.state().active().count(), 2);
    let mut replace = World::with(|spec| {
        (spec.overlap, spec.timeout_s, spec.max_retries) = (Overlap::CancelPrevious, 86_400, 3);
    });
    replace.after(HOUR_MS);
    assert_eq!(replace.after(HOUR_MS), ["fired 120 replaces", "attempt 1 of 120"]);
    assert_eq!(replace.run_ends(AttemptStatus::Failed), ["failed"], "a run that was replaced is not made again");
}

#[test]
fn a_run_that_waits_for_a_person_keeps_no_other_from_its_turn_and_its_end_is_told() {
    let mut world = World::with(|spec| spec.timeout_s = 86_400);
    world.after(HOUR_MS);
    assert_eq!(world.run_ends(AttemptStatus::Paused), ["paused"]);
    let waits = world.state().open[0].clone();
    assert_eq!(world.after(HOUR_MS), ["fired 120", "attempt 1 of 120"]);
    let by = ScheduledBy { schedule_id: id(), owner: alice(), fire_id: waits.fire_id, attempt: 1 };
    let told = Report { by, run_id: waits.run_id, status: AttemptStatus::Success, error: None };
    let decided = report(world.state(), &told, world.now);
    assert_eq!(decided.events.len(), 1);
    world.take(decided);
    assert_eq!(report(world.state(), &told, world.now), Decided::default(), "once");
}

#[test]
fn a_failed_attempt_is_made_again_as_another_run_until_there_were_enough() {
    let mut world = World::with(|spec| (spec.max_retries, spec.retry_delay_s) = (1, 30));
    world.after(HOUR_MS);
    let first = world.state().open[0].run_id.clone();
    assert_eq!(world.run_ends(AttemptStatus::Failed), ["failed again"]);
    assert!(world.after(29_999).is_empty());
    assert_eq!(world.after(1), ["attempt 2 of 60"]);
    assert_ne!(world.state().open[0].run_id, first);
    assert_eq!(world.run_ends(AttemptStatus::Failed), ["failed"]);
    assert!(world.state().open.is_empty());
}

#[test]
fn an_attempt_that_takes_too_long_has_failed_and_its_run_is_stopped() {
    let mut world = World::with(|spec| spec.timeout_s = 60);
    world.after(HOUR_MS);
    let run = world.state().open[0].run_id.clone();
    let decided = with_context(world.now.plus_ms(60_000), |context| wake(world.state(), context));
    assert!(matches!(&decided.sends[0].body, CommandBody::CancelRun { run_id, .. } if *run_id == run));
    assert_eq!(world.after(60_000), ["failed"]);
}

#[test]
fn a_target_that_is_gone_disables_its_schedule_with_the_reason() {
    let world = World::with(|_| {});
    let nobody = |_: &AgentId| false;
    let context = Context { now: MIDNIGHT.plus_ms(HOUR_MS), is_served: &nobody, is_taken: &|_| false };
    let decided = wake(world.state(), &context);
    let [ScheduleEvent::Disabled(disabled)] = &*decided.events else { panic!("{:?}", decided.events) };
    assert!(disabled.reason.as_ref().is_some_and(|reason| reason.contains("`demo`")));
}

#[test]
fn a19_a_trigger_fires_at_once_beside_the_due_times_and_obeys_the_overlap_policy() {
    let mut world = World::with(|_| {});
    world.now = world.now.plus_ms(5 * MINUTE_MS);
    assert_eq!(world.ask(ScheduleCommand::Trigger(id())), Ok(vec!["triggered 5".into(), "attempt 1 of 5".into()]));
    assert_eq!(world.state().next_run_at, Some(MIDNIGHT.plus_ms(HOUR_MS)));
    world.now = world.now.plus_ms(10);
    let Err(Refusal::ScheduleConflict(reason)) = world.ask(ScheduleCommand::Trigger(id())) else { panic!("fired") };
    assert!(reason.contains("is under way"), "{reason}");
    world.ask(ScheduleCommand::Disable(id())).expect("is fine");
    assert!(matches!(world.ask(ScheduleCommand::Trigger(id())), Err(Refusal::ScheduleConflict(_))));
}

#[test]
fn what_is_disabled_waits_for_nothing_any_more() {
    let mut world = World::with(|spec| {
        (spec.overlap, spec.timeout_s, spec.max_retries) = (Overlap::Queue, 86_400, 1);
    });
    world.after(HOUR_MS);
    world.after(HOUR_MS);
    assert_eq!(world.ask(ScheduleCommand::Disable(id())), Ok(vec!["disabled.v1".into(), "cancelled".into()]));
    assert_eq!(world.run_ends(AttemptStatus::Failed), ["failed"], "and nothing is made again");
    assert_eq!(world.state().wakes_at(), None);
}

#[test]
fn a_schedule_that_is_never_due_or_whose_name_is_taken_is_not_made() {
    let made = |change: &dyn Fn(&mut ScheduleSpec)| {
        let mut spec = spec();
        change(&mut spec);
        with_context(MIDNIGHT, |context| create(id(), None, spec, context))
    };
    let unfit = |change: &dyn Fn(&mut ScheduleSpec)| match made(change) {
        Err(Refusal::ScheduleUnfit(unfit)) => unfit.field.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(unfit(&|spec| spec.when = When::Cron("0 0 30 2 *".into())), "cron_expr");
    assert_eq!(unfit(&|spec| spec.when = When::At(MIDNIGHT)), "at");
    assert_eq!(unfit(&|spec| spec.endpoint = "/agents/nobody/runs".into()), "endpoint");
    assert!(matches!(made(&|spec| spec.name = "taken".into()), Err(Refusal::ScheduleConflict(_))));
}

#[test]
fn one_that_is_due_once_fires_once() {
    let mut world = World::with(|spec| spec.when = When::At(MIDNIGHT.plus_ms(5 * MINUTE_MS)));
    assert_eq!(world.after(6 * MINUTE_MS), ["fired 5", "attempt 1 of 5"]);
    assert_eq!(world.state().next_run_at, None);
    let change = ScheduleChange { description: Some("over".into()), ..ScheduleChange::default() };
    assert_eq!(world.ask(ScheduleCommand::Update(id(), Box::new(change))), Ok(vec!["updated.v1".into()]));
    assert!(matches!(world.state().open[0].stands, Stands::Running(_)));
}
