//! A session's decisions alone, walked at random: commands, outcomes and crashes in any order, without actors, so that
//! what a living node makes unlikely is common and a walk costs some milliseconds.
//!
//! After every single event the run's status is one that an arrow of [`moves::MOVES`] leads to, and the fold, the
//! views and the invariants' watch agree about it. After every command each run has ended or waits for something that
//! has a name. At the end all get what they wait for, and all end.

use std::{collections::BTreeMap, sync::Arc};

use reenact_actors::{
    api::Refusal,
    run::{Context, RunCommand, RunState, StepState, decide, evolve, fork::cut, history},
    session::{self, NewFork, NewRun, fork_run},
    states::{Fact, States},
};
use reenact_events::{
    BatchId, ChainHash, Event, LogId, NewEvent, Offset, PartitionId, Recorded, RunEvent, RunId, SessionId, StreamKey,
    Term, Text, Timestamp,
    command::{AgentRef, ForkFrom, StartRun},
    event::{RunStatus, SessionDeleted},
    invariants::Watch,
    moves,
    session_state::SessionValues,
};
use reenact_projections::RunView;
use reenact_snapshots::{MemoryStore, Position};

use crate::{draw::Draw, faults::Dice, steps};

/// Runs of a walk's session.
const RUNS_MAX: u64 = 5;

struct Walk {
    dice: Dice,
    context: Context,
    session: SessionId,
    states: States,
    store: Arc<MemoryStore>,
    log: Vec<Recorded>,
    watch: Watch,
    views: BTreeMap<RunId, RunView>,
    runs: u64,
}

/// What a run that has not ended waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitsFor {
    /// Its turn: a slot, and its session.
    Turn,
    /// The outcome of a step.
    Outcome,
    /// The moment that a provider asked for.
    Moment,
    /// Somebody's decision.
    Decision,
}

/// Walks and lets everything end.
pub(crate) fn run(seed: u64) -> Result<(), String> {
    let mut walk = Walk::new(seed);
    walk.start()?;
    for _ in 0..walk.dice.below(90) {
        walk.step()?;
        walk.all_wait_for_something()?;
    }
    walk.settle()
}

impl Walk {
    fn new(seed: u64) -> Self {
        let store = Arc::new(MemoryStore::default());
        Self {
            dice: Dice::new(seed),
            context: Context { now: Timestamp(0), agent: steps::agent() },
            session: SessionId::trusted("s"),
            states: States::new(store.clone()),
            store,
            log: Vec::new(),
            watch: Watch::default(),
            views: BTreeMap::new(),
            runs: 0,
        }
    }

    fn step(&mut self) -> Result<(), String> {
        let passed = if self.dice.hits(50) { 70_000 } else { 400 };
        self.context.now = self.context.now.plus_ms(i64::try_from(self.dice.below(passed)).expect("small"));
        match self.dice.below(30) {
            0 if self.runs < RUNS_MAX => self.start(),
            1 => self.crash(),
            2 if self.dice.hits(50) => self.delete(),
            3 if self.runs < RUNS_MAX => self.fork(),
            _ => match self.some_run() {
                Some(run) => {
                    let command = Draw { dice: &self.dice, run: &run }.any();
                    self.command(run.id(), command)
                }
                None => self.start(),
            },
        }
    }

    fn run(&self, id: &RunId) -> Option<Arc<RunState>> {
        self.states.run(id).expect("memory does not fail")
    }

    fn all(&self) -> Vec<Arc<RunState>> {
        (0..self.runs).filter_map(|number| self.run(&run_id(number))).collect()
    }

    fn some_run(&self) -> Option<Arc<RunState>> {
        let all = self.all();
        (!all.is_empty()).then(|| self.dice.pick(&all).clone())
    }

    fn start(&mut self) -> Result<(), String> {
        let (id, agent) = (run_id(self.runs), self.context.agent.clone());
        self.runs += 1;
        let start = StartRun {
            session_id: self.session.clone(),
            agent: AgentRef::Pinned(agent.clone()),
            input: Text::inline("go"),
            media: Vec::new(),
            metadata: None,
            session_state: None,
            stream: false,
            background: true,
            output_schema: None,
            scheduled_by: None,
        };
        let session = self.states.session(&self.session).expect("memory does not fail");
        let version = agent.version();
        let new = NewRun {
            run_id: id,
            user_id: None,
            start: &start,
            version_known: self.states.agent(&version).expect("memory does not fail").is_some(),
            version,
            begins: session.is_free() || self.dice.hits(300),
            defaults: SessionValues::new(),
        };
        let events = session::start_run(&session, new, &self.context).map_err(|refusal| refusal.to_string())?;
        self.record(events)
    }

