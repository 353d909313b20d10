//! Starting, being, and going down.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{Method, StatusCode},
};
use futures::StreamExt;
use reenact_events::Timestamp;
use reenact_projections::prices::Prices;
use reenact_server::{
    config::BodyLimits,
    http::{router, state::App},
};
use tower::ServiceExt;

use crate::support::{Server, form, request};

#[tokio::test]
async fn before_everything_is_restored_only_health_is_good() {
    let limits = BodyLimits { body: 1, message: 1, file: 1 };
    let app = App::new(vec![reenact_agents::demo_agent()], limits, Prices::default(), "test", Arc::new(Timestamp(0)));
    app.stage("folding the log");
    let service = router::service(app, &[]);
    for path in ["/ready", "/info", "/config", "/agents", "/sessions", "/runs", "/agents/demo", "/sessions/s"] {
        let asked = request(Method::GET, path).body(Body::empty()).unwrap();
        let answer = service.clone().oneshot(asked).await.unwrap();
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert!(answer.headers().contains_key("retry-after"), "{path}");
        let body = axum::body::to_bytes(answer.into_body(), 10_000).await.unwrap();
        assert!(String::from_utf8_lossy(&body).contains("folding the log"), "{path}");
    }
    for path in ["/", "/health", "/docs", "/openapi.json"] {
        let asked = request(Method::GET, path).body(Body::empty()).unwrap();
        assert_eq!(service.clone().oneshot(asked).await.unwrap().status(), StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn the_deployment_says_what_it_is() {
    let server = Server::start().await;
    assert_eq!(server.get("/ready").await.expect(200).json()["ready"], true);
    assert_eq!(server.get("/info").await.expect(200).json()["agent_count"], 1);
    let config = server.get("/config").await.expect(200).json();
    assert_eq!(config["agents"][0]["id"], "demo");
    assert_eq!(server.get("/agents/demo/").await.expect(200).json()["model"]["provider"], "demo");
    let page = server.get("/docs").await.expect(200);
    assert!(!String::from_utf8_lossy(&page.body).contains("http"), "the page loads nothing from elsewhere");
    let paths = server.get("/openapi.json").await.expect(200).json()["paths"].as_object().unwrap().len();
    assert!(paths > 15, "{paths}");
}

#[tokio::test]
async fn a_process_on_its_way_out_takes_nothing_new_and_ends_its_streams() {
    let server = Server::start().await;
    let mut stream = server.stream(form("/agents/demo/runs", &[("message", "sleep 30")])).await;
    let run = stream.next().await.unwrap().data["run_id"].as_str().unwrap().to_owned();
    let blocked = server.form("/agents/demo/runs", &[("message", "sleep 30"), ("stream", "false")]);
    let leaving = async {
        server.app.leave();
        assert_eq!(server.get("/ready").await.status, 503);
        server.app.gone().cancel();
    };
    let (blocked, ()) = futures::join!(blocked, leaving);
    assert_eq!(blocked.expect(503).json()["error_id"], "shutting_down");
    let rest: Vec<_> = stream.collect().await;
    assert_eq!(rest.last().unwrap().name, "stream_expired");
    let server = server.restart().await;
    let status = server.get(&format!("/runs/{run}")).await.expect(200).json()["status"].clone();
    assert_eq!(status, "RUNNING", "it was not cancelled, and goes on after the restart");
}

#[tokio::test]
async fn a03_queued_and_interrupted_runs_go_on_after_an_orderly_stop() {
    let server = Server::with(&[], &[("max-concurrency", "2")]).await;
    let mut runs = Vec::new();
    for at in 0..6 {
        let session = format!("s{at}");
        runs.push(server.background("demo", &[("message", "sleep 0.4"), ("session_id", &session)]).await);
    }
    let server = server.restart().await;
    for run in runs {
        server.until(&run, "COMPLETED").await;
    }
}
