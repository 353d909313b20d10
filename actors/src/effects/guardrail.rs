//! Asks a guardrail about the run's message or about its answer.

use reenact_events::{
    Blobs, Text,
    agent::Guarded,
    event::{Blocked, Failure, StepResult},
};

use super::Job;
use crate::{run::StepState, step::GuardrailCall};

pub(super) async fn ask(job: &Job, name: &str, on: Guarded) -> Result<Option<Blocked>, Failure> {
    let tools = &job.partition.shared.tools;
    let Some(guardrail) = job.agent.guardrail(name).cloned() else {
        return Err(failure(format!("agent `{}` has no guardrail `{name}`", job.agent.id)));
    };
    let input = load(message(job), &*tools.blobs).await?;
    let output = match on {
        Guarded::Input => None,
        Guarded::Output => Some(load(&answer(job), &*tools.blobs).await?),
    };
    let agent_id = job.agent.id.clone();
    tools.steps.ask_guardrail(GuardrailCall { guardrail, agent_id, input, output, context: job.context() }).await
}

/// What a person said last before the step.
fn message(job: &Job) -> &Text {
    let origin = &job.run.origin;
    let said = origin.said.iter().rfind(|said| said.step <= job.at);
    said.map_or(&origin.input, |said| &said.text)
}

/// The latest words of the model before the step.
fn answer(job: &Job) -> Text {
    let said = job.run.steps.iter().take(job.at as usize).rev().find_map(|step| match &step.state {
        StepState::Done(StepResult::Model { text, .. }) => Some(text.clone()),
        _ => None,
    });
    said.unwrap_or_else(|| Text::inline(""))
}

async fn load(text: &Text, blobs: &dyn Blobs) -> Result<std::sync::Arc<str>, Failure> {
    text.load(blobs).await.map_err(|error| failure(error.to_string()))
}

fn failure(message: String) -> Failure {
    Failure { kind: "guardrail_unanswered".into(), message: message.into(), status: None }
}
