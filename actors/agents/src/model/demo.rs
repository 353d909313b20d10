//! The built-in `demo` model: no network, no thinking, the same answer every time.
//!
//! It exists so that everything round a model can be seen at work without one: streams, tools side by side
//! and one after another, history, usage. It looks only at the conversation it is sent. Its rules, applied to
//! the latest message of the person:
//!
//! | in the message | what it does |
//! |---|---|
//! | `17 * 23` (any arithmetic) | calls `calculator` |
//! | the word `time`, perhaps `time in Europe/Berlin` | calls `current_time` |
//! | `sleep 5` | calls `sleep` |
//! | the name of any other tool, perhaps with a JSON object after it | calls it with that object, or `{}` |
//! | several of these | calls them side by side |
//! | the word `then` | what stands after it is called for once the results before it are there |
//! | `count to 100` | counts in words, for a long stream |
//! | the word `slowly` or `quickly` | pauses 200 ms between words, or not at all, instead of 20 ms |
//! | none of them | repeats the message and says how many there were |
//!
//! Only tools that the agent has are called. Once all results are there it repeats them. A word is a token in
//! its usage.

mod conversation;
mod plan;

use std::time::Duration;

use reenact_actors::step::{DeltaSink, ModelCall, ModelReply, RequestedCall, StepError};
use reenact_events::{Blobs, event::Usage};
use tokio::time::Instant;

use self::{conversation::Conversation, plan::Planned};
use crate::model::unreadable;

const COUNT_MAX: u32 = 10_000;
const PAUSE: Duration = Duration::from_millis(20);
const SLOW_PAUSE: Duration = Duration::from_millis(200);

/// Answers by the rules of this module.
///
/// # Errors
/// When a text of the conversation cannot be read.
pub(crate) async fn call(blobs: &dyn Blobs, call: &ModelCall, sink: &dyn DeltaSink) -> Result<ModelReply, StepError> {
    let started = Instant::now();
    let heard = Conversation::read(&call.messages, blobs).await.map_err(|error| unreadable(&error))?;
    let calls = plan::next_calls(&heard, &call.agent.tools);
    let text = if calls.is_empty() { answer(&heard) } else { announcement(&calls) };
    let first_token_ms = u64::try_from(started.elapsed().as_millis()).ok();
    say(&text, pause(&heard), sink).await;
    let output_tokens = words(&text) + calls.iter().map(|call| words(&call.arguments)).sum::<u64>();
    Ok(ModelReply {
        finish_reason: Some(if calls.is_empty() { "stop" } else { "tool_calls" }.to_owned()),
        tool_calls: requested(calls, call.messages.len()),
        text,
        reasoning: None,
        usage: Some(Usage { input_tokens: heard.words, output_tokens, ..Usage::default() }),
        first_token_ms,
    })
}

async fn say(text: &str, pause: Duration, sink: &dyn DeltaSink) {
    for (index, word) in text.split_inclusive(' ').enumerate() {
        if index > 0 && !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        sink.text(word);
    }
}

fn pause(heard: &Conversation) -> Duration {
    if heard.asks_for("slowly") {
        SLOW_PAUSE
    } else if heard.asks_for("quickly") {
        Duration::ZERO
    } else {
        PAUSE
    }
}

fn announcement(calls: &[Planned]) -> String {
    let names: Vec<_> = calls.iter().map(|call| call.name.as_str()).collect();
    format!("I will use {}.", names.join(" and "))
}

/// The ids hold the place in the conversation, so that they are unique in it.
fn requested(calls: Vec<Planned>, place: usize) -> Vec<RequestedCall> {
    let calls = calls.into_iter().enumerate();
    calls
        .map(|(index, call)| RequestedCall {
            id: format!("call_{place}_{index}"),
            name: call.name,
            arguments: call.arguments,
        })
        .collect()
}

fn answer(heard: &Conversation) -> String {
    if !heard.results.is_empty() {
        let results: Vec<_> = heard.results.iter().map(|(name, text)| format!("{name} says: {text}")).collect();
        return results.join("\n");
    }
    if let Some(count) = plan::number_after(&heard.message, "count to") {
        let count = format!("{count:.0}").parse().unwrap_or(COUNT_MAX).min(COUNT_MAX);
        return (1..=count).map(|number| number.to_string()).collect::<Vec<_>>().join(" ");
    }
    format!(
        "You said: {}\nThis is message {} of our conversation. I am the built-in demo model: give me some \
         arithmetic, ask for the time, or tell me to sleep 3, and I will use a tool.",
        heard.message, heard.messages
    )
}

pub(crate) fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}
