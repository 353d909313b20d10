//! References become texts where texts stand, and nowhere else.

use std::{collections::BTreeMap, sync::Arc};

use futures::future::{BoxFuture, FutureExt};
use reenact_events::{BlobError, BlobRef, Blobs, IsReferenced, Text, UserId, event::RunPaused};
use reenact_projections::expand;
use serde_json::{Value, json};

use crate::history::{
    History, agent, call, model_answered, model_requested, queued, raw, run, session, tool_answered, tool_requested,
    usage,
};

#[derive(Debug, Default)]
struct Store(BTreeMap<Arc<str>, Arc<[u8]>>);

impl Store {
    fn keep(&mut self, text: &str) -> Text {
        let blob = BlobRef::of(text.as_bytes());
        self.0.insert(blob.sha256.clone(), text.as_bytes().into());
        Text::Blob(blob)
    }
}

impl Blobs for Store {
    fn put<'a>(&'a self, bytes: Arc<[u8]>, _: Option<&'a UserId>) -> BoxFuture<'a, Result<BlobRef, BlobError>> {
        let blob = BlobRef::of(&bytes);
        async move { Ok(blob) }.boxed()
    }

    fn get<'a>(&'a self, blob: &'a BlobRef) -> BoxFuture<'a, Result<Arc<[u8]>, BlobError>> {
        let found = self.0.get(&blob.sha256).cloned();
        async move { found.ok_or(BlobError::Missing { sha256: blob.sha256.clone() }) }.boxed()
    }

    fn sweep(&self, _: std::time::Duration, _: IsReferenced) -> BoxFuture<'_, Result<u64, BlobError>> {
        async { Ok(0) }.boxed()
    }
}

/// A paused run with a blob at every place that can have one, and JSON of the caller's that looks like one.
fn run_with_blobs(store: &mut Store) -> Value {
    let mut history = History::new(1);
    let at = session("s");
    history.create("s", None);
    history.register("s", &agent("support"));
    let mut event = queued("s", "r", 0, None, store.keep("long input"));
    event.metadata = Some(raw(&json!(BlobRef::of(b"mine"))));
    history.push(&at, event);
    history.start("s", "r");
    history.push(&at, model_requested("r", 0, 1, 0));
    let arguments = store.keep(r#"{"order": 17}"#);
    let lookalike = json!(BlobRef::of(b"an order")).to_string();
    let calls = vec![call("c1", arguments.clone()), call("c2", Text::inline(&lookalike))];
    history.push(&at, model_answered("r", 0, 1, "", calls, Some(usage(1, 1))));
    history.push(&at, tool_requested("r", 1, 1, "c1", arguments));
    history.push(&at, tool_answered("r", 1, 1, store.keep("long result")));
    history.push(&at, tool_requested("r", 2, 1, "c2", Text::inline(&lookalike)));
    history.push(&at, tool_answered("r", 2, 1, Text::inline("short")));
    history.push(&at, RunPaused { run_id: run("r"), reason: "approval".into() });
    history.memory().run(&run("r")).expect("folds").expect("is there").run_data
}

#[tokio::test]
async fn every_text_is_put_back() {
    let mut store = Store::default();
    let mut data = run_with_blobs(&mut store);
    expand(&mut data, &store).await.expect("expands");
    assert_eq!(data["input"]["input_content"], "long input");
    assert_eq!(data["messages"][1]["content"], "long input");
    assert_eq!(data["messages"][2]["tool_calls"][0]["function"]["arguments"], r#"{"order": 17}"#);
    assert_eq!(data["messages"][3]["content"], "long result");
    assert_eq!(data["messages"][3]["tool_args"], json!({ "order": 17 }));
    assert_eq!(data["tools"][0]["result"], "long result");
    assert_eq!(data["tools"][0]["tool_args"], json!({ "order": 17 }));
    assert_eq!(data["tools"][0].get("tool_args_ref"), None);
}

#[tokio::test]
async fn a_callers_json_that_looks_like_a_reference_is_left_alone() {
    let mut store = Store::default();
    let mut data = run_with_blobs(&mut store);
    expand(&mut data, &store).await.expect("expands");
    assert_eq!(data["metadata"], json!(BlobRef::of(b"mine")));
    assert_eq!(data["tools"][1]["tool_args"], json!(BlobRef::of(b"an order")));
    assert_eq!(data["messages"][4]["tool_args"], json!(BlobRef::of(b"an order")));
}

#[tokio::test]
async fn a_missing_blob_is_an_error_that_names_it() {
    let mut data = run_with_blobs(&mut Store::default());
    let error = expand(&mut data, &Store::default()).await.expect_err("is missing");
    let sha256 = BlobRef::of(b"long input").sha256;
    assert!(error.to_string().contains(sha256.as_ref()), "{error}");
}
