//! `GET /sessions/{session_id}`.

use axum::{http::StatusCode, response::Response};
use reenact_events::SessionId;

use super::{detail, session_type};
use crate::http::{
    error::{ApiError, ErrorBody},
    fields::{PathIds, Query},
    position::After,
    scope::caller,
    shapes::SessionDetail,
    state::Ready,
};

/// One session with what was said in it.
#[utoipa::path(
    get, path = "/sessions/{session_id}", tag = "Sessions", operation_id = "get_session_by_id",
    params(
        ("session_id" = String, Path, description = "The session"),
        ("type" = Option<String>, Query, description = "A session of another type is not found"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    responses(
        (status = 200, description = "The session", body = SessionDetail),
        (status = 404, description = "No such session, or it is another user's", body = ErrorBody),
    )
)]
pub async fn read(
    Ready(services): Ready,
    path: PathIds,
    Query(query): Query,
    After(after): After,
) -> Result<Response, ApiError> {
    let caller = caller(&query)?;
    let kind = session_type(&query)?;
    let session = path.get("session_id", SessionId::parse)?;
    let token = services.caught_up(after.as_ref()).await?;
    detail(&services, &caller.scope, &session, kind, StatusCode::OK, token).await
}
