//! `/metrics`: what users did and used, by day, and the same as a picture.
//!
//! The rows are folded as the runs are, so there is nothing to refresh: `POST /metrics/refresh` answers with them, as
//! often as it is asked. AgentOS's `/metrics` sums the rows of all users when nobody is named; so does this.

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use chrono::NaiveDate;
use reenact_events::UserId;
use reenact_projections::{
    metrics::{ComponentMetrics, MetricsFilter, MetricsRow, ModelMetrics, by_day},
    prices::{Cost, Prices},
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use utoipa::ToSchema;

use super::{
    error::{ApiError, ErrorBody},
    fields::{Fields, Query},
    position::{After, Token},
    scope::caller,
    shapes::iso_seconds,
    state::{App, Ready, Services},
};
use crate::chart;

/// What was done and used on a day.
#[derive(Debug, Serialize, ToSchema)]
pub struct DayAggregatedMetrics {
    /// The row's name.
    pub id: String,
    /// Whose; null for everybody's, and for nobody's.
    #[schema(value_type = Option<String>)]
    pub user_id: Option<UserId>,
    /// Runs that were accepted on that day.
    pub agent_runs_count: u64,
    /// Sessions that were made on that day.
    pub agent_sessions_count: u64,
    /// There are none here.
    pub team_runs_count: u64,
    /// There are none here.
    pub team_sessions_count: u64,
    /// There are none here.
    pub workflow_runs_count: u64,
    /// There are none here.
    pub workflow_sessions_count: u64,
    /// Users that had a run or a session.
    pub users_count: u64,
    /// Tokens that were used, and their `cost`; null is unknown.
    #[schema(value_type = Object)]
    pub token_metrics: Value,
    /// The same by model.
    #[schema(value_type = Vec<Object>)]
    pub model_metrics: Vec<Value>,
    /// Runs by where they are now.
    pub status_metrics: BTreeMap<String, u64>,
    /// Runs and tokens by agent.
    #[schema(value_type = Object)]
    pub component_metrics: BTreeMap<String, ComponentMetrics>,
    /// The day.
    pub date: String,
    /// When the first of it happened.
    pub created_at: String,
    /// When the last of it happened.
    pub updated_at: String,
}

/// The days that were asked for.
#[derive(Debug, Serialize, ToSchema)]
pub struct MetricsResponse {
    /// In order.
    pub metrics: Vec<DayAggregatedMetrics>,
    /// When the last of it happened.
    pub updated_at: Option<String>,
}

/// How a refresh stands.
#[derive(Debug, Serialize, ToSchema)]
pub struct MetricsRefreshStatus {
    /// `completed`: the rows are never behind what was answered.
    pub status: &'static str,
}

/// What was done and used, by day.
#[utoipa::path(
    get, path = "/metrics", tag = "Metrics", operation_id = "get_metrics",
    params(
        ("starting_date" = Option<String>, Query, description = "From this UTC day on"),
        ("ending_date" = Option<String>, Query, description = "To this UTC day"),
        ("user_id" = Option<String>, Query, description = "Of this user; without one of all together"),
    ),
    responses(
        (status = 200, description = "The days on which anything was done", body = MetricsResponse),
        (status = 400, description = "The days are the wrong way round", body = ErrorBody),
    )
)]
pub async fn list(
    State(app): State<App>,
    Ready(services): Ready,
    Query(query): Query,
    After(after): After,
) -> Result<Response, ApiError> {
    let (token, days) = days(&services, &query, after.as_ref()).await?;
    let updated_at = days.iter().map(|day| day.updated_at).max().map(iso_seconds);
    let metrics = days.into_iter().map(|day| shown(day, app.prices())).collect();
    Ok((token, Json(MetricsResponse { metrics, updated_at })).into_response())
}

/// The rows as they are: they need no refreshing.
#[utoipa::path(
    post, path = "/metrics/refresh", tag = "Metrics", operation_id = "refresh_metrics",
    params(
        ("background" = Option<bool>, Query, description = "Means nothing here: nothing is left to do"),
        ("user_id" = Option<String>, Query, description = "Of this user; without one of all together"),
    ),
    responses((status = 200, description = "The days on which anything was done", body = Vec<DayAggregatedMetrics>))
)]
pub async fn refresh(
    State(app): State<App>,
    Ready(services): Ready,
    Query(query): Query,
    After(after): After,
) -> Result<Response, ApiError> {
    query.truth("background", false)?;
    let (token, days) = days(&services, &query, after.as_ref()).await?;
    let metrics: Vec<_> = days.into_iter().map(|day| shown(day, app.prices())).collect();
    Ok((token, Json(metrics)).into_response())
}

