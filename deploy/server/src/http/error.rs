//! What a client is told when something cannot be done: AgentOS's body `{detail, error_id?, error_type?}`,
//! `detail` being a text or, for a request that is malformed, a list of `{loc, msg, type}`.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use reenact_actors::{
    api::{Refusal, SubmitError},
    schedule::Unfit,
};
use reenact_events::BlobError;
use reenact_projections::ViewError;
use serde::Serialize;
use utoipa::ToSchema;

/// One fault of a malformed request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Fault {
    /// The path to what is at fault, for example `["query", "page"]`.
    pub loc: Vec<String>,
    /// What is wrong, for people.
    pub msg: String,
    /// What is wrong, for programs: `missing`, `int_parsing`, `json_invalid` …
    #[serde(rename = "type")]
    pub kind: &'static str,
}

impl Fault {
    /// A fault of `name` in `place` (`query`, `path`, `body` or `header`).
    #[must_use]
    pub fn new(place: &str, name: &str, kind: &'static str, msg: impl Into<String>) -> Self {
        let loc = [place, name].into_iter().filter(|part| !part.is_empty()).map(str::to_owned).collect();
        Self { loc, msg: msg.into(), kind }
    }
}

/// What went wrong: a text, or the faults of a malformed request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Detail {
    /// For people.
    Text(String),
    /// The request is malformed in these places.
    Faults(Vec<Fault>),
}

/// The body of every answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ErrorBody {
    /// What went wrong.
    pub detail: Detail,
    /// A stable name of the error, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_id: Option<&'static str>,
    /// The kind of error, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<&'static str>,
}

/// An answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// The status.
    pub status: StatusCode,
    /// The body.
    pub body: ErrorBody,
    /// When asking again makes sense.
    pub retry_after_s: Option<u32>,
}

impl ApiError {
    /// An error with a text.
    #[must_use]
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let body = ErrorBody { detail: Detail::Text(detail.into()), error_id: None, error_type: None };
        Self { status, body, retry_after_s: None }
    }

    /// The error under a stable name.
    #[must_use]
    pub fn named(mut self, id: &'static str) -> Self {
        self.body.error_id = Some(id);
        self
    }

    /// The error with advice when to ask again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// 404 with a text.
    #[must_use]
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// 409 with a text.
    #[must_use]
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    /// 413: larger than is allowed.
    #[must_use]
    pub fn too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, detail).named("too_large")
    }

    /// 503: not now.
    #[must_use]
    pub fn unavailable(detail: impl Into<String>, retry_after_s: u32) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail).named("unavailable").retry_after(retry_after_s)
    }

    /// The error of whoever wants to show what was taken a moment ago. When it cannot be read now, to send the request
    /// once more would do it twice, so that is not the advice.
    #[must_use]
    pub fn once_taken(self, what: &impl std::fmt::Display) -> Self {
        match (self.body.error_id, &self.body.detail) {
            (Some("views_lag" | "unavailable"), Detail::Text(why)) => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("{what} is in the log and goes on; it cannot be shown now, ask for it later and do not send it again ({why})"),
            )
            .named("taken_not_shown"),
            _ => self,
        }
    }

    /// 500: our fault. The cause is logged here and not told to the client.
    #[must_use]
    pub fn internal(what: &str, cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(%cause, "{what}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, format!("Internal server error: {what}")).named("internal")
    }

    /// 422 with one fault.
    #[must_use]
    pub fn malformed(fault: Fault) -> Self {
        let body = ErrorBody { detail: Detail::Faults(vec![fault]), error_id: None, error_type: None };
        Self { status: StatusCode::UNPROCESSABLE_ENTITY, body, retry_after_s: None }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body)).into_response();
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        let text = error.to_string();
        match error {
            SubmitError::Refused(Refusal::SessionNotFound | Refusal::RunNotFound | Refusal::AgentNotFound) => {
                Self::not_found(text)
            }
            SubmitError::Refused(Refusal::SessionExists(_)) => Self::conflict(text).named("session_exists"),
            SubmitError::Refused(Refusal::KeyUsed) => Self::conflict(text).named("idempotency_conflict"),
            SubmitError::Refused(Refusal::SessionBusy(_)) => Self::conflict(text).named("session_busy"),
            SubmitError::Refused(Refusal::SessionUsed(_)) => Self::conflict(text).named("session_used"),
            SubmitError::Refused(Refusal::StepNotInDoubt { .. }) => Self::conflict(text).named("step_not_in_doubt"),
            SubmitError::Refused(Refusal::NotRequeued(_)) => {
                Self::new(StatusCode::BAD_REQUEST, text).named("not_requeued")
            }
            SubmitError::Refused(Refusal::NotCopied(_)) => Self::new(StatusCode::BAD_REQUEST, text).named("not_copied"),
            SubmitError::Refused(Refusal::NotForked(_)) => Self::conflict(text).named("not_forked"),
            SubmitError::Refused(Refusal::ForkPoint(_)) => {
                Self::malformed(Fault::new("body", "continue_from", "fork_point", text))
            }
            SubmitError::Refused(Refusal::ScheduleNotFound) => Self::not_found(text).named("schedule_not_found"),
            SubmitError::Refused(Refusal::ScheduleConflict(_)) => Self::conflict(text).named("schedule_conflict"),
            SubmitError::Refused(Refusal::ScheduleUnfit(Unfit { field, .. })) => {
                Self::malformed(Fault::new("body", &field, "value_error", text))
            }
            SubmitError::Refused(Refusal::OutputSchema(_)) => {
                Self::malformed(Fault::new("body", "output_schema", "json_schema", text))
            }
            SubmitError::Refused(Refusal::DecisionLate { .. }) => Self::conflict(text).named("decision_late"),
            SubmitError::Refused(Refusal::DecisionUnfit { .. }) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, text).named("decision_unfit")
            }
            SubmitError::Refused(Refusal::TooLarge(_)) => Self::too_large(text),
            SubmitError::QueueFull { retry_after_s, .. } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, text).named("queue_full").retry_after(retry_after_s.max(1))
            }
            SubmitError::Unavailable { .. } => Self::unavailable(text, 2),
        }
    }
}

