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

/// A run that the caller may see, with the agent that it was asked for under.
pub(super) struct Found {
    pub(super) agent: Arc<AgentSpec>,
    pub(super) row: RunRow,
}

/// Finds a run of an agent. A run of another agent, of another session than the one that is named, or of
/// another user is as if it did not exist.
pub(super) async fn find(
    app: &App,
    services: &Services,
    scope: &Scope,
    agent: &AgentId,
    run: &RunId,
    session: Option<&SessionId>,
) -> Result<Found, ApiError> {
    let agent = app.agent(agent)?;
    let row = services.views.run(scope, run).await?;
    let fits = |row: &RunRow| {
        row.agent_id.as_deref() == Some(agent.id.as_str()) && session.is_none_or(|session| row.session_id == *session)
    };
    match row.filter(fits) {
        Some(row) => Ok(Found { agent, row }),
        None => Err(run_not_found()),
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
