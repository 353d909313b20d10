//! Decisions about tool calls, as AgentOS's clients send them back: the calls or the requirements that they were
//! shown, filled in.
//!
//! | A call waits for | what is said | decision |
//! |---|---|---|
//! | a confirmation | `confirmed: true`, perhaps with other `tool_args` | it is made with these arguments |
//! | input | values in `user_input_schema` | it is made with them |
//! | execution elsewhere | `result` | that is what came of it |
//! | in doubt | `confirmed: true`; `result` | it did not happen: it is made; it happened, with this result |
//! | any of them | `confirmed: false`, perhaps with `confirmation_note` | it is not made, and the model is told |
//!
//! A client may send all calls of the run, decided or not: of what says nothing, or what is known already, nothing
//! follows.

use std::collections::BTreeMap;

use reenact_events::{Blobs, RawJson, Text, UserId, command::Decision, hold::Verdict};
use reenact_projections::query::RunRow;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::http::{error::ApiError, fields::Fields};

/// A ToolExecution, as far as it can decide something.
#[derive(Debug, Default, Deserialize)]
struct Call {
    #[serde(default)]
    tool_call_id: Option<String>,
    #[serde(default)]
    tool_args: Option<RawJson>,
    #[serde(default)]
    confirmed: Option<bool>,
    #[serde(default)]
    confirmation_note: Option<String>,
    #[serde(default)]
    user_input_schema: Option<Vec<Field>>,
    #[serde(default)]
    result: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Field {
    name: String,
    #[serde(default)]
    value: Option<RawJson>,
}

/// A RunRequirement, as far as it can decide something.
#[derive(Debug, Deserialize)]
struct Requirement {
    #[serde(default)]
    tool_execution: Option<Call>,
    #[serde(default)]
    confirmation: Option<bool>,
    #[serde(default)]
    confirmation_note: Option<String>,
    #[serde(default)]
    user_input_schema: Option<Vec<Field>>,
    #[serde(default)]
    external_execution_result: Option<String>,
}

impl From<Requirement> for Call {
    fn from(requirement: Requirement) -> Self {
        let call = requirement.tool_execution.unwrap_or_default();
        Self {
            confirmed: requirement.confirmation.or(call.confirmed),
            confirmation_note: requirement.confirmation_note.or(call.confirmation_note),
            user_input_schema: requirement.user_input_schema.or(call.user_input_schema),
            result: requirement.external_execution_result.or(call.result),
            ..call
        }
    }
}

/// What the form decides about the run, at least one call.
///
/// # Errors
/// 422 when it is malformed or decides nothing, 409 about a call that waits for no decision.
pub(super) async fn read(fields: &Fields, row: &RunRow, blobs: &dyn Blobs) -> Result<Vec<Decision>, ApiError> {
    let (name, calls) = match (fields.text("tools"), fields.text("requirements")) {
        (None, Some(_)) => {
            ("requirements", list::<Requirement>(fields, "requirements")?.into_iter().map(Call::from).collect())
        }
        _ => ("tools", list::<Call>(fields, "tools")?),
    };
    let form = Form { fields, name, run: &row.run_data, owner: row.user_id.as_ref() };
    let mut decisions = Vec::new();
    for (at, call) in calls.into_iter().enumerate() {
        decisions.extend(form.decision(at, call, blobs).await?);
    }
    if decisions.is_empty() {
        let what = "should decide about at least one of the tool calls that the run waits with: `confirmed` true or \
                    false, values in `user_input_schema`, or `result`, as each needs";
        return Err(fields.fault(name, "nothing_decided", format!("`{name}` {what}")));
    }
    Ok(decisions)
}

fn list<T: DeserializeOwned>(fields: &Fields, name: &str) -> Result<Vec<T>, ApiError> {
    let text = fields.required(name)?;
    let what = "should be a JSON list with the tool calls of `RunPaused`, at least one";
    fields.json(name)?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let list: Vec<T> = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { name.to_owned() } else { format!("{name}{path}") };
        fields.fault(name, "decision_invalid", format!("`{place}` cannot be used: {}; `{name}` {what}", error.inner()))
    })?;
    match list.is_empty() {
        true => Err(fields.fault(name, "decision_invalid", format!("`{name}` {what}"))),
        false => Ok(list),
    }
}

