//! A run as far as its events tell.

use std::{collections::BTreeMap, sync::Arc};

use reenact_events::{
    Event, RunEvent, StepToken, Text, Timestamp,
    event::{
        AskedModel, Resolution, RunCancelled, RunCompleted, RunFailed, RunQueued, RunStatus, StepAnswered, StepCall,
        StepCompleted, StepFailed, StepHeld, StepInDoubt, StepRequested, StepResolved, StepResult, StepTakenOver,
        Usage,
    },
    hold::{self, Verdict},
    moves, upcast,
};

use super::{holds::Held, usage::ModelUsage};
use crate::{ViewError, query::RunEventRow};

/// What the model reads where a person decided that a step is left out.
pub const SKIPPED: &str = "(it was decided not to make this call)";

/// One try of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attempt {
    /// The model it asked, if it did and its event says.
    pub model: Option<AskedModel>,
    /// Tokens it cost, if the provider said.
    pub usage: Option<Usage>,
    /// Milliseconds it took, if it came back.
    pub duration_ms: Option<u64>,
}

/// One journaled call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepView {
    /// Names it across its attempts.
    pub token: StepToken,
    /// What is done.
    pub call: StepCall,
    /// When it was first requested.
    pub requested: Timestamp,
    /// When its outcome came.
    pub settled: Option<Timestamp>,
    /// Its tries, by number.
    pub attempts: BTreeMap<u32, Attempt>,
    /// What it brought, once it did.
    pub result: Option<StepResult>,
    /// Why that is not the answer that was asked for.
    pub unfit: Option<Arc<str>>,
    /// Why it is in doubt, while it is: the attempt and the reason.
    pub doubt: Option<(u32, Arc<str>)>,
    /// What it waited for before it could be made, if it did.
    pub held: Option<Held>,
}

impl StepView {
    /// A step that another run has made: this one tried nothing, so it has no attempts and cost nothing.
    fn taken_over(at: Timestamp, event: &StepTakenOver) -> Self {
        Self {
            token: StepToken::of_step(&event.run_id, event.step),
            call: event.call.clone(),
            requested: at,
            settled: Some(at),
            attempts: BTreeMap::new(),
            result: Some(event.result.clone()),
            unfit: event.unfit.clone(),
            doubt: None,
            held: None,
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// With this answer.
    Completed(RunCompleted),
    /// With this error.
    Failed(RunFailed),
    /// Stopped.
    Cancelled(RunCancelled),
}

/// A run as far as its events tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunView {
    /// What was asked.
    pub queued: RunQueued,
    /// When it was accepted.
    pub created: Timestamp,
    /// When it got its turn.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Where it is.
    pub status: RunStatus,
    /// What it waits for, while it is paused and something is left to decide.
    pub pause: Option<Arc<str>>,
    /// Its calls, by place.
    pub steps: BTreeMap<u32, StepView>,
    /// How it ended.
    pub end: Option<End>,
    /// What it had cost when it was last queued again: its session has that already.
    pub counted: ModelUsage,
}

impl RunView {
    /// The run that `queued` begins.
    #[must_use]
    pub fn new(queued: RunQueued, created: Timestamp) -> Self {
        Self {
            queued,
            created,
            started: None,
            ended: None,
            status: RunStatus::Pending,
            pause: None,
            steps: BTreeMap::new(),
            end: None,
            counted: ModelUsage::default(),
        }
    }

    /// Folds the stored events of a run; `None` when they do not begin with its acceptance.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn from_rows(rows: &[RunEventRow]) -> Result<Option<Self>, ViewError> {
        let mut view: Option<Self> = None;
        for row in rows {
            let event = upcast::decode(&row.kind, &row.data).map_err(|error| ViewError::BadRow {
                row: format!("run_events {}", row.seq).into(),
                reason: error.to_string().into(),
            })?;
            if let Event::Run(event) = event {
                Self::next(&mut view, Timestamp(row.at), &event);
            }
        }
        Ok(view)
    }

    /// Takes the next event of a run of which nothing is known before its acceptance.
    pub fn next(view: &mut Option<Self>, at: Timestamp, event: &RunEvent) {
        match (event, view) {
            (RunEvent::Queued(queued), view @ None) => *view = Some(Self::new(queued.clone(), at)),
            (event, Some(view)) => view.apply(at, event),
            (_, None) => {}
        }
    }

    /// Takes the next event of the run.
    pub fn apply(&mut self, at: Timestamp, event: &RunEvent) {
        self.status = moves::target(event).unwrap_or(self.status);
        match event {
            RunEvent::Queued(_) | RunEvent::CancelRequested(_) | RunEvent::Regenerated(_) => {}
            RunEvent::Started(_) => self.started = Some(at),
            RunEvent::StepRequested(step) => self.requested(at, step),
            RunEvent::StepCompleted(step) => self.completed(at, step),
            RunEvent::StepFailed(step) => self.failed(at, step),
            RunEvent::StepInDoubt(step) => self.in_doubt(step),
            RunEvent::StepResolved(step) => self.resolved(at, step),
            RunEvent::StepTakenOver(step) => {
                self.steps.insert(step.step, StepView::taken_over(at, step));
            }
            RunEvent::StepHeld(step) => {
                self.steps.insert(step.step, StepView::held(at, step));
            }
            RunEvent::StepAnswered(step) => self.answered(at, step),
            RunEvent::StepExpired(step) => self.release(at, step.step, None, Some(hold::expired())),
            RunEvent::Paused(paused) => self.pause = Some(paused.reason.clone()),
            RunEvent::Continued(_) => self.pause = None,
            RunEvent::Completed(end) => self.end(at, End::Completed(end.clone())),
            RunEvent::Failed(end) => self.end(at, End::Failed(end.clone())),
            RunEvent::Cancelled(end) => self.end(at, End::Cancelled(end.clone())),
            RunEvent::Requeued(_) => {
                self.counted = ModelUsage::of(self);
                (self.ended, self.end) = (None, None);
                self.steps.values_mut().filter_map(|step| step.held.as_mut()).for_each(Held::stop_time);
            }
        }
    }

