//! What must be true of a world afterwards.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use reenact_actors::run::reenact::{Recording, reenact};
use reenact_events::{
    ChainHash, Event, EventLog, MemoryLog, PartitionId, RunEvent, RunId, SessionEvent, StepToken, agent::Effect,
    event::Resolution, invariants::Watch,
};
use reenact_snapshots::{MemoryStore, Position, StateStore};

use crate::{client::Promises, ledger::Ledger};

pub(crate) struct World<'a> {
    pub(crate) log: &'a MemoryLog,
    pub(crate) ledger: &'a Ledger,
    pub(crate) promises: &'a Promises,
    pub(crate) stores: &'a BTreeMap<PartitionId, Arc<MemoryStore>>,
    pub(crate) views: &'a crate::views::SharedViews,
    pub(crate) lives: u64,
    pub(crate) faults: u64,
    pub(crate) snapshots_read: u64,
}

/// What a world was like, so that a simulation that simulates nothing is noticed.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) digest: String,
    pub(crate) runs: u64,
    pub(crate) lives: u64,
    pub(crate) faults: u64,
    pub(crate) snapshots_read: u64,
    pub(crate) calls: u64,
    pub(crate) kinds: BTreeMap<String, u64>,
}

/// What no world does: sessions are renamed over HTTP, and a user is erased by the server, which holds their keys.
const ELSEWHERE: [&str; 2] = ["dev.reenact.session.updated.v1", "dev.reenact.subject.erased.v1"];

#[derive(Debug, Default)]
pub(crate) struct Totals {
    worlds: u64,
    runs: u64,
    lives: u64,
    faults: u64,
    snapshots_read: u64,
    calls: u64,
    kinds: BTreeMap<String, u64>,
}

impl Totals {
    pub(crate) fn add(&mut self, seen: &Seen) {
        self.worlds += 1;
        self.runs += seen.runs;
        self.lives += seen.lives;
        self.faults += seen.faults;
        self.snapshots_read += seen.snapshots_read;
        self.calls += seen.calls;
        for (kind, count) in &seen.kinds {
            *self.kinds.entry(kind.clone()).or_default() += count;
        }
    }

    /// With a hundred worlds, everything that can happen to a run has happened.
    pub(crate) fn check_that_worlds_were_rough(&self) {
        if self.worlds < 100 {
            return;
        }
        assert!(self.snapshots_read > self.worlds / 4, "hardly any node has started from a snapshot");
        assert!(self.faults > 0 && self.calls > 0 && self.lives > self.worlds);
        for kind in reenact_events::event::CURRENT_TYPES.iter().filter(|kind| !ELSEWHERE.contains(kind)) {
            assert!(self.kinds.contains_key(*kind), "no world has seen {kind}");
        }
    }
}

fn events(log: &MemoryLog) -> impl Iterator<Item = Event> + '_ {
    (0..log.partitions())
        .map(PartitionId)
        .flat_map(|partition| log.recorded(partition))
        .map(|recorded| recorded.decode().expect("readable"))
}

/// The runs that were accepted and have not ended.
pub(crate) fn open_runs(log: &MemoryLog) -> BTreeSet<RunId> {
    let mut open = BTreeSet::new();
    for event in events(log) {
        if let Event::Run(event) = event {
            match event {
                RunEvent::Queued(queued) => {
                    open.insert(queued.run_id);
                }
                RunEvent::Requeued(requeued) => {
                    open.insert(requeued.run_id);
                }
                event if event.is_end() => {
                    open.remove(event.run_id());
                }
                _ => {}
            }
        }
    }
    open
}

/// The runs that were accepted, each once: also those that were asked for in several sessions under one key.
pub(crate) fn queued(log: &MemoryLog) -> Result<BTreeSet<RunId>, String> {
    let mut all = BTreeSet::new();
    for event in events(log) {
        if let Event::Run(RunEvent::Queued(queued)) = event
            && !all.insert(queued.run_id.clone())
        {
            return Err(format!("run `{}` was accepted twice", queued.run_id));
        }
    }
    Ok(all)
}

/// What was promised to happen and has not been accepted by any run.
pub(crate) fn missing(log: &MemoryLog, promises: &Promises) -> Result<BTreeSet<RunId>, String> {
    let queued = queued(log)?;
    let published = promises.published.lock().expect("promises");
    let accepted = promises.accepted.lock().expect("promises");
    Ok(accepted.keys().chain(published.iter()).filter(|run| !queued.contains(*run)).cloned().collect())
}

pub(crate) fn everything(world: &World<'_>) -> Result<Seen, String> {
    let mut digest = String::new();
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    let mut runs = 0;
    for partition in (0..world.log.partitions()).map(PartitionId) {
        let mut watch = Watch::default();
        let mut head = ChainHash::default();
        for recorded in world.log.recorded(partition) {
            watch.see(&recorded).map_err(|broken| format!("partition {partition}: {broken}"))?;
            *kinds.entry(recorded.event.kind.to_string()).or_default() += 1;
            head = recorded.chain;
        }
        if world.log.cursor_fell(partition) {
            return Err(format!("the cursor of partition {partition} was moved back"));
        }
        runs += watch.runs() as u64;
        digest.push_str(&head.to_string());
        same_store_when_folded_again(world, partition)?;
    }
    let open = open_runs(world.log);
    if !open.is_empty() {
        return Err(format!("these runs were accepted and did not end: {open:?}"));
    }
    let missing = missing(world.log, world.promises)?;
    if !missing.is_empty() {
        return Err(format!("these runs were promised and are not in the log: {missing:?}"));
    }
    if let Some(broken) = world.ledger.broken().first() {
        return Err(broken.clone());
    }
    once_per_token(world)?;
    nobody_waits_in_vain(world.log)?;
    crate::schedules::each_attempt_was_told(world.log)?;
    crate::views::same_when_rebuilt(world.log, world.views)?;
    same_when_reenacted(world.log)?;
    runs_of_a_session_are_numbered_without_gaps(world.log)?;
    let calls = world.ledger.calls().len() as u64;
    let World { lives, faults, snapshots_read, .. } = *world;
    Ok(Seen { digest, runs, lives, faults, snapshots_read, calls, kinds })
}

