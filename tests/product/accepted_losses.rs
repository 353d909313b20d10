//! A log that lost what was acknowledged is served again once somebody has accepted it, and the runs that were open
//! where it ends now end without doing anything twice.

use std::{
    path::Path,
    process::Output,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use reenact_tests::stub::{LedgerStub, ModelStub, Reply};
use serde_json::Value;

use crate::{
    lost_stores::Loss,
    support::{PATIENCE, Product, agent_with_model},
};

/// The model answers with a payment first, unless it is silent.
fn rule(model: &ModelStub, is_silent: Arc<AtomicBool>) {
    model.rule(move |request| {
        Some(match request.messages().last().map(|last| last["role"].clone()) {
            Some(role) if role == "tool" => Reply::text("paid"),
            _ if is_silent.load(Ordering::SeqCst) => Reply::text("").delay(2 * PATIENCE),
            _ => Reply::calls(&[("call-0", "pay", "{}")]),
        })
    });
}

fn replace(folder: &Path, by: &Path) {
    std::fs::remove_dir_all(folder).expect("it can be deleted");
    std::fs::create_dir_all(folder).expect("it can be made");
    for entry in std::fs::read_dir(by).expect("it is there") {
        let file = entry.expect("it can be listed").path();
        std::fs::copy(&file, folder.join(file.file_name().expect("it has a name"))).expect("it can be copied");
    }
}

fn accept(product: &Product, more: &[&str]) -> Output {
    product.run(&[&["log", "accept-loss", "--partition", "0"], more].concat())
}

fn said(output: &Output, works: bool) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8_lossy(&both).into_owned();
    assert_eq!(output.status.success(), works, "{text}");
    text
}

async fn refused(product: &mut Product) {
    let heard = product.said().len();
    product.spawn();
    assert_eq!(product.ended(PATIENCE).await.code(), Some(1));
    let said = product.said().split_off(heard);
    assert!(said.contains("are lost") && said.contains("log accept-loss --partition 0"), "{said}");
}

#[tokio::test]
async fn a_log_that_is_older_than_what_was_acknowledged_is_served_once_that_was_accepted() {
    let (model, ledger, is_silent) = (ModelStub::start().await, LedgerStub::start().await, Arc::default());
    rule(&model, Arc::clone(&is_silent));
    let tool = format!(
        "\n[[tools]]\ntype = \"http\"\nname = \"pay\"\ndescription = \"Pays.\"\nmethod = \"POST\"\nurl = \"{}\"\n\
         effect = \"at_most_once\"\nparameters = {{ type = \"object\" }}\n",
        ledger.url("/pay")
    );
    let product = Product::new().agent("a", &(agent_with_model(&model.base_url()) + &tool));
    let mut product = product.set("REENACT_DRAIN_S", 1).started().await;
    is_silent.store(true, Ordering::SeqCst);
    let open = product.begin("a", "s", "pay").await;
    let waiting = product.begin("a", "s", "pay too").await;
    model.wait_for(1).await;
    assert!(said(&accept(&product, &["--yes"]), false).contains("in use by process"), "nobody else has it meanwhile");
    product.kill_hard();
    let older = tempfile::tempdir().expect("a folder");
    let log = product.data().join("log");
    replace(older.path(), &log);
    assert!(said(&accept(&product, &["--yes"]), false).contains("nothing is lost"));

    // Both pay, of which the copy knows nothing.
    is_silent.store(false, Ordering::SeqCst);
    product.start().await;
    for run in [&open, &waiting] {
        assert_eq!(product.settled(run).await["status"], "COMPLETED");
    }
    is_silent.store(true, Ordering::SeqCst);
    let gone = product.begin("a", "another", "pay").await;
    product.term();
    assert_eq!(product.ended(PATIENCE).await.code(), Some(0));
    replace(&log, older.path());
    refused(&mut product).await;
    let told = said(&accept(&product, &[]), true);
    assert!(told.contains(&open) && told.contains(&waiting) && told.contains("`--yes`"), "{told}");
    let of_gone = told.lines().find(|line| line.contains(&gone)).expect("it is named");
    assert!(of_gone.contains("another") && of_gone.contains("none is left"), "{told}");
    refused(&mut product).await;
    assert!(said(&accept(&product, &["--yes"]), true).contains("accepted with the event at offset"));
    let again = said(&accept(&product, &["--yes", "--json"]), true);
    let again: Value = serde_json::from_str(&again).expect("it is JSON");
    assert!(again["accepted_at"].is_u64() && again["lost"] == serde_json::json!([]), "{again:#}");

    is_silent.store(false, Ordering::SeqCst);
    product.start().await;
    let accepted =
        product.events().into_iter().find(|event| event["data"]["accepts"].is_array()).expect("is in the log");
    let named = &accepted["data"]["accepts"][0]["runs"];
    assert_eq!((named.as_array().map(Vec::len), &named[0]["run_id"]), (Some(1), &Value::from(gone)), "{accepted:#}");
    for run in [&open, &waiting] {
        let output = product.settled(run).await;
        assert_eq!((&output["status"], &output["error"]["kind"]), (&"ERROR".into(), &"history_lost".into()));
    }
    assert_eq!(ledger.calls().len(), 2, "neither pays again");
    assert_eq!(product.turn("a", "s", "pay again").await["status"], "COMPLETED");
    assert_eq!(ledger.calls().len(), 3);
    assert!(said(&accept(&product, &["--yes"]), false).contains("in use by process"));
}

/// A life with one turn. At its orderly end a snapshot is made.
async fn turn_and_snapshot(product: &mut Product) {
    product.start().await;
    assert_eq!(product.turn("demo", "s", "hello").await["status"], "COMPLETED");
    product.term();
    assert_eq!(product.ended(PATIENCE).await.code(), Some(0));
}

/// As on Kafka where the whole cluster was restored, and the nodes are new.
#[tokio::test]
async fn a_snapshot_that_has_seen_more_than_the_log_is_refused_once_and_accepted_for_good() {
    let shelf = tempfile::tempdir().expect("a folder");
    let mut product = Product::new()
        .set("REENACT_SNAPSHOTS", format!("file://{}", shelf.path().display()))
        .set("REENACT_SNAPSHOT_EVENTS", 50);
    let (older, log) = (tempfile::tempdir().expect("a folder"), product.data().join("log"));
    turn_and_snapshot(&mut product).await;
    replace(older.path(), &log);
    turn_and_snapshot(&mut product).await;
    replace(&log, older.path());
    Loss::State.happen(&product.data());
    refused(&mut product).await;
    let told = said(&accept(&product, &["--yes"]), true);
    assert!(told.contains("the snapshot `") && told.contains("accepted with the event"), "{told}");
    for _ in 0..2 {
        product.start().await;
        assert_eq!(product.turn("demo", "s", "hello").await["status"], "COMPLETED");
        product.kill_hard();
        Loss::State.happen(&product.data());
    }
}
