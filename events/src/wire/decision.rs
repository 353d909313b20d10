//! Between a decision about a tool call and its JSON.

use super::{
    Unreadable,
    convert::{message, object, raw, text},
    fields::Requirement,
    invalid,
};
use crate::{command::Decision, hold::Verdict};

pub(super) fn read(requirement: Requirement) -> Result<Decision, Unreadable> {
    let Requirement { tool_call_id, result, confirmed, arguments, input, note, fail } = requirement;
    let belongs = |field: &str, given: bool, to: &str| match given {
        true => Err(invalid(format!("the requirement of tool call `{tool_call_id}` has `{field}` without `{to}`"))),
        false => Ok(()),
    };
    belongs("arguments", arguments.is_some() && confirmed != Some(true), "confirmed: true")?;
    belongs("input", input.is_some() && confirmed != Some(true), "confirmed: true")?;
    belongs("note", note.is_some() && confirmed != Some(false), "confirmed: false")?;
    let verdict = match (result, confirmed, fail) {
        (Some(result), None, None) => Verdict::Result { value: text("result", result)? },
        (None, Some(true), None) => Verdict::Confirmed {
            arguments: arguments.map(|arguments| text("arguments", arguments)).transpose()?,
            input: raw(input)?,
        },
        (None, Some(false), None) => Verdict::Rejected { note: note.map(Into::into) },
        (None, None, Some(true)) => Verdict::Fail,
        _ => {
            return Err(invalid(format!(
                "the requirement of tool call `{tool_call_id}` needs exactly one of `result`, `confirmed` and \
                 `fail: true`"
            )));
        }
    };
    Ok(Decision { tool_call_id: tool_call_id.into(), verdict })
}

pub(super) fn write(decision: &Decision) -> Requirement {
    let blank = Requirement { tool_call_id: decision.tool_call_id.to_string(), ..Requirement::default() };
    match &decision.verdict {
        Verdict::Confirmed { arguments, input } => Requirement {
            confirmed: Some(true),
            arguments: arguments.as_ref().map(message),
            input: object(input.as_ref()),
            ..blank
        },
        Verdict::Rejected { note } => {
            Requirement { confirmed: Some(false), note: note.as_ref().map(ToString::to_string), ..blank }
        }
        Verdict::Result { value } => Requirement { result: Some(message(value)), ..blank },
        Verdict::Fail => Requirement { fail: Some(true), ..blank },
    }
}
