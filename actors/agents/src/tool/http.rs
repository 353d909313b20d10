//! A tool that is an HTTP request: one call is one request, never made again from here.

use std::time::Duration;

use reenact_actors::step::{Reconciled, ToolCall, ToolReply};
use reenact_events::Blobs;
use reqwest::{Client, Response};

use super::{
    failed,
    http_reply::{self, Answered},
    http_request::{self, Endpoint, Prepared},
};
use crate::{
    environment::{Environment, Secrets},
    http,
};

/// What an HTTP tool needs.
pub(crate) struct HttpTools<'a> {
    pub(crate) client: &'a Client,
    pub(crate) environment: &'a Environment,
    pub(crate) blobs: &'a dyn Blobs,
}

impl HttpTools<'_> {
    /// Calls the tool.
    pub(crate) async fn call(&self, call: &ToolCall, endpoint: Endpoint<'_>) -> ToolReply {
        let prepared = match http_request::call(self.client, self.environment, call, endpoint) {
            Ok(prepared) => prepared,
            Err(reason) => return failed(format!("the tool was not called: {reason}")),
        };
        let Prepared { request, secrets } = prepared;
        let answering = async {
            match self.client.execute(request).await {
                Ok(response) => self.read(call, response, &secrets).await,
                Err(error) => failed(unanswered(call, error, &secrets)),
            }
        };
        let seconds = call.tool.timeout_s;
        let answered = tokio::time::timeout(Duration::from_secs(seconds.into()), answering).await;
        answered.unwrap_or_else(|_| {
            let name = &call.tool.name;
            failed(format!("`{name}` did not answer within {seconds} s; what it does may have happened all the same"))
        })
    }

    async fn read(&self, call: &ToolCall, response: Response, secrets: &Secrets) -> ToolReply {
        match http_reply::read(call, response, secrets, self.blobs).await {
            Answered::Well(_, reply) => reply,
            Answered::Refused(_, text) | Answered::Broken(text) => failed(text),
        }
    }

    /// Asks the tool whether the call's token happened.
    pub(crate) async fn reconcile(&self, call: &ToolCall, endpoint: Endpoint<'_>) -> Reconciled {
        let prepared = match http_request::question(self.client, self.environment, call, endpoint) {
            Ok(prepared) => prepared,
            Err(reason) => return Reconciled::Unknown(reason.into()),
        };
        let Prepared { request, secrets } = prepared;
        let asking = async {
            let response = match self.client.execute(request).await {
                Ok(response) => response,
                Err(error) => return Reconciled::Unknown(secrets.redact(http::explain(error)).into()),
            };
            match http_reply::read(call, response, &secrets, self.blobs).await {
                Answered::Well(200, reply) => Reconciled::Happened(reply),
                Answered::Well(status, _) => {
                    Reconciled::Unknown(format!("it answered with status {status}, neither 200 nor 404").into())
                }
                Answered::Refused(404, _) => Reconciled::DidNotHappen,
                Answered::Refused(_, text) | Answered::Broken(text) => Reconciled::Unknown(text.into()),
            }
        };
        let seconds = call.tool.timeout_s;
        let answered = tokio::time::timeout(Duration::from_secs(seconds.into()), asking).await;
        answered.unwrap_or_else(|_| Reconciled::Unknown(format!("it did not answer within {seconds} s").into()))
    }
}

fn unanswered(call: &ToolCall, error: reqwest::Error, secrets: &Secrets) -> String {
    let name = &call.tool.name;
    let happened = if error.is_connect() { "nothing was sent" } else { "what it does may have happened all the same" };
    let reason = secrets.redact(http::explain(error));
    format!("`{name}` gave no answer, {happened}: {reason}")
}
