//! Adds up an answer from the events of a messages stream.

use std::collections::BTreeMap;

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

/// One event of a stream, or a whole message; `type` tells which fields it has.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Event {
    r#type: String,
    index: u64,
    message: Option<Message>,
    content_block: Option<Block>,
    delta: Option<Delta>,
    content: Vec<Block>,
    stop_reason: Option<String>,
    usage: Option<Value>,
    error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message {
    usage: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Block {
    r#type: String,
    text: Option<String>,
    thinking: Option<String>,
    id: Option<String>,
    name: Option<String>,
    input: Option<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Delta {
    text: Option<String>,
    thinking: Option<String>,
    partial_json: Option<String>,
    stop_reason: Option<String>,
}

/// A call while it comes in.
#[derive(Debug, Default)]
struct Call {
    id: String,
    name: String,
    /// What the block began with; the protocol streams the rest.
    input: String,
    fragments: String,
    whole: bool,
}

impl Call {
    /// A block that ended without a fragment is as it began. One that was cut off before its first fragment has no
    /// arguments: `{}` would be a guess.
    fn finish(self) -> RequestedCall {
        let arguments = if self.fragments.is_empty() && self.whole { self.input } else { self.fragments };
        RequestedCall { id: self.id, name: self.name, arguments }
    }
}

/// An answer so far.
#[derive(Debug, Default)]
pub(in crate::model) struct Answer {
    text: String,
    reasoning: String,
    calls: BTreeMap<u64, Call>,
    call_bytes: usize,
    usage: UsageSoFar,
    stop_reason: Option<String>,
    done: bool,
}

impl Answer {
    fn take(&mut self, event: Event) -> Result<Words, Trouble> {
        if let Some(error) = event.error {
            return Err(Trouble::Reported(error));
        }
        for usage in [event.message.and_then(|message| message.usage), event.usage].into_iter().flatten() {
            self.usage.report(&usage);
        }
        let mut words = Words::default();
        if let Some(block) = event.content_block {
            self.begin(event.index, block, &mut words);
        }
        if let Some(delta) = event.delta {
            self.grow(event.index, delta, &mut words);
        }
        match event.r#type.as_str() {
            "content_block_stop" => {
                if let Some(call) = self.calls.get_mut(&event.index) {
                    call.whole = true;
                }
            }
            "message_stop" => self.done = true,
            _ => {}
        }
        self.text.push_str(&words.text);
        self.reasoning.push_str(&words.reasoning);
        if self.text.len() + self.reasoning.len() + self.call_bytes > ANSWER_BYTES_MAX {
            return Err(Trouble::TooLarge);
        }
        Ok(words)
    }

    fn begin(&mut self, index: u64, block: Block, words: &mut Words) {
        words.text.push_str(&block.text.unwrap_or_default());
        words.reasoning.push_str(&block.thinking.unwrap_or_default());
        if block.r#type == "tool_use" {
            let input = block.input.map(|input| input.get().to_owned()).unwrap_or_default();
            let (id, name) = (block.id.unwrap_or_default(), block.name.unwrap_or_default());
            self.call_bytes += id.len() + name.len() + input.len();
            self.calls.insert(index, Call { id, name, input, ..Call::default() });
        }
    }

    fn grow(&mut self, index: u64, delta: Delta, words: &mut Words) {
        words.text.push_str(&delta.text.unwrap_or_default());
        words.reasoning.push_str(&delta.thinking.unwrap_or_default());
        self.stop_reason = delta.stop_reason.or(self.stop_reason.take());
        if let Some(fragment) = delta.partial_json {
            self.call_bytes += fragment.len();
            self.calls.entry(index).or_default().fragments.push_str(&fragment);
        }
    }
}

impl protocol::Answer for Answer {
    fn absorb(&mut self, data: &str) -> Result<Words, Trouble> {
        let event = read(data)?;
        self.take(event)
    }

