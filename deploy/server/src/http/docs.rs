//! `/docs` and `/openapi.json`. The page renders the description with nothing but itself: it works without a
//! network and loads no code from elsewhere.

use axum::{Json, Router, response::Html, routing::get};
use utoipa::openapi::OpenApi;

use super::state::App;

const PAGE: &str = include_str!("docs.html");

/// The routes that describe the others.
pub fn routes(description: OpenApi) -> Router<App> {
    let json = move || async move { Json(description) };
    Router::new().route("/openapi.json", get(json)).route("/docs", get(|| async { Html(PAGE) }))
}
