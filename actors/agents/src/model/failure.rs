//! What went wrong with a model call, and whether asking again can help.

use reenact_actors::{run::decide::RETRY_AFTER_MS_MAX, step::StepError};
use reenact_events::{Timestamp, agent::ModelSpec};
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::{
    failed,
    protocol::{Provider, Trouble, key_variable},
    retry_after,
};
use crate::{environment::Secrets, http, text::preview};

/// The kind of a body that is no answer.
pub(super) const NONSENSE: &str = "model_nonsense";
/// How much of a server's words an error shows.
const PREVIEW_CHARS_MAX: usize = 300;

/// How providers say that the conversation is too long, in lower case.
const OVERFLOW_TEXTS: &[&str] = &[
    "context_length_exceeded",              // OpenAI's code
    "maximum context length",               // OpenAI, vLLM, Mistral
    "context window",                       // OpenAI's newer models, Ollama
    "prompt is too long",                   // Anthropic
    "exceed context limit",                 // Anthropic, with max_tokens
    "exceeds the maximum number of tokens", // Gemini
    "exceed_context_size",                  // llama.cpp
    "available context size",               // llama.cpp
    "input is too long",                    // Bedrock
    "reduce the length of the messages",    // Groq
    "too many tokens",                      // Cohere
];

/// The call that an error is about.
pub(super) struct Asked<'a> {
    pub(super) model: &'a ModelSpec,
    pub(super) provider: Provider,
    pub(super) secrets: &'a Secrets,
    pub(super) now: Timestamp,
}

