//! All routes in one list, with what lies around them.

use axum::{
    Router,
    extract::Request,
    http::{HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use tower_http::{
    catch_panic::CatchPanicLayer,
    cors::{AllowHeaders, AllowOrigin, CorsLayer, ExposeHeaders},
    normalize_path::NormalizePath,
};
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    about, agents, approvals, audit, cluster, described, docs,
    error::{ApiError, panicked},
    metrics,
    position::POSITION,
    projections, queue, retention,
    runs::{cancel, checkpoints, list, proceed, read, resume, start},
    schedules, sessions,
    state::App,
    users,
};

#[derive(OpenApi)]
#[openapi(info(
    title = "reenact",
    description = "Event-sourced agents behind AgentOS's API. Lists have pages from 1; an answer that wrote or read \
                   carries `Reenact-Position`, which a later request may send back to read at least that.",
    license(name = "Apache-2.0", identifier = "Apache-2.0")
))]
struct Description;

fn described() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(about::home))
        .routes(routes!(about::health))
        .routes(routes!(about::ready))
        .routes(routes!(about::info))
        .routes(routes!(about::config))
        .routes(routes!(cluster::cluster))
        .routes(routes!(agents::list))
        .routes(routes!(agents::one))
        .routes(routes!(agents::teams))
        .routes(routes!(agents::workflows))
        .routes(routes!(start::start, read::of_session))
        .routes(routes!(read::one))
        .routes(routes!(cancel::cancel))
        .routes(routes!(resume::resume))
        .routes(routes!(proceed::proceed))
        .routes(routes!(checkpoints::list))
        .routes(routes!(checkpoints::one))
        .routes(routes!(sessions::fork::fork))
        .routes(routes!(list::all))
        .routes(routes!(queue::stats))
        .routes(routes!(queue::list))
        .routes(routes!(queue::one))
        .routes(routes!(queue::requeue))
        .routes(routes!(list::one))
        .routes(routes!(metrics::list))
        .routes(routes!(metrics::refresh))
        .routes(routes!(metrics::refresh_status))
        .routes(routes!(metrics::picture))
        .routes(routes!(audit::heads))
        .routes(routes!(projections::list))
        .routes(routes!(projections::rebuild))
        .routes(routes!(projections::swap))
        .routes(routes!(projections::remove))
        .routes(routes!(approvals::list))
        .routes(routes!(approvals::count))
        .routes(routes!(approvals::one))
        .routes(routes!(approvals::delete))
        .routes(routes!(approvals::status))
        .routes(routes!(approvals::resolve))
        .routes(routes!(schedules::read::list, schedules::change::create))
        .routes(routes!(schedules::read::one, schedules::change::update, schedules::change::delete))
        .routes(routes!(schedules::act::enable))
        .routes(routes!(schedules::act::disable))
        .routes(routes!(schedules::act::trigger))
        .routes(routes!(schedules::preview::preview))
        .routes(routes!(schedules::runs::list))
        .routes(routes!(schedules::runs::one))
        .routes(routes!(sessions::list::list, sessions::create::create, sessions::delete::many))
        .routes(routes!(sessions::read::read, sessions::change::update, sessions::delete::one))
        .routes(routes!(sessions::change::rename))
        .routes(routes!(sessions::runs::whole))
        .routes(routes!(sessions::runs::previews))
        .routes(routes!(sessions::runs::one))
        .routes(routes!(retention::apply))
        .routes(routes!(users::erase))
        .routes(routes!(users::report))
}

/// The service: routes, errors as JSON, panics caught, trailing slashes stripped, other origins allowed.
///
/// Trailing slashes are stripped around the router and not in it: a layer in it runs after routing.
#[must_use]
pub fn service(app: App, cors_origins: &[String]) -> NormalizePath<Router> {
    let (routes, description) = described().split_for_parts();
    let description = described::completed(description);
    let router = routes
        .merge(docs::routes(description))
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(cors(cors_origins))
        .with_state(app);
    NormalizePath::trim_trailing_slash(router)
}

async fn no_such_route() -> ApiError {
    ApiError::not_found("Not Found")
}

async fn no_such_method(request: Request) -> Response {
    let detail = format!("Method Not Allowed: {} {}", request.method(), request.uri().path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, detail).into_response()
}

fn cors(origins: &[String]) -> CorsLayer {
    let allowed: Vec<_> = origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()).collect();
    let origin = if allowed.is_empty() { AllowOrigin::any() } else { AllowOrigin::list(allowed) };
    CorsLayer::new()
        .allow_origin(origin)
        .allow_methods([Method::GET, Method::POST, Method::PATCH, Method::DELETE])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(ExposeHeaders::list([POSITION, header::RETRY_AFTER]))
}
