//! Which blobs an event brings: kept as long as its session is.

use super::{Resolution, RunEvent, StepCall, StepResult};
use crate::{BlobRef, Text, hold::Verdict};

impl RunEvent {
    /// The blobs that this event refers to, in no particular order.
    #[must_use]
    pub fn blobs(&self) -> Vec<&BlobRef> {
        match self {
            RunEvent::Queued(queued) => {
                let said = queued.fork.iter().flat_map(|fork| &fork.said).filter_map(|said| text(&said.text));
                let media = queued.media.iter().map(|media| &media.blob);
                text(&queued.input).into_iter().chain(media).chain(said).collect()
            }
            RunEvent::StepCompleted(done) => brought(&done.result),
            RunEvent::StepTakenOver(taken) => {
                let mut blobs = brought(&taken.result);
                if let StepCall::Tool { arguments, .. } = &taken.call {
                    blobs.extend(text(arguments));
                }
                blobs
            }
            RunEvent::StepResolved(resolved) => match &resolved.resolution {
                Resolution::Completed { value } => text(value).into_iter().collect(),
                _ => Vec::new(),
            },
            RunEvent::StepAnswered(answered) => match &answered.verdict {
                Verdict::Confirmed { arguments, .. } => arguments.as_ref().and_then(text).into_iter().collect(),
                Verdict::Result { value } => text(value).into_iter().collect(),
                Verdict::Rejected { .. } | Verdict::Fail => Vec::new(),
            },
            RunEvent::Cancelled(cancelled) => cancelled.partial.as_ref().and_then(text).into_iter().collect(),
            _ => Vec::new(),
        }
    }
}

fn text(text: &Text) -> Option<&BlobRef> {
    match text {
        Text::Inline(_) => None,
        Text::Blob(blob) => Some(blob),
    }
}

fn brought(result: &StepResult) -> Vec<&BlobRef> {
    match result {
        StepResult::Model { text: answer, reasoning, tool_calls, .. } => text(answer)
            .into_iter()
            .chain(reasoning.as_ref().and_then(text))
            .chain(tool_calls.iter().filter_map(|call| text(&call.arguments)))
            .collect(),
        StepResult::Guardrail { .. } => Vec::new(),
        StepResult::Tool { content, media, .. } => {
            text(content).into_iter().chain(media.iter().map(|media| &media.blob)).collect()
        }
    }
}
