//! What must always hold of a log, each named once and checked by simulations, tests and production alike.
//!
//! * `E1`: a stream's sequences grow by one from 0.
//! * `E2`: offsets grow.
//! * `E3`: terms never fall, and a term is the offset of its claim.
//! * `E4`: the chain links.
//! * `R1`: a run's events follow its life: its status moves as [`moves`] says, and nothing happens to it where it must not.
//! * `R2`: a step's attempts grow by one, an outcome names the latest attempt, and there is one outcome.
//! * `R3`: an `at_most_once` step is never requested again but after a decision to retry.
//! * `R4`: an event id is seen once.
//! * `R5`: a run never goes back to a model that it gave up, unless it was queued again, nor to a conversation that was
//!   too long.
//! * `R6`: a held call is decided about once, not made unless it was confirmed, and held again only in a run that was
//!   queued again.
//! * `S1`: a schedule fires once for a due time, and its due times grow.
//! * `R7`: a run takes steps over before it begins, and never makes one of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ChainHash, Event, Offset, Recorded, RunEvent, RunId, ScheduleEvent, ScheduleId, StreamKey, Term, Timestamp,
    agent::Effect,
    event::{PartitionEvent, Resolution, RunStatus, StepCall},
    hold::Verdict,
    moves,
};

/// Something that must never be, was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invariant {name} is broken at offset {offset}: {detail}")]
pub struct Broken {
    /// Which, for example `E1`.
    pub name: &'static str,
    /// Where.
    pub offset: Offset,
    /// How.
    pub detail: String,
}

#[derive(Debug, Default, Clone)]
struct StepWatch {
    attempt: u32,
    at_most_once: bool,
    retry_allowed: bool,
    settled: bool,
    held: bool,
    in_doubt: bool,
    may_be_held_again: bool,
}

#[derive(Debug, Clone)]
struct RunWatch {
    status: RunStatus,
    begun: bool,
    steps: BTreeMap<u32, StepWatch>,
    asked: (u32, u32),
    /// How many steps there were when it was last queued again.
    old_steps: usize,
}

/// Watches one partition from its first event (or from a known position) on.
#[derive(Debug, Default)]
pub struct Watch {
    last_offset: Option<Offset>,
    term: Term,
    chain: ChainHash,
    sequences: BTreeMap<StreamKey, u64>,
    runs: BTreeMap<RunId, RunWatch>,
    ids: BTreeSet<uuid::Uuid>,
    fires: BTreeSet<uuid::Uuid>,
    dues: BTreeMap<ScheduleId, Timestamp>,
}

impl Watch {
    /// Takes the next event.
    ///
    /// # Errors
    /// The first invariant that it breaks.
    pub fn see(&mut self, recorded: &Recorded) -> Result<(), Broken> {
        let broken = |name, detail: String| Err(Broken { name, offset: recorded.offset, detail });
        let event = &recorded.event;
        if self.last_offset.is_some_and(|last| recorded.offset <= last) {
            return broken("E2", format!("offset after {:?}", self.last_offset));
        }
        let expected = self.sequences.get(&event.key).map_or(0, |last| last + 1);
        if event.seq != expected {
            return broken("E1", format!("stream `{}` has {} where {expected} follows", event.key, event.seq));
        }
        if recorded.term < self.term {
            return broken("E3", format!("term {} after {}", recorded.term, self.term));
        }
        if !recorded.follows(self.chain) {
            return broken("E4", "the link does not follow from the one before".to_owned());
        }
        if !self.ids.insert(event.id) {
            return broken("R4", format!("event id {} again", event.id));
        }
        self.last_offset = Some(recorded.offset);
        self.sequences.insert(event.key.clone(), event.seq);
        self.term = recorded.term;
        self.chain = recorded.chain;
        match recorded.decode() {
            Ok(Event::Schedule(event)) => self.see_schedule(&event).or_else(|detail| broken("S1", detail)),
            Ok(Event::Run(run)) => self.see_run(&run).or_else(|(name, detail)| broken(name, detail)),
            Ok(Event::Partition(PartitionEvent::Claimed(_))) if recorded.term.0 != recorded.offset.0 => {
                broken("E3", format!("claim under term {}", recorded.term))
            }
            Ok(_) => Ok(()),
            Err(error) => broken("R1", error.to_string()),
        }
    }

