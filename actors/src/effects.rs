//! What a step does in the world, from its request to the command that reports its outcome.

mod guardrail;

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::FutureExt;
use reenact_events::{
    BlobError, Blobs, RunId, Text, UserId,
    agent::AgentSpec,
    content::INLINE_BYTES_MAX,
    event::{Failure, StepCall, StepResult, ToolCallRequest},
    session_state::StateChanges,
};
use tokio::time::MissedTickBehavior;

use crate::{
    live::LiveHub,
    partition::{Partition, PartitionMessage},
    run::{Asked, ReconcileAnswer, RunCommand, RunState, Step, history, trim},
    run_actor::RunMessage,
    step::{ChatMessage, DeltaSink, ModelCall, ModelReply, Reconciled, StepContext, StepError, ToolCall, ToolReply},
};

/// Words are shown at least this often, milliseconds,
const FLUSH_MS: u64 = 30;
/// or when so many bytes have come.
const FLUSH_BYTES: usize = 256;
/// Arguments of one turn stand inline up to this many bytes together: they share an event.
const ARGUMENTS_INLINE_BYTES_MAX: usize = 128 * 1024;

/// An attempt to be made.
pub(crate) struct Job {
    /// Where.
    pub(crate) partition: Partition,
    /// Of which run, as it stood when the attempt was requested.
    pub(crate) run: Arc<RunState>,
    /// The agent that the run pinned.
    pub(crate) agent: Arc<AgentSpec>,
    /// The step.
    pub(crate) step: Arc<Step>,
    /// Its place.
    pub(crate) at: u32,
    /// Only ask whether it happened.
    pub(crate) reconcile: bool,
    /// Where a model's words go.
    pub(crate) words: Option<Arc<Words>>,
}

impl Job {
    fn context(&self) -> StepContext {
        StepContext {
            run_id: self.run.id().clone(),
            session_id: self.run.origin.session_id.clone(),
            user_id: self.run.origin.user_id.clone(),
            token: self.step.token,
            attempt: self.step.attempt,
        }
    }
}

/// Makes the attempt and says what became of it. A panic is reported, not passed on.
pub(crate) async fn perform(job: Job) -> RunMessage {
    let (run_id, at) = (job.run.id().clone(), job.at);
    match AssertUnwindSafe(outcome(job)).catch_unwind().await {
        Ok(command) => RunMessage::Do(command),
        Err(panic) => {
            let what = panic
                .downcast_ref::<&str>()
                .map(ToString::to_string)
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "without a message".to_owned());
            RunMessage::Panicked(format!("step {at} of run `{run_id}` panicked: {what}"))
        }
    }
}

async fn outcome(job: Job) -> RunCommand {
    let shared = job.partition.shared.clone();
    let (step, attempt) = (job.at, job.step.attempt);
    let begun = shared.now();
    if !job.reconcile && begun > job.step.not_after {
        return RunCommand::StartedTooLate { step, attempt };
    }
    match job.step.call.clone() {
        StepCall::Model { .. } => {
            let (outcome, trim) = model(&job).await;
            let duration_ms = u64::try_from(shared.now().ms_since(begun)).unwrap_or(0);
            let (outcome, unfit) = match outcome {
                Ok((result, unfit)) => (Ok(result), unfit),
                Err(error) => (Err(error), None),
            };
            RunCommand::ModelReturned { step, attempt, outcome, unfit, trim, duration_ms }
        }
        StepCall::Guardrail { name, on } => {
            let outcome = guardrail::ask(&job, &name, on).await;
            let duration_ms = u64::try_from(shared.now().ms_since(begun)).unwrap_or(0);
            RunCommand::Guarded { step, attempt, outcome, duration_ms }
        }
        StepCall::Tool { name, arguments, .. } => {
            let call = match tool_call(&job, &name, &arguments).await {
                Ok(call) => call,
                Err(result) => {
                    return RunCommand::ToolReturned { step, attempt, result, duration_ms: 0, session_state: None };
                }
            };
            if job.reconcile {
                let answer = reconcile(&job, call).await;
                return RunCommand::Reconciled { step, attempt, answer };
            }
            let reply = shared.tools.steps.call_tool(call).await;
            let duration_ms = u64::try_from(shared.now().ms_since(begun)).unwrap_or(0);
            let (result, session_state) = kept(&job, reply).await;
            RunCommand::ToolReturned { step, attempt, result, session_state, duration_ms }
        }
    }
}