impl From<ViewError> for ApiError {
    fn from(error: ViewError) -> Self {
        match error {
            // Passing states: the database is away, the views are being folded again, or the process is going down.
            ViewError::Locked { .. }
            | ViewError::Unavailable { .. }
            | ViewError::Refused { .. }
            | ViewError::DiskFull { .. }
            | ViewError::Corrupt { .. }
            | ViewError::BadRow { .. }
            | ViewError::Discarded { .. }
            | ViewError::Closed => Self::unavailable(format!("the views cannot be read now: {error}"), 2),
            other => Self::internal("the views cannot be read", &other),
        }
    }
}

impl From<BlobError> for ApiError {
    fn from(error: BlobError) -> Self {
        match error {
            BlobError::Store { .. } => Self::unavailable(error.to_string(), 5),
            other => Self::internal("a stored text cannot be read", &other),
        }
    }
}

/// The answer to a request whose handler panicked.
#[must_use]
pub fn panicked(cause: Box<dyn std::any::Any + Send>) -> Response {
    let text = cause
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| cause.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    ApiError::internal("a handler failed", &text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_says_when_to_come_back() {
        let error = ApiError::from(SubmitError::QueueFull { queued: 3, limit: 3, retry_after_s: 7 });
        let response = error.into_response();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[RETRY_AFTER], "7");
    }

    #[tokio::test]
    async fn a_panic_in_a_handler_is_a_500_and_nothing_more() {
        use axum::{body::Body, http::Request, routing::get};
        use tower::ServiceExt;
        async fn broken() -> &'static str {
            panic!("a bug")
        }
        let router = axum::Router::new().route("/broken", get(broken)).route("/whole", get(|| async { "fine" }));
        let router = router.layer(tower_http::catch_panic::CatchPanicLayer::custom(panicked));
        let ask = |path: &str| router.clone().oneshot(Request::get(path).body(Body::empty()).unwrap());
        let answer = ask("/broken").await.unwrap();
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let body = axum::body::to_bytes(answer.into_body(), 1_000).await.unwrap();
        assert!(!String::from_utf8_lossy(&body).contains("a bug"), "causes are for the log");
        assert_eq!(ask("/whole").await.unwrap().status(), StatusCode::OK);
    }

    #[test]
    fn faults_have_the_shape_of_agentos() {
        let error = ApiError::malformed(Fault::new("query", "page", "int_parsing", "not a number"));
        let json = serde_json::to_value(&error.body).unwrap();
        let wanted =
            serde_json::json!({"detail": [{"loc": ["query", "page"], "msg": "not a number", "type": "int_parsing"}]});
        assert_eq!(json, wanted);
    }
}
