//! `POST /retention`: deletes sessions that are not to be kept, or says which those would be. What the configuration
//! says is done without it.

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    error::{ApiError, ErrorBody},
    fields::Query,
    scope::caller,
    state::{App, Ready},
};
use crate::retention::{self, Policy};

/// The longest time that can be said.
pub(super) const DAYS_MAX: u32 = 36_500;
/// The most sessions that can be said to be kept.
pub(super) const NEWEST_MAX: u64 = 1_000_000_000;

/// What was deleted.
#[derive(Debug, Serialize, ToSchema)]
pub struct RetentionResponse {
    /// The sessions that were deleted, or would be.
    pub session_ids: Vec<String>,
    /// How many were left because they were used meanwhile.
    pub used: usize,
    /// Whether there is more: one request deletes 10,000 at most.
    pub more: bool,
    /// Whether nothing was deleted, as was asked.
    pub dry_run: bool,
}

/// Deletes sessions at rest by age, by number, or all of a user. A session with a run that has not ended stays.
#[utoipa::path(
    post, path = "/retention", tag = "Sessions", operation_id = "apply_retention",
    params(
        ("user_id" = Option<String>, Query, description = "Of this user; alone it means all of them"),
        ("older_than_days" = Option<u32>, Query, description = "Those that nobody has used for so many days"),
        ("keep_newest" = Option<u64>, Query, description = "Those beyond so many of their owner's that were used last"),
        ("dry_run" = Option<bool>, Query, description = "Only say which"),
    ),
    responses(
        (status = 200, description = "What was deleted", body = RetentionResponse),
        (status = 400, description = "Nothing says which sessions", body = ErrorBody),
    )
)]
pub async fn apply(State(app): State<App>, Ready(services): Ready, Query(query): Query) -> Result<Response, ApiError> {
    let policy = Policy {
        user_id: caller(&query)?.user_id,
        days: query.number("older_than_days", 0..=DAYS_MAX)?,
        newest: query.number("keep_newest", 0..=NEWEST_MAX)?,
    };
    let dry_run = query.truth("dry_run", false)?;
    if policy.is_empty() {
        let text = "Say which sessions: `older_than_days`, `keep_newest` or `user_id`";
        return Err(ApiError::new(StatusCode::BAD_REQUEST, text));
    }
    // What was answered before is taken into account.
    let seen = services.caught_up(None).await?;
    let pass = retention::apply(&services, &policy, app.now(), dry_run).await?;
    let session_ids = pass.session_ids.iter().map(ToString::to_string).collect();
    let answer = RetentionResponse { session_ids, used: pass.used, more: pass.more, dry_run };
    Ok((pass.token.unwrap_or(seen), Json(answer)).into_response())
}
