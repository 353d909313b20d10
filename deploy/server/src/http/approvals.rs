//! `/approvals`: what waits, or waited, for somebody, as AgentOS's queue of approvals.
//!
//! Every call that is held or in doubt is an approval. To resolve one is to decide about its call, through the same
//! command as `/continue`: there is no second state that could say something else, so the run goes on by itself when
//! its last call is decided. (In AgentOS the client has to continue it.)

use std::{convert::Infallible, time::Instant};

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use reenact_events::{AgentId, Command, CommandBody, RunId, Text, UserId, command::Decision, hold::Verdict};
use reenact_projections::{
    expand::expand_approval,
    fold::approvals::{PENDING, STATUSES},
    query::{ApprovalFilter, ApprovalRow, Page, Paging, Scope},
};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{
    error::{ApiError, ErrorBody},
    fields::{Fields, PathIds, Query},
    ids,
    json_body::JsonBody,
    paging::{LIMIT_MAX, Listed, listed, paging},
    position::After,
    scope::caller,
    state::{App, Ready, Services},
};

const LIMIT_DEFAULT: u64 = 100;
/// What an approval waits for.
pub(super) const PAUSE_TYPES: [(&str, &str); 4] = [
    ("confirmation", "confirmation"),
    ("user_input", "user_input"),
    ("external_execution", "external_execution"),
    ("in_doubt", "in_doubt"),
];
/// What may wait in AgentOS, and whether there is none of it here.
pub(super) const SOURCE_TYPES: [(&str, bool); 3] = [("agent", false), ("team", true), ("workflow", true)];
/// The kinds of approval in AgentOS, and whether there is none of it here.
pub(super) const APPROVAL_TYPES: [(&str, bool); 2] = [("required", false), ("audit", true)];

/// A call that waits, or waited, for somebody. Times are epoch seconds.
#[derive(Debug, Serialize, ToSchema)]
pub struct ApprovalResponse {
    /// Which.
    pub id: String,
    /// In which run.
    #[schema(value_type = String)]
    pub run_id: RunId,
    /// Of which session.
    pub session_id: String,
    /// `pending`, `approved`, `rejected`, `expired`, or `cancelled` when its run ended first.
    pub status: String,
    /// `agent`.
    pub source_type: &'static str,
    /// `required`.
    pub approval_type: &'static str,
    /// `confirmation`, `user_input`, `external_execution`, or ours: `in_doubt`.
    pub pause_type: String,
    /// The tool that is called.
    pub tool_name: String,
    /// With what.
    #[schema(value_type = Object)]
    pub tool_args: Value,
    /// When nobody is waited for any more.
    pub expires_at: Option<i64>,
    /// Whose call it is.
    pub agent_id: Option<String>,
    /// Whose run it is.
    #[schema(value_type = Option<String>)]
    pub user_id: Option<UserId>,
    /// What people call the agent.
    pub source_name: Option<String>,
    /// What is waited for: one RunRequirement.
    #[schema(value_type = Vec<Object>)]
    pub requirements: Value,
    /// `tool_names`.
    #[schema(value_type = Object)]
    pub context: Value,
    /// What was said with the decision: `values`, `arguments`, `result` or `note`.
    #[schema(value_type = Option<Object>)]
    pub resolution_data: Value,
    /// Who decided, if known.
    #[schema(value_type = Option<String>)]
    pub resolved_by: Option<UserId>,
    /// When the wait ended.
    pub resolved_at: Option<i64>,
    /// When it began.
    pub created_at: i64,
    /// When it last changed.
    pub updated_at: Option<i64>,
    /// Where the run is now.
    pub run_status: Option<&'static str>,
}

/// How many wait.
#[derive(Debug, Serialize, ToSchema)]
pub struct ApprovalCount {
    /// So many.
    pub count: u64,
}

/// How an approval stands.
#[derive(Debug, Serialize, ToSchema)]
pub struct ApprovalStatus {
    /// Which.
    pub approval_id: String,
    /// How.
    pub status: String,
    /// In which run.
    #[schema(value_type = String)]
    pub run_id: RunId,
    /// When the wait ended.
    pub resolved_at: Option<i64>,
    /// Who decided.
    #[schema(value_type = Option<String>)]
    pub resolved_by: Option<UserId>,
}

