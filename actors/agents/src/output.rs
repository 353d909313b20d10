//! Checks an answer that must be JSON of a given schema.
//!
//! Models put such an answer into a fenced block now and then, however they are asked. What stands in it is the
//! answer then; anything else round the JSON is not taken, since what is meant is never guessed.

use reenact_events::RawJson;

use crate::{arguments::Schemas, strict_json, text::mend_surrogates};

/// The answer's JSON, or what is wrong with it.
pub(crate) fn check(schemas: &Schemas, schema: &RawJson, answer: &str) -> Result<String, String> {
    let bare = without_fence(answer);
    if bare.is_empty() {
        return Err("it is empty".to_owned());
    }
    let mended = mend_surrogates(bare);
    let value = strict_json::parse(&mended).map_err(|error| format!("it is not valid JSON ({error})"))?;
    let problems = schemas.problems(schema, &value)?;
    if problems.is_empty() { Ok(mended.into_owned()) } else { Err(problems) }
}

/// What an answer says in its fenced block, if that is all it has.
fn without_fence(answer: &str) -> &str {
    let answer = answer.trim();
    let inside = answer.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let Some((word, body)) = inside.and_then(|inside| inside.split_once('\n')) else { return answer };
    if word.trim().chars().all(char::is_alphanumeric) { body.trim() } else { answer }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_it(answer: &str) -> Result<String, String> {
        let schema = r#"{"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}"#;
        check(&Schemas::default(), &RawJson::parse(schema).unwrap(), answer)
    }

    #[test]
    fn an_answer_is_its_json_with_or_without_a_fence() {
        for answer in [r#"{"n":1}"#, " {\"n\":1}\n", "```json\n{\"n\":1}\n```", "```\n{\"n\":1}```"] {
            assert_eq!(check_it(answer).as_deref(), Ok(r#"{"n":1}"#), "{answer}");
        }
        assert_eq!(check_it(r#"{"n": 12345678901234567890}"#).as_deref(), Ok(r#"{"n": 12345678901234567890}"#));
    }

    #[test]
    fn what_does_not_fit_is_told_with_its_place() {
        for (answer, because) in [
            ("", "empty"),
            ("  \n", "empty"),
            ("Here it is: {\"n\":1}", "not valid JSON"),
            (r#"{"n":1} {"n":2}"#, "not valid JSON"),
            (r#"{"n":1,"n":2}"#, "stands twice"),
            (r#"{"n":"one"}"#, "at `/n`"),
            ("[]", "object"),
            ("{}", "required"),
        ] {
            let reason = check_it(answer).unwrap_err();
            assert!(reason.contains(because), "{answer}: {reason}");
        }
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_refused() {
        let refused = |schema: &str| Schemas::default().check_schema(&RawJson::parse(schema).unwrap()).unwrap_err();
        assert!(refused(r#"{"type": "text"}"#).contains("invalid at `/type`"), "{}", refused(r#"{"type": "text"}"#));
        assert!(!refused(r#"{"$ref": "https://example.com/other.json"}"#).is_empty());
    }
}