    /// Another run goes on from some message of some run, or answers in its place.
    fn fork(&mut self) -> Result<(), String> {
        let Some(source) = self.some_run() else { return self.start() };
        let agent = self.context.agent.clone();
        let regenerates = self.dice.hits(400);
        let from = if regenerates { ForkFrom::Answer } else { Draw { dice: &self.dice, run: &source }.place() };
        let input = self.dice.hits(600).then(|| Text::inline("and then?"));
        let Ok(cut) = cut(&source, &agent, from, input.is_some()) else { return Ok(()) };
        let session = self.states.session(&self.session).expect("memory does not fail");
        let new = NewFork {
            own: false,
            run_id: run_id(self.runs),
            user_id: None,
            source: &source,
            cut,
            input,
            regenerates,
            replaces: regenerates && self.dice.hits(700),
            version: agent.version(),
            version_known: true,
            begins: session.is_free() || self.dice.hits(300),
            defaults: SessionValues::new(),
            stream: false,
            background: true,
        };
        let events = fork_run(&session, new, &self.context).map_err(|refusal| refusal.to_string())?;
        self.runs += 1;
        self.record(events)
    }

    /// As the session's actor does it: what is open is cancelled first.
    fn delete(&mut self) -> Result<(), String> {
        for run in self.all() {
            self.command(run.id(), RunCommand::Cancel { reason: None, partial: None })?;
        }
        let delete = |walk: &Self| {
            let session = walk.states.session(&walk.session).expect("memory does not fail");
            let deleted = SessionDeleted { session_id: walk.session.clone(), reason: None };
            session::delete(&session, deleted, None, None)
        };
        if let Ok(events) = delete(self) {
            self.record(events)?;
        }
        match delete(self) {
            Err(Refusal::SessionNotFound) if self.all().is_empty() => Ok(()),
            other => Err(format!("a session that was deleted is still there: {other:?}")),
        }
    }

    /// The process dies, sometimes with its state store, and the next one takes up what was under way.
    fn crash(&mut self) -> Result<(), String> {
        let before = self.all();
        if self.dice.hits(500) {
            self.store = Arc::new(MemoryStore::default());
            self.states = States::new(self.store.clone());
            for recorded in &self.log {
                fold(&self.states, recorded)?;
            }
        } else {
            self.states = States::new(self.store.clone());
        }
        if self.all() != before {
            return Err(format!("another state after a crash:\n{before:#?}\n{:#?}", self.all()));
        }
        for run in before.iter().filter(|run| run.progress.status == RunStatus::Running) {
            self.command(run.id(), Draw { dice: &self.dice, run }.recover())?;
        }
        Ok(())
    }

    fn command(&mut self, id: &RunId, command: RunCommand) -> Result<(), String> {
        let Some(run) = self.run(id) else { return Ok(()) };
        let (was, asks) = (run.told_status(), format!("{command:?}"));
        let is_asked = matches!(command, RunCommand::Resolve { .. } | RunCommand::Requeue { .. });
        let is_requeue = matches!(command, RunCommand::Requeue { .. });
        let Ok(events) = decide(&run, command, &self.context) else { return Ok(()) };
        if events.is_empty() && is_asked {
            return Err(format!("whoever asked {asks} of a run that is {was:?} was told it happened, and nothing did"));
        }
        if was.is_end() && !events.is_empty() && !(is_requeue && was != RunStatus::Completed) {
            return Err(format!("{asks} changed a run that is {was:?}: {events:?}"));
        }
        self.follows_the_arrows(&run, &events)?;
        self.record(events.into_iter().map(Event::from).collect())
    }

    /// Event by event, since a batch may hold several moves.
    fn follows_the_arrows(&self, run: &RunState, events: &[RunEvent]) -> Result<(), String> {
        let mut run = run.clone();
        for event in events {
            let from = run.told_status();
            evolve(&mut run, event, self.context.now);
            let to = run.told_status();
            let is_arrow = moves::MOVES.iter().any(|arrow| arrow.from.contains(&from) && arrow.to == to);
            if from != to && !is_arrow {
                return Err(format!("no arrow leads from {from:?} to {to:?}, where {} went", event.type_name()));
            }
        }
        Ok(())
    }

    fn record(&mut self, events: Vec<Event>) -> Result<(), String> {
        for event in events {
            let seq = self.log.len() as u64;
            let new = NewEvent::new(StreamKey::session(&self.session), seq, self.context.now, None, None, &event)
                .map_err(|error| error.to_string())?;
            let chain = self.log.last().map_or_else(ChainHash::default, |last| last.chain).link(&new, Term(0));
            let batch = BatchId(uuid::Uuid::nil());
            let (partition, offset, term) = (PartitionId(0), Offset(seq), Term(0));
            let recorded = Recorded { partition, offset, term, batch, chain, event: new, stored: None };
            self.watch.see(&recorded).map_err(|broken| broken.to_string())?;
            fold(&self.states, &recorded)?;
            self.view(event);
            self.log.push(recorded);
        }
        self.all_say_the_same()
    }

