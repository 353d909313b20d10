//! Asks a guardrail: an HTTP tool that says whether something may pass.
//!
//! It is sent `{"on", "agent_id", "run_id", "session_id", "user_id", "input", "output"}` and answers `{"pass": true}`,
//! or `{"pass": false, "reason": …, "trigger": …}`. Anything else is no answer, and so is silence.

use std::sync::Arc;

use reenact_actors::step::{GuardrailCall, ToolCall};
use reenact_events::{
    RawJson,
    agent::{Effect, Guarded, ToolKind, ToolSpec},
    event::{Blocked, Failure},
};
use serde::Deserialize;
use serde_json::json;

use crate::{
    text::preview,
    tool::{http::HttpTools, http_request::Endpoint},
};

const SHOWN_CHARS_MAX: usize = 200;

#[derive(Deserialize)]
struct Answer {
    pass: bool,
    reason: Option<Arc<str>>,
    trigger: Option<Arc<str>>,
}

/// Asks it once.
pub(crate) async fn ask(http: HttpTools<'_>, call: GuardrailCall) -> Result<Option<Blocked>, Failure> {
    let on = if call.output.is_some() { Guarded::Output } else { Guarded::Input };
    let body = json!({
        "on": on, "agent_id": call.agent_id, "run_id": call.context.run_id, "session_id": call.context.session_id,
        "user_id": call.context.user_id, "input": call.input, "output": call.output,
    });
    let name = call.guardrail.name.clone();
    let tool = ToolSpec {
        name: name.clone(),
        description: String::new(),
        parameters: RawJson::of(&json!({})).map_err(|error| failure(error.to_string()))?,
        effect: Effect::ReadOnly,
        timeout_s: call.guardrail.timeout_s,
        kind: ToolKind::Builtin,
        hold: None,
    };
    let endpoint = Endpoint { method: "POST", url: &call.guardrail.url, headers: &call.guardrail.headers };
    let asked = ToolCall { tool: Arc::new(tool), arguments: body.to_string().into(), context: call.context };
    let reply = http.call(&asked, endpoint).await;
    if reply.error {
        return Err(failure(reply.text));
    }
    verdict(on, &reply.text).map_err(|reason| failure(format!("`{name}` {reason}")))
}

fn verdict(on: Guarded, answer: &str) -> Result<Option<Blocked>, String> {
    let read: Answer = serde_json::from_str(answer).map_err(|error| {
        let shown = preview(answer, SHOWN_CHARS_MAX);
        format!("answered with something else than `{{\"pass\": true}}` or `false` with a `reason` ({error}): {shown}")
    })?;
    if read.pass {
        return Ok(None);
    }
    let otherwise = match on {
        Guarded::Input => "the message was not let pass",
        Guarded::Output => "the answer was not let pass",
    };
    let reason = read.reason.unwrap_or_else(|| otherwise.into());
    let trigger = read.trigger.unwrap_or_else(|| format!("{}_not_allowed", on.as_str()).into());
    Ok(Some(Blocked { reason, trigger }))
}

fn failure(message: String) -> Failure {
    Failure { kind: "guardrail_unanswered".into(), message: message.into(), status: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guardrail_says_yes_or_why_not_and_anything_else_is_no_answer() {
        assert_eq!(verdict(Guarded::Input, r#"{"pass": true, "score": 0.1}"#), Ok(None));
        let blocked = |answer| {
            verdict(Guarded::Output, answer).unwrap().map(|it| (it.reason.to_string(), it.trigger.to_string()))
        };
        let said = blocked(r#"{"pass": false, "reason": "a card number", "trigger": "pii_detected"}"#);
        assert_eq!(said, Some(("a card number".into(), "pii_detected".into())));
        assert_eq!(blocked(r#"{"pass": false}"#).unwrap().1, "output_not_allowed");
        for other in ["", "yes", "{}", r#"{"pass": "true"}"#, r#"{"pass": null}"#, "[true]"] {
            assert!(verdict(Guarded::Input, other).is_err(), "{other}");
        }
    }
}
