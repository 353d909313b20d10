//! The tool calls of a run, and how AgentOS shows them (`ToolExecution`).

use std::{collections::BTreeMap, sync::Arc};

use chrono::{DateTime, SecondsFormat};
use reenact_events::{
    RunId, StepToken, Text, Timestamp,
    event::{Resolution, StepAnswered, StepCall, StepHeld, StepResolved, StepResult},
    hold::{self, InputField, Needs, Verdict},
};
use serde_json::{Value, json};

use super::frame::{Fill, WireFrame};

#[derive(Debug, Clone)]
struct Call {
    call_id: Arc<str>,
    name: Arc<str>,
    arguments: Text,
    at: Timestamp,
    waits: Option<Waits>,
    /// It was shown as begun.
    started: bool,
    done: bool,
}

/// What somebody has to decide about a call.
#[derive(Debug, Clone)]
enum Waits {
    /// Whether it happened.
    Doubt,
    /// Whether, or with what, it is made.
    Held { needs: Needs, expires_at: Option<Timestamp> },
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
            waits: None,
            started: true,
            done: false,
        };
        self.0.insert(step, call).is_some_and(|before| before.started)
    }

    /// Notes a call that is not made before somebody has decided about it.
    pub(super) fn held(&mut self, at: Timestamp, held: &StepHeld) {
        let StepCall::Tool { call_id, name, arguments, .. } = held.call.clone() else { return };
        let waits = Waits::Held { needs: held.needs.clone(), expires_at: held.expires_at };
        self.0
            .insert(held.step, Call { call_id, name, arguments, at, waits: Some(waits), started: false, done: false });
    }

    /// Notes that a call's outcome is unknown.
    pub(super) fn in_doubt(&mut self, step: u32) {
        if let Some(call) = self.0.get_mut(&step) {
            call.waits = Some(Waits::Doubt);
        }
    }

    /// Whether something is left to decide.
    pub(super) fn any_waiting(&self) -> bool {
        self.0.values().any(|call| call.waits.is_some())
    }

    /// The outcome that a decision about a call in doubt gives, if it gives one, and whether it is an error.
    pub(super) fn resolve(&mut self, resolved: &StepResolved) -> Option<(Text, bool)> {
        self.0.get_mut(&resolved.step)?.waits = None;
        match (&resolved.resolution, resolved.outcome()) {
            (_, Some(told)) => said(told),
            (Resolution::Retry, None) => None,
            (Resolution::Completed { value }, None) => Some((value.clone(), false)),
            (Resolution::Skip, None) => Some((Text::inline("not done: it was decided to skip this call"), true)),
            (Resolution::Fail, None) => Some((Text::inline("it was decided that this call failed"), true)),
        }
    }

    /// The same for a held call.
    pub(super) fn answer(&mut self, answered: &StepAnswered) -> Option<(Text, bool)> {
        let call = self.0.get_mut(&answered.step)?;
        call.waits = None;
        if let Verdict::Confirmed { arguments: Some(arguments), .. } = &answered.verdict {
            call.arguments.clone_from(arguments);
        }
        answered.verdict.outcome().and_then(said)
    }

    /// The same for a held call that nobody decided about in time.
    pub(super) fn expire(&mut self, step: u32) -> Option<(Text, bool)> {
        self.0.get_mut(&step)?.waits = None;
        said(hold::expired())
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

    /// Shows what a paused run waits for: the calls that are held or in doubt.
    pub(super) fn paused(&self, mut frame: WireFrame, run: &RunId, at: Timestamp) -> WireFrame {
        let waiting: Vec<_> = self.0.iter().filter(|(_, call)| call.waits.is_some()).collect();
        let executions: Vec<_> = waiting.iter().map(|(_, call)| call.waiting()).collect();
        let requirements = waiting.iter().zip(&executions).map(|((step, call), execution)| {
            let mut requirement = json!({
                "id": StepToken::of_step(run, **step).to_string(),
                "created_at": iso(at),
                "tool_execution": execution,
            });
            if let Some(Waits::Held { expires_at: Some(at), .. }) = &call.waits {
                requirement["expires_at"] = json!(at.seconds());
            }
            if !execution["user_input_schema"].is_null() {
                requirement["user_input_schema"] = execution["user_input_schema"].clone();
            }
            requirement
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
        match &self.waits {
            Some(Waits::Held { needs: Needs::Input { fields }, .. }) => {
                execution["requires_user_input"] = json!(true);
                execution["user_input_schema"] = fields.iter().map(input_field).collect();
            }
            Some(Waits::Held { needs: Needs::Execution, .. }) => execution["external_execution_required"] = json!(true),
            Some(Waits::Held { needs: Needs::Confirmation, .. } | Waits::Doubt) | None => {
                execution["requires_confirmation"] = json!(true);
            }
        }
        execution
    }

    fn show(&self, frame: WireFrame, at: &str) -> WireFrame {
        frame.text(&format!("{at}/tool_args"), &self.arguments, Fill::Object)
    }
}

fn input_field(field: &InputField) -> Value {
    let (name, kind, about) = (&field.name, &field.field_type, &field.description);
    json!({"name": name, "field_type": kind, "description": about, "value": null})
}

fn said(result: StepResult) -> Option<(Text, bool)> {
    match result {
        StepResult::Tool { content, error, .. } => Some((content, error)),
        StepResult::Model { .. } | StepResult::Guardrail { .. } => None,
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
