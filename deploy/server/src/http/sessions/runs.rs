//! The runs of a session: whole, short, and one.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use reenact_events::{RunId, SessionId};
use reenact_projections::{
    expand,
    query::{RunFilter, RunRow},
};

use super::{find, runs_of, session_type};
use crate::http::{
    error::{ApiError, ErrorBody},
    fields::{Fields, PathIds, Query},
    paging::paging,
    position::{After, Token},
    runs::{read::statuses, run_not_found},
    scope::caller,
    shapes::{RunPreview, RunSchema},
    state::{Ready, Services},
};

/// The runs of a session.
#[utoipa::path(
    get, path = "/sessions/{session_id}/runs", tag = "Sessions", operation_id = "get_session_runs",
    params(
        ("session_id" = String, Path, description = "The session"),
        ("type" = Option<String>, Query, description = "A session of another type is not found"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
        ("status" = Option<Vec<String>>, Query, description = "With one of these statuses, in any case"),
        ("created_after" = Option<i64>, Query, description = "Accepted at or after, epoch seconds"),
        ("created_before" = Option<i64>, Query, description = "Accepted at or before, epoch seconds"),
        ("limit" = Option<u64>, Query, description = "Ours: only so many, newest first; without it all, oldest first"),
        ("page" = Option<u64>, Query, description = "Ours: which page, from 1, of `limit` runs, default 20"),
    ),
    responses(
        (status = 200, description = "The runs", body = Vec<RunSchema>),
        (status = 400, description = "A word is no run status", body = ErrorBody),
        (status = 404, description = "No such session, or it is another user's", body = ErrorBody),
    )
)]
pub async fn whole(
    Ready(services): Ready,
    path: PathIds,
    Query(query): Query,
    After(after): After,
) -> Result<Response, ApiError> {
    let (token, rows) = rows(&services, &path, &query, after.as_ref()).await?;
    let runs: Vec<_> = rows.into_iter().map(RunSchema::of).collect();
    Ok((token, Json(runs)).into_response())
}

/// The runs of a session, short.
#[utoipa::path(
    get, path = "/sessions/{session_id}/run-previews", tag = "Sessions", operation_id = "get_session_run_previews",
    params(
        ("session_id" = String, Path, description = "The session"),
        ("type" = Option<String>, Query, description = "A session of another type is not found"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
        ("status" = Option<Vec<String>>, Query, description = "With one of these statuses, in any case"),
        ("created_after" = Option<i64>, Query, description = "Accepted at or after, epoch seconds"),
        ("created_before" = Option<i64>, Query, description = "Accepted at or before, epoch seconds"),
    ),
    responses(
        (status = 200, description = "The runs, texts cut to 280 characters", body = Vec<RunPreview>),
        (status = 400, description = "A word is no run status", body = ErrorBody),
        (status = 404, description = "No such session, or it is another user's", body = ErrorBody),
    )
)]
pub async fn previews(
    Ready(services): Ready,
    path: PathIds,
    Query(query): Query,
    After(after): After,
) -> Result<Response, ApiError> {
    let (token, rows) = rows(&services, &path, &query, after.as_ref()).await?;
    let runs: Vec<_> = rows.iter().map(RunPreview::of).collect();
    Ok((token, Json(runs)).into_response())
}

/// One run of a session.
#[utoipa::path(
    get, path = "/sessions/{session_id}/runs/{run_id}", tag = "Sessions", operation_id = "get_session_run",
    params(
        ("session_id" = String, Path, description = "The session"),
        ("run_id" = String, Path, description = "The run"),
        ("type" = Option<String>, Query, description = "A session of another type is not found"),
        ("user_id" = Option<String>, Query, description = "Who asks"),
    ),
    responses(
        (status = 200, description = "The run", body = RunSchema),
        (status = 404, description = "No such session or run, or it is another user's", body = ErrorBody),
    )
)]
pub async fn one(
    Ready(services): Ready,
    path: PathIds,
    Query(query): Query,
    After(after): After,
) -> Result<Response, ApiError> {
    let caller = caller(&query)?;
    let kind = session_type(&query)?;
    let (session, run) = (path.get("session_id", SessionId::parse)?, path.get("run_id", RunId::parse)?);
    let token = services.caught_up(after.as_ref()).await?;
    find(&services, &caller.scope, &session, kind).await?;
    let row = services.views.run(&caller.scope, &run).await?.filter(|row| row.session_id == session);
    let mut row = row.ok_or_else(run_not_found)?;
    expand(&mut row.run_data, &*services.blobs).await?;
    Ok((token, Json(RunSchema::of(row))).into_response())
}

async fn rows(
    services: &Services,
    path: &PathIds,
    query: &Fields,
    after: Option<&Token>,
) -> Result<(Token, Vec<RunRow>), ApiError> {
    let caller = caller(query)?;
    let kind = session_type(query)?;
    let session = path.get("session_id", SessionId::parse)?;
    let statuses = statuses(query)?;
    let any = i64::MIN..=i64::MAX;
    let mut filter = RunFilter {
        session_id: Some(session.clone()),
        created_after: query.number("created_after", any.clone())?,
        created_before: query.number("created_before", any)?,
        ..RunFilter::default()
    };
    let paged = ["limit", "page"].iter().any(|name| query.text(name).is_some());
    let paging = paged.then(|| paging(query)).transpose()?;
    let token = services.caught_up(after).await?;
    find(services, &caller.scope, &session, kind).await?;
    filter.statuses = statuses;
    let Some(paging) = paging else {
        return Ok((token, runs_of(services, &caller.scope, &session, &filter).await?));
    };
    let mut rows = services.views.runs(&caller.scope, &filter, paging).await?.items;
    for row in &mut rows {
        expand(&mut row.run_data, &*services.blobs).await?;
    }
    Ok((token, rows))
}
