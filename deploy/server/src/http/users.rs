//! `DELETE /users/{user_id}`: erases a user, where content is sealed with users' keys; and how that stands.

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use reenact_events::UserId;

use super::{
    error::{ApiError, ErrorBody},
    fields::PathIds,
    scope::caller_of,
    state::{App, Ready, Services},
};
use crate::erasure::{Erasures, Report};

/// Erases a user: their sessions and schedules are deleted, their keys destroyed, and what was made from the log is made
/// anew. It goes on by itself, also after a restart.
#[utoipa::path(
    delete, path = "/users/{user_id}", tag = "Users", operation_id = "erase_user",
    params(("user_id" = String, Path, description = "Who")),
    responses(
        (status = 202, description = "It has begun, or is under way", body = Report),
        (status = 403, description = "The id is a reserved one", body = ErrorBody),
        (status = 409, description = "The content of this deployment is plain", body = ErrorBody),
    )
)]
pub async fn erase(State(app): State<App>, Ready(services): Ready, path: PathIds) -> Result<Response, ApiError> {
    let user = path.get("user_id", UserId::parse)?;
    caller_of(Some(user.clone()))?;
    let report = erasures(&services)?.ask(&user, app.now()).await;
    let report = report.map_err(|error| ApiError::unavailable(error.to_string(), 5))?;
    Ok((StatusCode::ACCEPTED, Json(report)).into_response())
}

/// How the erasure of a user stands, or what came of it.
#[utoipa::path(
    get, path = "/users/{user_id}/erasure", tag = "Users", operation_id = "get_user_erasure",
    params(("user_id" = String, Path, description = "Who")),
    responses(
        (status = 200, description = "Place by place", body = Report),
        (status = 404, description = "This user was never erased", body = ErrorBody),
        (status = 409, description = "The content of this deployment is plain", body = ErrorBody),
    )
)]
pub async fn report(Ready(services): Ready, path: PathIds) -> Result<Json<Report>, ApiError> {
    let user = path.get("user_id", UserId::parse)?;
    let report = erasures(&services)?.report(&user).await;
    let report = report.map_err(|error| ApiError::unavailable(error.to_string(), 5))?;
    let never = || ApiError::not_found(format!("user `{user}` was never erased")).named("never_erased");
    report.map(Json).ok_or_else(never)
}

fn erasures(services: &Services) -> Result<&Erasures, ApiError> {
    services.erasures.as_deref().ok_or_else(|| {
        let text = "nobody can be erased here: users' content stands in the log as it is (`content` is `plain`), and a log \
                    is never rewritten. `reenact sessions purge --user USER` removes it from everything that is read; it is \
                    gone when the whole log is. A deployment that is to erase users is made with `--content per_user_key`";
        ApiError::conflict(text).named("content_is_plain")
    })
}
