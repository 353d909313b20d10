//! What a run does next. Pure: the shell commits the events, and only then performs what they ask for.
//!
//! Recovery follows from the fold: the only open question after a crash is a step that was requested and has
//! no outcome, and the step's declared effect answers it (architecture §8).

mod guardrails;
mod holds;
mod models;
mod output;
mod replace;
mod requeue;
mod tools;

use std::{collections::BTreeSet, sync::Arc};

use reenact_events::{
    RunEvent, RunId, StepToken, Text, Timestamp, UserId,
    agent::{AgentSpec, Effect},
    command::Decision,
    event::{
        Blocked, CancellationStage, Failure, RunCancelRequested, RunCancelled, RunContinued, RunFailed, RunStarted,
        RunStatus, StepCall, StepCompleted, StepInDoubt, StepRequested, StepResult,
    },
    session_state::StateChanges,
};

pub use requeue::refused as not_requeued;

use super::{
    evolve::evolve,
    state::{Asked, RunState, Step, StepState},
};
use crate::{api::Refusal, step::StepError};

/// Milliseconds after a step's request in which it may be begun.
pub const START_WINDOW_MS: i64 = 5_000;
/// Tool calls of one turn that run side by side.
pub const PARALLEL_TOOLS_MAX: u32 = 16;
/// A provider that asks for a longer wait than this ends the run instead, milliseconds.
pub const RETRY_AFTER_MS_MAX: u64 = 600_000;
/// The longest pause between attempts when the provider names none, milliseconds.
const BACKOFF_MS_MAX: i64 = 30_000;

/// What can happen to a run.
#[derive(Debug, Clone)]
pub enum RunCommand {
    /// It got its turn: for the first time, or again after a pause.
    Begin,
    /// A model attempt ended.
    ModelReturned {
        /// Which step.
        step: u32,
        /// Which attempt.
        attempt: u32,
        /// What it brought.
        outcome: Result<StepResult, StepError>,
        /// Why that is not the answer that was asked for.
        unfit: Option<Arc<str>>,
        /// The next trim that would shorten what was sent, if there is one.
        trim: Option<u32>,
        /// Milliseconds that it took.
        duration_ms: u64,
    },
    /// A tool attempt ended.
    ToolReturned {
        /// Which step.
        step: u32,
        /// Which attempt.
        attempt: u32,
        /// What it brought.
        result: StepResult,
        /// What it changes in the session's state.
        session_state: Option<Box<StateChanges>>,
        /// Milliseconds that it took.
        duration_ms: u64,
    },
    /// A guardrail was asked.
    Guarded {
        /// Which step.
        step: u32,
        /// Which attempt.
        attempt: u32,
        /// What it said, or why it did not.
        outcome: Result<Option<Blocked>, Failure>,
        /// Milliseconds that it took.
        duration_ms: u64,
    },
    /// A `reconcile` tool was asked about an attempt that a crash cut off.
    Reconciled {
        /// Which step.
        step: u32,
        /// Which attempt.
        attempt: u32,
        /// What it said.
        answer: ReconcileAnswer,
    },
    /// An attempt could not be begun before its `not_after`.
    StartedTooLate {
        /// Which step.
        step: u32,
        /// Which attempt.
        attempt: u32,
    },
    /// A waiting step's time has come.
    RetryDue {
        /// Which step.
        step: u32,
    },
    /// The run's actor begins again after a crash.
    Recover {
        /// The attempts that were open then, by step: those of the actor that asks are its own.
        owed: Vec<(u32, u32)>,
    },
    /// Somebody wants it to stop.
    Cancel {
        /// Why.
        reason: Option<Arc<str>>,
        /// What the model had said of its unfinished answer.
        partial: Option<Text>,
    },
    /// Somebody decided about calls that are held or in doubt.
    Resolve {
        /// What is decided, at least one.
        decisions: Vec<Decision>,
        /// By whom.
        by: Option<UserId>,
        /// Whether it has a slot, so that it goes on at once when nothing else is left to decide.
        has_slot: bool,
    },
    /// The time of a held call may be over.
    Expire,
    /// It cannot go on.
    Fail(Failure),
    /// It has failed or was stopped, and is to wait for its turn once more.
    Requeue {
        /// Who says so.
        by: Option<UserId>,
    },
    /// It has ended, and another run answers in its place.
    Replace {
        /// Which.
        by: RunId,
    },
}

