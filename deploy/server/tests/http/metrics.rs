//! `/metrics`: counts that nobody has to refresh, and the picture of them.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::Server;

const PRICES: &str = "[[prices]]\nprovider = \"demo\"\nmodel = \"demo\"\ninput = 1.0\noutput = 2.0\n";

async fn nine(server: &Server) {
    for (owner, runs) in [(Some("alice"), 3), (Some("bob"), 5), (None, 1)] {
        for _ in 0..runs {
            let fields: Vec<_> = owner.map(|owner| ("user_id", owner)).into_iter().collect();
            let fields = [&[("message", "hello"), ("stream", "false")], fields.as_slice()].concat();
            server.form("/agents/demo/runs", &fields).await.expect(200);
        }
    }
}

async fn days(server: &Server, query: &str) -> Vec<Value> {
    let metrics = server.get(&format!("/metrics{query}")).await.expect(200).json()["metrics"].take();
    metrics.as_array().expect("a list").clone()
}

fn runs(days: &[Value]) -> u64 {
    days.iter().map(|day| day["agent_runs_count"].as_u64().expect("a count")).sum()
}

#[tokio::test]
async fn a17_refreshes_and_rebuilds_change_no_total() {
    let server = Server::start().await;
    nine(&server).await;
    let all = days(&server, "").await;
    assert_eq!((runs(&all), runs(&days(&server, "?user_id=alice").await)), (9, 3));
    assert!(all.iter().all(|day| day["user_id"].is_null() && day["users_count"] == 2));
    let refresh = || server.json(Method::POST, "/metrics/refresh", "");
    let parallel = futures::future::join_all((0..5).map(|_| refresh())).await;
    for answer in parallel.into_iter().chain([refresh().await]) {
        assert_eq!(answer.expect(200).json(), json!(all));
    }
    assert_eq!(server.get("/metrics/refresh/status").await.expect(200).json(), json!({"status": "completed"}));
    let server = server.without_views().await;
    assert_eq!(days(&server, "").await, all);
}

#[tokio::test]
async fn what_a_day_cost_follows_from_the_prices_or_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let prices = folder.path().join("prices.toml");
    std::fs::write(&prices, PRICES).unwrap();
    let server = Server::with(&[], &[("prices", prices.to_str().unwrap())]).await;
    nine(&server).await;
    let (day, unpriced) = (days(&server, "").await.remove(0), Server::start().await);
    let tokens = |field: &str| day["token_metrics"][field].as_f64().expect("a number");
    let cost = (tokens("input_tokens") + 2.0 * tokens("output_tokens")) / 1e6;
    assert!(cost > 0.0 && (tokens("cost") - cost).abs() < 1e-12, "{day}");
    assert_eq!(day["model_metrics"][0]["cost"], day["token_metrics"]["cost"]);
    nine(&unpriced).await;
    assert_eq!(days(&unpriced, "").await[0]["token_metrics"]["cost"], Value::Null);
}

#[tokio::test]
async fn the_picture_stands_alone_and_shows_every_day_that_is_asked_for() {
    let server = Server::start().await;
    let empty = server.get("/metrics/chart.svg").await.expect(200).text();
    assert!(empty.contains(": none"), "{empty}");
    nine(&server).await;
    let svg = server.get("/metrics/chart.svg").await.expect(200).text();
    for part in ["<svg", "Runs by the day", "completed", "failed", "Tokens of these runs", "</svg>"] {
        assert!(svg.contains(part), "{part} is in {svg}");
    }
    assert!(!svg.contains("href"), "it needs nothing from elsewhere");
}

#[tokio::test]
async fn days_that_are_none_are_refused_by_name() {
    let server = Server::start().await;
    for (query, field) in [("starting_date=tomorrow", "starting_date"), ("ending_date=2026-02-30", "ending_date")] {
        let answer = server.get(&format!("/metrics?{query}")).await.expect(422).json();
        assert_eq!(answer["detail"][0]["loc"], json!(["query", field]));
    }
    server.get("/metrics?starting_date=2026-02-02&ending_date=2026-02-01").await.expect(400);
    assert!(days(&server, "?starting_date=2001-01-01&ending_date=2001-12-31").await.is_empty());
}
