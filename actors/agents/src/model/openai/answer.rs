//! Adds up an answer from its frames. Pure: the bytes come from elsewhere, the words go elsewhere.

use reenact_actors::step::ModelReply;
use reenact_events::event::Usage;

use super::{
    calls::Calls,
    usage::UsageSoFar,
    wire::{self, Choice, Chunk, Message},
};
use crate::{
    http::ANSWER_BYTES_MAX,
    model::protocol::{self, Trouble, Words, read},
};

/// An answer so far.
#[derive(Debug, Default)]
pub(in crate::model) struct Answer {
    text: String,
    reasoning: String,
    calls: Calls,
    usage: UsageSoFar,
    finish_reason: Option<String>,
    done: bool,
    streamed: bool,
    call_bytes: usize,
}

impl protocol::Answer for Answer {
    fn absorb(&mut self, data: &str) -> Result<Words, Trouble> {
        if data.trim() == "[DONE]" {
            self.done = true;
            return Ok(Words::default());
        }
        let chunk = read(data)?;
        self.take(chunk)
    }

    fn absorb_whole(&mut self, data: &str) -> Result<Words, Trouble> {
        let chunk: Chunk = read(data)?;
        if chunk.error.is_none() && chunk.choices.as_ref().is_none_or(Vec::is_empty) {
            return Err(Trouble::nonsense("JSON without `choices`", data));
        }
        self.done = true;
        self.take(chunk)
    }

    fn is_complete(&self) -> bool {
        self.done
    }

    fn has_ended(&self) -> bool {
        self.done || self.finish_reason.is_some()
    }

    fn usage(&self) -> Option<Usage> {
        self.usage.total()
    }

    fn into_reply(self, first_token_ms: Option<u64>) -> ModelReply {
        ModelReply {
            usage: self.usage(),
            text: self.text,
            reasoning: Some(self.reasoning).filter(|reasoning| !reasoning.is_empty()),
            tool_calls: self.calls.into_calls(),
            finish_reason: self.finish_reason,
            first_token_ms,
        }
    }
}

impl Answer {
    fn take(&mut self, chunk: Chunk) -> Result<Words, Trouble> {
        if let Some(error) = chunk.error {
            return Err(Trouble::Reported(error));
        }
        for usage in [chunk.usage, chunk.x_groq.and_then(|groq| groq.usage)].into_iter().flatten() {
            self.usage.report(&usage);
        }
        let mut words = Words::default();
        for choice in chunk.choices.into_iter().flatten().filter(|choice| choice.index.unwrap_or(0) == 0) {
            self.take_choice(choice, &mut words);
        }
        if self.text.len() + self.reasoning.len() + self.call_bytes > ANSWER_BYTES_MAX {
            return Err(Trouble::TooLarge);
        }
        Ok(words)
    }

    fn take_choice(&mut self, choice: Choice, words: &mut Words) {
        let reason = wire::words(choice.finish_reason.as_ref());
        if !reason.is_empty() {
            self.finish_reason = Some(reason);
        }
        // A stream's last chunk may repeat the whole message; what was streamed counts.
        let message = match (choice.delta, choice.message) {
            (Some(delta), _) => {
                self.streamed = true;
                Some(delta)
            }
            (None, Some(message)) if !self.streamed => Some(message),
            _ => None,
        };
        if let Some(message) = message {
            self.take_message(&message, words);
        }
    }

    fn take_message(&mut self, message: &Message, words: &mut Words) {
        let (text, reasoning) = (message.text(), message.reasoning());
        self.text.push_str(&text);
        self.reasoning.push_str(&reasoning);
        words.text.push_str(&text);
        words.reasoning.push_str(&reasoning);
        for fragment in message.tool_calls.iter().flatten() {
            self.call_bytes += self.calls.add(fragment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{frames::Frames, protocol::Answer as _};

    fn absorbed(frames: &[&str]) -> Answer {
        let mut answer = Answer::default();
        for frame in frames {
            answer.absorb(frame).unwrap();
        }
        answer
    }

    #[test]
    fn a25_emptiness_in_all_its_forms_is_an_empty_text() {
        for delta in [r#"{}"#, r#"{"content": null}"#, r#"{"content": ""}"#, r#"{"content": []}"#, "null"] {
            let answer = absorbed(&[&format!(r#"{{"choices": [{{"delta": {delta}, "finish_reason": "stop"}}]}}"#)]);
            assert!(answer.has_ended());
            assert_eq!(answer.into_reply(None).text, "", "{delta}");
        }
        assert_eq!(absorbed(&["[DONE]"]).into_reply(None).text, "");
    }

    #[test]
    fn a_repeated_whole_message_is_not_added_to_what_was_streamed() {
        let answer = absorbed(&[
            r#"{"choices": [{"delta": {"content": "hi"}}]}"#,
            r#"{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}"#,
        ]);
        assert_eq!(answer.into_reply(None).text, "hi");
    }

    #[test]
    fn other_choices_are_not_mixed_in() {
        let answer =
            absorbed(&[r#"{"choices": [{"index": 1, "delta": {"content": "no"}}, {"delta": {"content": "yes"}}]}"#]);
        assert_eq!(answer.into_reply(None).text, "yes");
    }

    #[test]
    fn a21_an_answer_that_is_too_large_is_refused_before_it_fills_the_memory() {
        let frame = format!(r#"{{"choices": [{{"delta": {{"content": "{}"}}}}]}}"#, "x".repeat(1024 * 1024));
        let mut answer = Answer::default();
        let refused = (0..20).position(|_| matches!(answer.absorb(&frame), Err(Trouble::TooLarge)));
        assert_eq!(refused, Some(16));
    }

    /// Reads a body the way the client does, whatever is in it.
    fn swallow(body: &[u8]) {
        let mut frames = Frames::default();
        let mut answer = Answer::default();
        for frame in frames.push(body).unwrap_or_default() {
            let _ = answer.absorb(&frame.data);
        }
        let rest = frames.finish().rest.unwrap_or_default();
        let _ = answer.absorb(&rest);
        let _ = answer.absorb_whole(&rest);
        answer.into_reply(None);
    }

    #[test]
    fn no_damage_to_a_body_does_more_than_an_error() {
        let call = r#"{"index": 1, "id": "a", "function": {"name": "f", "arguments": "{\"n\": 1}"}}"#;
        let delta = format!(r#"{{"content": "\ud83d\ude00 é", "reasoning": "x", "tool_calls": [{call}]}}"#);
        let chunk = format!(
            r#"{{"choices": [{{"delta": {delta}, "finish_reason": "stop"}}], "usage": {{"prompt_tokens": 7}}}}"#
        );
        for body in [format!("data: {chunk}\n\ndata: [DONE]\n\n"), chunk] {
            for at in 0..body.len() {
                for byte in *b"\0\"\\{[9u\n\xff" {
                    let mut damaged = body.clone().into_bytes();
                    damaged[at] = byte;
                    swallow(&damaged);
                }
                swallow(&body.as_bytes()[..at]);
            }
        }
    }
}
