//! `POST /agents/{agent_id}/runs`: starts a run and shows it as the caller wishes, as a stream, as one
//! answer at the end, or as a ticket.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use reenact_actors::api::Accepted;
use reenact_events::{
    AgentId, Command, CommandBody, RawJson, RunId, SessionId, Text,
    agent::AgentSpec,
    command::{AgentRef, StartRun},
    event::RunStatus,
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{identity, read};
use crate::http::{
    error::{ApiError, ErrorBody},
    feed::Feed,
    fields::{Fields, PathIds},
    form::Form,
    idempotency::{self, Key},
    ids,
    scope::{Caller, caller},
    shapes::Ticket,
    state::{App, Ready, Services},
    stream::{self, CancelOnLeave, SentEvent},
    uploads,
};

/// The form that starts a run.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunForm {
    /// The message, at most 16 MiB unless configured otherwise.
    #[schema(min_length = 1)]
    pub message: String,
    /// Show the run as server-sent events; default true. A client that leaves before the end stops the run, unless it
    /// runs in the background or was asked for with an `Idempotency-Key`.
    pub stream: Option<bool>,
    /// Do not wait: the run goes on whether or not anybody watches; default false.
    pub background: Option<bool>,
    /// The session; a new one when absent.
    pub session_id: Option<String>,
    /// Whose run it is.
    pub user_id: Option<String>,
    /// A JSON object for the caller's own use.
    pub metadata: Option<String>,
    /// A JSON object: keys that the session's state has from this run on; its other keys stay.
    pub session_state: Option<String>,
    /// A JSON Schema that the answer must fit, in place of the agent's.
    pub output_schema: Option<String>,
    /// Files, at most 32 MiB each unless configured otherwise.
    #[schema(format = Binary)]
    pub files: Option<Vec<String>>,
}

/// Fields that change what a run does and that this version does not know: ignoring them would give a wrong
/// answer without a word.
const NOT_HERE: [&str; 4] = ["dependencies", "knowledge_filters", "factory_input", "version"];
/// The field of uploaded files: one that comes as a text would be lost without a word.
const FILES: &str = "files";
/// Keys of the metadata that belong to the runtime; a client's are dropped.
const RESERVED_METADATA: [&str; 3] = ["agno_component_version", "agno_dispatch_chain", "agno_dispatch_depth"];

/// How the caller wants to see the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) stream: bool,
    pub(super) background: bool,
}

/// Starts a run.
#[utoipa::path(
    post, path = "/agents/{agent_id}/runs", tag = "Agents", operation_id = "create_agent_run",
    params(
        ("agent_id" = String, Path, description = "The agent"),
        ("Idempotency-Key" = Option<String>, Header, description = "One key, one run: a repeat gets the first run"),
    ),
    request_body(content = RunForm, content_type = "multipart/form-data"),
    responses(
        (status = 200, description = "`stream=true`: the run's events; `stream=false`: its RunOutput when it has ended or waits", content((SentEvent = "text/event-stream"), (Object = "application/json"))),
        (status = 202, description = "`background=true`, `stream=false`: accepted and durable", body = Ticket),
        (status = 404, description = "No such agent, or the session is another user's", body = ErrorBody),
        (status = 409, description = "The idempotency key was used for something else", body = ErrorBody),
        (status = 413, description = "Too large", body = ErrorBody),
        (status = 422, description = "Malformed", body = ErrorBody),
        (status = 429, description = "The queue is full; `Retry-After` says when to ask again", body = ErrorBody),
        (status = 503, description = "Not now; `Retry-After` says when to ask again", body = ErrorBody),
    )
)]
pub async fn start(
    State(app): State<App>,
    Ready(services): Ready,
    path: PathIds,
    headers: HeaderMap,
    form: Form,
) -> Result<Response, ApiError> {
    let agent = app.agent(&path.get("agent_id", AgentId::parse)?)?;
    let caller = caller(&form.fields)?;
    let wish = Wish { stream: form.fields.truth("stream", true)?, background: form.fields.truth("background", false)? };
    let key = idempotency::key(&headers, &caller)?;
    let request = Request::read(&app, &services, &caller, &form, agent, wish, key.as_ref()).await?;
    begin(app, services, caller, request, wish).await
}

/// A run as it is asked for, with the ids that it will have.
pub(super) struct Request {
    pub(super) command: Command,
    pub(super) session_id: SessionId,
    pub(super) run_id: RunId,
    pub(super) agent: Arc<AgentSpec>,
}