struct Form<'a> {
    fields: &'a Fields,
    name: &'static str,
    run: &'a Value,
    owner: Option<&'a UserId>,
}

impl Form<'_> {
    async fn decision(&self, at: usize, call: Call, blobs: &dyn Blobs) -> Result<Option<Decision>, ApiError> {
        let Some(id) = call.tool_call_id.clone() else {
            let text = format!("`{}[{at}].tool_call_id` is missing: it says which call is decided about", self.name);
            return Err(self.fields.fault(self.name, "decision_invalid", text));
        };
        let Some(waiting) = self.of("requirements", |item| &item["tool_execution"], &id) else {
            return self.of_no_wait(at, &call, &id).map(|()| None);
        };
        let verdict = match waiting["kind"].as_str() {
            Some("user_input") => self.filled_in(&call, waiting),
            _ => None,
        };
        let verdict = match (verdict, call.result, call.confirmed) {
            (_, _, Some(false)) => Verdict::Rejected { note: call.confirmation_note.map(Into::into) },
            (Some(verdict), _, _) => verdict,
            (None, Some(result), _) => Verdict::Result { value: Text::keep(&result, self.owner, blobs).await? },
            (None, None, Some(true)) => Verdict::Confirmed {
                arguments: edited(call.tool_args.as_ref(), &waiting["tool_execution"]["tool_args"]),
                input: None,
            },
            (None, None, None) => return Ok(None),
        };
        Ok(Some(Decision { tool_call_id: id.into(), verdict }))
    }

    fn of(&self, list: &str, call: fn(&Value) -> &Value, id: &str) -> Option<&Value> {
        let items = self.run[list].as_array().map(Vec::as_slice).unwrap_or_default();
        items.iter().find(|item| call(item)["tool_call_id"].as_str() == Some(id))
    }

    /// What was filled in, if anything was.
    fn filled_in(&self, call: &Call, waiting: &Value) -> Option<Verdict> {
        let fields = call.user_input_schema.iter().flatten();
        let values: BTreeMap<&str, &RawJson> =
            fields.filter_map(|field| Some((field.name.as_str(), field.value.as_ref()?))).collect();
        // Values that were read from JSON can be written as JSON.
        let input = Some(values).filter(|values| !values.is_empty()).and_then(|values| RawJson::of(&values).ok())?;
        let arguments = edited(call.tool_args.as_ref(), &waiting["tool_execution"]["tool_args"]);
        Some(Verdict::Confirmed { arguments, input: Some(input) })
    }

    /// A call that waits for no decision may be sent along as it is known.
    fn of_no_wait(&self, at: usize, call: &Call, id: &str) -> Result<(), ApiError> {
        let place = format!("{}[{at}]", self.name);
        let Some(known) = self.of("tools", |item| item, id) else {
            let text = format!("`{place}`: the run has no tool call `{id}`");
            return Err(ApiError::conflict(text).named("step_not_in_doubt"));
        };
        let agrees = call.confirmed.is_none_or(|confirmed| known["confirmed"] == confirmed)
            && call.result.as_deref().is_none_or(|result| known["result"] == result)
            && call.user_input_schema.iter().flatten().all(|field| says_the_same(field, known));
        match agrees {
            true => Ok(()),
            false => {
                let text = format!("`{place}`: tool call `{id}` waits for no decision, or not any more");
                Err(ApiError::conflict(text).named("step_not_in_doubt"))
            }
        }
    }
}

fn says_the_same(field: &Field, known: &Value) -> bool {
    let Some(value) = &field.value else { return true };
    let mut fields = known["user_input_schema"].as_array().into_iter().flatten();
    fields.any(|known| known["name"] == field.name.as_str() && known["value"] == value.value())
}

/// Arguments that are not those that the call has, as they were written.
fn edited(given: Option<&RawJson>, known: &Value) -> Option<Text> {
    let given = given.filter(|given| given.value().is_object() && given.value() != *known)?;
    Some(Text::inline(given.as_str()))
}
