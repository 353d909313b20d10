//! What may stand where the views should be, and who may not come in.

use reenact_events::LogId;
use reenact_projections::{PostgresAddress, ViewError, Views};

use super::{DATABASE, Ground, server};
use crate::{generator, history::LOG};

async fn refused(url: &str) -> ViewError {
    let address = PostgresAddress::parse(url, "reenact").expect("is an address");
    Views::connect(&address, LOG, 1).await.expect_err("is refused")
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_kept() {
    let ground = Ground::new();
    ground.views(1).await;
    ground.sql("update schema_versions set version = '999'");
    let error = Views::connect(&ground.address(), LOG, 1).await.expect_err("is newer");
    assert!(matches!(error, ViewError::NewerSchema { found: 999, .. }), "{error}");
    assert_eq!(ground.sql("select count(*) from projection_position"), "1");
}

#[tokio::test]
async fn a_schema_of_something_else_is_refused_and_kept() {
    let ground = Ground::new();
    ground.sql(&format!(
        "create schema \"{}\"; create table invoices (id int); insert into invoices values (17)",
        ground.0
    ));
    let error = Views::connect(&ground.address(), LOG, 1).await.expect_err("is foreign");
    assert!(matches!(error, ViewError::Foreign { .. }), "{error}");
    assert_eq!(ground.sql("select id from invoices"), "17");
}

#[tokio::test]
async fn the_views_of_another_log_are_refused_and_kept() {
    let ground = Ground::new();
    let history = generator::history(1, 1, 50);
    history.fold_into(&ground.views(1).await).await;
    for (log, partitions) in [(LogId(uuid::Uuid::from_u128(1)), 1), (LOG, 2)] {
        let error = Views::connect(&ground.address(), log, partitions).await.expect_err("is another's");
        assert!(matches!(error, ViewError::OfAnotherLog { .. }), "{error}");
    }
    assert_eq!(ground.views(1).await.dump().await.expect("dumps"), history.memory().dump());
}

#[tokio::test]
async fn two_deployments_share_a_database() {
    let (one, other) = (Ground::new(), Ground::new());
    let (first, second) = (generator::history(1, 1, 50), generator::history(2, 1, 50));
    first.fold_into(&one.views(1).await).await;
    second.fold_into(&other.views_of(LOG, 1).await).await;
    assert_eq!(one.views(1).await.dump().await.expect("dumps"), first.memory().dump());
    assert_eq!(other.views(1).await.dump().await.expect("dumps"), second.memory().dump());
}

#[tokio::test]
async fn many_who_open_an_empty_schema_at_once_make_it_once() {
    let ground = Ground::new();
    let address = ground.address();
    let opened = (0..8).map(|_| Views::connect(&address, LOG, 3));
    for views in futures::future::join_all(opened).await {
        views.expect("opens");
    }
    assert_eq!(ground.sql("select count(*) from projection_position"), "3");
    assert_eq!(ground.sql("select count(*) from schema_versions where version <> '5'"), "0");
}

#[tokio::test]
async fn who_is_not_let_in_is_told_why_and_never_reads_the_password() {
    let url = server().url(DATABASE);
    let host = url.rsplit_once('@').and_then(|(_, rest)| rest.split_once('/')).expect("is a URL").0;
    let error = refused(&format!("postgres://postgres:hush@{host}/nowhere")).await;
    assert!(matches!(error, ViewError::Refused { .. }) && error.to_string().contains("nowhere"), "{error}");
    let error = refused(&format!("postgres://nobody:hush@{host}/postgres")).await;
    assert!(matches!(error, ViewError::Refused { .. }) && error.to_string().contains("nobody"), "{error}");
    let error = refused("postgres://postgres:hush@127.0.0.1:1/postgres").await;
    assert!(matches!(error, ViewError::Unavailable { .. }) && error.to_string().contains("127.0.0.1:1"), "{error}");
    let error = refused(&format!("postgres://postgres:hush@{host}/postgres?sslmode=require")).await.to_string();
    assert!(error.to_lowercase().contains("tls") && !error.contains("hush"), "{error}");
}

#[tokio::test]
async fn a_database_that_cannot_hold_every_text_is_refused() {
    server()
        .execute(DATABASE, "create database latin encoding 'LATIN1' locale 'C' template template0")
        .expect("is made");
    let error = refused(&server().url("latin")).await;
    assert!(error.to_string().contains("LATIN1"), "{error}");
}
