//! `GET …/runs/{run_id}/checkpoints`: after which messages of a run another one can begin, derived from its messages.
//!
//! AgentOS marks the end of each batch of tool results when an agent says so; here every one is a mark, since all of
//! them are in the log. The last message is one too, unless a call behind it is open.

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use reenact_events::{AgentId, RunId, SessionId};
use serde_json::{Value, json};

use super::{find, read::output};
use crate::http::{
    error::{ApiError, ErrorBody},
    fields::{Fields, PathIds, Query},
    position::{After, Token},
    scope::caller,
    state::{App, Ready, Services},
};

/// Characters of a message that are shown.
const PREVIEW_CHARS: usize = 120;

/// After which messages of a run another one can begin.
#[utoipa::path(
    get, path = "/agents/{agent_id}/runs/{run_id}/checkpoints", tag = "Agents",
    operation_id = "list_agent_run_checkpoints",
    params(
        ("agent_id" = String, Path, description = "The agent"),
        ("run_id" = String, Path, description = "The run"),
        ("session_id" = String, Query, description = "Its session"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    responses(
        (status = 200, description = "`{run_id, session_id, checkpoints}`; `continue_from` of one is what continues from it", body = Object),
        (status = 404, description = "No such agent or run", body = ErrorBody),
    )
)]
pub async fn list(
    State(app): State<App>,
    Ready(services): Ready,
    path: PathIds,
    Query(query): Query,
    After(after): After,
) -> Result<Response, ApiError> {
    let (run, token) = run(&app, &services, &path, &query, after.as_ref()).await?;
    let list = json!({"run_id": run["run_id"], "session_id": run["session_id"], "checkpoints": checkpoints(&run)});
    Ok((token, Json(list)).into_response())
}

/// A run as it was after so many messages.
#[utoipa::path(
    get, path = "/agents/{agent_id}/runs/{run_id}/checkpoints/{message_index}", tag = "Agents",
    operation_id = "get_agent_run_checkpoint_snapshot",
    params(
        ("agent_id" = String, Path, description = "The agent"),
        ("run_id" = String, Path, description = "The run"),
        ("message_index" = u64, Path, description = "How many messages; in the middle of a turn's calls it ends before that turn"),
        ("session_id" = String, Query, description = "Its session"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    responses(
        (status = 200, description = "`{checkpoint, snapshot}`", body = Object),
        (status = 400, description = "The run has fewer messages", body = ErrorBody),
        (status = 404, description = "No such agent or run", body = ErrorBody),
    )
)]
pub async fn one(
    State(app): State<App>,
    Ready(services): Ready,
    path: PathIds,
    Query(query): Query,
    After(after): After,
) -> Result<Response, ApiError> {
    let index = path.number("message_index", 0..=u64::from(u32::MAX))?;
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    let (run, token) = run(&app, &services, &path, &query, after.as_ref()).await?;
    let count = messages(&run).len();
    if index > count {
        let text = format!("message_index must be between 0 and {count}");
        return Err(ApiError::new(StatusCode::BAD_REQUEST, text).named("no_such_checkpoint"));
    }
    let mut checkpoint = entry(&run, index, "snapshot");
    let known = checkpoints(&run).into_iter().find(|known| known["message_index"] == json!(index));
    checkpoint["checkpoint_id"] = known.map_or(Value::Null, |mut known| known["checkpoint_id"].take());
    Ok((token, Json(json!({"checkpoint": checkpoint, "snapshot": snapshot(run, index)}))).into_response())
}

async fn run(
    app: &App,
    services: &Services,
    path: &PathIds,
    query: &Fields,
    after: Option<&Token>,
) -> Result<(Value, Token), ApiError> {
    let caller = caller(query)?;
    query.required("session_id")?;
    let session = query.id("session_id", SessionId::parse)?;
    let token = services.caught_up(after).await?;
    let (agent, run) = (path.get("agent_id", AgentId::parse)?, path.get("run_id", RunId::parse)?);
    let found = find(app, services, &caller.scope, &agent, &run, session.as_ref()).await?;
    Ok((output(services, found.row).await?, token))
}

fn messages(run: &Value) -> &[Value] {
    run["messages"].as_array().map_or(&[], Vec::as_slice)
}

/// The calls of the turns among these messages that have no result among them, with the place of their turn.
fn open_turn(messages: &[Value]) -> Option<usize> {
    let results: Vec<_> = messages.iter().filter_map(|message| message["tool_call_id"].as_str()).collect();
    let is_open = |call: &Value| call["id"].as_str().is_none_or(|id| !results.contains(&id));
    let calls = |message: &Value| message["tool_calls"].as_array().is_some_and(|calls| calls.iter().any(is_open));
    messages.iter().position(calls)
}

fn checkpoints(run: &Value) -> Vec<Value> {
    let messages = messages(run);
    let is_result = |at: usize| messages.get(at).is_some_and(|message| message["role"] == "tool");
    let ends_batch = |at: &usize| is_result(at - 1) && !is_result(*at) || *at == messages.len();
    let whole = (1..=messages.len()).filter(ends_batch).filter(|at| open_turn(&messages[..*at]).is_none());
    let reason = |at: usize| if at == messages.len() { "end" } else { "checkpoint" };
    let mut list: Vec<_> = whole.map(|at| entry(run, at, reason(at))).collect();
    for (number, entry) in (1..).zip(&mut list) {
        entry["checkpoint_id"] = json!(format!("{number}"));
    }
    list
}

fn entry(run: &Value, index: usize, reason: &str) -> Value {
    let messages = messages(run);
    let message = index.checked_sub(1).map_or(&Value::Null, |last| &messages[last]);
    let created_at = if message["created_at"].is_null() { &run["created_at"] } else { &message["created_at"] };
    json!({
        "checkpoint_id": null, "run_id": run["run_id"], "session_id": run["session_id"], "message_index": index,
        "continue_from": index, "status": run["status"], "reason": reason, "created_at": created_at,
        "message_id": message["id"], "message_role": message["role"], "message_preview": preview(&message["content"]),
        "is_latest": index == messages.len(),
    })
}

fn preview(content: &Value) -> Value {
    let text = match content {
        Value::Null => return Value::Null,
        Value::String(text) => text.replace('\n', " "),
        other => other.to_string(),
    };
    let text = text.trim();
    if text.chars().count() <= PREVIEW_CHARS {
        return json!(text);
    }
    let beginning: String = text.chars().take(PREVIEW_CHARS - 1).collect();
    json!(format!("{beginning}..."))
}

/// The run with its first messages, and the calls that they name.
fn snapshot(mut run: Value, index: usize) -> Value {
    let kept = messages(&run)[..index].to_vec();
    let kept = &kept[..open_turn(&kept).unwrap_or(index)];
    let names: Vec<_> = kept.iter().filter_map(|message| message["tool_call_id"].as_str()).collect();
    if let Some(tools) = run["tools"].as_array_mut() {
        tools.retain(|tool| tool["tool_call_id"].as_str().is_some_and(|id| names.contains(&id)));
    }
    run["last_checkpoint_at_message_index"] = json!(kept.len());
    run["messages"] = json!(kept);
    run
}
