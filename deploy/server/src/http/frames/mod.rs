//! What a run's events and words look like on the wire: AgentOS's event names and fields.
//!
//! [`Frames`] is a fold without effects: the same events and words give the same frames, live, after a
//! reconnect and after a restart. It is fed from the run's first event even when a reader has seen half of
//! it, so that totals and open steps are right; frames up to the reader's `floor` are folded and not sent.
//!
//! **Indices.** An event's last frame has the event's own index `E = seq << 20`. A frame that must come
//! before it has `E - 1`: deltas number upward from the event before and never come near. *Control frames*
//! have no index and come directly before the indexed frame that they belong to, so a reader that comes back
//! with the last index it saw meets either both or neither.
//!
//! | event | frames |
//! |---|---|
//! | `started` | `RunStarted` |
//! | `step.requested`, model | (`attempt_restarted` when it is a further attempt) `ModelRequestStarted` |
//! | a delta | `RunContent` at the delta's index |
//! | `step.completed`, model | (`attempt_restarted`) (`RunContent` with the whole text at `E - 1`, when the words seen are not the text) `ModelRequestCompleted` |
//! | `step.requested`, tool | `ToolCallStarted`, for the first attempt |
//! | `step.completed`, tool | `ToolCallCompleted` or `ToolCallError` |
//! | `step.failed`, tool, for good | `ToolCallError` |
//! | `step.held` | none: the call begins when it is requested, and `RunPaused` tells of it |
//! | `step.resolved`, `step.answered`, `step.expired` | `ToolCallCompleted` or `ToolCallError`; nothing when the call is made. After the last one the run is PENDING |
//! | `paused` | `RunContentCompleted` at `E - 1`, `RunPaused` |
//! | `continued` | `RunContinued` |
//! | `step.requested`, guardrail | `PreHookStarted` or `PostHookStarted`, for the first attempt |
//! | `step.completed`, guardrail | `PreHookCompleted` or `PostHookCompleted`, unless it blocks |
//! | `completed` | `RunContentCompleted` at `E - 1`, `RunCompleted` |
//! | `failed`, `cancelled` | `RunError`, `RunCancelled` |
//! | `requeued` | nothing; the run is PENDING, and `RunStarted` follows when its turn comes |
//!
//! `attempt_restarted {run_id, step, attempt}` means: the words of this step so far are void, those that
//! follow replace them.

mod frame;
mod tools;
mod usage;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use reenact_actors::live::{Frame, FrameBody, index_of};
use reenact_events::{
    AgentId, RawJson, RunEvent, RunId, SessionId, Text, Timestamp,
    agent::Guarded,
    event::{AskedModel, RunStatus, StepCall, StepCompleted, StepFailed, StepRequested, StepResult},
};
use serde_json::{Value, json};

pub use frame::{Fill, WireFrame};
use tools::Tools;
use usage::Totals;

/// What every frame of a run repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The run.
    pub run_id: RunId,
    /// Its session.
    pub session_id: SessionId,
    /// Who answers.
    pub agent_id: AgentId,
    /// What people call them.
    pub agent_name: String,
    /// The model's id.
    pub model: String,
    /// The model's provider.
    pub provider: String,
}

/// The attempt of a model step that may be speaking.
#[derive(Debug, Clone, Copy)]
struct Speaking {
    step: u32,
    attempt: u32,
    at: Timestamp,
    index: u64,
    answer_bytes: u64,
    reasoning_bytes: u64,
}

/// Folds a run's events and words into frames. See the module.
#[derive(Debug, Clone)]
pub struct Frames {
    who: Identity,
    floor: Option<u64>,
    last: Option<u64>,
    started_at: Option<Timestamp>,
    status: RunStatus,
    speaking: Option<Speaking>,
    asked: Option<AskedModel>,
    tools: Tools,
    guardrails: BTreeMap<u32, (Arc<str>, Guarded)>,
    totals: Totals,
    metadata: Option<Value>,
}

impl Frames {
    /// Frames for a reader that has seen everything up to and with `floor`.
    #[must_use]
    pub fn new(who: Identity, floor: Option<u64>) -> Self {
        Self {
            who,
            floor,
            last: None,
            started_at: None,
            status: RunStatus::Pending,
            speaking: None,
            asked: None,
            tools: Tools::default(),
            guardrails: BTreeMap::new(),
            totals: Totals::default(),
            metadata: None,
        }
    }

