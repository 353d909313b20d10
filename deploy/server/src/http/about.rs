//! What the deployment says of itself: `/`, `/health`, `/ready`, `/info`, `/config`.

use std::collections::BTreeSet;

use axum::{
    Json,
    extract::State,
    http::{HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{
    error::ErrorBody,
    shapes::{AgentSummary, iso_seconds},
    state::{App, Ready},
};

/// The release of AgentOS whose API this is.
const AGENTOS_VERSION: &str = "3.1.10";
const DATABASE: &str = "reenact";

/// Where to look.
#[derive(Debug, Serialize, ToSchema)]
pub struct Home {
    /// What this deployment is called.
    pub name: String,
    /// Says that the process serves.
    pub health: &'static str,
    /// Says what it is.
    pub info: &'static str,
    /// Says how to use it.
    pub docs: &'static str,
}

/// The process serves.
#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// Always `ok`.
    pub status: &'static str,
    /// When the process began, ISO 8601.
    pub instantiated_at: String,
}

/// Whether the process does its work.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReadyState {
    /// It does.
    pub ready: bool,
    /// Why it does not.
    pub reasons: Vec<String>,
}

/// What the deployment is.
#[derive(Debug, Serialize, ToSchema)]
pub struct Info {
    /// Names the deployment.
    pub os_id: String,
    /// What it is called.
    pub name: String,
    /// The version of this program.
    pub os_version: &'static str,
    /// The release of AgentOS whose API this is.
    pub agno_version: &'static str,
    /// How many agents it serves.
    pub agent_count: usize,
    /// Always 0 in this version.
    pub team_count: usize,
    /// Always 0 in this version.
    pub workflow_count: usize,
    /// `{enabled: false}` in this version.
    #[schema(value_type = Object)]
    pub mcp: Value,
    /// How callers prove who they are: `none` in this version.
    pub auth_mode: &'static str,
    /// A caller that names a user sees what is theirs and what has no owner.
    pub user_isolation: bool,
}

/// Where to look.
#[utoipa::path(get, path = "/", tag = "Core", operation_id = "home", responses((status = 200, body = Home)))]
pub async fn home(State(app): State<App>) -> Json<Home> {
    Json(Home { name: app.name().to_owned(), health: "/health", info: "/info", docs: "/docs" })
}

/// Answers as soon as the process serves.
#[utoipa::path(get, path = "/health", tag = "Core", operation_id = "health", responses((status = 200, body = Health)))]
pub async fn health(State(app): State<App>) -> Json<Health> {
    Json(Health { status: "ok", instantiated_at: iso_seconds(app.began_at().seconds()) })
}

/// Answers 200 when everything is restored and works, else 503 with the reasons.
#[utoipa::path(
    get, path = "/ready", tag = "Core", operation_id = "ready",
    responses(
        (status = 200, description = "It does its work", body = ReadyState),
        (status = 503, description = "It does not, for these reasons", body = ReadyState),
    )
)]
pub async fn ready(State(app): State<App>) -> Response {
    let reasons = app.reasons();
    if reasons.is_empty() {
        return Json(ReadyState { ready: true, reasons }).into_response();
    }
    let mut response = (StatusCode::SERVICE_UNAVAILABLE, Json(ReadyState { ready: false, reasons })).into_response();
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// What the deployment is.
#[utoipa::path(
    get, path = "/info", tag = "Core", operation_id = "get_info",
    responses((status = 200, body = Info), (status = 503, description = "Not ready", body = ErrorBody))
)]
pub async fn info(State(app): State<App>, Ready(services): Ready) -> Json<Info> {
    Json(Info {
        os_id: services.log_id.to_string(),
        name: app.name().to_owned(),
        os_version: env!("CARGO_PKG_VERSION"),
        agno_version: AGENTOS_VERSION,
        agent_count: app.agents().len(),
        team_count: 0,
        workflow_count: 0,
        mcp: json!({"enabled": false}),
        auth_mode: "none",
        user_isolation: true,
    })
}

/// What the deployment serves, as AgentOS's clients want to know it.
#[utoipa::path(
    get, path = "/config", tag = "Core", operation_id = "get_config",
    responses((status = 200, body = Object), (status = 503, description = "Not ready", body = ErrorBody))
)]
pub async fn config(State(app): State<App>, Ready(services): Ready) -> Json<Value> {
    let models = app.agents().iter().flat_map(|agent| agent.models());
    let models: BTreeSet<_> = models.map(|model| (&model.id, &model.provider)).collect();
    let models: Vec<_> = models.iter().map(|(id, provider)| json!({"id": id, "provider": provider})).collect();
    let agents: Vec<_> = app.agents().iter().map(|agent| AgentSummary::from(&**agent)).collect();
    let section = json!({"dbs": [{
        "db_id": DATABASE,
        "domain_config": {"display_name": "Sessions"},
        "tables": ["sessions"],
    }]});
    Json(json!({
        "os_id": services.log_id,
        "name": app.name(),
        "description": "reenact: event-sourced agents",
        "available_models": models,
        "os_database": DATABASE,
        "databases": [DATABASE],
        "session": section,
        "company": null,
        "queue": {"durable": true, "queue_per_session": true},
        "agents": agents,
        "teams": [],
        "workflows": [],
        "interfaces": [],
    }))
}
