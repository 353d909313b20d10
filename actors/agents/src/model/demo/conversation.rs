//! What the demo model sees of a conversation.

use reenact_actors::step::ChatMessage;
use reenact_events::{BlobError, Blobs};

/// A conversation, as far as the rules look at it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Conversation {
    /// The latest message of the person.
    pub(super) message: String,
    /// How many messages of the person there are.
    pub(super) messages: usize,
    /// Turns with tool calls since the latest message.
    pub(super) rounds: usize,
    /// Names and texts of the results since the latest message.
    pub(super) results: Vec<(String, String)>,
    /// Words in all of it.
    pub(super) words: u64,
}

impl Conversation {
    pub(super) async fn read(messages: &[ChatMessage], blobs: &dyn Blobs) -> Result<Self, BlobError> {
        let mut heard = Self::default();
        for message in messages {
            match message {
                ChatMessage::System(text) => heard.words += super::words(text),
                ChatMessage::User { text, .. } => {
                    let text = text.load(blobs).await?;
                    heard.words += super::words(&text);
                    heard.message = text.to_string();
                    heard.messages += 1;
                    heard.rounds = 0;
                    heard.results.clear();
                }
                ChatMessage::Assistant { text, tool_calls } => {
                    if let Some(text) = text {
                        heard.words += super::words(&text.load(blobs).await?);
                    }
                    heard.rounds += usize::from(!tool_calls.is_empty());
                }
                ChatMessage::Tool { name, text, .. } => {
                    let text = text.load(blobs).await?;
                    heard.words += super::words(&text);
                    heard.results.push((name.to_string(), text.to_string()));
                }
            }
        }
        Ok(heard)
    }

    /// Whether the word stands in the latest message.
    pub(super) fn asks_for(&self, word: &str) -> bool {
        let is_word = |text: &str| text.trim_matches(|end: char| !end.is_alphanumeric()).eq_ignore_ascii_case(word);
        self.message.split_whitespace().any(is_word)
    }
}