    fn absorb_whole(&mut self, data: &str) -> Result<Words, Trouble> {
        let mut message: Event = read(data)?;
        if message.error.is_none() && message.r#type != "message" {
            return Err(Trouble::nonsense("JSON that is no `message`", data));
        }
        let blocks = std::mem::take(&mut message.content);
        self.stop_reason = message.stop_reason.take();
        let mut words = self.take(message)?;
        for (index, block) in (0..).zip(blocks) {
            let shown = self.take(Event { index, content_block: Some(block), ..Event::default() })?;
            words.text.push_str(&shown.text);
            words.reasoning.push_str(&shown.reasoning);
        }
        self.calls.values_mut().for_each(|call| call.whole = true);
        self.done = true;
        Ok(words)
    }

    fn is_complete(&self) -> bool {
        self.done
    }

    fn has_ended(&self) -> bool {
        self.done || self.stop_reason.is_some()
    }

    fn usage(&self) -> Option<Usage> {
        self.usage.total()
    }

    fn into_reply(self, first_token_ms: Option<u64>) -> ModelReply {
        ModelReply {
            usage: self.usage.total(),
            text: self.text,
            reasoning: Some(self.reasoning).filter(|reasoning| !reasoning.is_empty()),
            tool_calls: self.calls.into_values().map(Call::finish).collect(),
            finish_reason: self.stop_reason,
            first_token_ms,
        }
    }
}

/// Tokens as the protocol reports them: at the start, and as running totals with the end. What the cache took or
/// gave is not part of `input_tokens` there, and is here.
#[derive(Debug, Clone, Copy, Default)]
struct UsageSoFar {
    input: Count,
    output: Count,
    cache_read: Count,
    cache_write: Count,
}

impl UsageSoFar {
    fn report(&mut self, usage: &Value) {
        self.input.report(usage, &["/input_tokens"]);
        self.output.report(usage, &["/output_tokens"]);
        self.cache_read.report(usage, &["/cache_read_input_tokens"]);
        self.cache_write.report(usage, &["/cache_creation_input_tokens"]);
    }

    fn total(self) -> Option<Usage> {
        let (cache_read_tokens, cache_write_tokens) = (self.cache_read.or_none(), self.cache_write.or_none());
        let input_tokens = self.input.known()?.saturating_add(cache_read_tokens).saturating_add(cache_write_tokens);
        let output_tokens = self.output.known()?;
        let said = input_tokens > 0 || output_tokens > 0;
        said.then_some(Usage {
            input_tokens,
            output_tokens,
            cache_read_tokens,
            cache_write_tokens,
            reasoning_tokens: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::protocol::Answer as _;

    fn absorbed(frames: &[&str]) -> ModelReply {
        let mut answer = Answer::default();
        for frame in frames {
            answer.absorb(frame).unwrap();
        }
        answer.into_reply(None)
    }

    const CALL: &str = r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}"#;

    #[test]
    fn a24_a_call_without_arguments_is_told_from_one_that_was_cut_off() {
        let stopped = absorbed(&[CALL, r#"{"type":"content_block_stop","index":1}"#]);
        assert_eq!(stopped.tool_calls[0].arguments, "{}");
        let cut = absorbed(&[CALL, r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}"#]);
        assert_eq!((cut.tool_calls[0].arguments.as_str(), cut.finish_reason.as_deref()), ("", Some("max_tokens")));
    }

    #[test]
    fn a16_what_the_cache_took_and_gave_is_part_of_what_was_read() {
        let usage = absorbed(&[
            r#"{"type":"message_start","message":{"usage":{"input_tokens":7,"cache_read_input_tokens":5,"cache_creation_input_tokens":3,"output_tokens":1}}}"#,
            r#"{"type":"message_delta","delta":{},"usage":{"output_tokens":9}}"#,
        ])
        .usage
        .unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (15, 9));
        assert_eq!((usage.cache_read_tokens, usage.cache_write_tokens), (5, 3));
    }
}