impl RunCommand {
    /// Whether it tells of a step that is at work.
    fn is_of_a_step(&self) -> bool {
        !matches!(self, Self::Begin | Self::Cancel { .. } | Self::Resolve { .. } | Self::Fail(_) | Self::Requeue { .. })
    }
}

/// See [`RunCommand::Reconciled`].
#[derive(Debug, Clone)]
pub enum ReconcileAnswer {
    /// It happened, with this result and these changes of the session's state.
    Happened(StepResult, Option<Box<StateChanges>>),
    /// It did not happen.
    DidNotHappen,
    /// Nobody knows.
    Unknown(Arc<str>),
}

/// A model's turn with what is wrong with it as an answer, or why there is none with the next trim.
type Returned = Result<(StepResult, Option<Arc<str>>), (StepError, Option<u32>)>;

/// What a decision may look at beside the state.
#[derive(Debug, Clone)]
pub struct Context {
    /// The present moment.
    pub now: Timestamp,
    /// The agent that the run pinned.
    pub agent: Arc<AgentSpec>,
}

/// The events that follow from a command; none when it has no effect (a late result, a repeated cancel).
///
/// # Errors
/// When a rule forbids the command; nothing changes then.
pub fn decide(run: &RunState, command: RunCommand, context: &Context) -> Result<Vec<RunEvent>, Refusal> {
    let mut draft = Draft { run: run.clone(), events: Vec::new(), context };
    if run.progress.status.is_end() {
        return match command {
            RunCommand::Resolve { decisions, .. } => Err(Refusal::not_in_doubt(run.id(), &decisions)),
            RunCommand::Requeue { by } => draft.requeue(by).map(|()| draft.events),
            RunCommand::Replace { by } => draft.replace(by).map(|()| draft.events),
            _ => Ok(Vec::new()),
        };
    }
    if run.progress.history_lost {
        draft.fail(history_lost());
        return Ok(draft.events);
    }
    if run.progress.status == RunStatus::Pending && command.is_of_a_step() {
        // Its step was cut off by the end after which the run was queued again: it is taken up when the run begins.
        return Ok(Vec::new());
    }
    match command {
        RunCommand::Begin => draft.begin(),
        RunCommand::ModelReturned { step, attempt, outcome, unfit, trim, duration_ms } => {
            let outcome = outcome.map(|result| (result, unfit)).map_err(|error| (error, trim));
            draft.model_returned(step, attempt, outcome, duration_ms);
        }
        RunCommand::ToolReturned { step, attempt, result, session_state, duration_ms } => {
            draft.tool_returned(step, attempt, (result, session_state), duration_ms);
        }
        RunCommand::Guarded { step, attempt, outcome, duration_ms } => {
            draft.guarded(step, attempt, outcome, duration_ms);
        }
        RunCommand::Reconciled { step, attempt, answer } => draft.reconciled(step, attempt, answer),
        RunCommand::StartedTooLate { step, attempt } => draft.started_too_late(step, attempt),
        RunCommand::RetryDue { step } => draft.retry_due(step),
        RunCommand::Recover { owed } => draft.recover(&owed),
        RunCommand::Cancel { reason, partial } => draft.cancel(reason, partial),
        RunCommand::Resolve { decisions, by, has_slot } => draft.resolve(decisions, by.as_ref(), has_slot)?,
        RunCommand::Expire => draft.expire(),
        RunCommand::Fail(error) => draft.fail(error),
        RunCommand::Requeue { .. } => return Err(not_requeued(run, false)),
        RunCommand::Replace { by } => draft.replace(by)?,
    }
    Ok(draft.events)
}

