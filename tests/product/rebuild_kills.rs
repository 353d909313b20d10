//! A rebuild that is killed at any moment leaves the rows that are read as they were, and can be gone on with or
//! dropped; in the end its rows are those of a node that never had any.

use std::{collections::BTreeMap, path::Path};

use rand::Rng;
use reqwest::Method;
use rusqlite::{Connection, OpenFlags};

use crate::{
    a38_rebuild::{following, generations, live, swap},
    ground,
    support::{Product, dice},
    worker::moment,
};

/// SIGKILLs while a generation is filled or swapped to.
const KILLS: usize = 10;
/// Runs that are there before, so that there is something to fold.
const RUNS: usize = 120;

/// Every row of every table, each column as SQL; what tells when and how far is left out.
fn rows(database: &Path) -> BTreeMap<String, Vec<String>> {
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("opens");
    let texts = |sql: &str| -> Vec<String> {
        let mut statement = connection.prepare(sql).expect("is SQL");
        let rows = statement.query_map([], |row| row.get(0)).expect("reads");
        rows.collect::<Result<_, _>>().expect("reads")
    };
    let tables = texts("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'");
    let told = tables.into_iter().filter(|name| name != "schema_versions" && name != "projection_position");
    let all = told.map(|table| {
        let columns = texts(&format!("SELECT 'quote(' || name || ')' FROM pragma_table_info('{table}')"));
        let mut rows = texts(&format!("SELECT {} FROM {table}", columns.join(" || ',' || ")));
        rows.sort();
        (table, rows)
    });
    all.collect()
}

/// Goes on with a generation that is not finished, or drops it and begins another: what is to be asked for.
async fn next_try(product: &Product, goes_on: bool) -> String {
    let unfinished = generations(product).await.into_iter().find(|one| one["live"] == false);
    match unfinished.map(|one| one["generation"].clone()) {
        Some(number) if goes_on => format!("/projections/rebuild?generation={number}"),
        Some(number) => {
            let drop = product.request(Method::DELETE, &format!("/projections/{number}"));
            Product::ask(drop).await.expect(204);
            "/projections/rebuild".to_owned()
        }
        None => "/projections/rebuild".to_owned(),
    }
}

#[tokio::test]
async fn a_rebuild_that_is_killed_ten_times_comes_to_the_rows_of_a_fresh_node() {
    let mut dice = dice("rebuild_kills");
    let mut product = ground::product().started().await;
    let mut runs = Vec::new();
    for number in 0..RUNS {
        runs.push(product.begin("demo", &format!("s{}", number % 10), "What is 6*7?").await);
    }
    for kill in 0..KILLS {
        let was = live(&product).await;
        let path = next_try(&product, dice.random_bool(0.5)).await;
        let number = product.post(&path, &[]).await.expect(202).json()["generation"].as_u64().expect("a number");
        let pause = moment(&mut dice) * 4;
        let asked = product.request(Method::POST, &format!("/projections/{number}/swap?wait_s=60"));
        let load = product.background("demo", "load", &format!("What is 6*{kill}?"));
        let at_work = async {
            // What was not answered may have happened or not.
            drop(tokio::join!(Product::try_ask(load), Product::try_ask(asked)));
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = at_work => {}
            () = tokio::time::sleep(pause) => {}
        }
        product.crash().await;
        let now = live(&product).await;
        println!("kill {kill} after {pause:?}: generation {now} is live, it was {was}, {number} was filled");
        assert!(now == was || now == number, "{now}");
    }
    for run in &runs {
        assert_eq!(product.settled(run).await["status"], "COMPLETED");
    }
    // Runs that go on would write other events after another start.
    let load = product.get("/sessions/load/runs").await.expect(200).json();
    for run in load.as_array().into_iter().flatten() {
        product.settled(run["run_id"].as_str().expect("an id")).await;
    }
    for one in generations(&product).await.iter().filter(|one| one["live"] == false) {
        let drop = product.request(Method::DELETE, &format!("/projections/{}", one["generation"]));
        Product::ask(drop).await.expect(204);
    }
    let number = product.post("/projections/rebuild", &[]).await.expect(202).json()["generation"].as_u64();
    let number = number.expect("a number");
    following(&product, number).await;
    swap(&product, number, 200).await;
    product.kill_hard();
    let rebuilt = rows(&product.data().join("views.db"));
    for file in crate::lost_stores::files(&product.data()) {
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        if name.starts_with("views") {
            std::fs::remove_file(file).expect("it can be deleted");
        }
    }
    product.start().await;
    product.kill_hard();
    let fresh = rows(&product.data().join("views.db"));
    assert!(fresh["runs"].len() >= RUNS, "there is something to compare");
    assert!(rebuilt.keys().eq(fresh.keys()), "the same tables");
    for (table, rows) in &fresh {
        let differing = rebuilt[table].iter().zip(rows).find(|(rebuilt, fresh)| rebuilt != fresh);
        assert_eq!(differing, None, "table {table}");
        assert_eq!(rebuilt[table].len(), rows.len(), "table {table}");
    }
}
