//! Runs: start, watch, read, stop, go on.

mod again;
pub mod cancel;
pub mod checkpoints;
pub mod decisions;
mod fork;
pub mod list;
pub mod proceed;
pub mod read;
pub mod resume;
pub mod start;

use std::sync::Arc;

use reenact_events::{AgentId, RunId, SessionId, agent::AgentSpec};
use reenact_projections::query::{RunRow, Scope};

use super::{
    error::ApiError,
    frames::Identity,
    state::{App, Services},
};

/// A run that the caller may see.
pub(super) struct Found {
    /// Its agent, if that is still served: a run of one that is not goes on as it was recorded, and may be watched,
    /// decided about and stopped.
    pub(super) agent: Result<Arc<AgentSpec>, ApiError>,
    pub(super) agent_id: AgentId,
    pub(super) row: RunRow,
}

impl Found {
    /// Who is shown to watchers as the one who answers.
    pub(super) fn who(&self) -> Identity {
        if let Ok(agent) = &self.agent {
            return identity(agent, &self.row.session_id, &self.row.run_id);
        }
        let told = |field: &str| self.row.run_data[field].as_str().unwrap_or_default().to_owned();
        Identity {
            run_id: self.row.run_id.clone(),
            session_id: self.row.session_id.clone(),
            agent_id: self.agent_id.clone(),
            agent_name: told("agent_name"),
            model: told("model"),
            provider: told("model_provider"),
        }
    }
}

/// Finds a run of an agent. A run of another agent, of another session than the one that is named, or of
/// another user is as if it did not exist.
pub(super) async fn find(
    app: &App,
    services: &Services,
    scope: &Scope,
    agent_id: &AgentId,
    run: &RunId,
    session: Option<&SessionId>,
) -> Result<Found, ApiError> {
    let agent = app.agent(agent_id);
    let row = services.views.run(scope, run).await?;
    let fits = |row: &RunRow| {
        row.agent_id.as_deref() == Some(agent_id.as_str()) && session.is_none_or(|session| row.session_id == *session)
    };
    match row.filter(fits) {
        Some(row) => Ok(Found { agent, agent_id: agent_id.clone(), row }),
        None => Err(agent.err().unwrap_or_else(run_not_found)),
    }
}

pub(super) fn run_not_found() -> ApiError {
    ApiError::not_found("Run not found").named("run_not_found")
}

pub(super) fn session_not_found() -> ApiError {
    ApiError::not_found("Session not found").named("session_not_found")
}

pub(super) fn identity(agent: &AgentSpec, session_id: &SessionId, run_id: &RunId) -> Identity {
    Identity {
        run_id: run_id.clone(),
        session_id: session_id.clone(),
        agent_id: agent.id.clone(),
        agent_name: agent.name.clone(),
        model: agent.model.id.clone(),
        provider: agent.model.provider.clone(),
    }
}
