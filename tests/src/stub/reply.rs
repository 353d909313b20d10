//! One scripted answer: status, headers, pieces of a body, and how it ends.

use std::{io, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderName, HeaderValue, StatusCode},
    response::Response,
};
use futures::{StreamExt, future, stream};
use serde_json::{Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Ending {
    #[default]
    Whole,
    Cut,
    Hang,
}

/// What a server answers to one request.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    pieces: Vec<Bytes>,
    delay: Duration,
    pause: Duration,
    ending: Ending,
}

impl Default for Reply {
    fn default() -> Self {
        Self::raw(200, "text/plain", "")
    }
}

impl Reply {
    /// A body as it stands.
    #[must_use]
    pub fn raw(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            pieces: vec![body.into()],
            delay: Duration::ZERO,
            pause: Duration::ZERO,
            ending: Ending::Whole,
        }
    }

    /// A JSON body.
    #[must_use]
    pub fn json(status: u16, body: &Value) -> Self {
        Self::raw(status, "application/json", body.to_string())
    }

    /// An event stream of these `data` lines; `[DONE]` is one of them if it is to come.
    #[must_use]
    pub fn events<T: AsRef<str>>(data: impl IntoIterator<Item = T>) -> Self {
        let pieces = data.into_iter().map(|data| format!("data: {}\n\n", data.as_ref()).into());
        Self { pieces: pieces.collect(), ..Self::raw(200, "text/event-stream", "") }
    }

    /// A model's streamed answer in words, one chunk a word, with usage in the last chunk.
    #[must_use]
    pub fn text(text: &str) -> Self {
        let words = text.split_inclusive(' ').map(|word| delta(&json!({"content": word}), &Value::Null));
        Self::events(words.chain(end("stop", text.split_whitespace().count())))
    }

    /// A model's turn with tool calls, each `(id, name, arguments)`.
    #[must_use]
    pub fn calls(calls: &[(&str, &str, &str)]) -> Self {
        let calls = calls.iter().enumerate().map(|(index, (id, name, arguments))| {
            let call = json!({"index": index, "id": id, "type": "function",
                "function": {"name": name, "arguments": arguments}});
            delta(&json!({"tool_calls": [call]}), &Value::Null)
        });
        Self::events(calls.chain(end("tool_calls", 5)))
    }

    /// With another header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Only after a while.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// With a pause before every piece of the body.
    #[must_use]
    pub fn pause(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }

    /// The connection breaks after the last piece.
    #[must_use]
    pub fn cut(self) -> Self {
        Self { ending: Ending::Cut, ..self }
    }

    /// After the last piece nothing comes any more, and the body does not end.
    #[must_use]
    pub fn hang(self) -> Self {
        Self { ending: Ending::Hang, ..self }
    }

    pub(super) async fn into_response(self) -> Response {
        tokio::time::sleep(self.delay).await;
        let (pause, ending) = (self.pause, self.ending);
        let pieces = stream::iter(self.pieces).then(move |piece| async move {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            Ok(piece)
        });
        let end = stream::once(async move {
            match ending {
                Ending::Whole => None,
                Ending::Hang => future::pending().await,
                Ending::Cut => {
                    // What was sent before should arrive before the break does.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    Some(Err(io::Error::other("the script cuts here")))
                }
            }
        });
        let mut response = Response::new(Body::from_stream(pieces.chain(end.filter_map(future::ready))));
        *response.status_mut() = StatusCode::from_u16(self.status).expect("a script's status is one");
        for (name, value) in self.headers {
            let name = HeaderName::try_from(name).expect("a script's header is one");
            response.headers_mut().insert(name, HeaderValue::try_from(value).expect("a script's header is one"));
        }
        response
    }
}

fn delta(delta: &Value, finish_reason: &Value) -> String {
    json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})
        .to_string()
}

fn end(finish_reason: &str, completion_tokens: usize) -> [String; 3] {
    let usage = json!({"prompt_tokens": 10, "completion_tokens": completion_tokens,
        "total_tokens": 10 + completion_tokens});
    [
        delta(&json!({}), &json!(finish_reason)),
        json!({"object": "chat.completion.chunk", "choices": [], "usage": usage}).to_string(),
        "[DONE]".to_owned(),
    ]
}