    /// The runs that were accepted and have not ended.
    #[must_use]
    pub fn open_runs(&self) -> Vec<RunId> {
        self.runs.iter().filter(|(_, run)| !run.status.is_end()).map(|(id, _)| id.clone()).collect()
    }

    /// What is told of a run by what was seen of it.
    #[must_use]
    pub fn status(&self, run: &RunId) -> Option<RunStatus> {
        self.runs.get(run).map(|run| run.status)
    }

    /// How many runs were accepted.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    fn see_schedule(&mut self, event: &ScheduleEvent) -> Result<(), String> {
        let (due, until) = match event {
            ScheduleEvent::Fired(fired) => {
                if !self.fires.insert(fired.fire_id) {
                    return Err(format!("fire `{}` of schedule `{}` comes twice", fired.fire_id, fired.schedule_id));
                }
                if fired.triggered {
                    return Ok(());
                }
                (fired.due, fired.due)
            }
            ScheduleEvent::Skipped(skipped) => (skipped.due, skipped.until.unwrap_or(skipped.due)),
            _ => return Ok(()),
        };
        let schedule = event.schedule_id();
        match self.dues.insert(schedule.clone(), until) {
            Some(last) if due <= last => Err(format!("schedule `{schedule}` is due at {due}, after {last}")),
            _ => Ok(()),
        }
    }

    fn see_run(&mut self, event: &RunEvent) -> Result<(), (&'static str, String)> {
        let id = event.run_id();
        if let RunEvent::Queued(_) = event {
            let watch = RunWatch {
                status: RunStatus::Pending,
                begun: false,
                steps: BTreeMap::new(),
                asked: (0, 0),
                old_steps: 0,
            };
            return match self.runs.insert(id.clone(), watch) {
                None => Ok(()),
                Some(_) => Err(("R1", format!("run `{id}` queued twice"))),
            };
        }
        let Some(run) = self.runs.get_mut(id) else {
            return Err(("R1", format!("run `{id}` was never queued")));
        };
        run.see(event).map_err(|(name, detail)| (name, format!("run `{id}`: {detail}")))
    }
}

impl RunWatch {
    fn see(&mut self, event: &RunEvent) -> Result<(), (&'static str, String)> {
        let next = moves::next(Some(self.status), event).map_err(|none| ("R1", none.to_string()))?;
        self.see_step(event)?;
        let waits_for_somebody = self.steps.values().any(|step| step.held || step.in_doubt);
        self.status = next.status(self.status, waits_for_somebody);
        Ok(())
    }

    fn see_step(&mut self, event: &RunEvent) -> Result<(), (&'static str, String)> {
        match event {
            RunEvent::Started(_) => {
                self.begun = true;
                Ok(())
            }
            RunEvent::Requeued(_) => {
                // It begins anew, but for its steps: those keep their outcomes, and the first model may be asked again.
                (self.asked.0, self.old_steps) = (0, self.steps.len());
                self.steps.values_mut().for_each(|step| step.may_be_held_again = step.held);
                Ok(())
            }
            RunEvent::StepRequested(step) => self.requested(step),
            RunEvent::StepCompleted(step) => self.settle(step.step, step.attempt),
            RunEvent::StepFailed(step) if step.retry_at.is_none() => self.settle(step.step, step.attempt),
            RunEvent::StepFailed(step) => self.latest(step.step, step.attempt).map(drop),
            RunEvent::StepInDoubt(step) => {
                self.latest(step.step, step.attempt)?.in_doubt = true;
                Ok(())
            }
            RunEvent::StepResolved(step) => self.resolved(step.step, &step.resolution),
            RunEvent::StepTakenOver(step) => self.taken_over(step.step),
            RunEvent::StepHeld(step) => self.held(step.step),
            RunEvent::StepAnswered(step) => {
                self.released(step.step, !matches!(step.verdict, Verdict::Confirmed { .. }))
            }
            RunEvent::StepExpired(step) => self.released(step.step, true),
            _ => Ok(()),
        }
    }

