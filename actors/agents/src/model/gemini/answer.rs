//! Adds up an answer from the pieces of a `streamGenerateContent` stream. Nothing marks the stream's end but the
//! end of the body; `finishReason` marks the answer's.

use reenact_actors::step::{ModelReply, RequestedCall};
use reenact_events::event::Usage;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{
    http::ANSWER_BYTES_MAX,
    model::{
        counts::Count,
        protocol::{self, Trouble, Words, read},
    },
};

/// Reasons to stop that stand for a call which the model wrote so that nobody can read it.
const MALFORMED: &[&str] = &["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"];

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Piece {
    candidates: Option<Vec<Candidate>>,
    prompt_feedback: Option<Feedback>,
    usage_metadata: Option<Value>,
    error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Candidate {
    index: u64,
    content: Option<Content>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
    block_reason_message: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Content {
    parts: Option<Vec<Part>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Part {
    text: Option<String>,
    thought: bool,
    function_call: Option<FunctionCall>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FunctionCall {
    id: Option<String>,
    name: Option<String>,
    args: Option<Box<RawValue>>,
}

impl FunctionCall {
    /// Calls come whole, and the protocol writes no arguments as none.
    fn requested(self) -> RequestedCall {
        let arguments = self.args.map_or_else(|| "{}".to_owned(), |args| args.get().to_owned());
        RequestedCall { id: self.id.unwrap_or_default(), name: self.name.unwrap_or_default(), arguments }
    }
}

/// An answer so far.
#[derive(Debug, Default)]
pub(in crate::model) struct Answer {
    text: String,
    reasoning: String,
    calls: Vec<RequestedCall>,
    call_bytes: usize,
    usage: UsageSoFar,
    finish_reason: Option<String>,
}

impl Answer {
    fn take(&mut self, piece: Piece) -> Result<Words, Trouble> {
        if let Some(error) = piece.error {
            return Err(Trouble::Reported(error));
        }
        if let Some(usage) = piece.usage_metadata {
            self.usage.report(&usage);
        }
        if let Some(Feedback { block_reason: Some(reason), block_reason_message }) = piece.prompt_feedback {
            return Err(Trouble::Blocked(
                block_reason_message.map_or(reason.clone(), |words| format!("{reason}: {words}")),
            ));
        }
        let mut words = Words::default();
        for candidate in piece.candidates.into_iter().flatten().filter(|candidate| candidate.index == 0) {
            self.take_candidate(candidate, &mut words)?;
        }
        self.text.push_str(&words.text);
        self.reasoning.push_str(&words.reasoning);
        if self.text.len() + self.reasoning.len() + self.call_bytes > ANSWER_BYTES_MAX {
            return Err(Trouble::TooLarge);
        }
        Ok(words)
    }

    fn take_candidate(&mut self, candidate: Candidate, words: &mut Words) -> Result<(), Trouble> {
        for part in candidate.content.into_iter().flat_map(|content| content.parts.unwrap_or_default()) {
            let said = if part.thought { &mut words.reasoning } else { &mut words.text };
            said.push_str(&part.text.unwrap_or_default());
            if let Some(call) = part.function_call.map(FunctionCall::requested) {
                self.call_bytes += call.id.len() + call.name.len() + call.arguments.len();
                self.calls.push(call);
            }
        }
        if let Some(reason) = candidate.finish_reason {
            if MALFORMED.contains(&reason.as_str()) {
                return Err(Trouble::nonsense(reason, &candidate.finish_message.unwrap_or_default()));
            }
            self.finish_reason = Some(reason);
        }
        Ok(())
    }
}

impl protocol::Answer for Answer {
    fn absorb(&mut self, data: &str) -> Result<Words, Trouble> {
        let piece = read(data)?;
        self.take(piece)
    }

    fn absorb_whole(&mut self, data: &str) -> Result<Words, Trouble> {
        // Without `alt=sse`, which some proxies lose, the pieces come as one array.
        let pieces: Vec<Piece> = if data.trim_start().starts_with('[') { read(data)? } else { vec![read(data)?] };
        let says =
            |piece: &Piece| piece.error.is_some() || piece.candidates.is_some() || piece.prompt_feedback.is_some();
        if !pieces.iter().any(says) {
            return Err(Trouble::nonsense("JSON without `candidates`", data));
        }
        let mut words = Words::default();
        for piece in pieces {
            let shown = self.take(piece)?;
            words.text.push_str(&shown.text);
            words.reasoning.push_str(&shown.reasoning);
        }
        Ok(words)
    }

    fn is_complete(&self) -> bool {
        false
    }

    fn has_ended(&self) -> bool {
        self.finish_reason.is_some()
    }

    fn usage(&self) -> Option<Usage> {
        self.usage.total()
    }

    fn into_reply(self, first_token_ms: Option<u64>) -> ModelReply {
        ModelReply {
            usage: self.usage.total(),
            text: self.text,
            reasoning: Some(self.reasoning).filter(|reasoning| !reasoning.is_empty()),
            tool_calls: self.calls,
            finish_reason: self.finish_reason,
            first_token_ms,
        }
    }
}

/// Tokens as the protocol reports them: running totals in every piece. Thinking is not part of
/// `candidatesTokenCount` there, and is here; what tools were told is part of what was read.
#[derive(Debug, Clone, Copy, Default)]
struct UsageSoFar {
    prompt: Count,
    tool_prompt: Count,
    candidates: Count,
    thoughts: Count,
    cached: Count,
    total: Count,
}

impl UsageSoFar {
    fn report(&mut self, usage: &Value) {
        self.prompt.report(usage, &["/promptTokenCount"]);
        self.tool_prompt.report(usage, &["/toolUsePromptTokenCount"]);
        self.candidates.report(usage, &["/candidatesTokenCount"]);
        self.thoughts.report(usage, &["/thoughtsTokenCount"]);
        self.cached.report(usage, &["/cachedContentTokenCount"]);
        self.total.report(usage, &["/totalTokenCount"]);
    }

    fn total(self) -> Option<Usage> {
        let input_tokens = self.prompt.known()?.saturating_add(self.tool_prompt.or_none());
        // A count of zero is left out, so the total tells whether nothing was written or nothing was said.
        let output_tokens = match (self.candidates.known(), self.total.known()) {
            (None, None) => return None,
            (None, Some(total)) => total.saturating_sub(input_tokens),
            (Some(candidates), _) => candidates.saturating_add(self.thoughts.or_none()),
        };
        let said = input_tokens > 0 || output_tokens > 0;
        said.then(|| Usage {
            input_tokens,
            output_tokens,
            cache_read_tokens: self.cached.or_none(),
            cache_write_tokens: 0,
            reasoning_tokens: self.thoughts.or_none(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::protocol::Answer as _;

    #[test]
    fn a16_running_totals_are_not_added_and_thinking_is_part_of_what_was_written() {
        let mut answer = Answer::default();
        for candidates in [1, 2, 5] {
            let usage = format!(
                r#"{{"usageMetadata":{{"promptTokenCount":7,"candidatesTokenCount":{candidates},"thoughtsTokenCount":3,"cachedContentTokenCount":2,"totalTokenCount":15}}}}"#
            );
            answer.absorb(&usage).unwrap();
        }
        let usage = answer.usage().unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (7, 8));
        assert_eq!((usage.reasoning_tokens, usage.cache_read_tokens), (3, 2));
    }

    #[test]
    fn a24_a_call_that_gemini_could_not_read_is_an_error_that_may_pass() {
        let malformed = r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"print(1"}]}"#;
        assert!(matches!(Answer::default().absorb(malformed), Err(Trouble::Nonsense { .. })));
    }
}
