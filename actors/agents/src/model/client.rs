//! Asks a model over HTTP, once: moves the bytes between a protocol and its server.

use std::{future::Future, time::Duration};

use reenact_actors::step::{DeltaSink, ModelCall, ModelReply, StepError};
use reenact_events::{Blobs, Timestamp, agent::ModelSpec};
use reqwest::{
    Client, Response,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use tokio::time::Instant;

use super::{
    anthropic::Anthropic,
    failed, failure,
    failure::Asked,
    frames::Frames,
    gemini::Gemini,
    openai::OpenAi,
    protocol::{Answer, PROVIDERS, Protocol, Provider, key_variable},
};
use crate::{
    environment::{Environment, Secrets},
    http, key_file, text,
};

/// How much of an error's body is read.
const ERROR_BODY_BYTES_MAX: usize = 64 * 1024;
/// How long the end of a finished answer is waited for, so that the connection can be used again.
const TAIL_TIMEOUT: Duration = Duration::from_millis(20);

/// What it takes to ask models that are servers.
pub(crate) struct Models<'a> {
    pub(crate) client: &'a Client,
    pub(crate) environment: &'a Environment,
    pub(crate) blobs: &'a dyn Blobs,
    pub(crate) now: Timestamp,
}

impl Models<'_> {
    /// Asks the model, once.
    ///
    /// # Errors
    /// As [`failure`] tells them apart.
    pub(crate) async fn call(&self, call: &ModelCall, sink: &dyn DeltaSink) -> Result<ModelReply, StepError> {
        let provider = &*call.model.provider;
        if provider == OpenAi::PROVIDER.name {
            self.ask::<OpenAi>(call, sink).await
        } else if provider == Anthropic::PROVIDER.name {
            self.ask::<Anthropic>(call, sink).await
        } else if provider == Gemini::PROVIDER.name {
            self.ask::<Gemini>(call, sink).await
        } else {
            let allowed = PROVIDERS.join("`, `");
            let message = format!("model provider `{provider}` is not supported; there are `{allowed}`");
            Err(failed("model_refused", message, false))
        }
    }

    async fn ask<P: Protocol>(&self, call: &ModelCall, sink: &dyn DeltaSink) -> Result<ModelReply, StepError> {
        let (model, provider) = (&call.model, P::PROVIDER);
        let key = self.key(&provider, model).await?;
        let mut secrets = Secrets::default();
        if let Some(key) = &key {
            secrets.add(key);
        }
        let asked = Asked { model, provider, secrets: &secrets, now: self.now };
        let body = P::body(call, self.blobs).await?;
        let started = Instant::now();
        let response = self.send::<P>(&asked, key.as_deref(), body).await?;
        let answer = P::Answer::default();
        Reading { asked: &asked, sink, started, first_byte_ms: None, answer }.read(response).await
    }

    /// The key as it is now.
    async fn key(&self, provider: &Provider, model: &ModelSpec) -> Result<Option<String>, StepError> {
        let Some(file) = &model.api_key_file else {
            return Ok(key_variable(provider, model).and_then(|variable| self.environment.get(variable)));
        };
        let unreadable = |reason: String| {
            let id = &model.id;
            failed("model_auth", format!("the key for model `{id}` cannot be read (`api_key_file`): {reason}"), false)
        };
        key_file::key_in(tokio::fs::read(file).await, file).map(Some).map_err(unreadable)
    }

    async fn send<P: Protocol>(
        &self,
        asked: &Asked<'_>,
        key: Option<&str>,
        body: Vec<u8>,
    ) -> Result<Response, StepError> {
        let url = format!("{}{}", asked.base_url().trim_end_matches('/'), P::path(asked.model));
        let request = self.client.post(url).headers(headers::<P>(asked, key)?).body(body);
        let response = asked.in_time(request.send()).await?.map_err(|error| asked.unreachable(error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let headers = response.headers().clone();
        let body = asked.in_time(http::beginning_of_body(response, ERROR_BODY_BYTES_MAX)).await.unwrap_or_default();
        Err(asked.refused(status.as_u16(), &headers, &text::decode(body)))
    }
}

fn headers<P: Protocol>(asked: &Asked<'_>, key: Option<&str>) -> Result<HeaderMap, StepError> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("accept", HeaderValue::from_static("text/event-stream, application/json"));
    for (name, value) in P::headers() {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if let Some(key) = key {
        let (name, value) = P::key_header(key);
        let mut value = HeaderValue::from_str(&value).map_err(|_| asked.illegal_key())?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(headers)
}

impl Asked<'_> {
    /// The outcome of `waiting`, or the error that no byte came for the model's `timeout_s`.
    async fn in_time<T>(&self, waiting: impl Future<Output = T>) -> Result<T, StepError> {
        let patience = Duration::from_secs(self.model.timeout_s.into());
        tokio::time::timeout(patience, waiting).await.map_err(|_| self.timed_out())
    }
}

/// An answer while it comes in.
struct Reading<'a, A> {
    asked: &'a Asked<'a>,
    sink: &'a dyn DeltaSink,
    started: Instant,
    first_byte_ms: Option<u64>,
    answer: A,
}

impl<A: Answer> Reading<'_, A> {
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
            None => self.asked.cut(&format!("it ended without {}", self.asked.provider.end_mark)),
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