    fn requested(&mut self, step: &crate::event::StepRequested) -> Result<(), (&'static str, String)> {
        let at_most_once = matches!(step.call, StepCall::Tool { effect: Effect::AtMostOnce, .. });
        let known = self.steps.len();
        if !self.steps.contains_key(&step.step) && step.step as usize != known {
            return Err(("R2", format!("step {} where {known} follows", step.step)));
        }
        let watch = self.steps.entry(step.step).or_default();
        if watch.held {
            return Err(("R6", format!("step {} is held and was requested", step.step)));
        }
        if watch.settled || step.attempt != watch.attempt + 1 {
            return Err(("R2", format!("step {} attempt {} after {}", step.step, step.attempt, watch.attempt)));
        }
        if watch.attempt > 0 && watch.at_most_once && !std::mem::take(&mut watch.retry_allowed) {
            return Err(("R3", format!("step {} requested again", step.step)));
        }
        watch.attempt = step.attempt;
        watch.at_most_once = at_most_once;
        let Some(model) = &step.model else { return Ok(()) };
        // A step from before it was queued again is taken up with the model that it had come to; the next may begin anew.
        let is_old = (step.step as usize) < self.old_steps;
        let asks = if is_old { self.asked.0 } else { model.place };
        let (place, trims) = std::mem::replace(&mut self.asked, (asks, model.trims));
        if asks < place || model.trims < trims {
            return Err(("R5", format!("model {} trim {} after {place} and {trims}", model.place, model.trims)));
        }
        Ok(())
    }

    fn taken_over(&mut self, step: u32) -> Result<(), (&'static str, String)> {
        if self.begun || step as usize != self.steps.len() {
            return Err(("R7", format!("step {step} is taken over where {} follows", self.steps.len())));
        }
        self.steps.insert(step, StepWatch { settled: true, ..StepWatch::default() });
        Ok(())
    }

    fn held(&mut self, step: u32) -> Result<(), (&'static str, String)> {
        let known = self.steps.len();
        if let Some(watch) = self.steps.get_mut(&step) {
            return match watch.held && std::mem::take(&mut watch.may_be_held_again) {
                true => Ok(()),
                false => Err(("R6", format!("step {step} is held again, known is {watch:?}"))),
            };
        }
        if step as usize != known {
            return Err(("R2", format!("step {step} is held where {known} follows")));
        }
        self.steps.insert(step, StepWatch { held: true, ..StepWatch::default() });
        Ok(())
    }

    fn released(&mut self, step: u32, settled: bool) -> Result<(), (&'static str, String)> {
        match self.steps.get_mut(&step) {
            Some(watch) if watch.held => {
                watch.held = false;
                watch.settled = settled;
                Ok(())
            }
            other => Err(("R6", format!("decision about step {step}, which is not held: {other:?}"))),
        }
    }

    fn latest(&mut self, step: u32, attempt: u32) -> Result<&mut StepWatch, (&'static str, String)> {
        match self.steps.get_mut(&step) {
            Some(watch) if !watch.settled && watch.attempt == attempt => Ok(watch),
            other => Err(("R2", format!("outcome of step {step} attempt {attempt}, known is {other:?}"))),
        }
    }

    fn settle(&mut self, step: u32, attempt: u32) -> Result<(), (&'static str, String)> {
        self.latest(step, attempt)?.settled = true;
        Ok(())
    }

    fn resolved(&mut self, step: u32, resolution: &Resolution) -> Result<(), (&'static str, String)> {
        match self.steps.get_mut(&step) {
            Some(watch) if !watch.settled => {
                watch.retry_allowed = *resolution == Resolution::Retry;
                watch.settled = !watch.retry_allowed;
                watch.in_doubt = false;
                Ok(())
            }
            other => Err(("R2", format!("decision about step {step}, known is {other:?}"))),
        }
    }
}
