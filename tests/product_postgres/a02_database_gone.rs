//! A02: the database is away for a moment, and what was being done is lost, or done twice.

use std::time::Duration;

use reenact_postgres_rig::Server;
use reenact_tests::stub::{ModelStub, Reply};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{PATIENCE, POLL, Product, agent_with_model};

async fn reasons(product: &Product) -> String {
    let ready = product.get("/ready").await;
    ready.json()["reasons"].to_string()
}

/// Waits until it is ready, or says this of why it is not.
async fn until(product: &Product, wanted: &str) {
    let waited = async {
        while !reasons(product).await.contains(wanted) {
            tokio::time::sleep(POLL).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waited).await;
    assert!(waited.is_ok(), "it does not say `{wanted}` but {}", reasons(product).await);
}

#[tokio::test]
async fn a02_while_the_database_is_away_reads_say_so_and_runs_go_on() {
    let mut server = Server::start().expect("a server");
    let model = ModelStub::start().await;
    model.otherwise(Reply::text("done"));
    let product = Product::new()
        .agent("a", &agent_with_model(&model.base_url()))
        .set("REENACT_DATABASE", server.url("postgres"))
        .started()
        .await;
    assert_eq!(product.turn("a", "s", "before").await["status"], "COMPLETED");
    server.kill().expect("is killed");
    until(&product, "does not answer").await;
    let read = product.get("/sessions").await;
    assert_eq!((read.status, &read.json()["error_id"]), (503, &Value::from("unavailable")), "{}", read.text());
    assert!(read.headers.get("retry-after").is_some() && read.text().contains("nothing is lost"), "{}", read.text());
    let form = [("message", "meanwhile"), ("session_id", "s"), ("background", "true"), ("stream", "false")];
    let run = product.post("/agents/a/runs", &form).await.expect(202).json();
    let called = async {
        while model.requests().len() < 2 {
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(PATIENCE, called).await.expect("the run goes on");
    server.begin().expect("comes back");
    until(&product, "[]").await;
    let path = format!("/runs/{}", run["run_id"].as_str().expect("an id"));
    let completed = async {
        loop {
            let answer = product.get(&path).await;
            if answer.status == 200 && answer.json()["status"] == "COMPLETED" {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, completed).await.expect("is seen");
    assert_eq!(product.get("/sessions/s/runs").await.expect(200).json().as_array().map(Vec::len), Some(2));
    assert_eq!(model.requests().len(), 2, "nothing was asked twice");
}

#[tokio::test]
async fn a02_what_was_taken_and_cannot_be_shown_is_not_to_be_sent_again() {
    let mut server = Server::start().expect("a server");
    let model = ModelStub::start().await;
    model.otherwise(Reply::text("done"));
    let product = Product::new()
        .agent("a", &agent_with_model(&model.base_url()))
        .set("REENACT_DATABASE", server.url("postgres"))
        .started()
        .await;
    product.turn("a", "before", "hello").await;
    server.kill().expect("is killed");
    until(&product, "does not answer").await;
    let form = [("message", "meanwhile"), ("session_id", "s"), ("stream", "false")];
    let run = product.post("/agents/a/runs", &form).await;
    let schedule = json!({"name": "nightly", "cron_expr": "0 3 * * *", "endpoint": "/agents/a/runs",
                          "payload": {"message": "go"}});
    let schedule = Product::ask(product.request(Method::POST, "/schedules").json(&schedule)).await;
    for answer in [&run, &schedule] {
        assert_eq!((answer.status, &answer.json()["error_id"]), (503, &json!("taken_not_shown")), "{}", answer.text());
        assert_eq!(answer.headers.get("retry-after"), None);
    }
    assert!(run.text().contains("session `s`"), "{}", run.text());
    server.begin().expect("comes back");
    until(&product, "[]").await;
    let runs = product.get("/sessions/s/runs").await.expect(200).json();
    let told = runs[0]["run_id"].as_str().expect("an id").to_owned();
    assert!(run.text().contains(&told), "{}", run.text());
    assert_eq!(product.get("/schedules").await.expect(200).json()["meta"]["total_count"], 1);
}

#[tokio::test]
async fn a_database_that_lets_nobody_in_ends_the_start_and_names_the_option() {
    let server = Server::start().expect("a server");
    let nowhere = server.url("nowhere").replacen("postgres@", "postgres:hush@", 1);
    for (url, wanted) in [(&*nowhere, "nowhere"), ("postgres://postgres:hush@127.0.0.1:1/postgres", "127.0.0.1:1")] {
        let product = Product::new().set("REENACT_DATABASE", url);
        let output = product.run(&["serve"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("--database") && said.contains(wanted), "{said}");
        let examined = String::from_utf8_lossy(&product.run(&["doctor"]).stdout).into_owned();
        let finding = examined.lines().find(|line| line.starts_with("FAIL") && line.contains("database"));
        assert!(finding.is_some_and(|finding| finding.contains(wanted)), "{examined}");
        assert!(!said.contains("hush") && !examined.contains("hush"), "{said}{examined}");
    }
}
