//! Sessions: list, make, read, change, delete, and their runs.

pub mod change;
pub mod create;
pub mod delete;
pub mod fork;
pub mod list;
pub mod read;
pub mod runs;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use reenact_events::SessionId;
use reenact_projections::{
    expand,
    query::{RunFilter, RunRow, Scope, SessionRow},
};

use super::{
    error::ApiError,
    fields::Fields,
    position::Token,
    runs::session_not_found,
    shapes::{SessionDetail, chat_history},
    state::Services,
};

/// The kinds of session that AgentOS knows; here there are those of agents.
pub(super) const TYPES: [(&str, &str); 3] = [("agent", "agent"), ("team", "team"), ("workflow", "workflow")];

fn session_type(query: &Fields) -> Result<Option<&'static str>, ApiError> {
    query.one_of("type", &TYPES)
}

/// A session that the caller may see and that is of the kind that was asked for.
async fn find(
    services: &Services,
    scope: &Scope,
    session: &SessionId,
    kind: Option<&str>,
) -> Result<SessionRow, ApiError> {
    let row = services.views.session(scope, session).await?;
    row.filter(|row| kind.is_none_or(|kind| row.session_type == kind)).ok_or_else(session_not_found)
}

/// A session's runs with their large texts.
async fn runs_of(
    services: &Services,
    scope: &Scope,
    session: &SessionId,
    filter: &RunFilter,
) -> Result<Vec<RunRow>, ApiError> {
    let mut rows = services.views.session_runs(scope, session, filter).await?;
    for row in &mut rows {
        expand(&mut row.run_data, &*services.blobs).await?;
    }
    Ok(rows)
}

/// The answer that shows a session whole.
async fn detail(
    services: &Services,
    scope: &Scope,
    session: &SessionId,
    kind: Option<&str>,
    status: StatusCode,
    token: Token,
) -> Result<Response, ApiError> {
    let row = find(services, scope, session, kind).await?;
    let history = chat_history(runs_of(services, scope, session, &RunFilter::default()).await?);
    Ok((status, token, Json(SessionDetail::of(row, history))).into_response())
}
