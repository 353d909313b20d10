//! What may stand where the views should be.

use reenact_projections::{ViewError, Views};

use crate::{generator, history::LOG};

#[test]
fn a_newer_schema_is_refused_and_kept() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("views.db");
    drop(Views::open(&path, LOG, 1).expect("opens"));
    let connection = rusqlite::Connection::open(&path).expect("opens");
    connection.execute_batch("PRAGMA user_version = 999").expect("writes");
    drop(connection);
    let error = Views::open(&path, LOG, 1).expect_err("is newer");
    assert!(matches!(error, ViewError::NewerSchema { found: 999, .. }), "{error}");
    assert!(path.exists());
}

#[test]
fn a_database_of_something_else_is_refused_and_kept() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("views.db");
    let connection = rusqlite::Connection::open(&path).expect("opens");
    connection.execute_batch("CREATE TABLE invoices (id); INSERT INTO invoices VALUES (17)").expect("writes");
    let error = Views::open(&path, LOG, 1).expect_err("is foreign");
    assert!(matches!(error, ViewError::Foreign { .. }), "{error}");
    let invoice: i64 = connection.query_row("SELECT id FROM invoices", [], |row| row.get(0)).expect("is there");
    assert_eq!(invoice, 17);
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().expect("folder");
    let error = Views::open(&folder.path().join("missing/views.db"), LOG, 1).expect_err("is missing");
    assert!(matches!(error, ViewError::Unusable { .. }), "{error}");
    assert!(error.to_string().contains("missing/views.db"), "{error}");
}

#[test]
fn every_table_has_a_version() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("views.db");
    drop(Views::open(&path, LOG, 1).expect("opens"));
    let connection = rusqlite::Connection::open(&path).expect("opens");
    let missing: i64 = connection
        .query_row(
            "SELECT count(*) FROM sqlite_schema LEFT JOIN schema_versions ON table_name = name
             WHERE type = 'table' AND version IS NOT '5'",
            [],
            |row| row.get(0),
        )
        .expect("reads");
    assert_eq!(missing, 0);
}

#[tokio::test]
async fn views_of_an_older_schema_are_folded_again() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("views.db");
    let history = generator::history(3, 1, 100);
    history.fold_into(&Views::open(&path, LOG, 1).expect("opens")).await;
    let connection = rusqlite::Connection::open(&path).expect("opens");
    connection
        .execute_batch(
            "DROP VIEW agno_runs; DROP VIEW agno_sessions; DROP TABLE approvals; DROP TABLE metrics;
             DROP TABLE run_steps; DROP TABLE schedules; DROP TABLE schedule_runs; PRAGMA user_version = 1;",
        )
        .expect("is as it was");
    drop(connection);
    let views = Views::open(&path, LOG, 1).expect("opens");
    history.fold_into(&views).await;
    assert_eq!(views.dump().await.expect("dumps"), history.memory().dump());
}