/// A model's turn, and why it is not the answer that was asked for.
type Turn = (StepResult, Option<Arc<str>>);

/// What the model said, and the next trim that would shorten what it was sent.
async fn model(job: &Job) -> (Result<Turn, StepError>, Option<u32>) {
    let origin = &job.run.origin;
    let states = &job.partition.states;
    let history = states.history(&origin.session_id, origin.history_before, job.agent.history_runs as usize);
    let (history, values) = match history.and_then(|history| Ok((history, states.session_values(&origin.session_id)?)))
    {
        Ok(read) => read,
        Err(error) => {
            // Not the run's fault: the partition is restored anew, which ends this task and makes another.
            job.partition.actor.cast(PartitionMessage::StoreFailed(error)).unwrap_or_default();
            std::future::pending().await
        }
    };
    let Asked { place, trims } = job.step.asked;
    let trim = trim::next(&history, &job.run, trims);
    let messages = history::messages(&job.agent, &values, &history, &job.run, trims);
    (ask(job, place, messages).await, trim)
}

async fn ask(job: &Job, place: u32, messages: Vec<ChatMessage>) -> Result<Turn, StepError> {
    let shared = &job.partition.shared;
    let Some(model) = job.agent.model_at(place).cloned() else {
        return Err(final_failure("model_refused", format!("agent `{}` has no model {place}", job.agent.id)));
    };
    let output_schema = job.run.output_schema(&job.agent).cloned();
    let call = ModelCall { agent: job.agent.for_model(), model, messages, output_schema, context: job.context() };
    let words = job
        .words
        .clone()
        .unwrap_or_else(|| Arc::new(Words::new(shared.live.clone(), job.run.id().clone(), job.at, job.step.attempt)));
    let asked = shared.tools.steps.call_model(call, words.clone());
    let mut reply = showing(asked, &words).await?;
    let unfit = unfit(job, &mut reply);
    let result = turn(job, reply).await.map_err(|error| passing("object_store", error.to_string()))?;
    Ok((result, unfit))
}

/// Why the reply is not the answer that was asked for. One that is, is left with nothing round the JSON.
fn unfit(job: &Job, reply: &mut ModelReply) -> Option<Arc<str>> {
    let schema = job.run.output_schema(&job.agent).filter(|_| reply.tool_calls.is_empty())?;
    match job.partition.shared.tools.steps.check_output(schema, &reply.text) {
        Ok(json) => {
            reply.text = json;
            None
        }
        Err(reason) => Some(reason.into()),
    }
}

/// Waits for the model and shows its words meanwhile, also those that come slowly.
async fn showing<T>(asked: impl Future<Output = T>, words: &Words) -> T {
    let mut ticks = tokio::time::interval(Duration::from_millis(FLUSH_MS));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tokio::pin!(asked);
    loop {
        tokio::select! {
            biased;
            reply = &mut asked => {
                words.flush();
                return reply;
            }
            _ = ticks.tick() => words.flush(),
        }
    }
}

/// The reply as it is journaled: large texts stored, calls checked against their tools.
async fn turn(job: &Job, reply: ModelReply) -> Result<StepResult, BlobError> {
    let (tools, owner) = (&job.partition.shared.tools, job.run.origin.user_id.as_ref());
    let mut tool_calls = Vec::with_capacity(reply.tool_calls.len());
    let mut room = ARGUMENTS_INLINE_BYTES_MAX;
    for call in &reply.tool_calls {
        let checked =
            job.agent.tool(&call.name).map(|tool| tools.steps.check_arguments(&tool.for_model(), &call.arguments));
        let refusal = checked.and_then(Result::err).map(Into::into);
        tool_calls.push(ToolCallRequest {
            id: call.id.as_str().into(),
            name: call.name.as_str().into(),
            arguments: arguments(&call.arguments, &mut room, owner, &*tools.blobs).await?,
            refusal,
        });
    }
    let reasoning = match &reply.reasoning {
        Some(reasoning) => Some(Text::keep(reasoning, owner, &*tools.blobs).await?),
        None => None,
    };
    Ok(StepResult::Model {
        text: Text::keep(&reply.text, owner, &*tools.blobs).await?,
        reasoning,
        tool_calls,
        usage: reply.usage,
        finish_reason: reply.finish_reason.map(Into::into),
        first_token_ms: reply.first_token_ms,
    })
}