/// No step takes as long as a run may: a run that ran out of time was forgotten by somebody.
fn nobody_waits_in_vain(log: &MemoryLog) -> Result<(), String> {
    let timed_out = |event| match event {
        Event::Run(RunEvent::Failed(failed)) if &*failed.error.kind == "timeout" => Some(failed.run_id),
        _ => None,
    };
    match events(log).find_map(timed_out) {
        Some(run) => Err(format!("run `{run}` was not woken up and ran out of time")),
        None => Ok(()),
    }
}

/// Each run comes out as it was recorded when its decisions are taken once more, and an answer that was changed does
/// not.
fn same_when_reenacted(log: &MemoryLog) -> Result<(), String> {
    let mut runs: BTreeMap<RunId, Vec<Recording>> = BTreeMap::new();
    for recorded in (0..log.partitions()).flat_map(|partition| log.recorded(PartitionId(partition))) {
        let run = recorded.event.subject.clone();
        if let (Some(run), Ok(Event::Run(event))) = (run, recorded.decode()) {
            runs.entry(run).or_default().push(Recording { at: recorded.event.at, event });
        }
    }
    crate::forks::places_are_those_of_the_views(&runs)?;
    let agent = crate::steps::agent();
    for (run, mut recorded) in runs {
        if let Some(difference) = reenact(&recorded, &agent).difference {
            return Err(format!("run `{run}` comes out otherwise: {difference:?} of {recorded:?}"));
        }
        let last = recorded.len() - 1;
        if let RunEvent::Completed(completed) = &mut recorded[last].event {
            completed.content = "never said".into();
            if reenact(&recorded, &agent).difference.is_none_or(|difference| difference.place != last) {
                return Err(format!("an answer of run `{run}` that nobody gave comes out as recorded"));
            }
        }
    }
    Ok(())
}

/// What may not happen twice did not, whatever died; a decision to retry allows one more.
fn once_per_token(world: &World<'_>) -> Result<(), String> {
    let mut allowed: BTreeMap<StepToken, usize> = BTreeMap::new();
    for event in events(world.log) {
        if let Event::Run(RunEvent::StepResolved(resolved)) = event
            && resolved.resolution == Resolution::Retry
            // Without a person it is the owner, who knows that the call was never begun: it counts for none.
            && resolved.by.is_some()
        {
            *allowed.entry(StepToken::of_step(&resolved.run_id, resolved.step)).or_insert(1) += 1;
        }
    }
    let mut seen: BTreeMap<StepToken, usize> = BTreeMap::new();
    let mut attempts = BTreeSet::new();
    for call in world.ledger.calls() {
        if !attempts.insert((call.token, call.attempt)) {
            return Err(format!("attempt {} of {} {:?} was made twice", call.attempt, call.token, call.effect));
        }
        if matches!(call.effect, Effect::AtMostOnce | Effect::Reconcile) {
            let times = seen.entry(call.token).or_default();
            *times += 1;
            if *times > allowed.get(&call.token).copied().unwrap_or(1) {
                return Err(format!("a {:?} step was done {times} times: {}", call.effect, call.token));
            }
        }
    }
    Ok(())
}

fn runs_of_a_session_are_numbered_without_gaps(log: &MemoryLog) -> Result<(), String> {
    let mut next: BTreeMap<String, u64> = BTreeMap::new();
    for event in events(log) {
        match event {
            Event::Run(RunEvent::Queued(queued)) => {
                let expected = next.entry(queued.session_id.to_string()).or_default();
                if queued.run_index != *expected {
                    return Err(format!(
                        "run `{}` has index {} where {expected} follows",
                        queued.run_id, queued.run_index
                    ));
                }
                *expected += 1;
            }
            Event::Session(SessionEvent::Deleted(_)) => {}
            _ => {}
        }
    }
    Ok(())
}

/// Deleting the state store changes nothing: the log folded again gives the same store.
fn same_store_when_folded_again(world: &World<'_>, partition: PartitionId) -> Result<(), String> {
    use reenact_actors::states::{Fact, States};
    let Some(live) = world.stores.get(&partition) else { return Ok(()) };
    let Some(position) = live.position().expect("usable") else { return Ok(()) };
    let again = Arc::new(MemoryStore::default());
    let states = States::new(again.clone());
    for recorded in world.log.recorded(partition) {
        if recorded.offset >= position.next_offset {
            break;
        }
        let event = recorded.decode().expect("readable");
        let fact = Fact {
            key: &recorded.event.key,
            seq: recorded.event.seq,
            at: recorded.event.at,
            cause: recorded.event.cause.as_ref(),
            event: &event,
        };
        let position = Position { next_offset: recorded.offset.next(), ..position };
        states.apply(&[fact], position).expect("folds");
    }
    let [live, again] = [live, &again].map(|store| store.scan(&[], &[], usize::MAX).expect("usable"));
    if live == again {
        return Ok(());
    }
    let differing = live.iter().zip(&again).find(|(left, right)| left != right);
    Err(format!("partition {partition}: the live state store is not the log folded again, first at {differing:?}"))
}