    /// Where the run is after what was folded.
    #[must_use]
    pub fn status(&self) -> RunStatus {
        self.status
    }

    /// What every frame repeats.
    #[must_use]
    pub fn who(&self) -> &Identity {
        &self.who
    }

    /// The run that is shown.
    #[must_use]
    pub fn run_id(&self) -> &RunId {
        &self.who.run_id
    }

    /// The index of the last thing that was folded, sent or not.
    #[must_use]
    pub fn last_index(&self) -> Option<u64> {
        self.last
    }

    /// Takes a run that is paused or has failed for one that goes on: its events are on their way.
    pub fn go_on(&mut self) {
        if matches!(self.status, RunStatus::Paused | RunStatus::Error) {
            self.status = RunStatus::Running;
        }
    }

    /// The frames that `frame` gives. What is not newer than what was folded before gives none.
    pub fn fold(&mut self, frame: &Frame) -> Vec<WireFrame> {
        if self.last.is_some_and(|last| frame.index <= last) {
            return Vec::new();
        }
        self.last = Some(frame.index);
        let made = match &frame.body {
            FrameBody::Event { at, event } => self.event(frame.index, *at, event),
            FrameBody::Delta { step, attempt, reasoning, text } => {
                self.words(frame.index, *step, *attempt, *reasoning, text).into_iter().collect()
            }
        };
        self.unseen(made)
    }

    /// Drops what the reader has seen, and control frames together with the frame they belong to.
    fn unseen(&self, made: Vec<WireFrame>) -> Vec<WireFrame> {
        let seen = |index: u64| self.floor.is_some_and(|floor| index <= floor);
        let next: Vec<_> = (0..made.len()).map(|at| made[at..].iter().find_map(|frame| frame.index)).collect();
        made.into_iter().zip(next).filter(|(_, next)| next.is_none_or(|index| !seen(index))).map(|(f, _)| f).collect()
    }

    fn event(&mut self, index: u64, at: Timestamp, event: &RunEvent) -> Vec<WireFrame> {
        match event {
            RunEvent::Queued(queued) => {
                self.metadata = queued.metadata.as_ref().map(RawJson::value);
                Vec::new()
            }
            RunEvent::CancelRequested(_) => Vec::new(),
            RunEvent::Requeued(_) => {
                self.status = RunStatus::Pending;
                Vec::new()
            }
            RunEvent::Started(_) => {
                self.status = RunStatus::Running;
                self.started_at = Some(at);
                vec![self.frame(index, at, "RunStarted").with_model(&self.who)]
            }
            RunEvent::StepRequested(step) => self.requested(index, at, step),
            RunEvent::StepCompleted(step) => self.completed(index, at, step),
            RunEvent::StepFailed(step) => self.step_failed(index, at, step),
            RunEvent::StepInDoubt(step) => {
                self.tools.in_doubt(step.step);
                Vec::new()
            }
            RunEvent::StepResolved(step) => {
                let outcome = self.tools.resolve(step);
                self.decided(index, at, step.step, outcome)
            }
            RunEvent::StepHeld(step) => {
                self.tools.held(at, step);
                Vec::new()
            }
            RunEvent::StepAnswered(step) => {
                let outcome = self.tools.answer(step);
                self.decided(index, at, step.step, outcome)
            }
            RunEvent::StepExpired(step) => {
                let outcome = self.tools.expire(step.step);
                self.decided(index, at, step.step, outcome)
            }
            RunEvent::Continued(_) => {
                self.status = RunStatus::Running;
                vec![self.frame(index, at, "RunContinued")]
            }
            RunEvent::Paused(paused) => {
                self.status = RunStatus::Paused;
                let frame = self.frame(index, at, "RunPaused").with("content", json!(&*paused.reason));
                vec![self.frame(index - 1, at, "RunContentCompleted"), self.tools.paused(frame, &self.who.run_id, at)]
            }
            RunEvent::Completed(_) | RunEvent::Failed(_) | RunEvent::Cancelled(_) => self.ended(index, at, event),
        }
    }

