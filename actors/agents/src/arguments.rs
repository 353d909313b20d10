//! Checks what a model wrote as a tool's arguments, before anything is done with it.
//!
//! | written | rule |
//! |---|---|
//! | no JSON, no object, a trailing comma, `NaN`, nothing at all | refused: arguments are never guessed |
//! | a key twice in one object | refused: two readers might take different ones |
//! | more than 127 levels of nesting | refused |
//! | a number beyond the range of a 64-bit float (`1e400`) | refused |
//! | any other number (`9007199254740993`, `-0`) | kept digit by digit |
//! | a lone surrogate escape | becomes `\ufffd` |
//! | an object that does not fit the tool's schema | refused, saying where |
//!
//! What is accepted is passed on as the model wrote it.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use jsonschema::Validator;
use reenact_events::{RawJson, agent::ToolSpec};
use serde_json::Value;

use crate::{
    strict_json,
    text::{mend_surrogates, preview},
};

const PREVIEW_CHARS_MAX: usize = 200;
const PROBLEMS_MAX: usize = 3;
/// Compiled schemas kept. Agents have few tools; old versions of agents come and go.
const SCHEMAS_MAX: usize = 1_000;

/// Compiled schemas by their text.
#[derive(Default)]
pub(crate) struct Schemas(Mutex<BTreeMap<String, Arc<Validator>>>);

impl Schemas {
    /// The object to call the tool with, or what the model is told.
    pub(crate) fn check(&self, tool: &ToolSpec, arguments: &str) -> Result<Arc<str>, String> {
        let refuse = |reason: &str| {
            let name = &tool.name;
            format!(
                "the arguments for `{name}` were refused and the tool was not called: {reason}. \
                 Written was: `{}`. Call it again with one JSON object that fits its schema",
                preview(arguments, PREVIEW_CHARS_MAX)
            )
        };
        let mended = mend_surrogates(arguments);
        let value =
            strict_json::parse(&mended).map_err(|error| refuse(&format!("they are not valid JSON ({error})")))?;
        if !value.is_object() {
            return Err(refuse("they are not a JSON object"));
        }
        let problems = self.problems(&tool.parameters, &value).map_err(|reason| refuse(&reason))?;
        if problems.is_empty() { Ok(mended.into()) } else { Err(refuse(&problems)) }
    }

    /// The first few places where a value does not fit a schema; empty when it does.
    ///
    /// # Errors
    /// When the schema cannot be used.
    pub(crate) fn problems(&self, schema: &RawJson, value: &Value) -> Result<String, String> {
        Ok(problems(&*self.compiled(schema)?, value))
    }

    /// Whether a schema can be used.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn check_schema(&self, schema: &RawJson) -> Result<(), String> {
        self.compiled(schema).map(drop)
    }

    fn compiled(&self, schema: &RawJson) -> Result<Arc<Validator>, String> {
        let text = schema.as_str();
        let mut schemas = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(schema) = schemas.get(text) {
            return Ok(schema.clone());
        }
        let schema = compile(&schema.value())?;
        if schemas.len() >= SCHEMAS_MAX {
            schemas.clear();
        }
        let schema = Arc::new(schema);
        schemas.insert(text.to_owned(), schema.clone());
        Ok(schema)
    }
}

/// Compiles a schema.
///
/// # Errors
/// When it is no valid JSON Schema, or refers to a document elsewhere.
pub(crate) fn compile(schema: &Value) -> Result<Validator, String> {
    jsonschema::validator_for(schema).map_err(|error| {
        format!("the schema is invalid{}: {}", place(&error.instance_path().to_string()), error.masked())
    })
}

/// The first few places where the object does not fit.
fn problems(schema: &Validator, value: &Value) -> String {
    let problems = schema.iter_errors(value).take(PROBLEMS_MAX).map(|error| {
        let problem = preview(&error.masked().to_string(), PREVIEW_CHARS_MAX);
        format!("{problem}{}", place(&error.instance_path().to_string()))
    });
    problems.collect::<Vec<_>>().join("; ")
}

fn place(path: &str) -> Cow<'_, str> {
    if path.is_empty() { "".into() } else { format!(" at `{}`", preview(path, PREVIEW_CHARS_MAX)).into() }
}

#[cfg(test)]
mod tests {
    use reenact_events::{
        RawJson,
        agent::{Effect, ToolKind},
    };

    use super::*;

    fn check(arguments: &str) -> Result<Arc<str>, String> {
        let schema = r#"{"type": "object", "required": ["n"], "additionalProperties": false,
            "properties": {"n": {"type": "number"}, "s": {"type": "string"}, "deep": {}}}"#;
        let tool = ToolSpec {
            name: "tool".into(),
            description: String::new(),
            parameters: RawJson::parse(schema).unwrap(),
            effect: Effect::AtMostOnce,
            timeout_s: 1,
            kind: ToolKind::Builtin,
            hold: None,
        };
        Schemas::default().check(&tool, arguments)
    }

    #[test]
    fn a24_bad_arguments_are_refused_with_a_bounded_preview() {
        let junk = "junk ".repeat(200_000);
        let deep = format!(r#"{{"n": 1, "deep": {}1{}}}"#, "[".repeat(200), "]".repeat(200));
        for (arguments, because) in [
            ("{", "not valid JSON"),
            ("", "not valid JSON"),
            ("   ", "not valid JSON"),
            ("null", "not a JSON object"),
            ("[]", "not a JSON object"),
            (r#""x""#, "not a JSON object"),
            (r#"{"n": 1,}"#, "not valid JSON"),
            (r#"{"n": 1} {"n": 2}"#, "not valid JSON"),
            (&junk, "not valid JSON"),
            (r#"{"n": "one"}"#, "at `/n`"),
            (r#"{"n": 1, "extra": 2}"#, "extra"),
            ("{}", "required"),
            (r#"{"n": NaN}"#, "not valid JSON"),
            (r#"{"n": Infinity}"#, "not valid JSON"),
            (r#"{"n": 1e400}"#, "not valid JSON"),
            (r#"{"n": 1, "n": 2}"#, "the key `n` stands twice"),
            (r#"{"n": 1, "deep": [{"a": 1, "a": 1}]}"#, "the key `a` stands twice"),
            (&deep, "not valid JSON"),
        ] {
            let refusal = check(arguments).unwrap_err();
            assert!(refusal.contains(because) && refusal.contains("`tool`"), "{refusal}");
            assert!(refusal.len() < 1_000, "{} bytes", refusal.len());
        }
    }

    #[test]
    fn a20_what_is_accepted_is_passed_on_untouched() {
        for arguments in [
            r#"{"n":9007199254740993}"#,
            r#"{"n":-0}"#,
            r#"{"n":123456789012345678901234567890.10}"#,
            r#" {"n" : 1E3, "s": "\u0000 \uFFFE \u200f 😀 \ud83d\ude00 e\u0301", "deep": {"": 1}}"#,
        ] {
            assert_eq!(&*check(arguments).unwrap(), arguments);
        }
        assert_eq!(&*check(r#"{"n":1,"s":"\ud83d"}"#).unwrap(), r#"{"n":1,"s":"\ufffd"}"#);
    }
}
