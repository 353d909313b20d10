//! The tool calls of a run, and how AgentOS shows them (`ToolExecution`).

use std::{collections::BTreeMap, sync::Arc};

use chrono::{DateTime, SecondsFormat};
use reenact_events::{RunId, StepToken, Text, Timestamp, event::Resolution};
use serde_json::{Value, json};

use super::frame::{Fill, WireFrame};

#[derive(Debug, Clone)]
struct Call {
    call_id: Arc<str>,
    name: Arc<str>,
    arguments: Text,
    at: Timestamp,
    in_doubt: bool,
    done: bool,
}

/// The tool calls by step.
#[derive(Debug, Clone, Default)]
pub(super) struct Tools(BTreeMap<u32, Call>);

impl Tools {
    /// Notes a call; true when it was known, so that this is a further attempt.
    pub(super) fn requested(
        &mut self,
        step: u32,
        at: Timestamp,
        call_id: &Arc<str>,
        name: &Arc<str>,
        arguments: &Text,
    ) -> bool {
        let call = Call {
            call_id: call_id.clone(),
            name: name.clone(),
            arguments: arguments.clone(),
            at,
            in_doubt: false,
            done: false,
        };
        self.0.insert(step, call).is_some()
    }

    /// Notes that a call's outcome is unknown.
    pub(super) fn in_doubt(&mut self, step: u32) {
        if let Some(call) = self.0.get_mut(&step) {
            call.in_doubt = true;
        }
    }

    /// Whether something is left to decide.
    pub(super) fn any_in_doubt(&self) -> bool {
        self.0.values().any(|call| call.in_doubt)
    }

    /// The outcome that a decision gives, if it gives one, and whether it is an error.
    pub(super) fn resolve(&mut self, step: u32, resolution: &Resolution) -> Option<(Text, bool)> {
        self.0.get_mut(&step)?.in_doubt = false;
        match resolution {
            Resolution::Retry => None,
            Resolution::Completed { value } => Some((value.clone(), false)),
            Resolution::Skip => Some((Text::inline("not done: it was decided to skip this call"), true)),
            Resolution::Fail => Some((Text::inline("it was decided that this call failed"), true)),
        }
    }

    /// Shows a call that begins.
    pub(super) fn started(&self, frame: WireFrame, step: u32) -> WireFrame {
        match self.0.get(&step) {
            Some(call) => call.show(frame.with("tool", call.execution()), "/tool"),
            None => frame,
        }
    }

    /// Shows a call's end, once.
    pub(super) fn done(
        &mut self,
        frame: WireFrame,
        step: u32,
        result: &Text,
        error: bool,
        duration_ms: Option<u64>,
    ) -> Option<WireFrame> {
        let call = self.0.get_mut(&step).filter(|call| !call.done)?;
        call.done = true;
        let mut execution = call.execution();
        execution["tool_call_error"] = json!(error);
        if let Some(ms) = duration_ms {
            execution["metrics"] = json!({"duration": seconds(ms)});
        }
        let frame = call.show(frame.with("tool", execution), "/tool").text("/tool/result", result, Fill::Text);
        Some(if error { frame.text("/error", result, Fill::Text) } else { frame })
    }

    /// Shows what a paused run waits for: the calls in doubt.
    pub(super) fn paused(&self, mut frame: WireFrame, run: &RunId, at: Timestamp) -> WireFrame {
        let waiting: Vec<_> = self.0.iter().filter(|(_, call)| call.in_doubt).collect();
        let executions: Vec<_> = waiting.iter().map(|(_, call)| call.waiting()).collect();
        let requirements = waiting.iter().zip(&executions).map(|((step, _), execution)| {
            json!({
                "id": StepToken::of_step(run, **step).to_string(),
                "created_at": iso(at),
                "tool_execution": execution,
            })
        });
        let requirements: Vec<_> = requirements.collect();
        frame = frame.with("tools", json!(executions)).with("requirements", json!(requirements));
        for (at, (_, call)) in waiting.iter().enumerate() {
            frame = call.show(frame, &format!("/tools/{at}"));
            frame = call.show(frame, &format!("/requirements/{at}/tool_execution"));
        }
        frame
    }
}

impl Call {
    fn execution(&self) -> Value {
        json!({
            "tool_call_id": &*self.call_id,
            "tool_name": &*self.name,
            "stop_after_tool_call": false,
            "created_at": self.at.seconds(),
        })
    }

    fn waiting(&self) -> Value {
        let mut execution = self.execution();
        execution["requires_confirmation"] = json!(true);
        execution
    }

    fn show(&self, frame: WireFrame, at: &str) -> WireFrame {
        frame.text(&format!("{at}/tool_args"), &self.arguments, Fill::Object)
    }
}

/// A moment as ISO 8601 in UTC.
pub(super) fn iso(at: Timestamp) -> String {
    DateTime::from_timestamp_millis(at.0).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Millis, true)
}

#[expect(clippy::cast_precision_loss, reason = "durations are far below 2^53 milliseconds")]
pub(super) fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}