impl Asked<'_> {
    pub(super) fn base_url(&self) -> &str {
        self.model.base_url.as_deref().unwrap_or(self.provider.base_url)
    }

    fn quote(&self, words: &str) -> String {
        self.secrets.redact(preview(words.trim(), PREVIEW_CHARS_MAX))
    }

    pub(super) fn unreachable(&self, error: reqwest::Error) -> StepError {
        let reason = http::explain(error);
        let url = self.base_url();
        failed("model_unreachable", format!("the model's server at `{url}` cannot be reached: {reason}"), true)
    }

    pub(super) fn timed_out(&self) -> StepError {
        let (url, seconds) = (self.base_url(), self.model.timeout_s);
        failed("model_timeout", format!("no byte came from the model at `{url}` for {seconds} s (`timeout_s`)"), true)
    }

    pub(super) fn cut(&self, reason: &str) -> StepError {
        let url = self.base_url();
        failed("model_stream_cut", format!("the answer of the model at `{url}` broke off: {reason}"), true)
    }

    pub(super) fn too_large(&self) -> StepError {
        let mebibytes = http::ANSWER_BYTES_MAX / 1024 / 1024;
        failed("model_answer_too_large", format!("the model's answer has more than {mebibytes} MiB"), false)
    }

    pub(super) fn nonsense(&self, reason: &str, frame: &str) -> StepError {
        let (url, quote, answer) = (self.base_url(), self.quote(frame), self.provider.answer);
        failed(NONSENSE, format!("the server at `{url}` sent no {answer} ({reason}): `{quote}`"), true)
    }

    pub(super) fn troubled(&self, trouble: Trouble) -> StepError {
        match trouble {
            Trouble::Nonsense { reason, frame } => self.nonsense(&reason, &frame),
            Trouble::TooLarge => self.too_large(),
            Trouble::Blocked(reason) => {
                let (id, quote) = (&self.model.id, self.quote(&reason));
                failed("model_refused", format!("model `{id}` gives no answer to this conversation: {quote}"), false)
            }
            Trouble::Reported(error) => self.reported(&error),
        }
    }

    /// An error within a stream, or in a body of status 200.
    fn reported(&self, error: &Value) -> StepError {
        let words = error.get("message").and_then(Value::as_str).map_or_else(|| error.to_string(), str::to_owned);
        let error_text = error.to_string();
        let told = self.of_status(status_of(error), &error_text, &words);
        to_wait(told, retry_after::in_body(error))
    }

    /// A status that is no success.
    pub(super) fn refused(&self, status: u16, headers: &HeaderMap, body: &str) -> StepError {
        let error = self.of_status(status, body, &message_in(body));
        let said = || retry_after::in_body(&serde_json::from_str(body).unwrap_or_default());
        to_wait(error, retry_after::in_headers(status, headers, self.now).or_else(said))
    }

    fn of_status(&self, status: u16, body: &str, words: &str) -> StepError {
        let quote = self.quote(words);
        let (url, id) = (self.base_url(), &self.model.id);
        let lower = body.to_lowercase();
        let mut error = match status {
            _ if is_key_trouble(status, &lower) => {
                failed("model_auth", format!("{}: {quote}", self.key_advice(status)), false)
            }
            _ if is_out_of_quota(status, &lower) => {
                failed("quota_exhausted", format!("the account at `{url}` has no quota left: {quote}"), false)
            }
            429 => failed("rate_limited", format!("the model's server at `{url}` asks to slow down: {quote}"), true),
            _ if is_overflow(status, &lower) => {
                let advice = "shorten the message or lower `history.runs`";
                failed(
                    "context_overflow",
                    format!("the conversation is too long for model `{id}` ({advice}): {quote}"),
                    false,
                )
            }
            408 | 425 | 500..=599 => failed(
                "model_unavailable",
                format!("the model's server at `{url}` failed with status {status}: {quote}"),
                true,
            ),
            _ => failed(
                "model_refused",
                format!("the server at `{url}` refused to ask model `{id}`, status {status}: {quote}"),
                false,
            ),
        };
        error.failure.status = Some(status);
        error
    }

    fn key_advice(&self, status: u16) -> String {
        let url = self.base_url();
        if let Some(file) = &self.model.api_key_file {
            return format!(
                "the model's server at `{url}` does not accept the key (status {status}); check the file `{file}`"
            );
        }
        match key_variable(&self.provider, self.model) {
            Some(variable) => format!(
                "the model's server at `{url}` does not accept the key (status {status}); check the environment variable `{variable}`"
            ),
            None => format!(
                "the model's server at `{url}` wants a key (status {status}); name the environment variable that holds it as `api_key_env`, or the file as `api_key_file`, in [model]"
            ),
        }
    }

    pub(super) fn illegal_key(&self) -> StepError {
        let place = match (&self.model.api_key_file, key_variable(&self.provider, self.model)) {
            (Some(file), _) => format!("what the file `{file}` holds"),
            (None, variable) => format!("the value of the environment variable `{}`", variable.unwrap_or_default()),
        };
        let message = format!("{place} cannot be sent as a key: it holds characters that no HTTP header may hold");
        failed("model_auth", message, false)
    }
}

/// The error of a server that asks to wait so long. Longer than a run waits is told, since it is why nothing is tried again.
fn to_wait(mut error: StepError, retry_after_ms: Option<u64>) -> StepError {
    error.retry_after_ms = retry_after_ms.filter(|_| error.retryable);
    if let Some(asked) = error.retry_after_ms.filter(|asked| *asked > RETRY_AFTER_MS_MAX) {
        let (message, asked, most) = (&error.failure.message, asked / 1_000, RETRY_AFTER_MS_MAX / 1_000);
        error.failure.message = format!("{message} (it asks to wait {asked} s, a run waits {most} s at most)").into();
    }
    error
}

/// Gemini answers a bad key with 400.
fn is_key_trouble(status: u16, lower: &str) -> bool {
    matches!(status, 401 | 403) || lower.contains("api_key_invalid")
}

/// Waiting does not help where an account is empty. Anthropic says so with 400.
fn is_out_of_quota(status: u16, lower: &str) -> bool {
    status == 402
        || (status == 429 && lower.contains("insufficient_quota"))
        || lower.contains("credit balance is too low")
}