/// Arguments inline while there is room for them in their turn's event, else stored apart.
async fn arguments(text: &str, room: &mut usize, owner: Option<&UserId>, blobs: &dyn Blobs) -> Result<Text, BlobError> {
    match room.checked_sub(text.len()) {
        Some(left) if text.len() <= INLINE_BYTES_MAX => {
            *room = left;
            Ok(Text::inline(text))
        }
        _ => blobs.put(text.as_bytes().to_vec().into(), owner).await.map(Text::Blob),
    }
}

async fn tool_call(job: &Job, name: &str, arguments: &Text) -> Result<ToolCall, StepResult> {
    let tools = &job.partition.shared.tools;
    let Some(tool) = job.agent.tool(name) else {
        return Err(tool_error(&format!("there is no tool `{name}`")));
    };
    let text = arguments.load(&*tools.blobs).await.map_err(|error| tool_error(&error.to_string()))?;
    let arguments = tools.steps.check_arguments(tool, &text).map_err(|error| tool_error(&error))?;
    Ok(ToolCall { tool: Arc::new(tool.clone()), arguments, context: job.context() })
}

async fn reconcile(job: &Job, call: ToolCall) -> ReconcileAnswer {
    match job.partition.shared.tools.steps.reconcile(call).await {
        Reconciled::Happened(reply) => {
            let (result, session_state) = kept(job, reply).await;
            ReconcileAnswer::Happened(result, session_state)
        }
        Reconciled::DidNotHappen => ReconcileAnswer::DidNotHappen,
        Reconciled::Unknown(reason) => ReconcileAnswer::Unknown(reason),
    }
}

/// The reply as it is journaled. What it changes in the session's state counts also where the rest could not be kept.
async fn kept(job: &Job, reply: ToolReply) -> (StepResult, Option<Box<StateChanges>>) {
    let ToolReply { text, error, media, session_state } = reply;
    let owner = job.run.origin.user_id.as_ref();
    let result = match Text::keep(&text, owner, &*job.partition.shared.tools.blobs).await {
        Ok(content) => StepResult::Tool { content, error, media },
        Err(error) => tool_error(&format!("the call was made, but its result could not be stored: {error}")),
    };
    (result, session_state.filter(|changes| !changes.is_empty()).map(Box::new))
}

fn tool_error(text: &str) -> StepResult {
    StepResult::Tool { content: Text::inline(text), error: true, media: Vec::new() }
}

fn passing(kind: &str, message: String) -> StepError {
    StepError { retryable: true, ..final_failure(kind, message) }
}

fn final_failure(kind: &str, message: String) -> StepError {
    let failure = Failure { kind: kind.into(), message: message.into(), status: None };
    StepError { failure, retryable: false, retry_after_ms: None, usage: None }
}

/// A model's words on their way to the watchers, and all of them so far.
#[derive(Debug)]
pub(crate) struct Words {
    hub: LiveHub,
    run: RunId,
    at: u32,
    attempt: u32,
    buffers: Mutex<Buffers>,
}

#[derive(Debug, Default)]
struct Buffers {
    said: String,
    text: String,
    reasoning: String,
}

impl Words {
    /// The words of one attempt.
    #[must_use]
    pub(crate) fn new(hub: LiveHub, run: RunId, at: u32, attempt: u32) -> Self {
        Self { hub, run, at, attempt, buffers: Mutex::default() }
    }

    /// The answer so far.
    #[must_use]
    pub(crate) fn so_far(&self) -> String {
        self.lock().said.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Buffers> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flush(&self) {
        self.send(&mut self.lock());
    }

    fn send(&self, buffers: &mut Buffers) {
        for (reasoning, text) in [(true, &mut buffers.reasoning), (false, &mut buffers.text)] {
            if !text.is_empty() {
                self.hub.delta(&self.run, self.at, self.attempt, reasoning, text);
                text.clear();
            }
        }
    }
}

impl DeltaSink for Words {
    fn text(&self, delta: &str) {
        let mut buffers = self.lock();
        buffers.said.push_str(delta);
        buffers.text.push_str(delta);
        if buffers.text.len() >= FLUSH_BYTES {
            self.send(&mut buffers);
        }
    }

    fn reasoning(&self, delta: &str) {
        let mut buffers = self.lock();
        buffers.reasoning.push_str(delta);
        if buffers.reasoning.len() >= FLUSH_BYTES {
            self.send(&mut buffers);
        }
    }
}
