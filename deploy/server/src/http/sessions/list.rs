//! `GET /sessions`.

use std::time::Instant;

use axum::{
    Json,
    response::{IntoResponse, Response},
};
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
    let sort = match query.text("sort_by") {
        Some("updated_at") => SessionSort::UpdatedAt,
        // AgentOS sorts by `created_at` when it does not know the name.
        _ => SessionSort::CreatedAt,
    };
    let filter = SessionFilter {
        session_type: session_type(&query)?.map(str::to_owned),
        component_id: query.text("component_id").map(str::to_owned),
        user_id: None,
        name: query.text("session_name").map(str::to_owned),
        sort,
        order: order(&query)?,
    };
    let token = services.caught_up(after.as_ref()).await?;
    let page = services.views.sessions(&caller.scope, &filter, paging).await?;
    Ok((token, Json(listed(page, paging, began, SessionSchema::of))).into_response())
}