    fn ended(&mut self, index: u64, at: Timestamp, event: &RunEvent) -> Vec<WireFrame> {
        self.speaking = None;
        match event {
            RunEvent::Completed(completed) => {
                self.status = RunStatus::Completed;
                let (kind, fill) = if completed.json { ("dict", Fill::Json) } else { ("str", Fill::Text) };
                let frame = self.frame(index, at, "RunCompleted").with("content_type", json!(kind));
                let metrics = self.totals.metrics(self.started_at.map(|start| at.ms_since(start)));
                let frame = frame.with("metrics", metrics).text("/content", &completed.content, fill);
                let frame = match &self.metadata {
                    Some(metadata) => frame.with("metadata", metadata.clone()),
                    None => frame,
                };
                vec![self.frame(index - 1, at, "RunContentCompleted"), frame]
            }
            RunEvent::Failed(failed) => {
                self.status = RunStatus::Error;
                let frame = self.frame(index, at, "RunError").with("content", json!(&*failed.error.message));
                let frame = frame.with("error_type", json!(&*failed.error.kind));
                let frame = match &failed.error_id {
                    Some(id) => frame.with("error_id", json!(id)),
                    None => frame,
                };
                vec![match failed.error.status {
                    Some(status) => frame.with("additional_data", json!({"status": status})),
                    None => frame,
                }]
            }
            RunEvent::Cancelled(cancelled) => {
                self.status = RunStatus::Cancelled;
                let frame = self.frame(index, at, "RunCancelled");
                let frame = frame.with("reason", json!(cancelled.reason.as_deref().unwrap_or("cancelled")));
                let frame = frame.with("cancellation_stage", json!(cancelled.stage.as_str()));
                vec![match &cancelled.partial {
                    Some(text) => frame.text("/content", text, Fill::Text),
                    None => frame,
                }]
            }
            _ => Vec::new(),
        }
    }

    fn requested(&mut self, index: u64, at: Timestamp, step: &StepRequested) -> Vec<WireFrame> {
        match &step.call {
            StepCall::Model { .. } => {
                let (number, attempt) = (step.step, step.attempt);
                self.speaking =
                    Some(Speaking { step: number, attempt, at, index, answer_bytes: 0, reasoning_bytes: 0 });
                let mut made = Vec::with_capacity(2);
                if attempt > 1 {
                    made.push(self.restarted(at, number, attempt));
                }
                self.asked.clone_from(&step.model);
                made.push(self.of_model(index, at, "ModelRequestStarted"));
                made
            }
            StepCall::Guardrail { name, on } => {
                let known = self.guardrails.insert(step.step, (name.clone(), *on)).is_some();
                let frame = hook(self.frame(index, at, hook_name(*on, "Started")), name, *on);
                if known { Vec::new() } else { vec![frame] }
            }
            StepCall::Tool { call_id, name, arguments, .. } => {
                let known = self.tools.requested(step.step, at, call_id, name, arguments);
                if known {
                    return Vec::new();
                }
                vec![self.tools.started(self.frame(index, at, "ToolCallStarted"), step.step)]
            }
        }
    }

    fn words(&mut self, index: u64, step: u32, attempt: u32, reasoning: bool, text: &str) -> Option<WireFrame> {
        // Words of an attempt that is over or was replaced are void: its result, or its successor, speaks.
        let speaking = self.speaking.as_mut().filter(|open| (open.step, open.attempt) == (step, attempt))?;
        let (counted, field) = match reasoning {
            true => (&mut speaking.reasoning_bytes, "reasoning_content"),
            false => (&mut speaking.answer_bytes, "content"),
        };
        *counted += text.len() as u64;
        // A delta carries no time of its own: that of its request makes a replay equal to the first reading.
        let at = speaking.at;
        let frame = self.frame(index, at, "RunContent");
        Some(frame.with(field, json!(text)).with("content_type", json!("str")))
    }

    fn completed(&mut self, index: u64, at: Timestamp, step: &StepCompleted) -> Vec<WireFrame> {
        match &step.result {
            StepResult::Guardrail { blocked } => match self.guardrails.get(&step.step) {
                Some((name, on)) if blocked.is_none() => {
                    vec![hook(self.frame(index, at, hook_name(*on, "Completed")), name, *on)]
                }
                _ => Vec::new(),
            },
            StepResult::Tool { content, error, .. } => {
                let frame = self.frame(index, at, if *error { "ToolCallError" } else { "ToolCallCompleted" });
                self.tools.done(frame, step.step, content, *error, Some(step.duration_ms)).into_iter().collect()
            }
            StepResult::Model { text, reasoning, usage, first_token_ms, .. } => {
                let mut made = self.missing_words(index, at, step, text, reasoning.as_ref());
                self.totals.add(usage.as_ref(), *first_token_ms);
                let frame = self.of_model(index, at, "ModelRequestCompleted");
                made.push(usage::of_request(frame, usage.as_ref(), *first_token_ms));
                made
            }
        }
    }