/// A request that is too large in bytes is met in the same way as one of too many tokens.
fn is_overflow(status: u16, lower: &str) -> bool {
    status == 413 || (status <= 500 && status != 429 && OVERFLOW_TEXTS.iter().any(|text| lower.contains(text)))
}

/// What an error's body says in words, if it can be found.
fn message_in(body: &str) -> String {
    let Ok(value) = serde_json::from_str::<Value>(body) else { return body.to_owned() };
    let message = ["/error/message", "/0/error/message", "/message", "/detail", "/error"]
        .iter()
        .find_map(|at| value.pointer(at)?.as_str());
    message.map_or_else(|| body.to_owned(), str::to_owned)
}

/// The status that a reported error stands for. What is not known may pass.
fn status_of(error: &Value) -> u16 {
    let number = ["status", "code", "status_code"].iter().find_map(|key| error.get(key)?.as_u64());
    if let Some(status) = number.and_then(|number| u16::try_from(number).ok()).filter(|status| *status >= 400) {
        return status;
    }
    let word = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    match (word("type"), word("code")) {
        ("overloaded_error", _) => 529,
        ("rate_limit_error" | "rate_limit_exceeded", _) | (_, "rate_limit_exceeded" | "insufficient_quota") => 429,
        ("authentication_error", _) | (_, "invalid_api_key") => 401,
        ("billing_error", _) => 402,
        ("permission_error", _) => 403,
        ("request_too_large", _) => 413,
        ("invalid_request_error" | "not_found_error", _) => 400,
        _ => 500,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::{openai::OpenAi, protocol::Protocol};

    fn of_body(status: u16, body: &str) -> StepError {
        let model = ModelSpec {
            provider: "openai".into(),
            id: "m".into(),
            base_url: Some("http://localhost:1/v1".into()),
            api_key_env: Some("THE_KEY".into()),
            api_key_file: None,
            temperature_milli: None,
            max_tokens: None,
            timeout_s: 1,
            retries: 0,
        };
        let mut secrets = Secrets::default();
        secrets.add("sk-very-secret");
        let provider = OpenAi::PROVIDER;
        Asked { model: &model, provider, secrets: &secrets, now: Timestamp(0) }.refused(status, &HeaderMap::new(), body)
    }

    #[test]
    fn a27_the_overflow_texts_of_the_providers_are_known() {
        for body in [
            r#"{"error": {"message": "This model's maximum context length is 8000 tokens. However, your messages resulted in 9000 tokens.", "code": "context_length_exceeded"}}"#,
            r#"{"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9000 tokens > 8000 maximum"}}"#,
            r#"{"error": {"code": 400, "message": "The input token count (9000) exceeds the maximum number of tokens allowed (8000).", "status": "INVALID_ARGUMENT"}}"#,
            r#"{"error": {"type": "exceed_context_size_error", "message": "the request exceeds the available context size"}}"#,
        ] {
            let error = of_body(400, body);
            assert_eq!((&*error.failure.kind, error.retryable), ("context_overflow", false), "{body}");
        }
        assert_eq!(&*of_body(400, r#"{"error": {"message": "unknown field `tols`"}}"#).failure.kind, "model_refused");
    }

    #[test]
    fn a_key_that_a_server_repeats_is_not_shown() {
        let error = of_body(401, r#"{"error": {"message": "bad key sk-very-secret"}}"#);
        assert_eq!(&*error.failure.kind, "model_auth");
        assert!(error.failure.message.contains("`THE_KEY`") && error.failure.message.ends_with("bad key [secret]"));
    }

    #[test]
    fn a_reported_error_stands_for_a_status() {
        for (error, status) in [
            (json!({"type": "overloaded_error", "message": "Overloaded"}), 529),
            (json!({"code": 529}), 529),
            (json!({"type": "rate_limit_error"}), 429),
            (json!({"code": "rate_limit_exceeded"}), 429),
            (json!({"type": "invalid_request_error", "code": "context_length_exceeded"}), 400),
            (json!("it broke"), 500),
        ] {
            assert_eq!(status_of(&error), status, "{error}");
        }
    }
}
