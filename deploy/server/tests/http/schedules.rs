//! Schedules, from the request to the end of the run.

use axum::http::Method;
use chrono::DateTime;
use serde_json::{Value, json};

use crate::support::Server;

fn nightly(more: Value) -> String {
    let mut body = json!({
        "name": "nightly",
        "cron_expr": "30 2 * * *",
        "timezone": "Europe/Berlin",
        "endpoint": "/agents/demo/runs",
        "payload": {"message": "hello"},
    });
    let fields = body.as_object_mut().expect("is an object");
    fields.extend(more.as_object().expect("is an object").clone());
    body.to_string()
}

async fn made(server: &Server, body: &str) -> Value {
    server.json(Method::POST, "/schedules?user_id=alice", body).await.expect(201).json()
}

#[tokio::test]
async fn a_schedule_is_made_read_changed_and_deleted() {
    let server = Server::start().await;
    let schedule = made(&server, &nightly(json!({"max_retries": 2}))).await;
    let path = format!("/schedules/{}", schedule["id"].as_str().expect("an id"));
    assert_eq!((&schedule["user_id"], &schedule["timeout_seconds"]), (&json!("alice"), &json!(3_600)));
    assert!(schedule["next_run_at"].is_i64() && schedule["enabled"] == true, "{schedule}");
    let taken = server.json(Method::POST, "/schedules?user_id=alice", &nightly(json!({}))).await.expect(409);
    assert!(taken.text().contains("names are unique per user"), "{}", taken.text());
    server.json(Method::POST, "/schedules?user_id=bob", &nightly(json!({}))).await.expect(201);

    let patch = r#"{"cron_expr":"0 9 * * 1-5","overlap":"queue"}"#;
    let changed = server.json(Method::PATCH, &path, patch).await.expect(200).json();
    assert_eq!((&changed["cron_expr"], &changed["overlap"]), (&json!("0 9 * * 1-5"), &json!("queue")));
    assert_eq!(changed["max_retries"], 2, "what is absent stays");
    let provenance = server.json(Method::PATCH, &path, r#"{"managed_by":"me"}"#).await.expect(422).json();
    assert_eq!(provenance["detail"][0]["loc"], json!(["body", "managed_by"]));

    let off = server.json(Method::POST, &format!("{path}/disable"), "").await.expect(200).json();
    assert_eq!((&off["enabled"], &off["next_run_at"]), (&json!(false), &Value::Null));
    let listed = server.get("/schedules?enabled=true&user_id=alice").await.expect(200).json();
    assert_eq!(listed["meta"]["total_count"], 0);
    let on = server.json(Method::POST, &format!("{path}/enable"), "").await.expect(200).json();
    assert!(on["next_run_at"].is_i64());

    server.get(&format!("{path}?user_id=bob")).await.expect(404);
    server.delete(&format!("{path}?user_id=bob")).await.expect(404);
    server.delete(&path).await.expect(204);
    server.get(&path).await.expect(404);
}

#[tokio::test]
async fn a_triggered_schedule_answers_with_what_became_of_its_run() {
    let server = Server::start().await;
    let schedule = made(&server, &nightly(json!({}))).await;
    let path = format!("/schedules/{}", schedule["id"].as_str().expect("an id"));
    let fired = server.json(Method::POST, &format!("{path}/trigger"), "").await.expect(200).json();
    assert_eq!((&fired["status"], &fired["attempt"]), (&json!("success"), &json!(1)), "{fired}");
    let run = server.get(&format!("/runs/{}", fired["run_id"].as_str().expect("a run"))).await.expect(200).json();
    assert_eq!((&run["status"], &run["user_id"]), (&json!("COMPLETED"), &json!("alice")));
    let listed = server.get(&format!("{path}/runs")).await.expect(200).json();
    assert_eq!(listed["data"][0]["id"], fired["id"]);
    let one = server.get(&format!("{path}/runs/{}", fired["id"].as_str().expect("an id"))).await.expect(200).json();
    assert_eq!(one, listed["data"][0]);
    server.json(Method::POST, &format!("{path}/disable"), "").await.expect(200);
    server.json(Method::POST, &format!("{path}/trigger"), "").await.expect(409);
}

#[tokio::test]
async fn a_schedule_fires_by_itself_and_is_there_after_a_restart_and_without_its_views() {
    let server = Server::start().await;
    let soon = DateTime::from_timestamp_millis(server.app.now().0 + 300).expect("a moment");
    let body = json!({"cron_expr": null, "at": soon.to_rfc3339(), "name": "once"});
    let schedule = made(&server, &nightly(body)).await;
    let path = format!("/schedules/{}/runs", schedule["id"].as_str().expect("an id"));
    let fired = server.until_shown(&path, |listed| listed["data"][0]["status"] == "success").await;
    assert_eq!(fired["meta"]["total_count"], 1, "{fired}");
    let server = server.restart().await;
    assert_eq!(server.get(&path).await.expect(200).json()["data"], fired["data"]);
    let server = server.without_views().await;
    assert_eq!(server.until_shown(&path, |listed| listed["meta"]["total_count"] == 1).await["data"], fired["data"]);
}

#[tokio::test]
async fn a18_what_is_no_schedule_is_422_and_names_its_field() {
    let server = Server::start().await;
    for (field, value) in [
        ("cron_expr", json!("")),
        ("cron_expr", json!("0 0 1 * * *")),
        ("cron_expr", json!("0 0 30 2 *")),
        ("cron_expr", json!("61 * * * *")),
        ("cron_expr", json!(5)),
        ("timezone", json!("America/New_Yorkk")),
        ("endpoint", json!("/teams/t/runs")),
        ("endpoint", json!("/agents/nobody/runs")),
        ("method", json!("GET")),
        ("payload", json!({})),
        ("payload", json!({"message": "m", "user_id": "bob"})),
        ("name", json!("/")),
        ("timeout_seconds", json!(0)),
        ("max_retries", json!(11)),
        ("overlap", json!("maybe")),
    ] {
        let answer = server.json(Method::POST, "/schedules", &nightly(json!({field: value}))).await.expect(422).json();
        assert_eq!(answer["detail"][0]["loc"], json!(["body", field]), "{value}: {answer}");
    }
    let by_hand = nightly(json!({"cron_expr": "", "on_demand": true}));
    let made = server.json(Method::POST, "/schedules", &by_hand).await.expect(201).json();
    assert_eq!((&made["cron_expr"], &made["next_run_at"]), (&json!(""), &Value::Null));
}

#[tokio::test]
async fn a18_the_preview_shows_each_due_time_and_what_the_change_of_clocks_has_to_do_with_it() {
    let server = Server::start().await;
    let schedule = made(&server, &nightly(json!({"cron_expr": "30 2 * 3 *"}))).await;
    let path = format!("/schedules/{}/preview?count=31", schedule["id"].as_str().expect("an id"));
    let shown = server.get(&path).await.expect(200).json();
    let fires = shown["fires"].as_array().expect("a list");
    let days: std::collections::BTreeSet<_> =
        fires.iter().map(|fire| &fire["local"].as_str().expect("a time")[..10]).collect();
    assert_eq!((fires.len(), days.len()), (31, 31), "each day once");
    let shifted: Vec<_> = fires.iter().filter(|fire| !fire["note"].is_null()).collect();
    let [shifted] = &shifted[..] else { panic!("{shifted:?}") };
    assert!(shifted["local"].as_str().is_some_and(|local| local.contains("T03:30:00+02:00")), "{shifted}");
}