impl Request {
    async fn read(
        app: &App,
        services: &Services,
        caller: &Caller,
        form: &Form,
        agent: Arc<AgentSpec>,
        wish: Wish,
        key: Option<&Key>,
    ) -> Result<Self, ApiError> {
        let fields = &form.fields;
        let message = message(form)?;
        if fields.text(FILES).is_some() {
            let msg = "a file must be uploaded: texts, addresses and paths are not read";
            return Err(fields.fault(FILES, "value_error", msg));
        }
        if let Some(name) = NOT_HERE.iter().find(|name| fields.text(name).is_some()) {
            return Err(fields.fault(name, "not_supported", format!("`{name}` is not in this version: leave it out")));
        }
        let session_id = fields.id("session_id", SessionId::parse)?;
        let metadata = metadata(fields)?;
        let session_state = fields.object("session_state")?;
        let command_id = key.map_or_else(ids::command, Key::command_id);
        let session_id = session_id.or_else(|| key.map(Key::session_id)).unwrap_or_else(ids::session);
        let owner = caller.user_id.as_ref();
        let media = uploads::store(form, app.limits().file, owner, &*services.blobs).await?;
        let input = Text::keep(message, owner, &*services.blobs).await?;
        let start = StartRun {
            session_id,
            agent: AgentRef::Pinned(agent.clone()),
            input,
            media,
            metadata,
            session_state,
            stream: wish.stream,
            background: wish.background,
            output_schema: fields.object("output_schema")?,
            scheduled_by: None,
        };
        let run_id = RunId::of_command(&command_id, &start.session_id);
        let key = key.map(|key| key.used_for(&start).map(Box::new)).transpose();
        let key = key.map_err(|error| ApiError::internal("a request cannot be told from others", &error))?;
        let session_id = start.session_id.clone();
        let body = CommandBody::StartRun(Box::new(start));
        let command = Command { key, ..Command::new(command_id, caller.user_id.clone(), body) };
        Ok(Self { command, session_id, run_id, agent })
    }
}

/// The message; files alone are a message too.
fn message(form: &Form) -> Result<&str, ApiError> {
    if form.files.is_empty() { form.fields.required("message") } else { Ok(form.fields.text("message").unwrap_or("")) }
}

fn metadata(fields: &Fields) -> Result<Option<RawJson>, ApiError> {
    let Some(raw) = fields.object("metadata")? else { return Ok(None) };
    let mut value = raw.value();
    let Value::Object(object) = &mut value else { return Ok(Some(raw)) };
    let before = object.len();
    object.retain(|key, _| !RESERVED_METADATA.contains(&key.as_str()));
    if object.len() == before {
        return Ok(Some(raw));
    }
    RawJson::of(&value).map(Some).map_err(|error| ApiError::internal("metadata cannot be written", &error))
}

/// Sends the command that accepts a new run, and shows the run as the caller wishes.
///
/// # Errors
/// When it is refused, or cannot be shown.
pub(super) async fn begin(
    app: App,
    services: Arc<Services>,
    caller: Caller,
    request: Request,
    wish: Wish,
) -> Result<Response, ApiError> {
    let Request { command, session_id, run_id, agent } = request;
    let who = identity(&agent, &session_id, &run_id);
    let feed = (wish.stream || !wish.background).then(|| Feed::of_new_run(&services, who));
    let (user_id, inline) = (caller.user_id.clone(), wish.stream && !wish.background);
    let arm = || CancelOnLeave::new(app.clone(), services.clone(), user_id.clone(), session_id.clone(), run_id.clone());
    // Armed before the command is sent: a client may leave while it is on its way. One who brings a key can come back
    // and ask again, so leaving is no wish to stop.
    let mut guard = (inline && command.key.is_none()).then(arm);
    let (accepted, token) = match services.submit(command).await {
        Ok(accepted) => accepted,
        Err(error) => {
            guard.iter_mut().for_each(CancelOnLeave::disarm);
            services.node.live().forget(&run_id);
            return Err(error);
        }
    };
    if accepted.duplicate {
        drop(feed);
        services.node.live().forget(&run_id);
        return show_first(app, services, caller, &agent, (run_id, accepted), wish).await;
    }
    let Some(mut feed) = feed else {
        let ticket = Ticket { run_id, session_id, status: "PENDING" };
        return Ok((StatusCode::ACCEPTED, token, Json(ticket)).into_response());
    };
    if wish.stream {
        return Ok((token, stream::respond(app, services, caller.scope, feed, guard, Vec::new())).into_response());
    }
    let shown = async {
        read::settled(&app, &services, &caller.scope, &mut feed).await?;
        read::ended(&services, &caller.scope, &feed, token).await
    };
    shown.await.map_err(|error| error.once_taken(&format_args!("run `{run_id}` of session `{session_id}`")))
}

/// Shows the run that the idempotency key stands for already.
async fn show_first(
    app: App,
    services: Arc<Services>,
    caller: Caller,
    agent: &AgentSpec,
    (run_id, first): (RunId, Accepted),
    wish: Wish,
) -> Result<Response, ApiError> {
    let token = services.caught_up(None).await?;
    let unnamed = || ApiError::internal("the run of an idempotency key has no session", &run_id);
    let session_id = first.session_id.ok_or_else(unnamed)?;
    if wish.background && !wish.stream {
        let status = first.status.unwrap_or(RunStatus::Pending).as_str();
        let ticket = Ticket { run_id, session_id, status };
        return Ok((StatusCode::ACCEPTED, token, Json(ticket)).into_response());
    }
    let who = identity(agent, &session_id, &run_id);
    let mut feed = Feed::of_run(&services, &caller.scope, who, None).await?;
    if wish.stream {
        let backlog = feed.backlog();
        return Ok((token, stream::respond(app, services, caller.scope, feed, None, backlog)).into_response());
    }
    read::settled(&app, &services, &caller.scope, &mut feed).await?;
    read::ended(&services, &caller.scope, &feed, token).await
}