    fn view(&mut self, event: Event) {
        match event {
            Event::Run(RunEvent::Queued(queued)) => {
                self.views.insert(queued.run_id.clone(), RunView::new(queued, self.context.now));
            }
            Event::Run(event) => {
                if let Some(view) = self.views.get_mut(event.run_id()) {
                    view.apply(self.context.now, &event);
                }
            }
            _ => {}
        }
    }

    /// The fold that decides, the views and the watch.
    fn all_say_the_same(&self) -> Result<(), String> {
        for run in self.all() {
            let view = self.views.get(run.id()).map(|view| view.status);
            let said = [Some(run.told_status()), view, self.watch.status(run.id())];
            if said.iter().any(|status| *status != said[0]) {
                return Err(format!("fold, views and watch of `{}` say {said:?}", run.id()));
            }
        }
        Ok(())
    }

    fn all_wait_for_something(&self) -> Result<(), String> {
        for run in self.all().iter().filter(|run| !run.progress.status.is_end()) {
            if waits_for(run).is_empty() {
                return Err(format!("this run waits for nothing: {}", brief(run)));
            }
        }
        Ok(())
    }

    /// From here on everybody gets what they wait for: all runs must end.
    fn settle(&mut self) -> Result<(), String> {
        for _ in 0..2_000 {
            let open: Vec<_> = self.all().into_iter().filter(|run| !run.progress.status.is_end()).collect();
            if open.is_empty() {
                self.every_call_has_one_result();
                return Ok(());
            }
            for run in open {
                if waits_for(&run).contains(&WaitsFor::Turn) {
                    self.command(run.id(), RunCommand::Begin)?;
                    continue;
                }
                // Nobody may decide any more where the time is over.
                self.command(run.id(), RunCommand::Expire)?;
                for at in run.open_steps().map(|(at, _)| at) {
                    let Some(now) = self.run(run.id()) else { break };
                    self.command(run.id(), Draw { dice: &self.dice, run: &now }.bring_on(at))?;
                }
            }
            self.all_wait_for_something()?;
        }
        Err(format!("runs do not end: {:#?}", self.all().iter().map(|run| brief(run)).collect::<Vec<_>>()))
    }

    /// What the next run of the session would be shown is well formed.
    fn every_call_has_one_result(&self) {
        for run in self.all().iter().filter(|run| run.progress.status == RunStatus::Completed) {
            let agent = &self.context.agent;
            steps::assert_well_formed(&history::messages(agent, &SessionValues::new(), &[], run, 2));
        }
    }
}

fn run_id(number: u64) -> RunId {
    RunId::trusted(&format!("r{number}"))
}

fn fold(states: &States, recorded: &Recorded) -> Result<(), String> {
    let event = recorded.decode().map_err(|error| error.to_string())?;
    let position = Position {
        log_id: LogId(uuid::Uuid::nil()),
        partition: recorded.partition,
        next_offset: Offset(recorded.offset.0 + 1),
        term: recorded.term,
        chain: recorded.chain,
    };
    let NewEvent { key, seq, at, .. } = &recorded.event;
    let fact = Fact { key, seq: *seq, at: *at, cause: None, event: &event };
    states.apply(&[fact], position).map_err(|error| error.to_string())
}

/// A run as far as it matters here.
fn brief(run: &RunState) -> String {
    let open: Vec<_> = run.open_steps().map(|(at, step)| format!("{at}: {:?}", step.state)).collect();
    format!("{:?}, {:?}, open {open:?}", run.told_status(), run.progress)
}

/// What has a name of all that an open run could wait for. One that is at work waits for its steps, and at least for
/// one that no person holds up; one that is paused waits for persons only.
fn waits_for(run: &RunState) -> Vec<WaitsFor> {
    if run.told_status() == RunStatus::Pending {
        return vec![WaitsFor::Turn];
    }
    let named = |state: &StepState| match state {
        StepState::Requested => Some(WaitsFor::Outcome),
        StepState::Waiting { .. } => Some(WaitsFor::Moment),
        StepState::InDoubt | StepState::Held(_) => Some(WaitsFor::Decision),
        // It may be made, so it should have been requested.
        StepState::RetryAllowed if run.progress.status == RunStatus::Running => None,
        _ => None,
    };
    let waits: Vec<_> = run.open_steps().filter_map(|(_, step)| named(&step.state)).collect();
    let is_paused = run.progress.status == RunStatus::Paused;
    if waits.iter().all(|wait| *wait == WaitsFor::Decision) == is_paused { waits } else { Vec::new() }
}
