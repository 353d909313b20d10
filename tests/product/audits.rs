//! What an auditor asks, and that one changed bit anywhere is found and named.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use reenact_tests::stub::ModelStub;
use rusqlite::Connection;
use serde_json::Value;

use crate::{
    lost_stores::files,
    support::{PATIENCE, Product, agent_with_model},
};

const NEEDLE: &str = "find this very text";
/// Larger than what stands in an event itself.
const LARGE_BYTES: usize = 100_000;

/// A deployment that has rows, a blob and a past, and is stopped.
async fn stopped() -> Product {
    let model = ModelStub::start().await;
    let mut product = Product::new().agent("a", &agent_with_model(&model.base_url())).started().await;
    product.turn("a", "s", NEEDLE).await;
    product.turn("a", "s", &"large ".repeat(LARGE_BYTES / 6)).await;
    product.turn("a", "other", "hello").await;
    product.term();
    product.ended(PATIENCE).await;
    for database in ["log/log.db", "views.db"] {
        let connection = Connection::open(product.data().join(database)).expect("opens");
        // All that was written stands in the file itself then.
        connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE);").expect("checkpoints");
    }
    product
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
}

/// What `audit verify` finds; its exit status must say the same.
fn findings(product: &Product, more: &[&str]) -> Vec<Value> {
    let output = product.run(&[&["audit", "verify", "--json"], more].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    let findings = report["findings"].as_array().expect("a list").clone();
    assert_eq!(output.status.code(), Some(i32::from(!findings.is_empty())), "{report:#}");
    assert_eq!(report["same"], findings.is_empty());
    findings
}

fn is_in(findings: &[Value], place: &str) -> bool {
    findings.iter().any(|finding| finding["in"] == place)
}

/// Where a text stands in a file.
fn places(file: &Path, text: &str) -> Vec<usize> {
    let bytes = fs::read(file).expect("reads");
    bytes.windows(text.len()).enumerate().filter(|(_, window)| *window == text.as_bytes()).map(|(at, _)| at).collect()
}

/// What is found when one bit of a file is flipped; it is put back afterwards.
fn flipped(product: &Product, file: &Path, at: usize) -> Vec<Value> {
    let whole = fs::read(file).expect("reads");
    let mut bytes = whole.clone();
    bytes[at] ^= 1;
    fs::write(file, &bytes).expect("writes");
    let found = findings(product, &[]);
    fs::write(file, whole).expect("writes");
    found
}

fn only_blob(product: &Product) -> PathBuf {
    let mut blobs = files(&product.data().join("blobs"));
    blobs.retain(|file| fs::metadata(file).expect("is there").len() > 50_000);
    blobs.pop().expect("there is a large text")
}

#[tokio::test]
async fn one_flipped_bit_of_a_record_a_row_or_a_stored_text_is_found_and_named() {
    let product = stopped().await;
    assert_eq!(findings(&product, &[]), [] as [Value; 0]);
    // Pages keep bytes that mean nothing any more, where a row stood before: those are nobody's.
    let log = product.data().join("log/log.db");
    let named = |found: &Vec<Value>| {
        found.iter().any(|one| one["in"] == "log" && one["what"].as_str().expect("text").contains("at offset"))
    };
    let hits = places(&log, NEEDLE).into_iter().filter(|at| named(&flipped(&product, &log, *at))).count();
    let records = product.events().iter().filter(|event| event["data"].to_string().contains(NEEDLE)).count();
    assert!(records > 0 && hits >= records, "{hits} of {records} records");
    let views = product.data().join("views-g1.db");
    let (mut columns, mut damages) = (Vec::new(), 0);
    for at in places(&views, NEEDLE) {
        for found in flipped(&product, &views, at) {
            assert_eq!(found["in"], "views", "{found}");
            match (found["table"].as_str(), found["column"].as_str()) {
                (Some(table), Some(column)) => columns.push(format!("{table}.{column}")),
                _ => damages += 1,
            }
        }
    }
    for column in ["sessions.first_message", "sessions.title_folded", "runs.run_data", "run_events.data"] {
        assert!(columns.iter().any(|found| found == column), "{column} is among {columns:?}");
    }
    assert!(damages > 0, "one in an index is found too");
    let blob = only_blob(&product);
    let found = flipped(&product, &blob, 1000);
    let name = blob.file_name().and_then(|name| name.to_str()).expect("a name");
    assert!(
        found.iter().any(|one| one["in"] == "blobs" && one["what"].as_str().expect("text").contains(name)),
        "{found:?}"
    );
    fs::remove_file(&blob).expect("is there");
    assert!(is_in(&findings(&product, &[]), "blobs"));
}

#[tokio::test]
async fn a_row_that_somebody_changed_is_named_by_table_key_and_column_with_both_values() {
    let product = stopped().await;
    let connection = Connection::open(product.data().join("views.db")).expect("opens");
    let changed = connection.execute("UPDATE runs SET status = 'ERROR' WHERE session_id = 'other'", []);
    assert_eq!(changed, Ok(1));
    drop(connection);
    let found = findings(&product, &[]);
    let [row] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&row["table"], &row["column"]), (&"runs".into(), &"status".into()));
    assert_eq!((&row["found"], &row["expected"]), (&"ERROR".into(), &"COMPLETED".into()));
    let words = said(&product.run(&["audit", "verify"]));
    assert!(words.contains("column status is `ERROR`, and the log gives `COMPLETED`"), "{words}");
    // Folding again mends it: the rows are only a view.
    let data = product.data();
    let data = data.to_str().expect("UTF-8");
    for arguments in
        [["projections", "rebuild", "--data", data].as_slice(), &["projections", "swap", "2", "--data", data]]
    {
        let done = product.run(arguments);
        assert!(done.status.success(), "{}", said(&done));
    }
    assert_eq!(findings(&product, &[]), [] as [Value; 0]);
}