/// A decision.
#[derive(Debug, Serialize, ToSchema)]
pub struct ApprovalResolve {
    /// `approved` or `rejected`.
    pub status: String,
    /// Who decides, where that is not `user_id`.
    pub resolved_by: Option<String>,
    /// As the call needs: `tool_args` (other arguments), `values` (what was filled in), `result` (what came of a call
    /// that was made elsewhere), `note` (what the model is told of a rejection).
    #[schema(value_type = Option<Object>)]
    pub resolution_data: Option<Value>,
}

/// What waits, or waited, for somebody, newest first.
#[utoipa::path(
    get, path = "/approvals", tag = "Approvals", operation_id = "list_approvals",
    params(
        ("status" = Option<String>, Query, description = "pending, approved, rejected, expired or cancelled"),
        ("pause_type" = Option<String>, Query, description = "confirmation, user_input, external_execution or in_doubt"),
        ("approval_type" = Option<String>, Query, description = "`required`; of `audit` there are none"),
        ("source_type" = Option<String>, Query, description = "`agent`; of others there are none"),
        ("agent_id" = Option<String>, Query, description = "Of this agent"),
        ("run_id" = Option<String>, Query, description = "In this run"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
        ("limit" = Option<u64>, Query, description = "Items a page, 1 to 1000, default 100"),
        ("page" = Option<u64>, Query, description = "Which page, from 1"),
    ),
    responses(
        (status = 200, description = "A page of approvals", body = Listed<ApprovalResponse>),
        (status = 422, description = "Malformed", body = ErrorBody),
    )
)]
pub async fn list(
    State(app): State<App>,
    Ready(services): Ready,
    Query(query): Query,
    After(after): After,
) -> Result<Response, ApiError> {
    let began = Instant::now();
    let caller = caller(&query)?;
    let limit = query.number("limit", 1..=LIMIT_MAX)?.unwrap_or(LIMIT_DEFAULT);
    let paging = Paging { limit, ..paging(&query)? };
    let statuses = STATUSES.map(|status| (status, status));
    let filter = ApprovalFilter {
        status: query.one_of("status", &statuses)?.map(str::to_owned),
        pause_type: query.one_of("pause_type", &PAUSE_TYPES)?.map(str::to_owned),
        agent_id: query.id("agent_id", AgentId::parse)?.map(|agent| agent.to_string()),
        user_id: None,
        run_id: query.id("run_id", RunId::parse)?,
    };
    let nothing = is_of_others(&query)?;
    let token = services.caught_up(after.as_ref()).await?;
    let page = match nothing {
        true => Page { items: Vec::new(), total: 0 },
        false => services.views.approvals(&caller.scope, &filter, paging).await?,
    };
    let mut items = Vec::with_capacity(page.items.len());
    for row in page.items {
        items.push(shown(&app, &services, &caller.scope, row).await?);
    }
    let page = Page { items, total: page.total };
    Ok((token, Json(listed(page, paging, began, |item| item))).into_response())
}

/// Whether only approvals are asked for of which there are none here.
fn is_of_others(query: &Fields) -> Result<bool, ApiError> {
    let source = query.one_of("source_type", &SOURCE_TYPES)?;
    let kind = query.one_of("approval_type", &APPROVAL_TYPES)?;
    let others = ["team_id", "workflow_id", "schedule_id"].into_iter().any(|field| query.text(field).is_some());
    Ok(source == Some(true) || kind == Some(true) || others)
}

/// How many wait.
#[utoipa::path(
    get, path = "/approvals/count", tag = "Approvals", operation_id = "count_approvals",
    params(("user_id" = Option<String>, Query, description = "Who asks")),
    responses((status = 200, description = "How many are pending", body = ApprovalCount))
)]
pub async fn count(Ready(services): Ready, Query(query): Query, After(after): After) -> Result<Response, ApiError> {
    let caller = caller(&query)?;
    let token = services.caught_up(after.as_ref()).await?;
    let pending = ApprovalFilter { status: Some(PENDING.to_owned()), ..ApprovalFilter::default() };
    let count = services.views.count_approvals(&caller.scope, &pending).await?;
    Ok((token, Json(ApprovalCount { count })).into_response())
}

