//! `GET /sessions`.

use std::time::Instant;

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use reenact_events::AgentId;
use reenact_projections::query::{SessionFilter, SessionSort};

use super::session_type;
use crate::http::{
    error::{ApiError, ErrorBody},
    fields::Query,
    paging::{Listed, listed, order, paging},
    position::After,
    scope::caller,
    shapes::SessionSchema,
    state::Ready,
};

/// What sessions are sorted by.
pub(in crate::http) const SORTS: [(&str, SessionSort); 2] =
    [("created_at", SessionSort::CreatedAt), ("updated_at", SessionSort::UpdatedAt)];

/// A page of sessions.
#[utoipa::path(
    get, path = "/sessions", tag = "Sessions", operation_id = "get_sessions",
    params(
        ("type" = Option<String>, Query, description = "`agent`, `team` or `workflow`"),
        ("component_id" = Option<String>, Query, description = "Of this agent"),
        ("user_id" = Option<String>, Query, description = "Who asks: their sessions and those without an owner"),
        ("session_name" = Option<String>, Query, description = "The name holds this text, in any case"),
        ("limit" = Option<u64>, Query, description = "Items a page, 1 to 1000, default 20"),
        ("page" = Option<u64>, Query, description = "Which page, from 1"),
        ("sort_by" = Option<String>, Query, description = "`created_at` (default) or `updated_at`"),
        ("sort_order" = Option<String>, Query, description = "`desc` (default) or `asc`"),
    ),
    responses(
        (status = 200, description = "A page of sessions", body = Listed<SessionSchema>),
        (status = 422, description = "Malformed", body = ErrorBody),
    )
)]
pub async fn list(Ready(services): Ready, Query(query): Query, After(after): After) -> Result<Response, ApiError> {
    let began = Instant::now();
    let caller = caller(&query)?;
    let paging = paging(&query)?;
    let sort = query.one_of("sort_by", &SORTS)?.unwrap_or(SessionSort::CreatedAt);
    let filter = SessionFilter {
        session_type: session_type(&query)?.map(str::to_owned),
        component_id: query.id("component_id", AgentId::parse)?.map(|agent| agent.to_string()),
        user_id: None,
        name: query.text("session_name").map(str::to_owned),
        sort,
        order: order(&query)?,
    };
    let token = services.caught_up(after.as_ref()).await?;
    let page = services.views.sessions(&caller.scope, &filter, paging).await?;
    Ok((token, Json(listed(page, paging, began, SessionSchema::of))).into_response())
}