#[tokio::test]
async fn anchors_hold_as_long_as_log_and_signature_are_whole() {
    let product = stopped().await;
    let folder = product.data().with_file_name("kept");
    fs::create_dir(&folder).expect("writes");
    let path = |name: &str| folder.join(name).to_str().expect("UTF-8").to_owned();
    let (key, public, anchors) = (path("key"), path("key.pub"), path("anchors.jsonl"));
    for arguments in
        [["audit", "anchor", "--new-key", &key].as_slice(), &["audit", "anchor", "--key", &key, "--to", &anchors]]
    {
        let done = product.run(arguments);
        assert!(done.status.success(), "{}", said(&done));
    }
    let asked = ["--anchors", &anchors, "--public-key", &public];
    assert_eq!(findings(&product, &asked), [] as [Value; 0]);
    let whole = fs::read_to_string(&anchors).expect("reads");
    let anchor: Value = serde_json::from_str(&whole).expect("one anchor");
    for (field, digit) in [("chain", 0), ("signature", 0), ("offset", 0)] {
        let text = anchor[field].to_string();
        let at = whole.find(&format!("\"{field}\":")).expect("is there") + field.len() + 3;
        let at = at + usize::from(text.starts_with('"')) + digit;
        let mut bytes = whole.clone().into_bytes();
        bytes[at] ^= 1;
        fs::write(&anchors, bytes).expect("writes");
        let found = findings(&product, &asked);
        assert!(is_in(&found, "anchors"), "{field}: {found:?}");
    }
    fs::write(&anchors, &whole).expect("writes");
    // A log that was put back to before the anchor, whole as it is by itself, is not the one that was anchored.
    let other = stopped().await;
    let found = findings(&other, &asked);
    assert!(found[0]["what"].as_str().expect("text").contains("and this is log"), "{found:?}");
}

