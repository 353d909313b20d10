//! The agents that are served. Teams and workflows are not in this version: their lists are empty.

use axum::{Json, extract::State};
use reenact_events::AgentId;
use serde_json::Value;

use super::{
    error::{ApiError, ErrorBody},
    fields::PathIds,
    shapes::AgentResponse,
    state::{App, Ready},
};

/// All agents.
#[utoipa::path(
    get, path = "/agents", tag = "Agents", operation_id = "get_agents",
    responses((status = 200, description = "All agents, by id", body = Vec<AgentResponse>))
)]
pub async fn list(State(app): State<App>, _: Ready) -> Json<Vec<AgentResponse>> {
    Json(app.agents().iter().map(|agent| AgentResponse::from(&**agent)).collect())
}

/// One agent.
#[utoipa::path(
    get, path = "/agents/{agent_id}", tag = "Agents", operation_id = "get_agent",
    params(("agent_id" = String, Path, description = "The agent")),
    responses(
        (status = 200, description = "The agent", body = AgentResponse),
        (status = 404, description = "No such agent", body = ErrorBody),
    )
)]
pub async fn one(State(app): State<App>, _: Ready, path: PathIds) -> Result<Json<AgentResponse>, ApiError> {
    let agent = app.agent(&path.get("agent_id", AgentId::parse)?)?;
    Ok(Json(AgentResponse::from(&*agent)))
}

/// All teams: none in this version.
#[utoipa::path(get, path = "/teams", tag = "Teams", operation_id = "get_teams", responses((status = 200, body = Vec<Object>)))]
pub async fn teams(_: Ready) -> Json<Vec<Value>> {
    Json(Vec::new())
}

/// All workflows: none in this version.
#[utoipa::path(get, path = "/workflows", tag = "Workflows", operation_id = "get_workflows", responses((status = 200, body = Vec<Object>)))]
pub async fn workflows(_: Ready) -> Json<Vec<Value>> {
    Json(Vec::new())
}