    /// The whole text, when the words that this reader can have seen are not exactly it: a model that did
    /// not stream, deltas that are not kept any more.
    fn missing_words(
        &mut self,
        index: u64,
        at: Timestamp,
        step: &StepCompleted,
        text: &Text,
        reasoning: Option<&Text>,
    ) -> Vec<WireFrame> {
        let open = self.speaking.take().filter(|open| open.step == step.step);
        let seen = open.map_or((0, 0), |open| (open.answer_bytes, open.reasoning_bytes));
        let whole = (text.bytes(), reasoning.map_or(0, Text::bytes));
        if seen == whole {
            return Vec::new();
        }
        let began_at = open.map_or(index, |open| open.index);
        let may_have_seen_words = seen != (0, 0) || self.floor.is_some_and(|floor| floor > began_at && floor < index);
        let mut made = Vec::with_capacity(3);
        if may_have_seen_words {
            made.push(self.restarted(at, step.step, step.attempt));
        }
        let mut frame = self.frame(index - 1, at, "RunContent").with("content_type", json!("str"));
        if whole.0 > 0 {
            frame = frame.text("/content", text, Fill::Text);
        }
        if let Some(reasoning) = reasoning {
            frame = frame.text("/reasoning_content", reasoning, Fill::Text);
        }
        made.push(frame);
        made
    }

    fn step_failed(&mut self, index: u64, at: Timestamp, step: &StepFailed) -> Vec<WireFrame> {
        self.totals.add(step.usage.as_ref(), None);
        if step.retry_at.is_some() {
            return Vec::new();
        }
        let text = Text::inline(&step.error.message);
        let frame = self.frame(index, at, "ToolCallError");
        self.tools.done(frame, step.step, &text, true, None).into_iter().collect()
    }

    /// Somebody, or the end of the time for it, decided about a call.
    fn decided(&mut self, index: u64, at: Timestamp, step: u32, outcome: Option<(Text, bool)>) -> Vec<WireFrame> {
        if self.status == RunStatus::Paused && !self.tools.any_waiting() {
            self.status = RunStatus::Pending;
        }
        let Some((text, error)) = outcome else {
            return Vec::new();
        };
        let frame = self.frame(index, at, if error { "ToolCallError" } else { "ToolCallCompleted" });
        self.tools.done(frame, step, &text, error, None).into_iter().collect()
    }

    fn frame(&self, index: u64, at: Timestamp, name: &'static str) -> WireFrame {
        WireFrame::new(Some(index), name, at, &self.who)
    }

    /// A frame about the model that is asked: the agent's own, where the event does not say.
    fn of_model(&self, index: u64, at: Timestamp, name: &'static str) -> WireFrame {
        let frame = self.frame(index, at, name);
        match &self.asked {
            Some(asked) => frame.with("model", json!(asked.id)).with("model_provider", json!(asked.provider)),
            None => frame.with_model(&self.who),
        }
    }

    fn restarted(&self, at: Timestamp, step: u32, attempt: u32) -> WireFrame {
        let frame = WireFrame::new(None, "attempt_restarted", at, &self.who);
        frame.with("step", json!(step)).with("attempt", json!(attempt))
    }
}

/// A guardrail is one of AgentOS's hooks.
fn hook_name(on: Guarded, what: &str) -> &'static str {
    match (on, what) {
        (Guarded::Input, "Started") => "PreHookStarted",
        (Guarded::Input, _) => "PreHookCompleted",
        (Guarded::Output, "Started") => "PostHookStarted",
        (Guarded::Output, _) => "PostHookCompleted",
    }
}

fn hook(frame: WireFrame, name: &str, on: Guarded) -> WireFrame {
    match on {
        Guarded::Input => frame.with("pre_hook_name", json!(name)),
        Guarded::Output => frame.with("post_hook_name", json!(name)),
    }
}

/// A stored event as the live hub would have shown it.
///
/// # Errors
/// When the stored event cannot be read.
pub fn of_row(
    row: &reenact_projections::query::RunEventRow,
) -> Result<Option<Frame>, reenact_events::event::DecodeError> {
    let event = reenact_events::upcast::decode(&row.kind, &row.data)?;
    Ok(match event {
        reenact_events::Event::Run(event) => Some(Frame {
            index: index_of(row.seq),
            body: FrameBody::Event { at: Timestamp(row.at), event: event.into() },
        }),
        _ => None,
    })
}