/// One approval.
#[utoipa::path(
    get, path = "/approvals/{approval_id}", tag = "Approvals", operation_id = "get_approval",
    params(
        ("approval_id" = String, Path, description = "The approval"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    responses(
        (status = 200, description = "The approval", body = ApprovalResponse),
        (status = 404, description = "No such approval, or it is another user's", body = ErrorBody),
    )
)]
pub async fn one(
    State(app): State<App>,
    Ready(services): Ready,
    path: PathIds,
    Query(query): Query,
    After(after): After,
) -> Result<Response, ApiError> {
    let caller = caller(&query)?;
    let token = services.caught_up(after.as_ref()).await?;
    let row = find(&services, &caller.scope, &path).await?;
    Ok((token, Json(shown(&app, &services, &caller.scope, row).await?)).into_response())
}

/// Is always refused: an approval is what the log says of a call, and not a row of its own.
#[utoipa::path(
    delete, path = "/approvals/{approval_id}", tag = "Approvals", operation_id = "delete_approval",
    params(
        ("approval_id" = String, Path, description = "The approval"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    responses(
        (status = 404, description = "No such approval, or it is another user's", body = ErrorBody),
        (status = 409, description = "It waits for a decision, or it is kept as long as its session", body = ErrorBody),
    )
)]
pub async fn delete(Ready(services): Ready, path: PathIds, Query(query): Query) -> Result<Infallible, ApiError> {
    let caller = caller(&query)?;
    services.caught_up(None).await?;
    let ApprovalRow { id, status, run_id, session_id, .. } = find(&services, &caller.scope, &path).await?;
    if status == PENDING {
        let text =
            format!("approval `{id}` is pending: approve or reject it, or cancel run `{run_id}`, which waits for it");
        return Err(ApiError::conflict(text).named("approval_pending"));
    }
    let text = format!(
        "approval `{id}` is {status}: it tells what became of a call of run `{run_id}`, and is kept as long as the run; \
         delete session `{session_id}` to delete both"
    );
    Err(ApiError::conflict(text).named("approval_kept"))
}

/// How one approval stands.
#[utoipa::path(
    get, path = "/approvals/{approval_id}/status", tag = "Approvals", operation_id = "get_approval_status",
    params(
        ("approval_id" = String, Path, description = "The approval"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    responses(
        (status = 200, description = "Its status", body = ApprovalStatus),
        (status = 404, description = "No such approval, or it is another user's", body = ErrorBody),
    )
)]
pub async fn status(
    Ready(services): Ready,
    path: PathIds,
    Query(query): Query,
    After(after): After,
) -> Result<Response, ApiError> {
    let caller = caller(&query)?;
    let token = services.caught_up(after.as_ref()).await?;
    let ApprovalRow { id: approval_id, status, run_id, resolved_at, resolved_by, .. } =
        find(&services, &caller.scope, &path).await?;
    Ok((token, Json(ApprovalStatus { approval_id, status, run_id, resolved_at, resolved_by })).into_response())
}

/// Decides about a call that waits for somebody.
#[utoipa::path(
    post, path = "/approvals/{approval_id}/resolve", tag = "Approvals", operation_id = "resolve_approval",
    params(
        ("approval_id" = String, Path, description = "The approval"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    request_body = ApprovalResolve,
    responses(
        (status = 200, description = "The approval as it is now", body = ApprovalResponse),
        (status = 404, description = "No such approval, or it is another user's", body = ErrorBody),
        (status = 409, description = "It is resolved, expired, or its run has ended", body = ErrorBody),
        (status = 422, description = "Malformed, or not what the call waits for", body = ErrorBody),
    )
)]
pub async fn resolve(
    State(app): State<App>,
    Ready(services): Ready,
    path: PathIds,
    Query(query): Query,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let caller = caller(&query)?;
    let decided_by = body.id("resolved_by", UserId::parse)?;
    services.caught_up(None).await?;
    let row = find(&services, &caller.scope, &path).await?;
    let decision = Said::of(&body)?.decision(&row, &services).await?;
    if row.status != PENDING {
        let text = format!("approval `{}` is {}: it waits for no decision any more", row.id, row.status);
        return Err(ApiError::conflict(text).named("approval_not_pending"));
    }
    let (session_id, run_id) = (Some(row.session_id.clone()), row.run_id.clone());
    let continues = CommandBody::ContinueRun { session_id, run_id, decisions: vec![decision], decided_by, asked: 0 };
    let (_, token) = services.submit(Command::new(ids::command(), caller.user_id.clone(), continues)).await?;
    services.caught_up(None).await?;
    let row = find(&services, &caller.scope, &path).await?;
    Ok((token, Json(shown(&app, &services, &caller.scope, row).await?)).into_response())
}

