//! Models behind the chat completions protocol, as OpenAI and many other servers speak it.
//!
//! A thin client of our own, because the servers differ where it matters: chunks that typed clients refuse
//! (no `index`, no `id`, arguments that are no string), running totals of usage, errors in mid-stream, a
//! plain body in place of a stream, bytes that are no text. [`request`] writes the conversation, [`frames`]
//! cuts the body into frames, [`wire`] reads a frame, [`answer`] adds frames up, [`failure`] says what went
//! wrong, and this file moves the bytes.

mod answer;
mod calls;
mod failure;
mod frames;
mod request;
mod retry_after;
mod usage;
mod wire;

use std::{future::Future, time::Duration};

use reenact_actors::step::{DeltaSink, ModelCall, ModelReply, StepError};
use reenact_events::{Blobs, Timestamp, agent::ModelSpec};
use reqwest::{Client, Response};
use tokio::time::Instant;

use self::{answer::Answer, failure::Asked, frames::Frames};
use crate::{
    environment::{Environment, Secrets},
    http, text,
};

const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";
/// The variable that holds the key when a model names no `base_url` and no variable.
pub(crate) const DEFAULT_KEY_VARIABLE: &str = "OPENAI_API_KEY";
/// How much of an error's body is read.
const ERROR_BODY_BYTES_MAX: usize = 64 * 1024;
/// How long the end of a finished answer is waited for, so that the connection can be used again.
const TAIL_TIMEOUT: Duration = Duration::from_millis(20);

/// The variable that holds the model's key. A server at a `base_url` gets only the key that its agent names.
pub(crate) fn key_variable(model: &ModelSpec) -> Option<&str> {
    let default = model.base_url.is_none().then_some(DEFAULT_KEY_VARIABLE);
    model.api_key_env.as_deref().or(default)
}

/// Asks the model, once.
///
/// # Errors
/// As [`failure`] tells them apart.
pub(crate) async fn call(
    client: &Client,
    environment: &Environment,
    blobs: &dyn Blobs,
    now: Timestamp,
    call: &ModelCall,
    sink: &dyn DeltaSink,
) -> Result<ModelReply, StepError> {
    let model = &call.agent.model;
    let key = key_variable(model).and_then(|variable| environment.get(variable));
    let mut secrets = Secrets::default();
    if let Some(key) = &key {
        secrets.add(key);
    }
    let asked = Asked { model, secrets: &secrets, now };
    let body = request::body(call, blobs).await?;
    let started = Instant::now();
    let response = send(client, &asked, key.as_deref(), body).await?;
    Reading { asked: &asked, sink, started, first_byte_ms: None, answer: Answer::default() }.read(response).await
}

async fn send(client: &Client, asked: &Asked<'_>, key: Option<&str>, body: Vec<u8>) -> Result<Response, StepError> {
    let base_url = asked.model.base_url.as_deref().unwrap_or(DEFAULT_BASE_URL);
    let url = format!("{}/chat/completions", base_url.trim_end_matches('/'));
    let mut request = client
        .post(url)
        .header("content-type", "application/json")
        .header("accept", "text/event-stream, application/json")
        .body(body);
    if let Some(key) = key {
        let value = reqwest::header::HeaderValue::from_str(&format!("Bearer {key}"));
        let mut value = value.map_err(|_| asked.illegal_key())?;
        value.set_sensitive(true);
        request = request.header("authorization", value);
    }
    let response = asked.in_time(request.send()).await?.map_err(|error| asked.unreachable(error))?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let headers = response.headers().clone();
    let body = asked.in_time(http::beginning_of_body(response, ERROR_BODY_BYTES_MAX)).await.unwrap_or_default();
    Err(asked.refused(status.as_u16(), &headers, &text::decode(body)))
}

impl Asked<'_> {
    /// The outcome of `waiting`, or the error that no byte came for the model's `timeout_s`.
    async fn in_time<T>(&self, waiting: impl Future<Output = T>) -> Result<T, StepError> {
        let patience = Duration::from_secs(self.model.timeout_s.into());
        tokio::time::timeout(patience, waiting).await.map_err(|_| self.timed_out())
    }
}

/// An answer while it comes in.
struct Reading<'a> {
    asked: &'a Asked<'a>,
    sink: &'a dyn DeltaSink,
    started: Instant,
    first_byte_ms: Option<u64>,
    answer: Answer,
}

impl Reading<'_> {
    async fn read(mut self, mut response: Response) -> Result<ModelReply, StepError> {
        let mut frames = Frames::default();
        loop {
            let chunk = match self.asked.in_time(response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => break,
                // What follows an answer's end is only its bill: without it the answer still stands.
                Ok(Err(_)) | Err(_) if self.answer.has_ended() => return Ok(self.reply()),
                Ok(Err(error)) => return Err(self.with_usage(self.asked.cut(&http::explain(error)))),
                Err(timed_out) => return Err(self.with_usage(timed_out)),
            };
            self.first_byte_ms.get_or_insert_with(|| milliseconds(self.started));
            for frame in frames.push(&chunk).map_err(|_| self.with_usage(self.asked.too_large()))? {
                self.take(&frame.data)?;
            }
            if self.answer.is_complete() {
                // The reply is whole; whether the connection can be kept is a question of speed only.
                let _ = tokio::time::timeout(TAIL_TIMEOUT, response.chunk()).await;
                return Ok(self.reply());
            }
        }
        self.finish(frames)
    }

    fn take(&mut self, data: &str) -> Result<(), StepError> {
        let words = self.answer.absorb(data).map_err(|trouble| self.with_usage(self.asked.troubled(trouble)))?;
        if !words.reasoning.is_empty() {
            self.sink.reasoning(&words.reasoning);
        }
        if !words.text.is_empty() {
            self.sink.text(&words.text);
        }
        Ok(())
    }

    /// The body has ended.
    fn finish(mut self, frames: Frames) -> Result<ModelReply, StepError> {
        let end = frames.finish();
        if end.whole_body {
            let data = end.rest.unwrap_or_default();
            let words = self.answer.absorb_whole(&data);
            let words = words.map_err(|trouble| self.with_usage(self.asked.troubled(trouble)))?;
            self.sink.reasoning(&words.reasoning);
            self.sink.text(&words.text);
            return Ok(self.reply());
        }
        if let Some(data) = end.rest
            && let Err(error) = self.take(&data)
        {
            // Half a frame at the end of a body is the mark of a cut, not of nonsense.
            let nonsense = &*error.failure.kind == failure::NONSENSE;
            return Err(if nonsense { self.with_usage(self.asked.cut("it ended within a chunk")) } else { error });
        }
        if self.answer.has_ended() {
            return Ok(self.reply());
        }
        Err(self.with_usage(match end.nonsense {
            Some(beginning) => self.asked.nonsense("neither an event stream nor JSON", &beginning),
            None => self.asked.cut("it ended without `finish_reason` and without `[DONE]`"),
        }))
    }

    fn with_usage(&self, error: StepError) -> StepError {
        StepError { usage: self.answer.usage(), ..error }
    }

    fn reply(self) -> ModelReply {
        self.answer.into_reply(self.first_byte_ms)
    }
}

fn milliseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
