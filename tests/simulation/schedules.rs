//! Schedules of a world: made, changed, fired by hand and by the clock, in any weather. Each is due once, so that the
//! world comes to rest; what must never happen twice is what invariant `S1` says.

use std::collections::BTreeMap;

use reenact_actors::{
    NodeHandle,
    api::{Refusal, SubmitError},
    schedule::{ScheduleState, evolve},
};
use reenact_events::{
    Command, CommandBody, CommandId, Event, EventLog, MemoryLog, PartitionId, RawJson, ScheduleId, UserId,
    event::ScheduleEvent,
    schedule::{CatchUp, Overlap, ScheduleChange, ScheduleCommand, ScheduleSpec, When},
};

use crate::{
    client::{Client, owner},
    steps,
};

impl Client {
    /// Makes a schedule and does something with it; every command twice, which changes nothing.
    pub(crate) async fn schedule_something(&self, node: &NodeHandle, number: u64) {
        let session = self.session();
        let owner = owner(&session);
        let name = format!("schedule{}-{number}", self.life);
        let now = self.clock.now();
        let spec = ScheduleSpec {
            payload: RawJson::parse(&format!(r#"{{"message": "go", "session_id": "{session}"}}"#)).ok(),
            when: When::At(now.plus_ms(i64::try_from(1 + self.dice.below(900)).expect("small"))),
            max_retries: 1,
            retry_delay_s: 1,
            catch_up: if self.dice.hits(500) { CatchUp::All } else { CatchUp::None },
            overlap: Overlap::WORDS[usize::try_from(self.dice.below(4)).expect("small")].1,
            ..ScheduleSpec::of(&name, &format!("/agents/{}/runs", steps::agent().id))
        };
        let create = CommandId::trusted(&name);
        let id = ScheduleId::of_command(&create, owner.as_ref());
        self.ask_twice(node, create, owner.as_ref(), ScheduleCommand::Create(Box::new(spec))).await;
        for step in 0..1 + self.dice.below(4) {
            let change = ScheduleChange { description: Some("changed".into()), ..ScheduleChange::default() };
            let what = match self.dice.below(8) {
                0 => ScheduleCommand::Disable(id.clone()),
                1 => ScheduleCommand::Enable(id.clone()),
                2 => ScheduleCommand::Update(id.clone(), Box::new(change)),
                3 if self.dice.hits(300) => ScheduleCommand::Delete(id.clone()),
                _ => ScheduleCommand::Trigger(id.clone()),
            };
            self.ask_twice(node, CommandId::trusted(&format!("{name}-{step}")), owner.as_ref(), what).await;
        }
    }

    async fn ask_twice(&self, node: &NodeHandle, id: CommandId, owner: Option<&UserId>, what: ScheduleCommand) {
        let command = Command::new(id, owner.cloned(), CommandBody::Schedule(what));
        for _ in 0..2 {
            match node.submit(command.clone()).await {
                Ok(_)
                | Err(
                    SubmitError::Unavailable { .. }
                    | SubmitError::Refused(
                        Refusal::ScheduleNotFound | Refusal::ScheduleConflict(_) | Refusal::ScheduleUnfit(_),
                    ),
                ) => {}
                Err(other) => panic!("a command about a schedule was answered with: {other}"),
            }
        }
    }
}

fn folded(log: &MemoryLog) -> BTreeMap<ScheduleId, Option<ScheduleState>> {
    let mut schedules: BTreeMap<ScheduleId, Option<ScheduleState>> = BTreeMap::new();
    for recorded in (0..log.partitions()).flat_map(|partition| log.recorded(PartitionId(partition))) {
        if let Event::Schedule(event) = recorded.decode().expect("readable") {
            let state = schedules.entry(event.schedule_id().clone()).or_default();
            *state = evolve(state.take(), &event);
        }
    }
    schedules
}

/// The schedules for which something is still to be done: due times, runs under way, and fires that wait for them.
pub(crate) fn owed(log: &MemoryLog) -> Vec<ScheduleId> {
    let is_owed = |state: &ScheduleState| state.wakes_at().is_some() || !state.waiting.is_empty();
    folded(log).into_values().flatten().filter(is_owed).map(|state| state.id).collect()
}

/// Each attempt's run was accepted, or the schedule was told that it was not; and each was told how it ended.
pub(crate) fn each_attempt_was_told(log: &MemoryLog) -> Result<(), String> {
    let (mut started, mut told, mut gone) = (BTreeMap::new(), Vec::new(), Vec::new());
    for recorded in (0..log.partitions()).flat_map(|partition| log.recorded(PartitionId(partition))) {
        match recorded.decode().expect("readable") {
            Event::Schedule(ScheduleEvent::AttemptStarted(event)) => {
                let attempt = (event.fire_id, event.attempt);
                if started.insert(attempt, event.schedule_id).is_some() {
                    return Err(format!("attempt {attempt:?} was begun twice"));
                }
            }
            Event::Schedule(ScheduleEvent::AttemptReported(event)) => told.push((event.fire_id, event.attempt)),
            Event::Schedule(ScheduleEvent::Deleted(event)) => gone.push(event.schedule_id),
            _ => {}
        }
    }
    let silent = started.iter().find(|(attempt, schedule)| !told.contains(attempt) && !gone.contains(schedule));
    silent.map_or(Ok(()), |(attempt, schedule)| {
        Err(format!("schedule `{schedule}` was never told of its attempt {attempt:?}"))
    })
}