/// What the body of a resolution says.
struct Said<'a> {
    body: &'a JsonBody,
    approved: bool,
    data: Value,
    arguments: Option<String>,
}

impl<'a> Said<'a> {
    fn of(body: &'a JsonBody) -> Result<Self, ApiError> {
        let approved = match body.required("status")?.as_str() {
            "approved" => true,
            "rejected" => false,
            _ => return Err(body.fault("status", "enum", "Input should be 'approved' or 'rejected'")),
        };
        let raw = body.object("resolution_data")?;
        let data = raw.as_ref().map(reenact_events::RawJson::value).unwrap_or_default();
        let written = raw.and_then(|raw| serde_json::from_str::<Written>(raw.as_str()).ok());
        let arguments = written.and_then(|written| written.tool_args).map(|arguments| arguments.as_str().to_owned());
        Ok(Self { body, approved, data, arguments })
    }

    async fn decision(self, row: &ApprovalRow, services: &Services) -> Result<Decision, ApiError> {
        let fault =
            |what: &str| self.body.fault("resolution_data", "decision_unfit", format!("`resolution_data` {what}"));
        let text = |name: &str| match &self.data[name] {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.clone())),
            _ => Err(fault(&format!("has `{name}`, which should be a text"))),
        };
        let verdict = match (self.approved, text("result")?, row.pause_type.as_str()) {
            (false, ..) => Verdict::Rejected { note: text("note")?.map(Into::into) },
            (true, Some(result), _) => {
                Verdict::Result { value: Text::keep(&result, row.user_id.as_ref(), &*services.blobs).await? }
            }
            (true, None, "external_execution") => return Err(fault("needs `result`: what came of the call")),
            (true, None, kind) => {
                let input = match &self.data["values"] {
                    Value::Null if kind == "user_input" => return Err(fault("needs `values`, by the fields' names")),
                    Value::Null => None,
                    values @ Value::Object(_) => reenact_events::RawJson::of(values).ok(),
                    _ => return Err(fault("has `values`, which should be an object")),
                };
                Verdict::Confirmed { arguments: self.arguments.as_deref().map(Text::inline), input }
            }
        };
        let id = row.data["requirement"]["tool_execution"]["tool_call_id"].as_str().unwrap_or_default();
        Ok(Decision { tool_call_id: id.into(), verdict })
    }
}

/// Arguments as they were written.
#[derive(serde::Deserialize)]
struct Written {
    #[serde(default)]
    tool_args: Option<reenact_events::RawJson>,
}

async fn find(services: &Services, scope: &Scope, path: &PathIds) -> Result<ApprovalRow, ApiError> {
    let id = path.get("approval_id", RunId::parse)?;
    let row = services.views.approval(scope, id.as_str()).await?;
    row.ok_or_else(|| ApiError::not_found("Approval not found").named("approval_not_found"))
}

async fn shown(
    app: &App,
    services: &Services,
    scope: &Scope,
    mut row: ApprovalRow,
) -> Result<ApprovalResponse, ApiError> {
    expand_approval(&mut row.data, &*services.blobs).await?;
    let run_status = services.views.run_status(scope, &row.run_id).await?.map(reenact_events::event::RunStatus::as_str);
    let agent = app.agents().iter().find(|agent| Some(agent.id.as_str()) == row.agent_id.as_deref());
    let requirement = row.data["requirement"].take();
    Ok(ApprovalResponse {
        tool_args: requirement["tool_execution"]["tool_args"].clone(),
        context: json!({"tool_names": [&row.tool_name]}),
        requirements: json!([requirement]),
        resolution_data: row.data["resolution_data"].take(),
        source_name: agent.map(|agent| agent.name.clone()),
        run_status,
        id: row.id,
        run_id: row.run_id,
        session_id: row.session_id.to_string(),
        status: row.status,
        source_type: "agent",
        approval_type: "required",
        pause_type: row.pause_type,
        tool_name: row.tool_name,
        expires_at: row.expires_at,
        agent_id: row.agent_id,
        user_id: row.user_id,
        resolved_by: row.resolved_by,
        resolved_at: row.resolved_at,
        created_at: row.created_at,
        updated_at: row.updated_at,
    })
}
