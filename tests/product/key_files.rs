//! A model's key in a file: it is sent to the model, may change, and is shown nowhere.

use std::{fs, path::Path};

use reenact_tests::stub::{ModelStub, Reply};
use serde_json::{Value, json};

use crate::support::Product;

const KEYS: [&str; 2] = ["sk-the-first-of-two", "sk-the-second-of-two"];

/// Checks that no file below `folder` holds a key.
fn holds_no_key(folder: &Path) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            holds_no_key(&entry);
            continue;
        }
        let bytes = fs::read(&entry).expect("a file");
        let holds = |key: &str| bytes.windows(key.len()).any(|window| window == key.as_bytes());
        assert!(!KEYS.iter().any(|key| holds(key)), "a key is in `{}`", entry.display());
    }
}

#[tokio::test]
async fn a_key_in_a_file_is_sent_may_change_and_is_shown_nowhere() {
    let (model, folder) = (ModelStub::start().await, tempfile::tempdir().expect("a folder"));
    let key = folder.path().join("key");
    fs::write(&key, format!("{}\n", KEYS[0])).expect("writable");
    let (url, path) = (model.base_url(), key.display());
    let file = format!("[model]\nprovider = \"openai\"\nid = \"m\"\nbase_url = \"{url}\"\napi_key_file = \"{path}\"\n");
    let mut product = Product::new().agent("a", &file).started().await;
    let mut shown = Vec::new();
    for secret in KEYS {
        fs::write(&key, secret).expect("writable");
        assert_eq!(product.turn("a", "s", "hello").await["status"], "COMPLETED");
        let sent = model.requests().pop().expect("a request").headers["authorization"].clone();
        assert_eq!(sent, format!("Bearer {secret}"));
        model.push(Reply::json(401, &json!({"error": {"message": format!("wrong key {secret}!")}})));
        let run = product.turn("a", "s", "hello").await;
        assert_eq!(run["error"]["kind"], "model_auth");
        let reason = run["content"].as_str().expect("a reason");
        assert!(reason.contains(&path.to_string()) && reason.contains("wrong key [secret]!"), "{reason}");
        shown.push(run.to_string());
    }
    for wrong in ["", "\n", &format!("{}\n{}", KEYS[0], KEYS[1])] {
        fs::write(&key, wrong).expect("writable");
        let run = product.turn("a", "s", "hello").await;
        assert_eq!((&run["status"], &run["error"]["kind"]), (&json!("ERROR"), &json!("model_auth")), "{run:#}");
        shown.push(run.to_string());
    }
    fs::write(&key, KEYS[0]).expect("writable");
    for path in ["/agents/a", "/agents", "/config", "/sessions/s", "/sessions/s/runs"] {
        shown.push(product.get(path).await.expect(200).text());
    }
    for command in [&["config"][..], &["doctor"], &["config", "--json"]] {
        let output = product.run(command);
        shown.extend([output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
    }
    shown.push(Value::Array(product.events()).to_string());
    product.kill_hard();
    shown.push(product.said());
    for text in shown {
        assert!(!KEYS.iter().any(|key| text.contains(key)), "a key is shown: {text}");
    }
    holds_no_key(&product.data());
}

#[tokio::test]
async fn a_key_file_that_is_not_there_is_refused_at_the_start_by_its_name() {
    let file = "[model]\nprovider = \"openai\"\nid = \"m\"\napi_key_file = \"/nowhere/key\"\n";
    let mut product = Product::new().agent("a", file);
    product.spawn();
    assert!(!product.ready_or_ended().await, "it must not start");
    assert!(product.said().contains("`/nowhere/key`"), "{}", product.said());
}