    fn end(&mut self, at: Timestamp, end: End) {
        self.ended = Some(at);
        self.pause = None;
        self.end = Some(end);
    }

    fn requested(&mut self, at: Timestamp, event: &StepRequested) {
        let step = self.steps.entry(event.step).or_insert_with(|| StepView {
            token: event.token,
            call: event.call.clone(),
            requested: at,
            settled: None,
            attempts: BTreeMap::new(),
            result: None,
            unfit: None,
            doubt: None,
            held: None,
        });
        step.doubt = None;
        step.attempts.insert(event.attempt, Attempt { model: event.model.clone(), ..Attempt::default() });
    }

    fn completed(&mut self, at: Timestamp, event: &StepCompleted) {
        let Some(step) = self.steps.get_mut(&event.step) else { return };
        let usage = match &event.result {
            StepResult::Model { usage, .. } => *usage,
            StepResult::Tool { .. } | StepResult::Guardrail { .. } => None,
        };
        let attempt = step.attempts.entry(event.attempt).or_default();
        (attempt.usage, attempt.duration_ms) = (usage, Some(event.duration_ms));
        step.unfit.clone_from(&event.unfit);
        step.settle(at, event.result.clone());
    }

    fn failed(&mut self, at: Timestamp, event: &StepFailed) {
        let Some(step) = self.steps.get_mut(&event.step) else { return };
        step.attempts.entry(event.attempt).or_default().usage = event.usage;
        if event.retry_at.is_none() && matches!(step.call, StepCall::Tool { .. }) {
            step.settle(at, tool_result(Text::inline(&event.error.message), true));
        }
    }

    fn in_doubt(&mut self, event: &StepInDoubt) {
        if let Some(step) = self.steps.get_mut(&event.step) {
            step.doubt = Some((event.attempt, event.reason.clone()));
        }
    }

    fn resolved(&mut self, at: Timestamp, event: &StepResolved) {
        let Some(step) = self.steps.get_mut(&event.step) else { return };
        step.doubt = None;
        match (&event.resolution, event.outcome()) {
            (_, Some(told)) => step.settle(at, told),
            (Resolution::Retry | Resolution::Fail, None) => {}
            (Resolution::Completed { value }, None) => step.settle(at, tool_result(value.clone(), false)),
            (Resolution::Skip, None) => step.settle(at, tool_result(Text::inline(SKIPPED), true)),
        }
        self.end_pause();
    }

    fn answered(&mut self, at: Timestamp, event: &StepAnswered) {
        if let (Some(step), Verdict::Confirmed { arguments: Some(changed), .. }) =
            (self.steps.get_mut(&event.step), &event.verdict)
            && let StepCall::Tool { arguments, .. } = &mut step.call
        {
            arguments.clone_from(changed);
        }
        self.release(at, event.step, Some(event), event.verdict.outcome());
    }

    /// Nobody is waited for any more at this step.
    fn release(&mut self, at: Timestamp, step: u32, answer: Option<&StepAnswered>, outcome: Option<StepResult>) {
        let Some(step) = self.steps.get_mut(&step) else { return };
        if let Some(held) = &mut step.held {
            held.release(at, answer);
        }
        if let Some(outcome) = outcome {
            step.settle(at, outcome);
        }
        self.end_pause();
    }

    fn end_pause(&mut self) {
        if self.status == RunStatus::Paused && !self.steps.values().any(StepView::waits) {
            // Nobody is waited for any more: like a run that has not begun, it goes on when its turn comes.
            self.status = RunStatus::Pending;
            self.pause = None;
        }
    }
}

impl RunView {
    /// The model that was asked last, where events say so.
    #[must_use]
    pub fn asked_last(&self) -> Option<&AskedModel> {
        self.steps.values().rev().find_map(|step| step.attempts.values().next_back()?.model.as_ref())
    }
}

impl StepView {
    /// A call that waits for somebody before it is made.
    #[must_use]
    pub fn held(at: Timestamp, event: &StepHeld) -> Self {
        Self {
            token: event.token,
            call: event.call.clone(),
            requested: at,
            settled: None,
            attempts: BTreeMap::new(),
            result: None,
            unfit: None,
            doubt: None,
            held: Some(Held::of(event)),
        }
    }

    /// Whether somebody has to decide.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.doubt.is_some() || self.held.as_ref().is_some_and(Held::waits)
    }

    fn settle(&mut self, at: Timestamp, result: StepResult) {
        self.settled = Some(at);
        self.result = Some(result);
    }
}

fn tool_result(content: Text, error: bool) -> StepResult {
    StepResult::Tool { content, error, media: Vec::new() }
}