/// How the refresh stands: it is done.
#[utoipa::path(
    get, path = "/metrics/refresh/status", tag = "Metrics", operation_id = "get_metrics_refresh_status",
    responses((status = 200, description = "It is done", body = MetricsRefreshStatus))
)]
pub async fn refresh_status(_: Ready) -> Json<MetricsRefreshStatus> {
    Json(MetricsRefreshStatus { status: "completed" })
}

/// The days as a picture: runs by status, and tokens.
#[utoipa::path(
    get, path = "/metrics/chart.svg", tag = "Metrics", operation_id = "get_metrics_chart",
    params(
        ("starting_date" = Option<String>, Query, description = "From this UTC day on"),
        ("ending_date" = Option<String>, Query, description = "To this UTC day"),
        ("user_id" = Option<String>, Query, description = "Of this user; without one of all together"),
    ),
    responses(
        (status = 200, description = "The picture", content_type = "image/svg+xml", body = String),
        (status = 400, description = "The days are the wrong way round", body = ErrorBody),
    )
)]
pub async fn picture(Ready(services): Ready, Query(query): Query, After(after): After) -> Result<Response, ApiError> {
    let (token, days) = days(&services, &query, after.as_ref()).await?;
    let svg = chart::of_days(&days).map_err(|error| ApiError::internal("the chart cannot be drawn", &error))?;
    Ok((token, [(CONTENT_TYPE, "image/svg+xml")], svg).into_response())
}

async fn days(
    services: &Services,
    query: &Fields,
    after: Option<&Token>,
) -> Result<(Token, Vec<MetricsRow>), ApiError> {
    let caller = caller(query)?;
    let (from, to) = (day(query, "starting_date")?, day(query, "ending_date")?);
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "`starting_date` must not be after `ending_date`"));
    }
    let token = services.caught_up(after).await?;
    let rows = services.views.metrics(&caller.scope, &MetricsFilter { user_id: None, from, to }).await?;
    Ok((token, if caller.user_id.is_some() { rows } else { by_day(rows) }))
}

fn day(query: &Fields, name: &str) -> Result<Option<NaiveDate>, ApiError> {
    let day = query.text(name).map(str::parse::<NaiveDate>).transpose();
    day.map_err(|_| query.fault(name, "date_parsing", "Input should be a day as `2026-11-30`"))
}

fn shown(row: MetricsRow, prices: &Prices) -> DayAggregatedMetrics {
    let costs: Vec<_> = row.model_metrics.iter().map(|model| prices.cost(&row.date, model)).collect();
    let model_metrics = row.model_metrics.iter().zip(&costs).map(|(model, cost)| priced_model(model, *cost)).collect();
    let total = costs.into_iter().try_fold(0, |sum, cost| cost.map(|Cost(cost)| sum + cost)).map(Cost);
    let mut tokens = row.token_metrics.to_map();
    put_cost(&mut tokens, total);
    DayAggregatedMetrics {
        id: row.id(),
        user_id: row.user_id,
        agent_runs_count: row.agent_runs_count,
        agent_sessions_count: row.agent_sessions_count,
        team_runs_count: 0,
        team_sessions_count: 0,
        workflow_runs_count: 0,
        workflow_sessions_count: 0,
        users_count: row.users_count,
        token_metrics: Value::Object(tokens),
        model_metrics,
        status_metrics: row.status_metrics,
        component_metrics: row.component_metrics,
        date: format!("{}T00:00:00Z", row.date),
        created_at: iso_seconds(row.created_at),
        updated_at: iso_seconds(row.updated_at),
    }
}

fn priced_model(model: &ModelMetrics, cost: Option<Cost>) -> Value {
    let mut map = model.tokens.to_map();
    map.insert("model_id".to_owned(), json!(model.model_id));
    map.insert("model_provider".to_owned(), json!(model.model_provider));
    map.insert("count".to_owned(), json!(model.count));
    map.insert("calls".to_owned(), json!(model.calls));
    map.insert("calls_without_usage".to_owned(), json!(model.calls_without_usage));
    put_cost(&mut map, cost);
    Value::Object(map)
}

fn put_cost(map: &mut Map<String, Value>, cost: Option<Cost>) {
    map.insert("cost".to_owned(), json!(cost.map(Cost::amount)));
}