#[tokio::test]
async fn rows_as_of_a_moment_are_those_of_then_and_moments_that_never_were_are_refused() {
    let product = stopped().await;
    let folder = product.data().with_file_name("then");
    fs::create_dir(&folder).expect("writes");
    let path = |name: &str| folder.join(name).to_str().expect("UTF-8").to_owned();
    let events = product.events();
    let second = events.iter().filter(|event| event["type"].as_str().expect("text").contains("run.queued")).nth(1);
    let offset = second.expect("a second run")["offset"].as_u64().expect("a number");
    let done = product.run(&["audit", "as-of", &format!("0={}", offset - 1), "--to", &path("then.db")]);
    assert!(done.status.success(), "{}", said(&done));
    let then = Connection::open(path("then.db")).expect("opens");
    let counted: (i64, i64) = then
        .query_row(
            "SELECT (SELECT count(*) FROM runs WHERE status = 'COMPLETED'), (SELECT count(*) FROM runs)",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .expect("reads");
    assert_eq!(counted, (1, 1));
    let time = events.last().expect("has events")["time"].as_str().expect("a time").to_owned();
    for (format, file) in [("jsonl", "runs.jsonl"), ("csv", "runs.csv")] {
        let done = product.run(&["audit", "as-of", &time, "--to", &path(format), "--format", format]);
        assert!(done.status.success(), "{}", said(&done));
        let text = fs::read_to_string(folder.join(format).join(file)).expect("is written");
        let header = usize::from(format == "csv");
        assert_eq!(text.lines().count(), 3 + header, "{text}");
        assert!(text.lines().skip(header).all(|row| row.contains("COMPLETED")), "{text}");
    }
    for (moment, to, reason) in [
        ("2020-01-01T00:00:00Z", "new.db", "is before the first event: the log begins at"),
        ("2999-01-01T00:00:00Z", "new.db", "is in the future"),
        ("0=999999", "new.db", "999999 is in the future"),
        ("0=none", "new.db", "before the first event"),
        ("1=3", "new.db", "there is no partition 1"),
        (&time, "then.db", "is there already"),
        (&time, "nowhere/then.db", "there is no folder"),
    ] {
        let refused = product.run(&["audit", "as-of", moment, "--to", &path(to)]);
        assert_eq!(refused.status.code(), Some(1), "{moment}");
        assert!(said(&refused).contains(reason), "{moment}: {}", said(&refused));
        assert!(!folder.join("new.db").exists() && !folder.join("new.db.partial").exists(), "nothing is left");
    }
}

#[tokio::test]
async fn rows_of_a_newer_program_are_refused_and_stay_as_they_are() {
    let product = stopped().await;
    let views = product.data().join("views-g1.db");
    let connection = Connection::open(&views).expect("opens");
    connection.pragma_update(None, "user_version", 99).expect("writes");
    drop(connection);
    let before = fs::read(&views).expect("reads");
    let data = product.data();
    for arguments in [["audit", "verify"].as_slice(), &["projections", "list", "--data", data.to_str().expect("UTF-8")]]
    {
        let refused = product.run(arguments);
        assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
        assert!(said(&refused).contains("run the newer program"), "{}", said(&refused));
    }
    assert_eq!(fs::read(&views).expect("reads"), before);
}

#[tokio::test]
async fn rows_of_which_nothing_says_that_they_are_read_are_not_passed_over() {
    let product = stopped().await;
    fs::remove_file(product.data().join("views.db")).expect("there is a link");
    assert!(is_in(&findings(&product, &[]), "views"));
}

/// The Python that set-up makes, unless the environment names another.
fn python(script: &str) -> Command {
    let test = std::env::current_exe().expect("a test knows where it is");
    let tools = test.ancestors().nth(3).expect("tests are in a folder of cargo's").join("tools/python/bin/python");
    let mut python = Command::new(std::env::var_os("REENACT_PYTHON").map_or(tools, PathBuf::from));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/examples/python").join(script);
    python.env("PYTHONDONTWRITEBYTECODE", "1").arg(script);
    python
}

#[tokio::test]
async fn an_export_is_verified_by_a_program_that_knows_nothing_of_ours() {
    let product = stopped().await;
    let folder = product.data().with_file_name("export");
    let to = folder.to_str().expect("UTF-8");
    let done = product.run(&["audit", "export", "--to", to]);
    assert!(done.status.success(), "{}", said(&done));
    let verify = || python("verify_export.py").arg(to).output().expect("Python starts");
    let whole = verify();
    assert!(whole.status.success() && said(&whole).contains("is whole"), "{}", said(&whole));
    let file = folder.join("events-p0.jsonl");
    let text = fs::read_to_string(&file).expect("reads");
    fs::write(&file, text.replacen(NEEDLE, "find that very text", 1)).expect("writes");
    assert_eq!(verify().status.code(), Some(1), "the SHA-256 of the file");
    // Whoever changes the file changes the manifest too; the chain still tells.
    let manifest = folder.join("manifest.json");
    let known: Value = serde_json::from_slice(&fs::read(&manifest).expect("reads")).expect("JSON");
    let sha256 = known["partitions"][0]["sha256"].as_str().expect("text");
    let sum = Command::new("sha256sum").arg(&file).output().expect("`sha256sum` is there");
    let sum = String::from_utf8(sum.stdout).expect("UTF-8");
    let manifest_text = fs::read_to_string(&manifest).expect("reads");
    fs::write(&manifest, manifest_text.replace(sha256, &sum[..64])).expect("writes");
    let broken = verify();
    assert!(said(&broken).contains("the chain does not follow"), "{}", said(&broken));
}
