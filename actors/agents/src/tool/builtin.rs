//! Tools that are part of this program. They change nothing outside it.

mod calculator;
mod current_time;
mod state;

use std::time::Duration;

use reenact_actors::step::{ToolCall, ToolReply};
use reenact_events::Timestamp;
use serde_json::Value;

use super::{answered, failed};

/// The longest sleep, in seconds.
const SLEEP_S_MAX: f64 = 3600.0;

/// Changes the session's state. Its change is part of the event that tells of the call, so it is made once however often
/// it is called.
const UPDATE_STATE: &str = "update_session_state";

/// What is known of a built-in tool before an agent uses it.
pub(crate) struct Builtin {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) parameters: &'static str,
    pub(crate) timeout_s: u32,
}

/// All of them.
pub(crate) const BUILTINS: &[Builtin] = &[
    Builtin {
        name: "calculator",
        description: "Evaluates an arithmetic expression. Knows + - * / % ^, parentheses, pi, e, and the functions \
                      sqrt, abs, round, floor, ceil, ln, log, exp, sin, cos, tan, min, max.",
        parameters: r#"{"type":"object","properties":{"expression":{"type":"string","description":"for example 2 * (3 + 4)"}},"required":["expression"],"additionalProperties":false}"#,
        timeout_s: 30,
    },
    Builtin {
        name: "current_time",
        description: "Tells the present date and time (RFC 3339), in UTC or in a named time zone.",
        parameters: r#"{"type":"object","properties":{"timezone":{"type":"string","description":"an IANA name, for example Europe/Berlin; UTC if left out"}},"additionalProperties":false}"#,
        timeout_s: 30,
    },
    Builtin {
        name: "sleep",
        description: "Waits for a number of seconds.",
        parameters: r#"{"type":"object","properties":{"seconds":{"type":"number","minimum":0,"maximum":3600}},"required":["seconds"],"additionalProperties":false}"#,
        // Longer than the longest sleep, so that what may be asked for may also end.
        timeout_s: 3660,
    },
    Builtin {
        name: UPDATE_STATE,
        description: "Changes the session's state: sets keys, and deletes keys. Other keys stay as they are.",
        parameters: r#"{"type":"object","properties":{"session_state_updates":{"type":"object","description":"keys with their new values"},"delete":{"type":"array","items":{"type":"string"},"description":"keys to delete"}},"required":["session_state_updates"],"additionalProperties":false}"#,
        timeout_s: 30,
    },
];

/// The built-in tool of this name.
pub(crate) fn builtin(name: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().find(|builtin| builtin.name == name)
}

/// Calls a built-in tool.
pub(crate) async fn call(call: &ToolCall, now: Timestamp) -> ToolReply {
    if call.tool.name == UPDATE_STATE {
        return state::update(&call.arguments).unwrap_or_else(failed);
    }
    let seconds = call.tool.timeout_s;
    let working = run(call, now);
    let done = tokio::time::timeout(Duration::from_secs(seconds.into()), working).await;
    done.unwrap_or_else(|_| Err(format!("`{}` was not done within {seconds} s", call.tool.name)))
        .map_or_else(failed, answered)
}

async fn run(call: &ToolCall, now: Timestamp) -> Result<String, String> {
    let arguments: Value =
        serde_json::from_str(&call.arguments).map_err(|error| format!("the arguments are not JSON: {error}"))?;
    let text = |key: &str| arguments.get(key).and_then(Value::as_str);
    match &*call.tool.name {
        "calculator" => calculator::evaluate(text("expression").ok_or("the argument `expression` is missing")?),
        "current_time" => current_time::tell(now, text("timezone")),
        "sleep" => {
            let seconds = arguments.get("seconds").and_then(Value::as_f64);
            sleep(seconds.ok_or("the argument `seconds` is missing")?).await
        }
        other => Err(format!("this version has no built-in tool `{other}`")),
    }
}

async fn sleep(seconds: f64) -> Result<String, String> {
    if !(0.0..=SLEEP_S_MAX).contains(&seconds) {
        return Err(format!("`seconds` must be from 0 to {SLEEP_S_MAX}, but is {seconds}"));
    }
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    Ok(format!("slept for {seconds} s"))
}