/// Why a run ends that may have done more than its events tell: nothing of it is done again.
#[must_use]
pub fn history_lost() -> Failure {
    Failure {
        kind: "history_lost".into(),
        message: "events of the log were lost, and it was accepted to go on without them: this run may have done more \
                  than is known. Nothing of it is done again: look at what its tools did, and start a new run"
            .into(),
        status: None,
    }
}

/// The run as it would be after the events so far, and those events.
struct Draft<'a> {
    run: RunState,
    events: Vec<RunEvent>,
    context: &'a Context,
}

impl Draft<'_> {
    fn push(&mut self, event: impl Into<RunEvent>) {
        let event = event.into();
        evolve(&mut self.run, &event, self.context.now);
        self.events.push(event);
    }

    fn run_id(&self) -> RunId {
        self.run.id().clone()
    }

    fn begin(&mut self) {
        if self.run.progress.status == RunStatus::Pending {
            self.push(RunStarted { run_id: self.run_id() });
            self.take_up();
            self.advance();
        } else if self.run.may_continue() {
            self.push(RunContinued { run_id: self.run_id() });
            self.retry_what_may_be();
            self.advance();
        }
    }

    /// Requests whatever can be done now, or ends the run.
    fn advance(&mut self) {
        if self.run.progress.status != RunStatus::Running {
            return;
        }
        let spoken_to_at = self.run.origin.spoken_to_at();
        let Some(last_turn) = self.run.progress.last_turn.filter(|turn| *turn >= spoken_to_at) else {
            return self.admit_input(spoken_to_at);
        };
        let Some(last) = self.run.step(last_turn).cloned() else { return };
        match last.state.clone() {
            StepState::Done(StepResult::Model { text, tool_calls, .. }) => {
                if tool_calls.is_empty() {
                    return self.answered(&last, last_turn, text);
                }
                self.request_tools(last_turn, &tool_calls);
                let asked = self.run.progress.steps - last_turn - 1;
                if asked as usize == tool_calls.len() && self.run.progress.open == 0 {
                    self.request_model();
                }
            }
            StepState::Failed(_) if self.is_old(last_turn) => self.request_model(),
            StepState::Failed(error) => self.fail(self.out_of_models(&last, error)),
            _ => {}
        }
        self.pause_if_only_somebody_can_help();
    }

    fn request(&mut self, step: u32, attempt: u32, call: StepCall, asked: Asked) {
        let token = StepToken::of_step(self.run.id(), step);
        let not_after = self.context.now.plus_ms(START_WINDOW_MS);
        let model = if matches!(call, StepCall::Model { .. }) { self.named(asked) } else { None };
        self.push(StepRequested { run_id: self.run_id(), step, attempt, token, not_after, call, model });
    }

    fn again(&mut self, step: u32) {
        if let Some(known) = self.run.step(step).cloned() {
            self.request(step, known.attempt + 1, known.call.clone(), known.asked);
        }
    }

    fn model_returned(&mut self, step: u32, attempt: u32, outcome: Returned, duration_ms: u64) {
        if self.run.awaits(step, attempt).is_none() {
            return;
        }
        match outcome {
            Ok((mut result, unfit)) => {
                self.make_call_ids_unique(&mut result, step);
                self.push(StepCompleted {
                    run_id: self.run_id(),
                    step,
                    attempt,
                    result,
                    duration_ms,
                    unfit,
                    session_state: None,
                });
                self.advance();
            }
            Err((error, trim)) => self.model_failed(step, error, trim),
        }
    }

    /// Providers repeat or omit the ids of calls; results are matched by id, so each gets one of its own.
    fn make_call_ids_unique(&self, result: &mut StepResult, step: u32) {
        let StepResult::Model { tool_calls, .. } = result else { return };
        let mut seen: BTreeSet<Arc<str>> = self.run.steps.iter().filter_map(|step| step.call_id().cloned()).collect();
        for (index, call) in tool_calls.iter_mut().enumerate() {
            if call.id.is_empty() || !seen.insert(call.id.clone()) {
                call.id = format!("call_{step}_{index}").into();
                seen.insert(call.id.clone());
            }
        }
    }

    fn retry_due(&mut self, step: u32) {
        if self.run.step(step).is_some_and(|known| matches!(known.state, StepState::Waiting { .. })) {
            self.again(step);
        }
    }

    /// After a crash: what was requested and has no outcome is asked again where that is harmless, and is in
    /// doubt where it is not. `Reconcile` steps stay as they are: the shell asks the tool first.
    fn recover(&mut self, owed: &[(u32, u32)]) {
        // What is approved while the run waits for its turn is asked when the turn comes.
        if self.run.progress.status != RunStatus::Running {
            return;
        }
        let is_owed = |(at, step): &(u32, &Arc<Step>)| owed.contains(&(*at, step.attempt));
        let open: Vec<_> = self.run.open_steps().filter(is_owed).map(|(at, step)| (at, step.clone())).collect();
        for (at, step) in open {
            match (&step.state, step.effect()) {
                (StepState::Requested, Effect::AtMostOnce) => self.push(StepInDoubt {
                    run_id: self.run_id(),
                    step: at,
                    attempt: step.attempt,
                    reason: "the process ended while the call was being made".into(),
                }),
                (StepState::Requested, Effect::ReadOnly | Effect::Idempotent) | (StepState::RetryAllowed, _) => {
                    self.again(at);
                }
                _ => {}
            }
        }
        self.advance();
    }

    fn cancel(&mut self, reason: Option<Arc<str>>, partial: Option<Text>) {
        let stage = match self.run.progress.status {
            RunStatus::Pending => CancellationStage::Pending,
            RunStatus::Paused => CancellationStage::Paused,
            _ => CancellationStage::Executing,
        };
        self.push(RunCancelRequested { run_id: self.run_id(), reason: reason.clone() });
        self.push(RunCancelled { run_id: self.run_id(), stage, partial, reason });
    }

    /// All decisions count, or none does.
    fn resolve(&mut self, decisions: Vec<Decision>, by: Option<&UserId>, has_slot: bool) -> Result<(), Refusal> {
        for decision in decisions {
            self.decided(decision, by)?;
            if self.run.progress.status.is_end() {
                return Ok(());
            }
        }
        self.go_on(has_slot);
        Ok(())
    }

    /// After a decision, or when nobody is waited for any more.
    fn go_on(&mut self, has_slot: bool) {
        match self.run.progress.status {
            RunStatus::Paused if has_slot => self.begin(),
            RunStatus::Running => {
                self.retry_what_may_be();
                self.advance();
            }
            _ => {}
        }
    }

    fn retry_what_may_be(&mut self) {
        let allowed: Vec<_> =
            self.run.open_steps().filter(|(_, step)| step.state == StepState::RetryAllowed).map(|(at, _)| at).collect();
        for step in allowed {
            self.again(step);
        }
    }

    /// A run that has not had its turn gets it with its end, so that it does not count as one that waits.
    fn fail(&mut self, error: Failure) {
        if self.run.progress.status == RunStatus::Pending {
            self.push(RunStarted { run_id: self.run_id() });
        }
        self.push(RunFailed { run_id: self.run_id(), error, error_id: None });
    }
}

impl Step {
    /// What recovery may assume: a call of a model or a guardrail changes nothing outside.
    #[must_use]
    pub fn effect(&self) -> Effect {
        match &self.call {
            StepCall::Model { .. } | StepCall::Guardrail { .. } => Effect::ReadOnly,
            StepCall::Tool { effect, .. } => *effect,
        }
    }

    fn call_id(&self) -> Option<&Arc<str>> {
        match &self.call {
            StepCall::Model { .. } | StepCall::Guardrail { .. } => None,
            StepCall::Tool { call_id, .. } => Some(call_id),
        }
    }
}
